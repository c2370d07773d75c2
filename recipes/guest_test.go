package recipes_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// guest is a program of another library, with a session of its own, that takes locks one by one as Curator or kazoo do.
type guest struct {
	id    string
	s     *recipes.Session
	kazoo bool // else it is Curator's
	names int
}

func (l *lab) guest(id string) *guest {
	l.t.Helper()
	s, err := l.client(id).Session(l.t.Context())
	require.NoError(l.t, err)
	return &guest{id: id, s: s}
}

// queue makes a contender of the library whose marker it is.
func (g *guest) queue(ctx context.Context, dir, marker string) (string, error) {
	g.names++
	name := fmt.Sprintf("_c_%08x-1111-4111-8111-111111111111%s", g.names, marker)
	if marker == kazooLock {
		name = fmt.Sprintf("%032x%s", g.names, marker)
	}
	return g.s.Create(ctx, kind.JoinPath(dir, name), []byte(g.id), zk.FlagEphemeral|zk.FlagSequence, openACL)
}

const kazooLock = "__lock__"

// first queues, and waits for its turn; who gives up leaves.
func (g *guest) first(ctx context.Context, dir, marker string) (string, error) {
	node, err := g.queue(ctx, dir, marker)
	if err == nil {
		_, err = awaitTurn(ctx, g.s, node)
	}
	if err != nil && node != "" {
		return "", errors.Join(err, g.leave(node))
	}
	return node, err
}

func (g *guest) leave(nodes ...string) error {
	var all []error
	for _, node := range nodes {
		all = append(all, g.s.Delete(context.Background(), node, -1))
	}
	return errors.Join(all...)
}

// takes is a way into a lock.
func (g *guest) takes(path, marker string) grab {
	return func(ctx context.Context) (*grip, error) {
		node, err := g.first(ctx, path, marker)
		return &grip{context.Background(), func() error { return g.leave(node) }}, err
	}
}

// permits takes some of a semaphore's permits as InterProcessSemaphoreV2 does: one after the other, each with the lock of the semaphore
// in hand until there are no more than there may be.
func (g *guest) permits(path string, n, of int) grab {
	return func(ctx context.Context) (*grip, error) {
		var leases []string
		for len(leases) < n {
			lock, err := g.first(ctx, path+"/locks", "-lock-")
			if err != nil {
				return nil, errors.Join(err, g.leave(leases...))
			}
			lease, err := g.queue(ctx, path+"/leases", "-lease-")
			leases = append(leases, lease)
			for err == nil {
				var names []string
				var changed <-chan struct{}
				if names, _, changed, err = g.s.ChildrenW(ctx, path+"/leases"); err != nil || len(names) <= of {
					break
				}
				select {
				case <-changed:
				case <-ctx.Done():
					err = ctx.Err()
				}
			}
			if err = errors.Join(err, g.leave(lock)); err != nil {
				return nil, errors.Join(err, g.leave(leases...))
			}
		}
		return &grip{context.Background(), func() error { return g.leave(leases...) }}, nil
	}
}
