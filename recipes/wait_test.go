package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
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

// warmDeclaration makes a client know the declaration without touching the queue.
func (l *lab) warmDeclaration(m *recipes.Mutex) {
	l.T.Helper()
	require.NoError(l.T, m.Declared(l.T.Context()))
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
		l.Refused(bounded(time.Second, c.Lock), context.DeadlineExceeded)
		require.InDelta(t, time.Second, time.Since(start), float64(50*time.Millisecond))
		l.Unlock(x)
	})
}

func TestManyCancelledWaitersShareOneWatch(t *testing.T) { // case 19: samuel #94, PR #110, dubbo's leak
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		x := l.Lock(l.Client("0").Mutex(m).Lock)
		second, leave := l.Leaving(l.Client("1").Mutex(m).Lock)
		c := l.Client("2")
		s := l.live(c)
		for i := range 300 {
			w := l.Waiting(bounded(time.Second, c.Mutex(m).Lock))
			if i == 0 {
				require.Len(t, s.Stats().Watches, 4, "it looks ahead: the declaration, and three contenders")
			}
			require.ErrorIs(t, (<-w).Err, recipes.ErrHeld)
			if i == 150 { // from here on it is next
				leave()
				require.Error(t, (<-second).Err)
			}
		}
		l.Settle()
		require.Len(t, s.Stats().Watches, 1, "only the declaration's watch may be left")
		require.Len(t, l.Children(m), 1)
		require.Zero(t, c.PathBytes(s).Load(), "the account of path bytes leaks")
		before := l.Srv.SessionCounts(s.ID()).ByOp["multi"]
		time.Sleep(time.Minute)
		require.Equal(t, before, l.Srv.SessionCounts(s.ID()).ByOp["multi"], "it heartbeats as if it were next")
		l.Unlock(x)
		l.noneLeft(c.Mutex(m))
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

// A server that sheds a request has done nothing with it, so a waiter has no reason to lose its place.
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
		l.Srv.Disconnect(id) // a waiter looks again
		time.Sleep(5 * time.Second)
		notYet(t, w, "it is held")
		l.Unlock(x)
		r := l.Got(w)
		require.GreaterOrEqual(t, len(shed), 2)
		l.Unlock(r)
	})
}

// A context can end with a cause of its own (context.WithTimeoutCause). The error of a wait told only that cause, and errors.Is did not
// find the deadline in it. The error of a call that came too late told both. Metrics counted such a wait as cancelled.
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
		first := l.Waiting(way.Take(c))
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
		again := must(way.Take(c)(t.Context()))(t) // the same handle, in a new session
		l.Unlock(again)
		l.NothingLeft()
	})
}

// Callers gave up before the network had answered. Their client left a contender behind for each, and cleaned up one at a time. Ten seconds
// of 30 ms timeouts, at 40 ms of round trip, kept the lock from all other clients for 43 s.
func TestCallersThatTimeOutBeforeTheNetworkAnswersCostTheLockNothing(t *testing.T) {
	effort.Proof(t, effort.Raced)
	for name, way := range harness.Ways() {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.EveryKind()
			take := way.Take
			a, b := l.Client("a"), l.Client("b")
			l.warm(take(a), take(b))
			most, sid := 0, l.SessionID(a)
			l.Srv.Inject(func(zktest.Request) bool {
				for _, dir := range harness.Queues {
					own := 0
					for _, child := range l.Children(dir) {
						if n, ok := l.Srv.Get(kind.JoinPath(dir, child)); ok && n.Stat.EphemeralOwner == sid {
							own++
						}
					}
					most = max(most, own)
				}
				return false
			}, zktest.Fault{})
			end := time.Now().Add(20 * time.Second)
			var callers sync.WaitGroup
			impatient := map[string]int{"mutex": 5, "writer": 5, "election": 5}[name] // permits and read locks are taken side by side
			for range max(1, impatient) {
				callers.Go(func() {
					for time.Now().Before(end) {
						x, err := bounded(30*time.Millisecond, take(a))(context.Background())
						if err == nil {
							_ = x.Unlock(context.Background())
						}
					}
				})
			}
			time.Sleep(10 * time.Second)
			l.Unlock(l.Lock(take(b)))
			callers.Wait()
			l.Unlock(l.Lock(bounded(time.Second, take(b)), "%s", l.Srv.Dump()))
			l.Settle()
			require.LessOrEqual(t, most, max(1, map[string]int{"semaphore": 3}[name]), "contenders of one client in one queue")
			l.Empty(harness.Queues...)
		})
	}
}

// The goroutine that was to send a create was preempted first, and meanwhile the caller's context ended. The search for the contender found
// none, and ended. Then the create went out: the client did not know of that contender.
func TestACreateHandedOverLateIsNotForgotten(t *testing.T) {
	for name, way := range harness.Ways() {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.EveryKind()
			take := way.Take
			ctx, cancel := context.WithCancel(t.Context())
			var due atomic.Bool
			l.Seams.Preempt = func() {
				if due.CompareAndSwap(true, false) {
					cancel()
					time.Sleep(10 * time.Second)
				}
			}
			a, b := l.Client("a"), l.Client("b")
			l.warm(take(a), take(b))
			due.Store(true)
			_, err := take(a)(ctx)
			require.ErrorIs(t, err, context.Canceled)
			time.Sleep(11 * time.Second)
			l.vacant(harness.Queues...)
			ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			x := must(take(b)(ctx))(t)
			l.Unlock(x)
		})
	}
}

