package recipes_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestAPredecessorThatVanishesBeforeItsWatchIsNotWaitedFor(t *testing.T) { // case 13: ZooKeeper's WriteLock never wakes
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		x := l.Lock(l.Client("a").Mutex(m).Lock)
		b := l.Client("b").Mutex(m)
		l.warmDeclaration(b)
		held := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "getData" && r.Path == x.Node() }), zktest.Hold)
		w := async(func() (*recipes.Lease, error) { return b.Lock(context.Background()) })
		<-held.Hit()
		l.Unlock(x)
		held.Release()
		l.Unlock(l.Got(w))
	})
}

// warmDeclaration makes a client know the declaration without touching the queue.
func (l *lab) warmDeclaration(m *recipes.Mutex) {
	l.T.Helper()
	require.NoError(l.T, m.Declared(l.T.Context()))
}

func TestAMiddleWaiterThatLeavesDoesNotGrantTheOneBehind(t *testing.T) { // case 14
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		x := l.Lock(l.Client("0").Mutex(m).Lock)
		ctx, leave := context.WithCancel(context.Background())
		first := l.Client("1").Mutex(m)
		middle := l.Waiting(func(context.Context) (*recipes.Lease, error) { return first.Lock(ctx) })
		last := l.Locking(l.Client("2").Mutex(m))
		leave()
		require.ErrorIs(t, (<-middle).Err, context.Canceled)
		l.Settle()
		notYet(t, last, "the holder still holds")
		l.Unlock(x)
		require.NoError(t, (<-last).Err)
	})
}

func TestAWaiterNotInTheListIsNotTheLowest(t *testing.T) { // go-zookeeper's Lock takes itself for the lowest
	_, _, err := recipes.Decide(kind.Mutex.Queues[0], nil, []string{"_c_x-lock-0000000009"}, "_c_y-lock-0000000001")
	require.ErrorIs(t, err, recipes.ErrNotListed)
	_, _, err = recipes.Decide(kind.Mutex.Queues[0], nil, nil, "_c_y-lock-0000000001")
	require.ErrorIs(t, err, recipes.ErrNotListed)
}

func TestTheDeadlineHoldsWhilePredecessorsLeaveOneByOne(t *testing.T) { // case 18: kazoo takes 3.2 s for 1 s
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		x := l.Lock(l.Client("0").Mutex(m).Lock)
		for range 6 {
			ctx, cancel := context.WithCancel(context.Background())
			c := l.Client("w")
			go func() { _, _ = c.Mutex(m).Lock(ctx) }()
			l.Settle()
			defer cancel()
		}
		line := l.Queue(m)
		c := l.Client("late").Mutex(m)
		l.warmDeclaration(c)
		go func() {
			for i := len(line) - 1; i > 0; i-- {
				time.Sleep(200 * time.Millisecond)
				_ = l.Srv.Delete(line[i])
			}
		}()
		start := time.Now()
		ctx := l.Within(time.Second)
		_, err := c.Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.InDelta(t, time.Second, time.Since(start), float64(50*time.Millisecond))
		l.Unlock(x)
	})
}

func TestManyCancelledWaitersShareOneWatch(t *testing.T) { // case 19: samuel #94, PR #110, dubbo's leak
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		x := l.Lock(l.Client("0").Mutex(m).Lock)
		c := l.Client("1")
		for range 300 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_, err := c.Mutex(m).Lock(ctx)
			require.ErrorIs(t, err, recipes.ErrHeld)
			cancel()
		}
		l.Settle()
		s := l.live(c)
		require.Len(t, s.Stats().Watches, 1, "only the declaration's watch may be left")
		require.Len(t, l.Children(m), 1)
		require.Zero(t, c.PathBytes(s).Load(), "the account of path bytes leaks")
		l.Unlock(x)
	})
}

func TestATimeoutDuringADisconnectLeavesNothing(t *testing.T) { // case 20: kazoo #732, #429, #430
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		x := l.Lock(l.Client("0").Mutex(m).Lock)
		c := l.Client("1")
		ctx := l.Within(2 * time.Second)
		w := l.Waiting(func(context.Context) (*recipes.Lease, error) { return c.Mutex(m).Lock(ctx) })
		id := l.SessionID(c)
		l.CutOff(id)
		require.ErrorIs(t, (<-w).Err, context.DeadlineExceeded)
		l.Srv.RefuseDials(false)
		time.Sleep(3 * time.Second)
		require.Equal(t, id, l.SessionID(c), "the scenario needs the session to survive")
		require.Len(t, l.Children(m), 1, "the timed-out waiter blocks everybody")
		l.Unlock(x)
		l.nextIsServed(m)
	})
}

func TestWaitingSendsOneLookASessionTimeout(t *testing.T) { // case 23: go-zookeeper PR #145 spun
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		x := l.Lock(l.Client("0").Mutex(m).Lock)
		c := l.Client("1")
		w := l.Locking(c.Mutex(m))
		id := l.SessionID(c)
		other := l.Client("2")
		last := l.Locking(other.Mutex(m))
		l.Srv.ResetCounts()
		time.Sleep(time.Hour)
		require.Equal(t, map[string]int{"exists": 300, "multi": 6 * 300}, l.Srv.SessionCounts(id).ByOp,
			"12 s is the session timeout; who is next heartbeats")
		require.Equal(t, map[string]int{"exists": 300}, l.Srv.SessionCounts(l.SessionID(other)).ByOp)
		l.Unlock(x)
		l.Unlock((<-w).V)
		require.NoError(t, (<-last).Err)
	})
}

