package recipes

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// unreadable declares /m so that its contenders may not be read by those who make them, and takes another lock, on
// which the session's heartbeats can be made.
func (l *lab) unreadable(c *Client) (beats *Lease) {
	l.t.Helper()
	l.declare("/m", kind.Mutex.New(), func(p *kind.Payload) {
		p.ChildACL = []kind.ACL{{Scheme: "digest", ID: zktest.DigestID("other:x"), Perms: kind.PermAll}}
	})
	l.declare("/beats", kind.Mutex.New())
	beats, err := c.Mutex("/beats").Lock(context.Background())
	require.NoError(l.t, err)
	return beats
}

func TestALeaseWhoseNodeMayNotBeReadOutlivesAnyNumberOfLostConnections(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("a", func(cfg *Config) { cfg.SessionTimeout = 40 * time.Second }) // eight reconnects take a while
		beats := l.unreadable(c)
		cuts := l.srv.Inject(func(r zktest.Request) bool { return r.Op == "exists" && r.N <= 8 }, zktest.CutBefore)
		x, err := c.Mutex("/m").Lock(context.Background())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.Equal(t, 8, cuts.Hits())
		require.NoError(t, context.Cause(x.Context()))
		require.NotZero(t, x.Token())
		l.unlock(x)
		l.unlock(beats)
	})
}

func TestADeletedNodeThatMayNotBeReadEndsItsLease(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("a")
		beats := l.unreadable(c)
		x, err := c.Mutex("/m").Lock(context.Background())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, l.srv.Delete(x.Node()))
		start := time.Now()
		<-x.Context().Done()
		require.ErrorIs(t, context.Cause(x.Context()), ErrLost)
		require.LessOrEqual(t, time.Since(start), 12*time.Second+2*oneWay, "a session timeout")
		require.NoError(t, beats.Context().Err(), "the session lives")
		require.ErrorIs(t, x.Unlock(t.Context()), ErrLost)
		l.unlock(beats)
	})
}
