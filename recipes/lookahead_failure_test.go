package recipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/zktest"
)

// codeUnimplemented is a code of the protocol for which zktest has no name.
const codeUnimplemented zktest.Code = -6

// third queues a client behind a holder and another waiter, and returns when it has looked ahead.
func (l *lab) third(c *recipes.Client) (x *recipes.Lease, second, w <-chan result[*recipes.Lease]) {
	l.T.Helper()
	x = l.Lock(l.Client("first").Mutex(l.Mutex()).Lock)
	second = l.Locking(l.Client("second").Mutex("/m"))
	l.warmDeclaration(c.Mutex("/m"))
	w = async(func() (*recipes.Lease, error) { return c.Mutex("/m").Lock(context.Background()) })
	time.Sleep(4*oneWay + oneWay/2) // a create with a listing, and setWatches; less than a moment
	synctest.Wait()
	require.Len(l.T, l.Queue("/m"), 3)
	require.Equal(l.T, 1, l.Srv.SessionCounts(l.SessionID(c)).ByOp["setWatches"])
	return x, second, w
}

// A waiter heard that its node had gone, and put off looking, as it does in its first moment. Then everybody ahead left, and the
// queue showed another's node of the same name.
func TestANodeThatIsReplacedInTheFirstMomentIsNotOurs(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c, beats := l.beating()
		x, second, w := l.third(c)
		line := l.Queue("/m")
		l.replace(line[2])
		time.Sleep(oneWay / 4) // that event is alone
		require.NoError(t, l.Srv.Delete(line[1]))
		require.NoError(t, l.Srv.Delete(line[0]))
		require.ErrorIs(t, hostile.Soon(t, w, "its node is gone").Err, recipes.ErrLost)
		_ = x.Unlock(t.Context())
		require.Error(t, (<-second).Err)
		l.Unlock(beats)
	})
}

// The one ahead of the predecessor leaves, and then the predecessor: the holder has not.
func TestWaitersThatLeaveInTheMiddleMakeNobodyTheFirst(t *testing.T) {
	for name, pause := range map[string]time.Duration{"slowly": time.Second, "at once": 0} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			x := l.Lock(l.Client("0").Mutex(l.Mutex()).Lock)
			var leave []context.CancelFunc
			var left []<-chan result[*recipes.Lease]
			for range 3 {
				ctx, cancel := context.WithCancel(t.Context())
				m := l.Client("x").Mutex("/m")
				leave = append(leave, cancel)
				left = append(left, async(func() (*recipes.Lease, error) { return m.Lock(ctx) }))
				l.Settle()
			}
			w := l.Locking(l.Client("w").Mutex("/m"))
			for i, cancel := range leave {
				cancel()
				require.ErrorIs(t, (<-left[i]).Err, context.Canceled)
				time.Sleep(pause)
			}
			time.Sleep(time.Minute)
			notYet(t, w, "the holder is there")
			start := time.Now()
			l.Unlock(x)
			r := l.Granted(w)
			require.Equal(t, 2*oneWay, r.At.Sub(start), "it is next")
			l.Unlock(r.V)
		})
	}
}

// Whatever becomes of the request that sets the watches, the waiter is granted when its turn comes, and leaves nothing behind.
func TestALookAheadThatFailsCostsNobodyItsTurn(t *testing.T) {
	for name, f := range map[string]zktest.Fault{
		"cut before": zktest.CutBefore, "cut after": zktest.CutAfter,
		"throttled": zktest.Fail(zktest.CodeThrottled), "unknown to the server": zktest.Fail(codeUnimplemented),
		"late": zktest.Delay(5 * time.Second), "reply late": zktest.DelayReply(5 * time.Second),
	} {
		for times, n := range map[string]int{"once": 1, "always": 1000} {
			for who, leaver := range map[string]int{"the holder leaves": 0, "the predecessor leaves": 1} {
				runInLab(t, name+"/"+times+"/"+who, func(t *testing.T, l *lab) {
					l.Srv.Inject(func(r zktest.Request) bool { return r.Op == "setWatches" && r.N <= n }, f)
					a, b := l.Client("a"), l.Client("b")
					x := l.Lock(a.Mutex(l.Mutex()).Lock)
					second, cancel := l.Leaving(b.Mutex("/m").Lock)
					c := l.Client("c")
					m := c.Mutex("/m")
					w := l.Locking(m)
					time.Sleep(time.Minute)
					if leaver == 0 {
						l.Unlock(x)
						x = (<-second).V
					} else {
						cancel()
						require.Error(t, (<-second).Err)
					}
					time.Sleep(time.Minute)
					notYet(t, w, "somebody is ahead")
					start := time.Now()
					l.Unlock(x)
					r := l.Granted(w)
					require.LessOrEqual(t, r.At.Sub(start), 4*oneWay)
					l.Unlock(r.V)
					cancel()
					l.noneLeft(m) // and no watch that a server has refused to set
				})
			}
		}
	}
}

