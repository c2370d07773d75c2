package session

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

// countedConn counts the writes.
type countedConn struct {
	net.Conn
	writes atomic.Int64
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// busy opens a session with a request under way, and counts its writes from then on.
func busy(t *testing.T) (s *Session, l *link, conn *countedConn) {
	srv := zktest.Start(t, zktest.WithLatency(100*time.Millisecond))
	_, s = open(t, srv)
	s.mu.Lock()
	l = s.link
	s.mu.Unlock()
	start(t, s, 1)
	l.mu.Lock()
	conn = &countedConn{Conn: l.conn}
	l.conn = conn
	l.mu.Unlock()
	return s, l, conn
}

// stuck makes a goroutine gather whose turn does not come.
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
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // otherwise another processor may write while this one still starts goroutines
	synctest.Test(t, func(t *testing.T) {
		s, _, conn := busy(t)
		s.ask(t, 64)
		require.LessOrEqual(t, conn.writes.Load(), int64(16))
	})
}

func TestAHeartbeatIsWrittenBeforeTheRequestsThatAreBeingGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, conn := busy(t)
		l.stuck()
		start(t, s, 3)
		require.Zero(t, conn.writes.Load())
		asked := time.Now()
		require.NoError(t, s.Confirm(t.Context(), "/"))
		require.Less(t, time.Since(asked), time.Second, "else the next ping wrote it")
		require.Equal(t, int64(1), conn.writes.Load(), "what was gathered goes with it")
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
		s, l, conn := busy(t)
		l.stuck()
		l.mu.Lock()
		l.hasty = time.Now().Add(time.Minute) // the scheduler has not come back for long
		l.mu.Unlock()
		start(t, s, 1)
		require.Equal(t, int64(1), conn.writes.Load())
	})
}
