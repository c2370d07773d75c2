package session

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/internal/session/clock"
	"github.com/locktree/locktree/recipes/zktest"
)

// sleeper is a client that holds /mine, and how long its machine has slept so far.
func sleeper(t *testing.T, servers ...string) (*Client, *atomic.Int64) {
	return sleeperThrough(t, zktest.Start(t).DialContext, servers...)
}

func sleeperThrough(t *testing.T, dial func(context.Context, string, string) (net.Conn, error), servers ...string) (*Client, *atomic.Int64) {
	var asleep atomic.Int64
	c, err := newClient(Config{Servers: servers, Dialer: dial, SessionTimeout: 12 * time.Second}, seam.Seams{})
	require.NoError(t, err)
	c.slept = func() time.Duration { return time.Duration(asleep.Load()) }
	c.dialled(t)
	c.session.mustCreate(t, "/mine", zk.FlagEphemeral)
	_, err = c.session.hold(nil, "/mine")
	require.NoError(t, err)
	synctest.Wait() // the look that hold has asked for is over: it would find what a sleep has made due
	return c, &asleep
}

// golang/go#24595: the monotonic clock stands still in a suspended machine, timers with it.
func TestSuspendedMachineLosesItsLeaseAtTheFirstLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asleep := sleeper(t, "zk")
		s := c.session
		asleep.Add(int64(2 * time.Second))
		require.Equal(t, StateActive, s.State(), "a nap")
		require.Equal(t, 4*time.Second, time.Until(s.Deadline()), "6 s from the create's send, less the nap")
		asleep.Add(int64(4 * time.Second))
		require.Equal(t, StateLost, s.State())
		require.NoError(t, c.Close())
	})
}

// After a sleep the connection's end and the lease's come at the same moment. A failure must then name the end of the session: a
// caller that hears of a closed connection would wait for the next one.
func TestRequestThatFailsInAMachineJustResumedSaysThatTheSessionIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asleep := sleeper(t, "zk")
		asleep.Add(int64(time.Minute))
		require.NoError(t, c.session.Err(), "no timer has run")
		require.ErrorIs(t, c.session.failed(&op{name: "setACL", path: "/mine"}, OutcomeUnknown, zk.ErrConnectionClosed), ErrLost)
		require.NoError(t, c.Close())
	})
}

// lateHanger is a connection whose end is heard of late: Close returns when told to, and has closed at once.
type lateHanger struct {
	net.Conn
	once sync.Once
	over <-chan struct{}
}

func (l *lateHanger) Close() error {
	err := l.Conn.Close()
	l.once.Do(func() { <-l.over })
	return err
}

// A look between the end of a connection that commits nothing and its report ended the next connection, which was being made.
// Every server could be passed over, and the pause after that cost a lease.
func TestALookAfterAConnectionEndedDoesNotEndTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.Start(t)
		over, dials := make(chan struct{}), 0
		c, asleep := sleeperThrough(t, func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := server.DialContext(ctx, network, address)
			if dials++; dials > 1 {
				return conn, err
			}
			return &lateHanger{Conn: conn, over: over}, err
		}, "zk1", "zk2")
		time.Sleep(time.Minute + time.Second) // between two heartbeats
		answered := server.Inject(zktest.On("connect"), zktest.Delay(10*time.Millisecond))
		defer answered.Remove()
		asleep.Add(int64(time.Until(c.session.Deadline()) - 200*time.Millisecond))
		go c.session.State()
		synctest.Wait()
		require.Equal(t, 2, dials, "the next connection is being made")
		require.NotEqual(t, StateLost, c.session.State())
		close(over)
		time.Sleep(time.Second)
		require.NoError(t, c.session.Err())
		require.Equal(t, StateActive, c.session.State())
		require.Equal(t, 2, dials)
		require.NoError(t, c.Close())
	})
}