// The waiter has looked ahead and asks who the holder is, when it hears that its own node went, and then that the holder's did. What
// it finds first when it is back is not to matter.
func TestADepartureThatWasHeardWhileBusyIsNoTurn(t *testing.T) {
	for range 8 {
		inLab(t, func(t *testing.T, l *lab) {
			c, beats := l.beating()
			x, second, w := l.third(c)
			time.Sleep(time.Second)
			line, id := l.Queue("/m"), l.SessionID(c)
			look := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool {
				return r.Session == id && r.Op == "getData" && r.Path == line[1]
			}), zktest.Hold)
			l.Unlock(x)
			<-look.Hit()
			require.NoError(t, l.Srv.Delete(line[2]))
			require.NoError(t, l.Srv.Delete(line[1]))
			l.Settle()
			look.Release()
			require.ErrorIs(t, hostile.Soon(t, w, "its node is gone").Err, recipes.ErrLost)
			_ = (<-second).V.Unlock(t.Context()) // of a lease that is lost
			l.Unlock(beats)
		})
	}
}

// The scout leaves, and while the waiter lists for that its predecessor leaves too. The listing shows another predecessor, the
// holder; the departure was not its.
func TestADepartureWhileTheWaiterListsIsNotTheHolders(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
		ctx, cancel := context.WithCancel(t.Context())
		scout := async(func() (*recipes.Lease, error) { return l.Client("b").Mutex("/m").Lock(ctx) })
		l.Settle()
		ahead, leave := l.Leaving(l.Client("c").Mutex("/m").Lock)
		c, beats := l.beating()
		w := l.Locking(c.Mutex("/m"))
		list := l.Srv.Inject(zktest.Once(l.By(c, "getChildren2")), zktest.Hold)
		cancel()
		require.Error(t, (<-scout).Err)
		<-list.Hit()
		leave()
		require.Error(t, (<-ahead).Err)
		l.Settle()
		list.Release()
		time.Sleep(time.Minute)
		notYet(t, w, "the holder is there")
		start := time.Now()
		l.Unlock(x)
		r := l.Granted(w)
		require.Equal(t, 2*oneWay, r.At.Sub(start), "it is next")
		l.Unlock(r.V)
		l.Unlock(beats)
	})
}

// No event tells of a node that we may not read, ours included: its silence is no proof.
func TestTheSilenceOfAnUnreadableNodeIsNoProof(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("c")
		beats := l.unreadable(c)
		first := l.Foreign("/m", "_c_11111111-1111-4111-8111-111111111111-lock-0000000000", "")
		second := l.Foreign("/m", "_c_22222222-2222-4222-8222-222222222222-lock-0000000001", "")
		w := l.Locking(c.Mutex("/m"))
		own := l.Queue("/m")[2]
		require.NoError(t, l.Srv.Delete(first))
		l.Settle()
		require.NoError(t, l.Srv.Delete(own))
		l.Settle()
		require.NoError(t, l.Srv.Delete(second))
		require.ErrorIs(t, hostile.Soon(t, w, "it waits for nobody").Err, recipes.ErrLost)
		l.Unlock(beats)
	})
}

// Who gives up takes its watches with it.
func TestAWaiterThatLooksAheadLeavesNoWatches(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("c")
		ctx, cancel := context.WithCancel(t.Context())
		m := c.Mutex("/m")
		x := l.Lock(l.Client("first").Mutex(l.Mutex()).Lock)
		second := l.Locking(l.Client("second").Mutex("/m"))
		w := async(func() (*recipes.Lease, error) { return m.Lock(ctx) })
		l.Settle()
		require.Len(t, c.Newest().Stats().Watches, 4, "the declaration, and three contenders")
		cancel()
		require.ErrorIs(t, (<-w).Err, context.Canceled)
		l.Settle()
		require.Len(t, c.Newest().Stats().Watches, 1, "the declaration")
		l.Unlock(x)
		l.Unlock((<-second).V)
		l.noneLeft(m)
	})
}
