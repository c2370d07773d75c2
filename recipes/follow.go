package recipes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/locktree/locktree/recipes/internal/znode"

	"github.com/go-zookeeper/zk"
)

// present is the handle on the lock where it is by now, with the error of its declaration there.
func (q *queue) present(ctx context.Context, e *epoch) (*queue, error) {
	at, needs := q, needs{st: &q.c.state}
	defer needs.end()
	for {
		needs.add(at.declaredAt())
		d, err := e.declared(ctx, at)
		if err == nil {
			err = at.misspelled(d)
		}
		var key *spelledError
		if !errors.As(err, &key) {
			return at, err
		}
		at = key.is
	}
}

// follow takes the locks where they are: a key's may be in a directory that only the declaration names.
func (a *acquisition) follow(ctx context.Context, take func(context.Context) (*Lease, error)) (*Lease, error) {
	needs := needs{st: &a.c.state}
	defer needs.end()
	for {
		for _, m := range a.members {
			needs.add(m.q.declaredAt())
		}
		l, err := take(ctx)
		var key *spelledError
		if !errors.As(err, &key) {
			return l, err
		}
		a.respell(key)
	}
}

// want names the locks that the acquisition takes.
func (a *acquisition) want(members []member) {
	paths := make([]string, len(members))
	for i, m := range members {
		paths[i] = m.q.path
	}
	a.members, a.path = members, strings.Join(paths, " + ")
	if a.call != nil {
		a.call.about.Path, a.call.about.Locks = a.path, eventLocks(members)
	}
}

// reread finds out, when a server has refused our contenders, whether that is because the declarations are others by now.
func (a *acquisition) reread(ctx context.Context, entries []*entry, refusal error) error {
	older := errors.Is(refusal, zk.ErrBadVersion) // the declaration that a key was to be used under is not in force any more
	if !older && !znode.IsNoNode(refusal) && !errors.Is(refusal, zk.ErrNoAuth) {
		return refusal
	}
	for _, e := range entries {
		e.e.outdated(e.d)
		switch d, err := e.e.declared(ctx, e.q); {
		case err != nil:
			return znode.NotQueued(err)
		case d.mzxid != e.d.mzxid || older: // our server may lag
			return fmt.Errorf("%w: %s was declared anew (%v)", znode.ErrNotApplied, e.q.path, refusal)
		}
	}
	return refusal
}
