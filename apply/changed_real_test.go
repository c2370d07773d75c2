//go:build linux

package apply_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// A program of Curator holds the lock at the old path, and programs of kazoo and of this library wait. The apply is refused, and then
// drains. Afterwards none of them can make the old path again, because the namespace does not let them, and all have the lock at the
// new one.
func TestCuratorAndKazooUseALockWhosePathChanges(t *testing.T) {
	t.Parallel()
	server := realzk.Start(t, realzk.Options{})
	s := real(t, server.Addr, "/locks")
	me := s.provisioner()
	before, after := s.lockAt("/pay/old", kind.Mutex), s.lockAt("/pay/new", kind.Mutex)
	old, next := s.root+"/pay/old", s.root+"/pay/new"
	s.apply(me, before)
	java, python, ours := startCurator(t, server.Addr), startKazoo(t, server.Addr), s.as("worker:w")
	for p, recipe := range map[*peer]string{java: "mutex", python: "curator-lock"} {
		require.NoError(t, p.say("auth digest worker:w"))
		require.NoError(t, p.say("open old "+recipe+" "+old))
		require.NoError(t, p.say("open again "+recipe+" "+old))
		require.NoError(t, p.say("open new "+recipe+" "+next))
	}
	queued := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool {
			names, _, err := s.session(me).Children(t.Context(), old)
			return err == nil && len(names) == n
		}, patience, time.Millisecond)
	}
	require.NoError(t, java.say("acquire old"))
	waits := make(chan error, 1)
	go func() { waits <- python.say("acquire old") }()
	queued(2)
	sent := make(chan error, 1)
	go func() {
		_, err := ours.Mutex(old).Lock(t.Context())
		sent <- err
	}()
	queued(3)

	_, err := executor(me).Run(t.Context(), s.plan(me, after))
	used := errorAs[*failure.InUseError](t, err)
	require.Equal(t, old, used.Path)

	x, left := executor(me), make(chan struct{})
	x.Events = on(func(event.Draining) {
		go func() { // Curator's program ends, kazoo's has the lock for a moment, and nothing is at the new path
			defer close(left)
			assert.ErrorIs(t, <-sent, recipes.ErrDraining)
			assert.ErrorIs(t, s.creates("worker:w", next), zk.ErrNoAuth)
			assert.NoError(t, java.say("release old"))
			assert.NoError(t, <-waits)
			assert.ErrorContains(t, java.say("acquire new"), "NoAuth")
			assert.NoError(t, python.say("release old"))
		}()
	})
	_, err = x.Run(t.Context(), s.plan(me, after, plan.Options{Drain: patience}))
	require.NoError(t, err)
	<-left

	for _, p := range []*peer{java, python} {
		require.Error(t, p.say("acquire old"), "by a handle that has held it")
		require.ErrorContains(t, p.say("acquire again"), "NoAuth", "by a handle that is new")
		require.NoError(t, p.say("acquire new"))
		_, err = ours.Mutex(next).TryLock(t.Context())
		require.ErrorIs(t, err, recipes.ErrHeld)
		require.NoError(t, p.say("release new"))
	}
	_, err = ours.Mutex(old).Lock(t.Context())
	require.ErrorIs(t, err, recipes.ErrNotProvisioned)
	require.ErrorContains(t, err, old)
	lease, err := ours.Mutex(next).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	stat, err := s.session(me).Exists(t.Context(), old)
	require.NoError(t, err)
	require.Nil(t, stat)
	require.False(t, s.plan(me, after).HasChanges())
}
