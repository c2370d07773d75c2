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

// A program that runs again after a third of its session timeout finds a heartbeat due, and its server behind with
// commits, at the same look. The connection was dropped, and the heartbeat counted as under way for ever: the session
// made no other, on any connection.
func TestAProgramStoppedForMoreThanAThirdOfItsSessionTimeoutKeepsItsLease(t *testing.T) {
	for step := range 16 { // from a third to a half
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.Start(t)
			var asleep atomic.Int64
			c, err := newClient(Config{Servers: []string{"zk1", "zk2"}, Dialer: pipeTo(srv), SessionTimeout: 12 * time.Second})
			require.NoError(t, err)
			c.slept = func() time.Duration { return time.Duration(asleep.Load()) }
			c.session, err = c.connect(t.Context())
			require.NoError(t, err)
			c.session.mustCreate(t, "/mine", zk.FlagEphemeral)
			_, err = c.session.hold(nil, "/mine")
			require.NoError(t, err)
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
