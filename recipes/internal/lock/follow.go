package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/internal/wait"

	"github.com/locktree/locktree/recipes/internal/declare"
	"github.com/locktree/locktree/recipes/internal/znode"

	"github.com/go-zookeeper/zk"
)

// follow takes the locks where they are: a key's may be in a directory that only the declaration names.
func (a *Call) follow(ctx context.Context, take func(context.Context) (*held.Use, error)) (*held.Use, error) {
	needs := a.c.Decl.Needs()
	defer needs.End()
	for {
		for _, m := range a.members {
			needs.Add(m.Q.DeclaredAt())
		}
		l, err := take(ctx)
		var key *declare.SpelledError
		if !errors.As(err, &key) {
			return l, err
		}
		a.respell(key)
	}
}

// want names the locks that the acquisition takes.
func (a *Call) want(members []Member) {
	paths := make([]string, len(members))
	for i, m := range members {
		paths[i] = m.Q.Path
	}
	a.members, a.Path = members, strings.Join(paths, " + ")
	a.up.Names(a.Path, members)
}

// reread finds out, when a server has refused our contenders, whether that is because the declarations are others by now.
func (a *Call) reread(ctx context.Context, entries []*wait.Place, refusal error) error {
	older := errors.Is(refusal, zk.ErrBadVersion) // the declaration that a key was to be used under is not in force any more
	if !older && !znode.IsNoNode(refusal) && !errors.Is(refusal, zk.ErrNoAuth) {
		return refusal
	}
	for _, e := range entries {
		e.Decl.Outdated(e.D)
		switch d, err := e.Decl.Of(ctx, &e.Q.Name); {
		case err != nil:
			return znode.NotQueued(err)
		case d.Mzxid != e.D.Mzxid || older: // our server may lag
			return fmt.Errorf("%w: %s was declared anew (%v)", znode.ErrNotApplied, e.Q.Path, refusal)
		}
	}
	return refusal
}

// respell makes a handle's member the one at the path that its key has.
func (a *Call) respell(e *declare.SpelledError) {
	members := slices.Clone(a.members)
	for i, m := range members {
		if &m.Q.Name == e.Was {
			members[i].Q = m.Q.named(e.Is)
		}
	}
	a.want(members)
}
