package recipes_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// unreadable declares /m so that its contenders may not be read by those who make them, and takes another lock, on
// which the session's heartbeats can be made.
func (l *lab) unreadable(c *recipes.Client) (beats *recipes.Lease) {
	l.T.Helper()
	l.Declare("/m", kind.Mutex.New(), func(p *kind.Payload) {
		p.ChildACL = kind.List{{Scheme: "digest", ID: zktest.DigestID("other:x"), Perms: kind.PermAll}}
	})
	l.Declare("/beats", kind.Mutex.New())
	beats = l.Lock(c.Mutex("/beats").Lock)
	return beats
}

// A look that meets the end of its connection is made again, and a server that sheds it has not said that the node is gone.
func TestALeaseWhoseNodeMayNotBeReadOutlivesLooksThatFail(t *testing.T) {
	for name, fault := range map[string]zktest.Fault{"cut": zktest.CutBefore, "shed": zktest.Fail(zktest.CodeThrottled)} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			c := l.Client("a", func(cfg *recipes.Config) { cfg.SessionTimeout = 40 * time.Second }) // eight reconnects take a while
			beats := l.unreadable(c)
			failed := l.Srv.Inject(func(r zktest.Request) bool { return r.Op == "exists" && r.N <= 8 }, fault)
			x := l.Lock(c.Mutex("/m").Lock)
			time.Sleep(time.Minute)
			require.Equal(t, 8, failed.Hits())
			require.NoError(t, context.Cause(x.Context()))
			require.NotZero(t, x.Token())
			l.Unlock(x)
			l.Unlock(beats)
		})
	}
}

func TestADeletedNodeThatMayNotBeReadEndsItsLease(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		beats := l.unreadable(c)
		x := l.Lock(c.Mutex("/m").Lock)
		time.Sleep(time.Minute)
		require.NoError(t, l.Srv.Delete(x.Node()))
		start := time.Now()
		<-x.Context().Done()
		require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
		require.LessOrEqual(t, time.Since(start), 12*time.Second+2*oneWay, "a session timeout")
		require.NoError(t, beats.Context().Err(), "the session lives")
		require.ErrorIs(t, x.Unlock(t.Context()), recipes.ErrLost)
		l.Unlock(beats)
	})
}

// flapping cuts the k-th reply of each connection of the client, the answer to the connect request being the 0th, and
// the connection with it, n times in a row. What the client sends at this very instant is answered first: else it
// could be counted and cut on the connection that the scene breaks next.
func (l *lab) flapping(c *recipes.Client, k, n int) *zktest.Injection {
	synctest.Wait()
	id, asked, cuts := l.SessionID(c), 0, 0
	return l.Srv.Inject(func(r zktest.Request) bool {
		if r.Session != id {
			return false
		}
		if asked++; r.Op == "connect" {
			asked = 0
		}
		if asked != k || cuts == n {
			return false
		}
		cuts++
		return true
	}, zktest.DropReply)
}

// eachFlap runs a scene in fake time for every session timeout, reply and number of cuts in a row, at every stride-th of them.
func eachFlap(t *testing.T, stride int, scene func(t *testing.T, l *lab, c *recipes.Client, k, n int)) {
	for _, timeout := range []time.Duration{4 * time.Second, 10 * time.Second, 30 * time.Second} {
		for k := range 5 {
			for n := 3; n <= 8; n++ {
				if (8-n)%stride != 0 {
					continue
				}
				t.Run(fmt.Sprintf("%v, reply %d, %d times", timeout, k, n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						l := &lab{harness.NewLab(t, zktest.WithLatency(0))}
						l.Mutex()
						c := l.Client("a", func(cfg *recipes.Config) { cfg.SessionTimeout = timeout })
						scene(t, l, c, k, n)
						time.Sleep(time.Minute)
						l.Empty("/m")
					})
				})
			}
		}
	}
}

