package session

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/internal/session/wire"
	"github.com/locktree/locktree/recipes/zktest"
)

// The goroutine that finds a connection dead may report it only when the next connection is there.
func TestLinkGrantedBeforeTheLossOfTheLastOneWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		told := make(chan struct{})
		_, s := open(t, srv, through(srv, hangingUpLate(told)))
		time.Sleep(settlingTime) // the next server is tried without a pause
		go s.present().fail(errSilent)
		synctest.Wait()
		_, err := s.Exists(t.Context(), "/")
		require.NoError(t, err)
		close(told)
		synctest.Wait()
		require.Equal(t, StateActive, s.State())
		require.Equal(t, 2, s.Stats().Connections)
	})
}

// An idle client remembered every ping it ever sent.
func TestAnIdleSessionLivesAndRemembersNoMoreThanItNeeds(t *testing.T) {
	inSession(t, func(t *testing.T, _ *zktest.Server, _ *Client, s *Session) {
		time.Sleep(24 * time.Hour)
		require.Equal(t, StateActive, s.State())
		require.Equal(t, 1, s.Stats().Connections)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.link.mu.Lock()
		defer s.link.mu.Unlock()
		require.Less(t, len(s.link.touches), 64)
	})
}

func TestTheBufferOfAWriteIsUsedAgainUnlessItIsLarge(t *testing.T) {
	inSession(t, func(t *testing.T, _ *zktest.Server, _ *Client, s *Session) {
		kept := func() int {
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.link.mu.Lock()
			defer s.link.mu.Unlock()
			return cap(s.link.outbox)
		}
		_, err := s.Exists(t.Context(), "/")
		require.NoError(t, err)
		require.NotZero(t, kept())
		_, err = s.Create(t.Context(), "/large", make([]byte, 100<<10), 0, openACL)
		require.NoError(t, err)
		require.LessOrEqual(t, kept(), 64<<10)
	})
}

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

// The write is submitted at the moment the session ends: after its caller has checked the session, and before the connection is gone.
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
		synctest.Wait() // until the goroutine that reads waits for the next answer
		runtime.GC()
		require.Nil(t, read.Value(), "the answer is still referred to")
	})
}

func TestRequestsGoOutInOrderWhileAWriteIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		c, s := open(t, srv, through(srv, func(_ int, conn net.Conn) net.Conn {
			var n atomic.Int32
			return writer{conn, func(b []byte) (int, error) {
				if n.Add(1) == 2 { // the first after the connect request
					time.Sleep(time.Second)
				}
				return conn.Write(b)
			}}
		}))
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { s.mustRead(t, "/") })
			time.Sleep(time.Millisecond)
		}
		// A caller whose context ends does not have to wait for the write of another caller.
		ctx := hostile.Within(t, 100*time.Millisecond)
		_, _, err := s.Get(ctx, "/")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		wg.Wait()
		require.Equal(t, 1, s.Stats().Connections)
		require.NoError(t, c.Close())
	})
}

// A session that holds nothing looks at its clock when a server ought to have answered. A session that holds something must do so earlier.
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

// A program that kept a Reply kept all later requests of the connection in memory. With a stopped Watch it kept the later watches of the
// node.
func TestWhatHasEndedRefersToNothingThatCameLater(t *testing.T) {
	inSession(t, func(t *testing.T, _ *zktest.Server, _ *Client, s *Session) {
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

// busy opens a session with a request under way, and counts its writes from then on.
func busy(t *testing.T) (s *Session, l *link, written *atomic.Int64) {
	srv := zktest.Start(t, zktest.WithLatency(100*time.Millisecond))
	_, s = open(t, srv)
	s.mu.Lock()
	l = s.link
	s.mu.Unlock()
	start(t, s, 1)
	l.mu.Lock()
	conn, written := l.conn, new(atomic.Int64)
	l.conn = writer{conn, func(b []byte) (int, error) {
		written.Add(1)
		return conn.Write(b)
	}}
	l.mu.Unlock()
	return s, l, written
}

// stuck makes the link leave its requests to a goroutine that gathers requests for one write. That goroutine does not exist, so it never
// writes.
func (l *link) stuck() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gathering = true
}

// ask reads in n goroutines and returns when all are answered.
func (s *Session) ask(t *testing.T, n int) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			_, err := s.Exists(context.Background(), "/")
			if err != nil && !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// start lets n goroutines ask. They are answered before the test ends.
func start(t *testing.T, s *Session, n int) {
	answered := make(chan struct{})
	t.Cleanup(func() { <-answered })
	go func() {
		defer close(answered)
		s.ask(t, n)
	}()
	synctest.Wait()
}

func TestRequestsOfManyGoroutinesShareWrites(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // otherwise another processor may write while this one starts goroutines
	synctest.Test(t, func(t *testing.T) {
		s, _, written := busy(t)
		s.ask(t, 64)
		require.LessOrEqual(t, written.Load(), int64(16))
	})
}

func TestAHeartbeatIsWrittenBeforeTheRequestsThatAreBeingGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, written := busy(t)
		l.stuck()
		start(t, s, 3)
		require.Zero(t, written.Load())
		asked := time.Now()
		require.NoError(t, s.Confirm(t.Context(), "/"))
		require.Less(t, time.Since(asked), time.Second, "else the next ping wrote it")
		require.Equal(t, int64(1), written.Load(), "what was gathered goes with it")
	})
}

func TestClosingASessionDoesNotWaitForRequestsThatAreBeingGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, _ := busy(t)
		l.stuck()
		began := time.Now()
		require.NoError(t, s.client.Close())
		require.Less(t, time.Since(began), time.Second, "and what it created goes with it, not at its timeout")
	})
}

func TestRequestsAreNotGatheredWhenTheSchedulerIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, written := busy(t)
		l.stuck()
		l.mu.Lock()
		l.hasty = time.Now().Add(time.Minute) // the scheduler took long to come back
		l.mu.Unlock()
		start(t, s, 1)
		require.Equal(t, int64(1), written.Load())
	})
}

// ownTimeout is a connection with an error of its own for a deadline that has passed, as those of user-space networks have.
type ownTimeout struct{ net.Conn }

type passed struct{}

func (passed) Error() string   { return "deadline exceeded" }
func (passed) Timeout() bool   { return true }
func (passed) Temporary() bool { return true }

func (c ownTimeout) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = &net.OpError{Op: "read", Net: "tcp", Err: passed{}}
	}
	return n, err
}

func TestAConnectionWhoseTimeoutsAreErrorsOfItsOwnIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		_, s := open(t, srv, through(srv, func(_ int, c net.Conn) net.Conn { return ownTimeout{c} }))
		time.Sleep(10 * s.Timeout())
		require.Equal(t, 1, s.Stats().Connections)
	})
}
