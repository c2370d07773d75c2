//go:build linux

package ensemble_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
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

// disks makes disks of 64 MB for the servers of an ensemble.
type disks struct{ t *testing.T }

// mount gives a server a file system of its own; the test's process has its own table of mounts.
func (d *disks) mount(dataDir, _ string) error {
	d.t.Cleanup(func() { _ = syscall.Unmount(dataDir, syscall.MNT_DETACH) })
	return syscall.Mount("tmpfs", dataDir, "tmpfs", 0, "size=64m")
}

// fill leaves no room on a server's disk.
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
	ctx := hostile.Within(t, time.Second)
	s, err := c.Session(ctx)
	if err == nil {
		_, err = s.Set(ctx, "/data", bytes.Repeat([]byte("x"), 50_000), -1)
	}
	return err
}

// Row 28 of the failure matrix: a server whose disk is full goes down. One of three costs nothing. Two of three cost the holder its lock,
// and afterwards there is one holder.
func TestServersWithFullDisksGrantNoLockTwice(t *testing.T) {
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
	for written := 0; written < 20; { // a megabyte, four times the space that a log reserves
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
	ctx := hostile.Within(t, time.Second)
	for _, l := range c.lanes {
		require.ErrorIs(t, context.Cause(l.x.Context()), recipes.ErrLost, l.name)
		_, err := l.holder.take(client)(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, "%s: no hang", l.name)
	}

	for _, f := range followers { // one after the other: each copies the data of the leader, whose disk was never full
		d.free(f)
		f.Kill() // it may still run, or have ended by itself
		// Otherwise one server of some forty kept, with the data that it could still write, the nodes of an ended session. It noticed
		// that its data differed, but only counted this (ZOOKEEPER-4541, see check.Client). Its clients see a lock that is taken, but has
		// no live holder.
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

// Row 35 of the failure matrix: a foreign client made the parent as a container, so it goes whenever its queue is empty.
func TestRealContainerParentIsReapedBetweenGrants(t *testing.T) {
	t.Parallel()
	srv := realzk.Start(t, realzk.Options{TickTime: realTick, Config: longSessions,
		Properties: map[string]string{"znode.container.checkIntervalMs": "500"}})
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
		_, _, w, err := s.GetCalled(t.Context(), "/container", nil)
		require.NoError(t, err)
		require.NoError(t, x.Unlock(t.Context()))
		require.Eventually(t, func() bool { return w.Event() != 0 }, hostile.Patience, 20*time.Millisecond, "the container is not deleted")
		_, err = m.Lock(t.Context())
		require.ErrorIs(t, err, recipes.ErrNotProvisioned, "and what to do")
	}
	x := held(t, made.Lock) // WithCreate makes the node again
	require.Greater(t, x.Token(), last)
	require.NoError(t, x.Unlock(t.Context()))
}

// wallClock sets the wall clock of the servers started after it was made, as an offset. Their monotonic clock stays the machine's, as
// when an administrator sets the date.
type wallClock struct {
	t    *testing.T
	file string
}

// newWallClock does not change the clock of this process, because Go does not load libraries. It is for tests that are not parallel.
func newWallClock(t *testing.T) *wallClock {
	t.Helper()
	libraries, err := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
	require.NoError(t, err)
	require.NotEmpty(t, libraries, "no libfaketime; install it: apt-get install -y libfaketime")
	w := &wallClock{t, filepath.Join(t.TempDir(), "offset")}
	w.set(0)
	t.Setenv("LD_PRELOAD", libraries[0])
	t.Setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
	t.Setenv("FAKETIME_TIMESTAMP_FILE", w.file)
	t.Setenv("FAKETIME_NO_CACHE", "1")
	return w
}

func (w *wallClock) set(off time.Duration) {
	w.t.Helper()
	next := w.file + ".next" // so a server never reads half a file
	require.NoError(w.t, os.WriteFile(next, fmt.Appendf(nil, "%+d\n", int64(off.Seconds())), 0o600))
	require.NoError(w.t, os.Rename(next, w.file))
}

// Row 31 of the failure matrix: a server's date is changed. That takes no lock from its holder, keeps none for a dead holder, and changes
// no order.
func TestRealWallClockThatJumpsOnTheServerChangesNothing(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	wall := newWallClock(t)
	srv := realzk.Start(t, realzk.Options{TickTime: realTick, Config: longSessions, Properties: map[string]string{"zookeeper.forceSync": "no"}})
	e := &ensemble{t, []*realzk.Server{srv}}
	const timeout = busyTimeout // so long that only the clock can end anything
	c := e.client(t, timeout, srv)
	declareReal(t, c, "/m", kind.Mutex.New())
	declareReal(t, c, "/d", kind.Mutex.New())
	x := held(t, c.Mutex("/m").Lock)
	s := live(t, c)
	var line []<-chan result
	for i, off := range []time.Duration{time.Hour, -time.Hour, 0} {
		w := e.client(t, timeout, srv)
		line = append(line, async(func() (*recipes.Lease, error) { return w.Mutex("/m").Lock(t.Context()) }))
		queued(t, c, "/m", i+2)
		wall.set(off)
		made, err := s.Create(t.Context(), fmt.Sprintf("/after%d", i), nil, 0, openACL)
		require.NoError(t, err)
		_, stat, err := s.Get(t.Context(), made)
		require.NoError(t, err)
		require.InDelta(t, off.Minutes(), time.Until(time.UnixMilli(stat.Ctime)).Minutes(), 5, "the server's clock has jumped")
		diesAndIsExpired(t, srv, c)
		require.NoError(t, x.Verify(t.Context()))
	}
	last := x
	for i, waiting := range line {
		for _, behind := range line[i:] {
			select {
			case r := <-behind:
				require.Fail(t, "came too early", "%v", r.Err)
			default:
			}
		}
		require.NoError(t, last.Unlock(t.Context()))
		next := <-waiting
		require.NoError(t, next.Err)
		require.Greater(t, next.V.Token(), last.Token())
		last = next.V
	}
	require.NoError(t, last.Unlock(t.Context()))
	now := live(t, c)
	require.Same(t, s, now, "the session lives")
}

// diesAndIsExpired makes a holder of /d lose its connections for good, and requires that heir gets the lock after it.
func diesAndIsExpired(t *testing.T, srv *realzk.Server, heir *recipes.Client) {
	t.Helper()
	ctx := hostile.Within(t, hostile.Patience)
	var cable *harness.Cutter
	for held := false; !held; { // so short a session may end before it has the lock
		cable = &harness.Cutter{Next: (&net.Dialer{}).DialContext}
		c, err := recipes.Dial(ctx, recipes.Config{Servers: []string{srv.Addr}, SessionTimeout: 4 * realTick, ConnectTimeout: hostile.Patience, Dialer: cable.Dial})
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Mutex("/d").Lock(ctx)
		require.NoError(t, ctx.Err(), "%v", err)
		held = err == nil
	}
	cable.SetRefuse(true)
	cable.Arm(harness.Cut{Dir: harness.ToServer})
	y, err := heir.Mutex("/d").Lock(ctx)
	require.NoError(t, err, "the session of a client that is gone must end")
	require.NoError(t, y.Unlock(t.Context()))
}
