//go:build linux

package interop_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
)

func TestInterop(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, g := range grids {
		t.Run(g.recipe, func(t *testing.T) { l.matrix(t, g) })
	}
	t.Run("semaphore", l.semaphores)
	t.Run("order", l.order)
	t.Run("multilock", l.together)
	t.Run("leaver", l.leavers)
	t.Run("seen", l.seen)
	t.Run("blamed", l.blamed)
	t.Run("keys", l.keys)
	t.Run("adopted", l.adopted)
	t.Run("revocation", l.revocations)
	t.Run("downgrade", l.downgrades)
	t.Run("access", l.access)
	t.Run("killed", l.killed)
}

func (l *realLab) matrix(t *testing.T, g grid) {
	g.check(t)
	for i, holder := range g.parties {
		t.Run("holder="+holder.name, func(t *testing.T) {
			for j, waiter := range g.parties {
				if v := g.verdict(i, j); v != untried {
					t.Run("waiter="+waiter.name, func(t *testing.T) {
						path := l.provision(t, g.declare(wireOf(holder, waiter)))
						l.meet(t, path, holder.enter(t, l, path), waiter.enter(t, l, path), v)
					})
				}
			}
		})
	}
}

// meet lets one program hold and another one ask, and proves the verdict.
func (l *realLab) meet(t *testing.T, path string, h, w *entry, v verdict) {
	ctx := within(t, patience)
	require.NoError(t, h.acquire(ctx))
	held := l.awaitContenders(t, path, 1)[0]
	if w.try != nil {
		err := w.try(ctx)
		if v == blocks {
			require.True(t, isHeld(err), "a try while somebody holds: %v", err)
		} else {
			require.NoError(t, err)
			require.NoError(t, w.release(ctx))
		}
	}
	granted := l.request(ctx, w)
	if v == blocks {
		// The server knows that the waiter watches the holder's contender, which is the decision to wait; and what the
		// program said up to then has been read.
		l.awaitWatch(t, w.session, kind.JoinPath(path, held))
		stillWaits(t, ctx, w, granted)
		line := l.awaitContenders(t, path, 2)
		require.Equal(t, held, line[0])
		require.NoError(t, h.release(ctx))
		require.NoError(t, <-granted, "after the holder's release")
		require.Equal(t, line[1:], l.contenders(t, path), "granted with the contender that was seen to wait")
	} else {
		require.NoError(t, <-granted)
		require.Contains(t, l.contenders(t, path), held, "the holder holds on")
		if h.lease != nil {
			require.NoError(t, h.lease.Verify(ctx))
		}
		require.NoError(t, h.release(ctx))
	}
	require.NoError(t, w.release(ctx))
	l.awaitContenders(t, path, 0)
}