// A slow server executed a create when its session had moved away and come back, after the write that had shown the contender absent. The
// client did not know of that contender, which stood for as long as the session lived.
func TestACreateExecutedLateIsDeleted(t *testing.T) {
	for name, way := range harness.Ways() {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.EveryKind()
			take := way.Take
			a, b := l.Client("a"), l.Client("b")
			l.warm(take(a))
			sid := l.SessionID(a)
			rule := l.Srv.Inject(zktest.Once(zktest.On("create", "multi")), zktest.DelayReader(20*time.Second))
			go func() {
				<-rule.Hit()
				l.Settle()
				l.Srv.Disconnect(sid)
			}()
			l.Unlock(l.Lock(take(a)))
			time.Sleep(21 * time.Second)
			l.Unlock(l.Lock(bounded(time.Minute, take(b))))
			time.Sleep(20 * time.Second)
			l.Empty(harness.Queues...)
		})
	}
}

// A client may write its own node but not read it, and its first confirming write lost its reply. It then wrote with an old version again
// and again, without a pause. It sent 7,483 requests in five minutes, and was never granted.
func TestAnUnreadableNodeWhoseMarkLostItsReplyIsConfirmedAtAnyVersion(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Declare("/m", kind.Mutex.New(), func(p *kind.Payload) {
			p.ChildACL = kind.List{{Perms: kind.PermWrite, Scheme: "world", ID: "anyone"}}
		})
		a, b := l.Client("a"), l.Client("b")
		b.Crowd(1)
		x := l.Lock(a.Mutex("/m").Lock)
		ch := async(func() (*recipes.Lease, error) { return bounded(time.Minute, b.Mutex("/m").Lock)(t.Context()) })
		time.Sleep(b.Newest().Timeout() / 3) // it cannot heartbeat on its node either, so the grant takes a write
		mark := l.Srv.Inject(zktest.Once(zktest.On("setData")), zktest.DropReply)
		before := l.Srv.Counts().Total
		l.Unlock(x)
		r := l.Got(ch)
		require.Equal(t, 1, mark.Hits())
		require.Less(t, l.Srv.Counts().Total-before, 40)
		l.Unlock(r)
	})
}

// A Dialer did not return, even when its context ended. It kept Close and every later session waiting.
func TestADialerThatNeverReturnsHoldsUpNothing(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		forever, blocked := make(chan struct{}), make(chan struct{}, 1)
		var block atomic.Bool
		l.Mutex()
		c := l.Client("c", func(cfg *recipes.Config) {
			cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				if block.CompareAndSwap(true, false) {
					blocked <- struct{}{}
					<-forever
					return nil, errors.New("too late")
				}
				return l.Srv.DialContext(ctx, network, address)
			}
		})
		block.Store(true)
		l.Srv.Disconnect(0)
		<-blocked
		x := l.Lock(c.Mutex("/m").Lock) // the next attempt is made beside the one that hangs
		l.Unlock(x)
		block.Store(true)
		l.Srv.Disconnect(0)
		<-blocked
		_ = c.Close() // no server confirms the end of the session; the test only needs Close to return
		close(forever)
		synctest.Wait()
	})
}

func TestRequestBudgetsUncontended(t *testing.T) { // one round trip to acquire, two for the whole cycle
	mutex := func(c *recipes.Client) taking { return c.Mutex("/m").Lock }
	for name, b := range map[string]struct {
		take             func(*recipes.Client) taking
		acquire, release string
	}{
		"mutex":              {mutex, "create getChildren2 getData", "delete"},
		"reader":             {func(c *recipes.Client) taking { return c.RWMutex("/rw").RLock }, "create getChildren2 getData", "delete"},
		"writer":             {func(c *recipes.Client) taking { return c.RWMutex("/rw").Lock }, "create getChildren2 getData", "delete"},
		"election":           {campaign, "create getChildren2 getData", "delete"},
		"one permit":         {draws(1), "create 2getChildren2 getData", "delete"},
		"three permits":      {draws(3), "2getChildren2 3getData multi", "multi"},
		"set of one of each": {func(c *recipes.Client) taking { return mixed(c).Lock }, "3getChildren2 3getData multi", "multi"},
		"set of two": {func(c *recipes.Client) taking {
			return c.MultiLock(c.Mutex("/m"), c.RWMutex("/rw")).Lock
		}, "2getChildren2 2getData multi", "multi"},
		// A key that is free costs what a declared lock costs.
		"key: mutex":  {func(c *recipes.Client) taking { return c.Keyed("/km").Mutex("1").Lock }, "getChildren2 getData multi", "multi"},
		"key: reader": {func(c *recipes.Client) taking { return c.Keyed("/krw").RWMutex("1").RLock }, "getChildren2 getData multi", "multi"},
		"key: one permit": {func(c *recipes.Client) taking {
			return permits(c.Keyed("/ks").Semaphore("1"), 1)
		}, "2getChildren2 getData multi", "multi"},
		"keys: set of three": {func(c *recipes.Client) taking {
			return locked(c.Keyed("/km"), "1", "2", "3")
		}, "3getChildren2 3getData multi", "multi"},
		"key: by its own path": {func(c *recipes.Client) taking { return c.Mutex("/km/1").Lock }, "getChildren2 getData multi", "multi"},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.EveryKind()
			l.families()
			take := b.take(l.Client("a"))
			l.Unlock(l.Lock(take))
			var x *recipes.Lease
			require.Equal(t, spent(1, b.acquire), l.Cost(func() { x = l.Lock(take) }), "to acquire")
			require.Equal(t, spent(1, b.release), l.Cost(func() { l.Unlock(x) }), "to release")
			l.NothingLeft()
			l.noKeys("/km", "/krw", "/ks")
		})
	}
}

