//go:build linux

package ensemble_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// The scenarios that count, against Apache ZooKeeper itself, in real time.
func TestRealZooKeeper(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { hostile.NoneLeft(t, before) }) // after the server's own
	srv := realzk.Start(t, realzk.Options{TickTime: realTick, Config: longSessions})
	cfg := recipes.Config{Servers: []string{srv.Addr}, SessionTimeout: busyTimeout,
		Auth: []recipes.Auth{{Scheme: "digest", Credentials: "alice:hunter2"}}}
	c := dial(t, cfg)
	s := live(t, c)
	require.Equal(t, busyTimeout, s.Timeout())

	t.Run("heartbeat is a committed write that changes and wakes nothing", func(t *testing.T) {
		mine := mustCreate(t, s, "/mine", zk.FlagEphemeral)
		_, before, w, err := s.GetCalled(t.Context(), mine, nil)
		require.NoError(t, err)
		defer w.Stop()
		probe := mustCreate(t, s, "/probe-", zk.FlagEphemeralSequential)
		first, err := s.Exists(t.Context(), probe)
		require.NoError(t, err)
		for range 10 {
			require.NoError(t, s.Confirm(t.Context(), mine))
		}
		_, after, err := s.Get(t.Context(), mine)
		require.NoError(t, err)
		require.Equal(t, before, after)
		require.Zero(t, w.Event())
		probe = mustCreate(t, s, "/probe-", zk.FlagEphemeralSequential)
		last, err := s.Exists(t.Context(), probe)
		require.NoError(t, err)
		require.EqualValues(t, 11, last.Czxid-first.Czxid, "each took a transaction id of its own")
		require.ErrorIs(t, s.Confirm(t.Context(), "/none"), zk.ErrNoNode)
	})

	t.Run("listing behind a create contains it", func(t *testing.T) {
		mustCreate(t, s, "/q", 0)
		for i := range 200 {
			b := s.Batch()
			node, list := b.Create(&zk.CreateRequest{Path: fmt.Sprintf("/q/%d-", i), Acl: openACL, Flags: zk.FlagEphemeralSequential}), b.List("/q")
			require.NoError(t, b.Do(t.Context()))
			require.Contains(t, list.Names(), node.Created()[0][len("/q/"):])
		}
	})

	t.Run("codes and sentences", func(t *testing.T) {
		_, err := s.Create(t.Context(), "/owned", nil, 0, zk.DigestACL(zk.PermRead, "alice", "hunter2"))
		require.NoError(t, err)
		_, err = s.Set(t.Context(), "/owned", nil, -1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.ErrorContains(t, err, "WRITE on /owned; connected as digest:alice")
		results, err := s.Multi(t.Context(), &zk.CheckVersionRequest{Path: "/owned", Version: -1}, &zk.CreateRequest{Path: "/owned", Acl: openACL})
		require.ErrorIs(t, err, zk.ErrNodeExists)
		require.Len(t, results, 2)
		_, _, data, err := s.GetCalled(t.Context(), "/nowhere", nil)
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.Nil(t, data)
		big := make([]byte, 0xfffff-8-12-4-27-4)
		_, err = s.Create(t.Context(), "/bignode", big, 0, openACL)
		require.NoError(t, err, "the largest request there is")
	})

	t.Run("restart keeps session, nodes and watches", func(t *testing.T) {
		id := s.ID()
		w := watch(t, s, "/mine")
		srv.Kill()
		srv.Restart()
		fires(t, w)
		w = watch(t, s, "/mine")
		require.Equal(t, id, s.ID())
		_, err := s.Set(t.Context(), "/mine", []byte("x"), -1)
		require.NoError(t, err)
		fires(t, w)
		require.Equal(t, zk.EventNodeDataChanged, w.Event())
	})

	t.Run("stopped server costs a held session half its timeout", func(t *testing.T) {
		c, _ := robbed(t, srv.Addr)
		s := live(t, c)
		release, err := s.Hold(t.Context(), nil, mustCreate(t, s, "/held", zk.FlagEphemeral))
		require.NoError(t, err)
		defer release()
		srv.Pause()
		paused := time.Now()
		<-s.Done()
		require.False(t, s.Deadline().After(paused.Add(realTimeout/2)))
		srv.Resume()
	})

	t.Run("close removes nodes at once", func(t *testing.T) {
		var gone string
		for try := 0; gone == "" && try < 20; try++ { // a server may take longer to say so than Close waits
			fleeting := dial(t, cfg)
			s := live(t, fleeting)
			node := mustCreate(t, s, "/fleeting-", zk.FlagEphemeralSequential)
			if fleeting.Close() == nil {
				gone = node
			}
		}
		require.NotEmpty(t, gone, "no close is confirmed")
		stat, err := s.Exists(t.Context(), gone)
		require.NoError(t, err)
		require.Nil(t, stat)
	})
}
