package session

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/zktest"
)

// A follower cut off from its leader answers pings and reads: 5.82 s of two believed holders were measured raw.
func TestNeitherReadsNorPingsProlongALease(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *Session){
		"pings": func(context.Context, *Session) {},
		// Answered until a heartbeat is due; behind that one they wait.
		"reads": func(ctx context.Context, s *Session) { _, _, _ = s.Get(ctx, "/mine") },
	} {
		runInSession(t, name, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
			s.holding(t, "/mine")
			time.Sleep(61 * time.Second) // no heartbeat is under way
			srv.Inject(zktest.On("multi"), zktest.DropRequest)
			srv.ResetCounts()
			last := s.Deadline()
			for time.Now().Before(last) {
				require.Equal(t, last, s.Deadline())
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				ask(ctx, s)
				<-ctx.Done()
				cancel()
			}
			require.Equal(t, StateLost, s.State())
			require.ErrorContains(t, s.Err(), "no write was committed")
			n := srv.Counts()
			require.Positive(t, n.ByOp["getData"]+n.Pings, "the scenario needs something that is answered")
		})
	}
}

func TestEveryWaiterOfOneEventHearsOfIt(t *testing.T) { // case 34: go-zookeeper's event channel of 6 drops the rest
	inSession(t, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		s.mustCreate(t, "/a", 0)
		var all []*Watch
		for range 100 {
			w := s.watch(t, "/a")
			all = append(all, w)
		}
		require.NoError(t, srv.Set("/a", []byte("x")))
		for _, w := range all {
			hostile.Soon(t, w.C(), "an event was dropped")
			require.Equal(t, zk.EventNodeDataChanged, w.Event())
		}
	})
}

// order records the requests a server reads.
func order(srv *zktest.Server) func() []string {
	var mu sync.Mutex
	var seen []string
	srv.Inject(func(r zktest.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Op)
		return false
	}, zktest.CutBefore)
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), seen...)
	}
}

// A request on a new connection must run with the identities of the last one.
func TestNoRequestOvertakesTheIdentitiesInAnyReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.WithLatency(10*time.Millisecond))
		_, s := open(t, srv, func(c *Config) { c.Auth = []Auth{{"digest", "a:b"}, {"digest", "c:d"}} })
		seen := order(srv)
		for range 12 {
			cut, before := s.Changed(), len(seen())
			srv.Disconnect(s.ID())
			<-cut
			var wg sync.WaitGroup
			for range 40 {
				wg.Go(func() { _, _, _ = s.Get(t.Context(), "/") })
			}
			wg.Wait()
			ops := slices.DeleteFunc(seen()[before:], func(op string) bool { return op == "ping" })
			require.Equal(t, []string{"connect", "auth", "auth"}, ops[:3])
			require.Equal(t, []string{"getData"}, slices.Compact(ops[3:]))
		}
	})
}

// unwritable is a connection that takes the connect request and nothing more, but still reads.
type unwritable struct {
	net.Conn
	frames int
}

func (u *unwritable) Write(b []byte) (int, error) {
	if u.frames++; u.frames > 1 {
		return 0, net.ErrClosed
	}
	return u.Conn.Write(b)
}

func TestAuthenticationThatCannotBeWrittenAgainIsTriedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		var dials atomic.Int32
		_, s := open(t, srv, func(c *Config) {
			c.Auth = []Auth{{"digest", "a:b"}}
			c.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := srv.DialContext(ctx, network, address)
				if dials.Add(1) == 2 && err == nil {
					conn = &unwritable{Conn: conn}
				}
				return conn, err
			}
		})
		srv.Disconnect(s.ID())
		time.Sleep(5 * time.Second)
		require.EqualValues(t, 3, dials.Load())
		require.Equal(t, StateActive, s.State())
		s.mustRead(t, "/")
	})
}
