package session

import (
	"context"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/internal/session/wire"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestTheCallerOfAWriteFindsItsProof(t *testing.T) {
	inSession(t, func(t *testing.T, _ *zktest.Server, _ *Client, s *Session) {
		s.mustCreate(t, "/a", 0)
		for range 10 {
			time.Sleep(time.Second)
			began := time.Now()
			_, err := s.Set(t.Context(), "/a", nil, -1)
			require.NoError(t, err)
			require.Equal(t, began.Add(s.Timeout()/2), s.Deadline())
		}
	})
}

func TestTheEndOfTheSessionFreesWhoeverWaitsForAnAnswer(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, c *Client, s *Session) {
		rule := srv.Inject(zktest.On("exists", "closeSession"), zktest.DropRequest)
		got := going(func() error { return errOf(s.Exists(context.Background(), "/")) })
		<-rule.Hit()
		began := time.Now()
		go func() { _ = c.Close() }()
		require.ErrorIs(t, <-got, ErrClosed)
		require.Zero(t, time.Since(began), "not when the connection ends, which closeSession is waited for on")
		<-c.joined
	})
}

// The write is submitted at the moment the session ends: after its caller has looked and before the connection is gone.
func TestNothingIsSentOnceTheSessionIsOver(t *testing.T) {
	inSlowSession(t, 10*time.Millisecond, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		s.mu.Lock()
		l := s.link
		s.mu.Unlock()
		o := &op{name: "create", code: wire.OpCreate, path: "/late", request: &zk.CreateRequest{Path: "/late", Acl: openACL}}
		frame, err := s.encode(nil, o)
		require.NoError(t, err)
		s.lose(errSilent)
		require.False(t, l.submit(frame, []*call{o.ask(new(call))}))
		<-s.joined
		_, there := srv.Get("/late")
		require.False(t, there)
	})
}

func TestAnIdleConnectionKeepsNoAnswer(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		require.NoError(t, srv.Create("/large", make([]byte, 100<<10)))
		read := func() weak.Pointer[byte] {
			data, _, err := s.Get(t.Context(), "/large")
			require.NoError(t, err)
			return weak.Make(&data[0])
		}()
		synctest.Wait() // until whoever read it from the server waits for the next answer
		runtime.GC()
		require.Nil(t, read.Value(), "the answer is still referred to")
	})
}

// slow is a connection whose first write after the connect request takes a second.
type slow struct {
	net.Conn
	mu     sync.Mutex
	writes int
}

func (s *slow) Write(b []byte) (int, error) {
	s.mu.Lock()
	s.writes++
	n := s.writes
	s.mu.Unlock()
	if n == 2 {
		time.Sleep(time.Second)
	}
	return s.Conn.Write(b)
}

func TestRequestsGoOutInOrderWhileAWriteIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		c, err := newClient(Config{Servers: []string{"zk"}, SessionTimeout: 12 * time.Second,
			Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := srv.DialContext(ctx, network, address)
				return &slow{Conn: conn}, err
			}}, seam.Seams{})
		require.NoError(t, err)
		c.dialled(t)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { c.session.mustRead(t, "/") })
			time.Sleep(time.Millisecond)
		}
		// A caller whose context ends is not kept by the write that another one is waiting for.
		ctx := within(t, 100*time.Millisecond)
		_, _, err = c.session.Get(ctx, "/")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		wg.Wait()
		require.Equal(t, 1, c.session.Stats().Connections)
		require.NoError(t, c.Close())
	})
}

// A session that holds nothing looks at its clock when a server ought to have answered; one that holds must do so earlier.
func TestASessionThatWasIdleBeatsAsSoonAsItHolds(t *testing.T) {
	for _, idle := range []time.Duration{0, time.Second, 3 * time.Second, 5 * time.Second, time.Hour} {
		inSession(t, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
			time.Sleep(idle)
			s.mustCreate(t, "/mine", zk.FlagEphemeral)
			synctest.Wait()
			srv.ResetCounts()
			release := s.mustHold(t, nil, "/mine")
			time.Sleep(s.Timeout()/6 + time.Millisecond)
			require.Equal(t, 1, srv.Counts().ByOp["multi"], "one heartbeat after T/6")
			release()
			time.Sleep(s.Timeout())
			release = s.mustHold(t, nil, "/mine")
			defer release()
			time.Sleep(time.Minute)
			require.NoError(t, s.Err())
		})
	}
}

// A program that kept a Reply, or a stopped Watch, kept all later requests of the connection, or watches of the node, in memory.
func TestWhatHasEndedRefersToNothingThatCameLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := open(t, zktest.Start(t))
		b := s.Batch()
		first, second := b.List("/"), b.List("/")
		require.NoError(t, b.Do(t.Context()))
		require.Nil(t, first.next)
		require.Nil(t, second.next)
		w := s.watch(t, "/")
		w.Stop()
		require.Nil(t, w.prev)
		require.Empty(t, s.Stats().Watches)
	})
}
