//go:build linux

package ensemble_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// wallClock is the wall clock of the servers started after it was made: how far it is off. Their monotonic clock is the
// machine's, as when an administrator sets the date.
type wallClock struct {
	t    *testing.T
	file string
}

// newWallClock leaves this process alone: Go does not load libraries. It is for tests that are not parallel.
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
	next := w.file + ".next" // half a file is never seen
	require.NoError(w.t, os.WriteFile(next, fmt.Appendf(nil, "%+d\n", int64(off.Seconds())), 0o600))
	require.NoError(w.t, os.Rename(next, w.file))
}

// Row 31 of the failure matrix: whoever sets the date of a server takes no lock away, keeps no dead one, and changes no order.
func TestRealWallClockThatJumpsOnTheServerChangesNothing(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	wall := newWallClock(t)
	srv := realzk.Start(t, realzk.Options{TickTime: realTick, Config: longSessions, Properties: map[string]string{"zookeeper.forceSync": "no"}})
	e := &ensemble{t, []*realzk.Server{srv}}
	const timeout = busyTimeout // what ends within it ends because of the clock
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
		made := mustCreate(t, s, fmt.Sprintf("/after%d", i), 0)
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

// diesAndIsExpired lets a holder of /d lose its connections for good, and heir have the lock after it.
func diesAndIsExpired(t *testing.T, srv *realzk.Server, heir *recipes.Client) {
	t.Helper()
	ctx := within(t, hostile.Patience)
	var cable *harness.Cutter
	for held := false; !held; { // so short a session may be over before it has the lock
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
