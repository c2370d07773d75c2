//go:build linux

package ensemble_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// disks are the ensemble's: 64 MB each.
type disks struct{ t *testing.T }

// mount gives a server a file system of its own; the test's process has its own table of mounts.
func (d *disks) mount(dataDir, _ string) error {
	d.t.Cleanup(func() { _ = syscall.Unmount(dataDir, syscall.MNT_DETACH) })
	return syscall.Mount("tmpfs", dataDir, "tmpfs", 0, "size=64m")
}

// fill leaves a server's disk no room.
func (d *disks) fill(s *realzk.Server) {
	d.t.Helper()
	f, err := os.Create(filepath.Join(s.Dir, "data", "ballast"))
	require.NoError(d.t, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	require.ErrorIs(d.t, err, syscall.ENOSPC)
}

func (d *disks) free(s *realzk.Server) {
	d.t.Helper()
	require.NoError(d.t, os.Remove(filepath.Join(s.Dir, "data", "ballast")))
}

// write lets the servers' logs grow.
func write(t *testing.T, c *recipes.Client) error {
	t.Helper()
	ctx := within(t, time.Second)
	s, err := c.Session(ctx)
	if err == nil {
		_, err = s.Set(ctx, "/data", bytes.Repeat([]byte("x"), 50_000), -1)
	}
	return err
}

// Row 28 of the failure matrix: a server whose disk is full goes down; one of three costs nothing, two of three cost the lock, to one holder.
func TestRealFullDisks(t *testing.T) {
	effort.Proof(t, effort.Raced)
	t.Parallel()
	net := realzk.InNetwork(t)
	if net == nil {
		return
	}
	const timeout = 2 * realTimeout // a lease outlasts an election
	d := &disks{t: t}
	servers := net.StartEnsemble(3, realzk.Options{TickTime: realTick, Prepare: d.mount, Config: longSessions,
		Properties: map[string]string{"zookeeper.forceSync": "no", "zookeeper.preAllocSize": "256"}})
	e := together(t, servers)
	client, w := e.client(t, timeout, servers...), e.client(t, timeout, servers...)
	declareReal(t, client, "/data", kind.Mutex.New())
	c := holdAll(t, client)
	leader, followers := e.roles()

	d.fill(followers[0])
	for written := 0; written < 20; { // a megabyte, four times what a log has in reserve
		if write(t, w) == nil {
			written++
		}
	}
	for deadline := time.Now().Add(hostile.Patience); !strings.Contains(followers[0].Log(), "No space left on device"); {
		require.True(t, time.Now().Before(deadline), "its disk is full and it does not notice")
		require.NoError(t, harness.Pause(t.Context(), 50*time.Millisecond))
	}
	c.outlasts(t) // two servers go on

	rivals := c.waiting(e.client(t, timeout, leader, followers[1]))
	require.True(t, c.queued(t, client, 1))
	s := live(t, client)
	d.fill(followers[1])
	for told := false; !told || s.Err() == nil; { // nothing can be written, and writers are told
		told = write(t, w) != nil || told
	}
	ctx := within(t, time.Second)
	for _, l := range c.lanes {
		require.ErrorIs(t, context.Cause(l.x.Context()), recipes.ErrLost, l.name)
		_, err := l.holder.take(client)(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, "%s: no hang", l.name)
	}

	for _, f := range followers { // one after the other: each copies the data of the leader, which has had room all the time
		d.free(f)
		f.Kill() // it may hang about, or have ended by itself
		// With what they could still write, one of some forty kept the nodes of a session that had ended, and counted the difference
		// (ZOOKEEPER-4541, see check.Client): a lock that nobody holds, for all who connect there.
		require.NoError(t, os.RemoveAll(filepath.Join(f.Dir, "data", "version-2")))
		f.Restart()
	}
	for i, l := range c.lanes {
		if r := <-rivals[i]; r.Err == nil {
			require.NoError(t, l.granted(r.V, l.rivals[0].weight), "%s: one believer, and a token that grows", l.name)
			require.NoError(t, r.V.Unlock(t.Context()))
		} else {
			require.ErrorIs(t, r.Err, recipes.ErrSessionLost, "%s: its place went with its session", l.name)
		}
	}
	require.NoError(t, c.hold(t, client))
	for _, s := range servers {
		require.Contains(t, s.Word("mntr"), "zk_digest_mismatches_count\t0\n", s.Addr)
	}
	require.NoError(t, c.unlock(t))
}

// Row 35 of the failure matrix: a parent that a foreign client made as a container goes whenever nobody queues.
func TestRealContainerParentIsReapedBetweenGrants(t *testing.T) {
	t.Parallel()
	srv := realzk.Start(t, realzk.Options{TickTime: realTick, Config: longSessions,
		Properties: map[string]string{"znode.container.checkIntervalMs": "20"}})
	c := realClient(t, srv, "test")
	s := live(t, c)
	foreign, _, err := zk.Connect([]string{srv.Addr}, busyTimeout)
	require.NoError(t, err)
	defer foreign.Close()
	m := c.Mutex("/container", recipes.WithParams(kind.Mutex.New()))
	made := c.Mutex("/container", recipes.WithParams(kind.Mutex.New()), recipes.WithCreate())
	var last uint64
	for range 3 {
		_, err = foreign.CreateContainer("/container", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		x := held(t, m.Lock)
		require.Greater(t, x.Token(), last)
		last = x.Token()
		w := watch(t, s, "/container")
		require.NoError(t, x.Unlock(t.Context()))
		fires(t, w)
		_, err = m.Lock(t.Context())
		require.ErrorIs(t, err, recipes.ErrNotProvisioned, "and what to do")
	}
	x := held(t, made.Lock) // who may create, does
	require.Greater(t, x.Token(), last)
	require.NoError(t, x.Unlock(t.Context()))
}