func TestRequestBudgetsOfATryThatFails(t *testing.T) { // one round trip, no watch left behind
	forEveryTry(t, func(t *testing.T, l *lab, way harness.Way) {
		holder := l.Client("holder")
		release := l.holdsPermits(holder, holder.Mutex("/m"), holder.RWMutex("/rw"))
		c := l.Client("c")
		refused := func() { l.Refused(way.Try(c), recipes.ErrHeld) }
		refused() // the client knows the declarations from here on
		id := l.SessionID(c)
		got := l.Cost(refused)
		require.Equal(t, 1, got.Trips)
		require.NotContains(t, got.Ops, "getData")
		before := l.Srv.SessionCounts(id).WatchEvents
		release()
		l.Settle()
		require.Equal(t, before, l.Srv.SessionCounts(id).WatchEvents, "a watch was left behind")
		l.NothingLeft()
	})
}

func TestRequestBudgetsOfTheHandOff(t *testing.T) {
	// After the release commits, a grant takes at most one round trip and no write. A semaphore's takes two, and a transaction in one of
	// them. One waiter is woken, however many wait, and the one behind it looks ahead. The next waiter of a mutex needs no request. If
	// others decide about the names or the data of nodes, the next waiter lists.
	for name, b := range map[string]struct {
		way   string
		trips int // from the release's commit to the grant
		ops   string
	}{
		"mutex":     {"mutex", 0, "delete getData"},
		"writer":    {"writer", 1, "delete getChildren2 getData"},
		"reader":    {"reader", 1, "delete getChildren2 getData"},
		"election":  {"election", 1, "delete getChildren2 getData"},
		"semaphore": {"semaphore", 2, "delete 2getChildren2 3getData multi"},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.EveryKind()
			way := harness.Ways()[b.way]
			x := l.Lock(way.Block(l.Client("holder")))
			w := l.Waiting(way.Take(l.Client("next")))
			var rest []<-chan result[*recipes.Lease]
			var ids []int64
			if name != "reader" {
				for i := range 5 {
					c := l.Client(fmt.Sprint(i))
					ids = append(ids, l.SessionID(c))
					rest = append(rest, l.Waiting(way.Take(c)))
				}
			}
			l.Settle()
			l.Srv.ResetCounts()
			start := time.Now()
			l.Unlock(x)
			committed := start.Add(oneWay) // when it reached the server
			r := l.Granted(w)
			// The event takes one way, each round trip two.
			require.Equal(t, oneWay+time.Duration(b.trips)*2*oneWay, r.At.Sub(committed))
			l.Settle()
			woken := 0
			for _, id := range ids {
				woken += l.Srv.SessionCounts(id).WatchEvents
			}
			require.LessOrEqual(t, woken, 2, "its successor looks ahead, and learns that it is the front now; nobody else learns anything")
			if len(rest) == 0 {
				require.Equal(t, b.ops, harness.Operations(l.Srv.Counts().ByOp))
			}
			l.Unlock(r.V)
			for _, next := range rest {
				l.Unlock((<-next).V)
			}
			l.NothingLeft()
		})
	}
}

func TestRequestBudgetsOfASetThatWaits(t *testing.T) {
	// To queue, a set sends what its try sends. For the grant, each member needs what it needs by itself: here the mutex needs only its
	// event. Then one proof covers all members.
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		x := l.Lock(l.Client("holder").Mutex("/m").Lock)
		c := l.Client("c")
		l.warm(c.MultiLock(c.RWMutex("/rw"), c.Election("/e")).Lock)
		w := l.Waiting(c.MultiLock(c.Mutex("/m"), c.RWMutex("/rw"), c.Election("/e")).Lock)
		l.Settle()
		start := time.Now()
		l.Unlock(x)
		r := l.Granted(w)
		require.Equal(t, oneWay+oneWay+2*oneWay, r.At.Sub(start), "release, event, the proof of all")
		l.Unlock(r.V)
		l.NothingLeft()
	})
}
