package apply_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// Curator's program went on at the old path of a lock, beside whoever held it at the new one. Apache ZooKeeper refuses it there, a
// program of this library follows, and both get the lock again when it moves back.
func TestCuratorIsRefusedWhereALockWas(t *testing.T) {
	t.Parallel()
	server := realzk.Start(t, realzk.Options{})
	s := real(t, server.Addr, "/locks")
	me := s.provisioner()
	at := func(path string) *plan.Tree {
		return s.tree(declare(path, kind.Mutex, func(n *plan.Node) { n.Addr, n.Payload.Owner.Addr = "lock.mutex", "lock.mutex" }))
	}
	s.apply(me, at("/here"))
	java := startCurator(t, server.Addr)
	require.NoError(t, java.say("auth digest worker:w"))
	require.NoError(t, java.say("open lock mutex "+s.root+"/here"))
	require.NoError(t, java.say("acquire lock"))
	require.NotEmpty(t, s.plan(me, at("/there")).InUse())
	require.NoError(t, java.say("release lock"))

	s.apply(me, at("/there"))
	require.ErrorContains(t, java.say("acquire lock"), "NoAuth")
	ours := s.as("worker:w").Mutex(s.root + "/here")
	lease, err := ours.Lock(t.Context())
	require.NoError(t, err)
	require.Equal(t, s.root+"/there", lease.Path())
	require.NoError(t, lease.Unlock(t.Context()))

	s.apply(me, at("/here"))
	require.NoError(t, java.say("acquire lock"))
	require.NoError(t, java.say("release lock"))
	lease, err = ours.Lock(t.Context())
	require.NoError(t, err)
	require.Equal(t, s.root+"/here", lease.Path())
	require.NoError(t, lease.Unlock(t.Context()))
}
