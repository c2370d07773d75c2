package recipes

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

// sleeper is a client that holds /mine, and how long its machine has slept so far.
func sleeper(t *testing.T, servers ...string) (*Client, *atomic.Int64) {
	return sleeperThrough(t, pipeTo(zktest.Start(t)), servers...)
}

func sleeperThrough(t *testing.T, dial func(context.Context, string, string) (net.Conn, error), servers ...string) (*Client, *atomic.Int64) {
	var asleep atomic.Int64
	c, err := newClient(Config{Servers: servers, Dialer: dial, SessionTimeout: 12 * time.Second})
	require.NoError(t, err)
	c.slept = func() time.Duration { return time.Duration(asleep.Load()) }
	c.session, err = c.connect(t.Context())
	require.NoError(t, err)
	c.session.mustCreate(t, "/mine", zk.FlagEphemeral)
	_, err = c.session.hold(nil, "/mine")
	require.NoError(t, err)
	return c, &asleep
}

// golang/go#24595: the monotonic clock stands still in a suspended machine, timers with it.
func TestSuspendedMachineLosesItsLeaseAtTheFirstLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asleep := sleeper(t, "zk")
		s := c.session
		asleep.Add(int64(2 * time.Second))
		require.Equal(t, Active, s.State(), "a nap")
		require.Equal(t, 4*time.Second, time.Until(s.leaseDeadline()), "6 s from the create's send, less the nap")
		asleep.Add(int64(4 * time.Second))
		require.Equal(t, Lost, s.State())
		require.NoError(t, c.Close())
	})
}

// After a sleep the connection's end and the lease's come at the same moment. What fails then must say that the session
// is over: told of a closed connection, its caller would wait for the next.
func TestRequestThatFailsInAMachineJustResumedSaysThatTheSessionIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asleep := sleeper(t, "zk")
		asleep.Add(int64(time.Minute))
		require.NoError(t, c.session.Err(), "no timer has run")
		require.ErrorIs(t, c.session.failed(op{name: "setACL", path: "/mine"}, zk.ErrConnectionClosed), ErrSessionLost)
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

// Whoever looked between the end of a connection that commits nothing and the session's hearing of it ended the next one,
// which was being made: up to every server was passed over, and the pause after that cost a lease that ends soon.
func TestALookBetweenTwoConnectionsLeavesTheNextOneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.Start(t)
		over, dials := make(chan struct{}), 0
		c, asleep := sleeperThrough(t, func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := pipeTo(server)(ctx, network, address)
			if dials++; dials > 1 {
				return conn, err
			}
			return &lateHanger{Conn: conn, over: over}, err
		}, "zk1", "zk2")
		time.Sleep(time.Minute + time.Second) // between two heartbeats
		answered := server.Inject(zktest.On("connect"), zktest.Delay(10*time.Millisecond))
		defer answered.Remove()
		asleep.Add(int64(time.Until(c.session.leaseDeadline()) - 200*time.Millisecond))
		go c.session.State()
		synctest.Wait()
		require.Equal(t, 2, dials, "the next connection is being made")
		require.NotEqual(t, Lost, c.session.State())
		close(over)
		time.Sleep(time.Second)
		require.NoError(t, c.session.Err())
		require.Equal(t, Active, c.session.State())
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
			rest := time.Until(c.session.leaseDeadline())
			asleep.Add(int64(rest - 2*time.Second*time.Duration(16-step)/16))
			require.NotEqual(t, Lost, c.session.State())
			time.Sleep(time.Minute)
			require.NoError(t, c.session.Err(), "step %d", step)
			require.NoError(t, c.Close())
		})
	}
}
