//go:build linux

package interop_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/kind"
)

// What becomes of programs whose empty node was deleted: Curator creates it again, a kazoo object that was used before fails, a new
// one works. A look knows since when the nodes have been empty.
func TestProgramsAfterTheirEmptyNodeWasDeleted(t *testing.T) {
	l := newLab(t)
	ctx := within(t, patience)
	curator, kazoo := foreign("curator", java, "mutex"), foreign("kazoo", python, "lock")
	l.create(t, "/left", nil)
	inJava, inPython := curator.enter(t, l, "/left/java"), kazoo.enter(t, l, "/left/python")
	use := func(e *entry) {
		require.NoError(t, e.acquire(ctx))
		require.NoError(t, e.release(ctx))
	}
	use(inJava)
	use(inPython)
	l.provision(t, kind.Mutex.New()) // a later transaction, but of a node that is not looked at
	left := l.empty(ctx, t)
	require.Len(t, left, 2)
	require.NotZero(t, left[0].Before, "python's node was made later than Java's was left")
	require.Zero(t, left[1].Before)
	l.create(t, "/left/later", nil)
	left = l.empty(ctx, t)
	require.Len(t, left, 2)
	for _, e := range left {
		require.WithinDuration(t, time.Now(), e.Before, patience, e.Path)
	}

	admin, err := l.goClient(t, "admin", nil).Session(ctx)
	require.NoError(t, err)
	held := kazoo.enter(t, l, "/left/python")
	require.NoError(t, held.acquire(ctx))
	require.ErrorIs(t, admin.Delete(ctx, "/left/python", -1), zk.ErrNotEmpty)
	require.Len(t, l.empty(ctx, t), 1)
	require.NoError(t, held.release(ctx))
	for _, e := range l.empty(ctx, t) {
		require.NoError(t, admin.Delete(ctx, e.Path, -1))
	}
	require.Empty(t, l.empty(ctx, t))

	use(inJava)
	require.ErrorContains(t, inPython.acquire(ctx), "NoNodeError")
	use(kazoo.enter(t, l, "/left/python"))
	use(inPython)
}

// empty are the nodes below /left that a look finds empty.
func (l *realLab) empty(ctx context.Context, t *testing.T) []scan.Empty {
	t.Helper()
	c := l.readOnly(t)
	snap, err := scan.Look(ctx, c, scan.Options{Prefix: "/left"})
	require.NoError(t, err)
	return snap.Empty
}