func TestTheBytesOfASessionsContendersAreBounded(t *testing.T) { // ZOOKEEPER-4306
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		m := c.Mutex(l.Mutex())
		l.warm(m)
		s := l.live(c)
		account := c.PathBytes(s)
		require.Zero(t, account.Load())
		account.Store(recipes.MaxEphemeralBytes - 10)
		l.Refused(m.Lock, recipes.ErrSessionFull)
		account.Store(0)
		l.warm(m)
		require.Zero(t, account.Load())
	})
}

func TestKazoosNamesAreWrittenWhereDeclared(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		p := kind.Mutex.New().(*kind.MutexParams)
		p.Wire = kind.WireKazoo
		l.Declare("/m", p)
		m := l.Client("a").Mutex("/m")
		rule := l.Srv.Inject(zktest.Once(at("create")), zktest.DropReply) // its name must be found again, too
		x := l.Lock(m.Lock)
		require.Equal(t, 1, rule.Hits())
		require.Regexp(t, `^/m/[0-9a-f]{32}__lock__0000000000$`, x.Node())
		l.Unlock(x)
		l.nextIsServed("/m")
	})
}

func TestAReadLostManyTimesDoesNotCostAPlaceInTheQueue(t *testing.T) { // a session asks again three times, a waiter must go on
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		x := l.Lock(l.Client("0").Mutex(m).Lock)
		c := l.Client("1").Mutex(m)
		l.warmDeclaration(c)
		rule := l.Srv.Inject(func(r zktest.Request) bool { return r.Op == "getData" && r.Path == x.Node() }, zktest.CutAt(5))
		w := async(func() (*recipes.Lease, error) { return c.Lock(context.Background()) })
		for rule.Hits() < 6 {
			time.Sleep(100 * time.Millisecond)
			notYet(t, w, "gave up")
		}
		rule.Remove()
		l.Settle()
		l.Unlock(x)
		l.Unlock(l.Got(w))
	})
}

// A server that sheds a request has done nothing with it: there is nothing to lose a place for.
func TestAServerThatThrottlesCostsNoPlaceInTheQueue(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		x := l.Lock(way.Block(l.Client("holder")))
		c := l.Client("waiter")
		id := l.SessionID(c)
		w := l.Waiting(way.Take(c))
		notYet(t, w, "it is held")
		shed := map[string]int{}
		l.Srv.Inject(func(r zktest.Request) bool {
			if r.Session != id || r.Op == "ping" || r.Op == "connect" || r.Op == "setWatches" || shed[r.Op] == 3 {
				return false
			}
			shed[r.Op]++
			return true
		}, zktest.Fail(zktest.CodeThrottled))
		l.Srv.Disconnect(id) // whoever waits looks again
		time.Sleep(5 * time.Second)
		notYet(t, w, "it is held")
		l.Unlock(x)
		r := l.Got(w)
		require.GreaterOrEqual(t, len(shed), 2)
		l.Unlock(r)
	})
}

// A context has its own reason to end (context.WithTimeoutCause): the error of a wait told that one, and errors.Is did not find
// the deadline in it, although that of a call which came too late told both. Metrics counted it as cancelled.
func TestAWaitThatEndsWithACauseOfItsOwnIsStillATimeout(t *testing.T) {
	enough := errors.New("enough")
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		c, other := l.Client("a"), l.Client("b")
		wait := func(ctx context.Context, at string) {
			t.Helper()
			ctx, cancel := context.WithTimeoutCause(ctx, time.Second, enough)
			defer cancel()
			for range 2 { // the second comes too late
				_, err := way.Take(c)(ctx)
				require.ErrorIs(t, err, enough, at)
				require.ErrorIs(t, err, context.DeadlineExceeded, at)
				require.ErrorContains(t, err, "recipes: lock /", at)
				require.Equal(t, "timeout", recipes.ResultOf(err), at)
			}
		}
		slow := l.Srv.Inject(func(r zktest.Request) bool { return r.Op == "getData" && r.Path == way.Path }, zktest.Delay(5*time.Second))
		first := async(func() (*recipes.Lease, error) { return way.Take(c)(t.Context()) })
		l.Settle()
		wait(t.Context(), "another goroutine reads the declaration")
		l.Unlock((<-first).V)
		slow.Remove()
		x := l.Lock(way.Block(other))
		wait(t.Context(), "in the queue")
		ctx, leave := context.WithCancel(t.Context())
		first = async(func() (*recipes.Lease, error) { return way.Take(c)(ctx) })
		l.Settle()
		wait(t.Context(), "behind another goroutine")
		leave()
		<-first
		l.Unlock(x)
	})
}

func TestAWaiterWhoseSessionExpiresIsToldAtOnce(t *testing.T) { // cases 15, 56: etcd #19597 waits on; a phantom leader
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		x := l.Lock(way.Block(l.Client("holder")))
		c := l.Client("waiter")
		w := l.Waiting(way.Take(c))
		l.Srv.Expire(l.SessionID(c))
		start := time.Now()
		r := <-w
		require.ErrorIs(t, r.Err, recipes.ErrSessionLost)
		require.Nil(t, r.V)
		require.Less(t, time.Since(start), 3*time.Second, "one reconnect")
		l.Unlock(x)
		again, err := way.Take(c)(t.Context()) // the same handle, in a new session
		require.NoError(t, err)
		l.Unlock(again)
		l.NothingLeft()
	})
}