// Half a session timeout passes from the last committed write to the end of a lease, a third of one from the first
// heartbeat that fails: what we do meanwhile must not be to sleep.
func TestAHeldLeaseOutlivesEightCutsInARow(t *testing.T) {
	eachFlap(t, effort.Of(1, 6), func(t *testing.T, l *lab, c *recipes.Client, k, n int) {
		x := l.Lock(c.Mutex("/m").Lock)
		time.Sleep(time.Minute)
		cuts := l.flapping(c, k, n)
		l.Srv.Disconnect(l.SessionID(c))
		time.Sleep(3 * time.Minute) // a quiet connection carries a heartbeat each 5 s and a ping each 10 s of a session of 30 s
		require.NoError(t, context.Cause(x.Context()))
		require.Equal(t, n, cuts.Hits())
		l.Unlock(x)
	})
}

func TestALockIsHadThroughEightCutsInARow(t *testing.T) {
	eachFlap(t, effort.Of(1, 6), func(t *testing.T, l *lab, c *recipes.Client, k, n int) {
		l.warm(c.Mutex("/m"))
		time.Sleep(time.Minute)
		cuts := l.flapping(c, k, n)
		l.Srv.Disconnect(l.SessionID(c))
		x := l.Lock(c.Mutex("/m").Lock)
		time.Sleep(time.Minute)
		require.NoError(t, context.Cause(x.Context()))
		require.Equal(t, n, cuts.Hits())
		l.Unlock(x)
	})
}

func TestAPlaceInTheQueueOutlivesEightCutsInARow(t *testing.T) {
	eachFlap(t, effort.Of(1, 6), func(t *testing.T, l *lab, c *recipes.Client, k, n int) {
		x := l.Lock(l.Client("holder").Mutex("/m").Lock)
		waiting := l.Locking(c.Mutex("/m"))
		line := l.Queue("/m")
		require.Len(t, line, 2)
		cuts := l.flapping(c, k, n)
		l.Srv.Disconnect(l.SessionID(c))
		time.Sleep(time.Minute) // in which a waiter does little more than ping
		require.Positive(t, cuts.Hits())
		cuts.Remove()
		time.Sleep(time.Minute)
		require.Equal(t, line, l.Queue("/m"))
		l.Unlock(x)
		r := l.Got(waiting)
		require.Equal(t, line[1], r.Node())
		l.Unlock(r)
	})
}

func TestALockIsGivenBackThroughEightCutsInARow(t *testing.T) {
	eachFlap(t, effort.Of(1, 6), func(t *testing.T, l *lab, c *recipes.Client, k, n int) {
		x := l.Lock(c.Mutex("/m").Lock)
		time.Sleep(time.Minute)
		cuts := l.flapping(c, k, n)
		l.Srv.Disconnect(l.SessionID(c))
		require.NoError(t, x.Unlock(t.Context()))
		l.Empty("/m")
		time.Sleep(time.Minute) // in which an idle session does little more than ping
		require.Positive(t, cuts.Hits())
	})
}

// A server that is down when a lease runs out has lost it; one that came back a little earlier has not.
func TestALeaseIsKeptByAServerThatIsBackJustBeforeItsEnd(t *testing.T) {
	for _, timeout := range []time.Duration{4 * time.Second, 10 * time.Second, 30 * time.Second} {
		for step := range 32 {
			synctest.Test(t, func(t *testing.T) {
				l := &lab{harness.NewLab(t, zktest.WithLatency(0))}
				c := l.Client("a", func(cfg *recipes.Config) { cfg.SessionTimeout = timeout })
				x := l.Lock(c.Mutex(l.Mutex()).Lock)
				time.Sleep(time.Minute + timeout*time.Duration(step)/32) // wherever it stands between two heartbeats
				l.CutOff(l.SessionID(c))
				time.Sleep(time.Until(x.Deadline()) - timeout/16)
				l.Srv.RefuseDials(false)
				time.Sleep(time.Minute)
				require.NoError(t, context.Cause(x.Context()), "a session timeout of %v, step %d", timeout, step)
				l.Unlock(x)
			})
		}
	}
}