// A program that runs again after a third of its session timeout finds a heartbeat due, and its server behind with
// commits, at the same look. The connection was dropped, and the heartbeat counted as under way for ever: the session
// made no other, on any connection.
func TestAProgramStoppedForMoreThanAThirdOfItsSessionTimeoutKeepsItsLease(t *testing.T) {
	for step := range 16 { // from a third to a half
		synctest.Test(t, func(t *testing.T) {
			c, asleep := sleeper(t, "zk1", "zk2")
			time.Sleep(time.Minute)
			rest := time.Until(c.session.Deadline())
			asleep.Add(int64(rest - 2*time.Second*time.Duration(16-step)/16))
			require.NotEqual(t, StateLost, c.session.State())
			time.Sleep(time.Minute)
			require.NoError(t, c.session.Err(), "step %d", step)
			require.NoError(t, c.Close())
		})
	}
}

// redated is t with the wall clock put forward by d, as time.Now returns it after a change of the date.
func redated(t time.Time, d time.Duration) time.Time {
	wall := (*uint64)(unsafe.Pointer(&t)) // bit 63: there is a monotonic reading; then 33 bits of seconds
	*wall += uint64(d/time.Second) << 30
	return t
}

func TestTheDateChangesNoDeadline(t *testing.T) { // failure matrix, row 30: the wall clock an hour forward or back
	const T = 12 * time.Second
	before := time.Now()
	for _, d := range []time.Duration{time.Hour, -time.Hour} {
		set := redated(before, d)
		require.Equal(t, d, set.Round(0).Sub(before.Round(0)), "the test must change the date")
		p := proof{sent: clock.Stamp{At: before}, touched: clock.Stamp{At: before}}
		later := redated(before.Add(T/2-time.Millisecond), d)
		require.True(t, later.Before(p.deadline(T, 0)), "ended early by a date")
		later = redated(before.Add(T/2), d)
		require.False(t, later.Before(p.deadline(T, 0)), "prolonged by a date")
		require.Equal(t, time.Millisecond, later.Sub(redated(before.Add(T/2-time.Millisecond), -d)))
	}
}

func TestAClockASixteenthSlowEndsTheLeaseInTime(t *testing.T) { // failure matrix, row 32: clock rates
	const T = 16 * time.Second
	now := time.Now()
	for idle := time.Duration(0); idle <= T/3+T/8; idle += T / 96 {
		p := proof{sent: clock.Stamp{At: now}, touched: clock.Stamp{At: now.Add(-idle)}}
		// The server counts from touched; our clock shows 15 s when 16 have passed.
		believed := p.deadline(T, 0).Sub(p.touched.At)
		require.LessOrEqual(t, believed*16/15, T+time.Nanosecond, "touched %v before the write", idle)
	}
}

// Client.Session looked at the clock under the client's mutex, and the calls made for a loss that it found waited for that mutex.
func TestWhatHearsOfALossFoundBySessionMayUseTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asleep := sleeper(t, "zk")
		var heard *Session
		c.session.mustHold(t, func(error) { heard = c.Newest() }, "/mine")
		lost := c.session
		synctest.Wait()
		asleep.Add(int64(time.Minute))
		s := c.mustSession(t)
		require.NotSame(t, lost, s)
		require.Same(t, lost, heard)
		require.NoError(t, c.Close())
	})
}

func TestNoPathsAreHeldOrDeletedWithoutAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := open(t, zktest.Start(t))
		nothing := s.Batch()
		nothing.Delete()
		require.ErrorContains(t, nothing.Do(t.Context()), "at least one operation")
		require.NoError(t, s.Batch().Do(t.Context()))
		time.Sleep(time.Minute) // the proof is stale
		release := s.mustHold(t, nil)
		require.Zero(t, s.Stats().Holds)
		release()
		release()
		s.lose(errExpired)
		b := s.Batch()
		b.Delete("/x")
		require.ErrorIs(t, b.Offer(t.Context()), ErrLost)
		_, err := s.Hold(t.Context(), nil)
		require.ErrorIs(t, err, ErrLost)
	})
}
