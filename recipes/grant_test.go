package recipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// replace puts a node of somebody else into the place of one, before anybody can have seen it gone.
func (l *lab) replace(node string) {
	l.T.Helper()
	require.NoError(l.T, l.Srv.Delete(node))
	require.NoError(l.T, l.Srv.Create(node, []byte("not yours")))
}

// A follower that has lost its leader goes on answering reads and pings and showing what it has: 5.82 s of two holders
// were measured. It commits nothing.
func TestAGrantNeedsAServerThatCommits(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		x := l.Lock(l.Client("a").Mutex(m).Lock)
		c := l.Client("b")
		w := l.Locking(c.Mutex(m))
		id := l.SessionID(c)
		cutOff := l.Srv.Inject(func(r zktest.Request) bool {
			return r.Session == id && (r.Op == "setData" || r.Op == "multi")
		}, zktest.DropRequest)
		time.Sleep(c.Newest().Timeout()/6 + time.Second) // as long as that what was committed before may count
		l.Unlock(x)
		l.Settle()
		require.Positive(t, cutOff.Hits(), "it must try to commit something")
		notYet(t, w, "granted on what a server shows")
		cutOff.Remove()
		l.Srv.Disconnect(id)
		r := hostile.Soon(t, w, "the server commits again")
		require.NoError(t, r.Err)
		l.Unlock(r.V)
	})
}

// Two that take their first place at the same moment, each where the other takes its second.
func TestMultiLocksOfOppositeOrderStartedAtOnceBothGetTheirTurn(t *testing.T) { // case 50: Curator InterProcessMultiLock
	inLab(t, func(t *testing.T, l *lab) {
		l.Declare("/x", kind.Mutex.New())
		l.Declare("/y", kind.Mutex.New())
		done := make(chan error, 2)
		for _, order := range [][]string{{"/x", "/y"}, {"/y", "/x"}} {
			c := l.Client("c")
			l.warmDeclaration(c.Mutex("/x"))
			l.warmDeclaration(c.Mutex("/y"))
			start := time.Now().Truncate(time.Second).Add(2 * time.Second)
			go func() {
				time.Sleep(time.Until(start))
				ctx := l.Within(time.Minute)
				both := c.MultiLock(c.Mutex(order[0]), c.Mutex(order[1]))
				done <- both.Do(ctx, func(context.Context, *recipes.Lease) error { return nil })
			}()
		}
		require.NoError(t, <-done)
		require.NoError(t, <-done)
	})
}

func TestAnyPermitThatComesBackIsNoticed(t *testing.T) { // case 45: Curator V1 watches one of them
	for which := range 2 {
		inLab(t, func(t *testing.T, l *lab) {
			l.Semaphore(2)
			var held [2]*recipes.Lease
			for i := range held {
				held[i] = l.Lock(draws(1)(l.Client("holder")))
			}
			w := l.drawing(l.Client("waiter"), 1)
			l.Unlock(held[which])
			r := hostile.Soon(t, w, "a permit is free")
			require.NoError(t, r.Err)
			l.Unlock(r.V)
			l.Unlock(held[1-which])
		})
	}
}

// Done is closed although nobody asks Err, which would look at the clock.
func TestALeaseEndsWithItsSession(t *testing.T) { // etcd #10811, consul #2332; ClickHouse #116690: no Expired event at all
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		c := l.Client("a")
		for how, end := range map[string]func(id int64){
			"expired": l.Srv.Expire,
			"swapped": func(id int64) { l.Srv.SwapSessionID(id); l.Srv.Disconnect(id) },
		} {
			x := l.Lock(way.Take(c))
			l.Settle()
			end(l.SessionID(c))
			time.Sleep(20 * time.Second) // a session timeout and more, in case only a deadline notices
			synctest.Wait()
			select {
			case <-ended(x):
			default:
				require.Fail(t, "the lease outlives its session", how)
			}
			require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
			require.ErrorContains(t, context.Cause(x.Context()), "session expired", how)
			require.ErrorIs(t, x.Unlock(t.Context()), recipes.ErrLost)
		}
		l.NothingLeft()
	})
}

// losses are what can happen to a node behind its owner's back.
func (l *lab) losses() map[string]func(node string) {
	return map[string]func(node string){
		"deleted":   func(node string) { require.NoError(l.T, l.Srv.Delete(node)) },
		"another's": l.replace,
	}
}

// The whole lease is lost with any of its nodes.
func TestALeaseEndsAtOnceWithAnyOfItsNodes(t *testing.T) { // cases 28, 29: CURATOR-604, CURATOR-171
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		c := l.Client("a")
		for how, lose := range l.losses() {
			for i, all := 0, 1; i < all; i++ {
				x := l.Lock(way.Take(c))
				l.Settle()
				all = len(x.Nodes())
				node := x.Nodes()[i]
				lose(node)
				start := time.Now()
				<-ended(x)
				require.LessOrEqual(t, time.Since(start), 3*oneWay, "%s: the event and one read; a heartbeat would notice later", how)
				require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
				require.ErrorIs(t, x.Verify(t.Context()), recipes.ErrLost)
				require.ErrorIs(t, x.Unlock(t.Context()), recipes.ErrLost)
				_ = l.Srv.Delete(node)
				l.NothingLeft()
			}
		}
	})
}

func TestAWaiterWhoseNodeIsDeletedOrAnothersIsNeverGranted(t *testing.T) { // cases 16, 28, 44: CURATOR-307, -211 index out of bounds
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		for how, lose := range l.losses() {
			for _, free := range []bool{false, true} {
				x := l.Lock(way.Block(l.Client("holder")))
				w := l.Waiting(way.Take(l.Client("waiter")))
				line := l.Queue(way.Queue)
				node := line[len(line)-1]
				lose(node)
				if free {
					l.Unlock(x)
				}
				r := hostile.Soon(t, w, "the waiter was not told that its node is "+how)
				require.ErrorIs(t, r.Err, recipes.ErrLost)
				if !free {
					require.NoError(t, x.Context().Err())
					l.Unlock(x)
				}
				_ = l.Srv.Delete(node)
				l.NothingLeft()
			}
		}
	})
}

// The reply to the create is lost, and the reconnect is given another session.
func TestANodeOfAnotherSessionIsNeverOurs(t *testing.T) { // cases 2, 28, 35, 49: CURATOR-498, CURATOR-604
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		c := l.Client("a")
		l.Unlock(l.Lock(way.Take(c)))
		l.Settle()
		id := l.SessionID(c)
		rule := l.Srv.Inject(zktest.Once(l.enqueues(way)), zktest.DropReply)
		got := async(func() (*recipes.Lease, error) { return way.Take(c)(context.Background()) })
		<-rule.Hit()
		l.Srv.SwapSessionID(id)
		if r := <-got; r.Err == nil {
			require.NotEqual(t, id, l.SessionID(c))
			for _, node := range r.V.Nodes() {
				n, ok := l.Srv.Get(node)
				require.True(t, ok)
				require.Equal(t, l.SessionID(c), n.Stat.EphemeralOwner)
			}
			l.Unlock(r.V)
		} else {
			require.ErrorIs(t, r.Err, recipes.ErrSessionLost)
		}
		ctx := l.Within(time.Minute)
		x, err := way.Take(l.Client("next"))(ctx)
		require.NoError(t, err, "a node was left behind")
		l.Unlock(x)
		l.NothingLeft()
	})
}
