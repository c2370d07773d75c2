package recipes

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

// golang/go#24595: the monotonic clock stands still in a suspended machine, timers with it.
func TestSuspendedMachineLosesItsLeaseAtTheFirstLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		var asleep atomic.Int64
		c, err := newClient(Config{Servers: []string{"zk"}, Dialer: pipeTo(srv), SessionTimeout: 12 * time.Second})
		require.NoError(t, err)
		c.slept = func() time.Duration { return time.Duration(asleep.Load()) }
		c.session, err = c.connect(t.Context())
		require.NoError(t, err)
		s := c.session
		s.mustCreate(t, "/mine", zk.FlagEphemeral)
		_, err = s.hold(nil, "/mine")
		require.NoError(t, err)
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
		srv := zktest.Start(t)
		var asleep atomic.Int64
		c, err := newClient(Config{Servers: []string{"zk"}, Dialer: pipeTo(srv), SessionTimeout: 12 * time.Second})
		require.NoError(t, err)
		c.slept = func() time.Duration { return time.Duration(asleep.Load()) }
		c.session, err = c.connect(t.Context())
		require.NoError(t, err)
		c.session.mustCreate(t, "/mine", zk.FlagEphemeral)
		_, err = c.session.hold(nil, "/mine")
		require.NoError(t, err)
		asleep.Add(int64(time.Minute))
		require.NoError(t, c.session.Err(), "no timer has run")
		require.ErrorIs(t, c.session.failed(op{name: "setACL", path: "/mine"}, zk.ErrConnectionClosed), ErrSessionLost)
		require.NoError(t, c.Close())
	})
}
