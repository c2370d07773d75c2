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
	l.t.Helper()
	x, err := l.client("first").Mutex(l.mutex()).Lock(l.t.Context())
	require.NoError(l.t, err)
	second = l.locking(l.client("second").Mutex("/m"))
	l.warmDeclaration(c.Mutex("/m"))
	w = async(func() (*recipes.Lease, error) { return c.Mutex("/m").Lock(context.Background()) })
	time.Sleep(4*oneWay + oneWay/2) // a create with a listing, and setWatches; less than a moment
	synctest.Wait()
	require.Len(l.t, l.queue("/m"), 3)
	require.Equal(l.t, 1, l.srv.SessionCounts(l.session(c)).ByOp["setWatches"])
	return x, second, w
}

// A waiter heard that its node had gone, and put off looking, as it does in its first moment. Then everybody ahead left, and the
// queue showed another's node of the same name.
func TestANodeThatIsReplacedInTheFirstMomentIsNotOurs(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c, beats := l.beating()
		x, second, w := l.third(c)
		line := l.queue("/m")
		l.replace(line[2])
		time.Sleep(oneWay / 4) // that event is alone
		require.NoError(t, l.srv.Delete(line[1]))
		require.NoError(t, l.srv.Delete(line[0]))
		require.ErrorIs(t, hostile.Soon(t, w, "its node is gone").err, recipes.ErrLost)
		_ = x.Unlock(t.Context())
		require.Error(t, (<-second).err)
		l.unlock(beats)
	})
}

// The one ahead of the predecessor leaves, and then the predecessor: the holder has not.
func TestWaitersThatLeaveInTheMiddleMakeNobodyTheFirst(t *testing.T) {
	for name, pause := range map[string]time.Duration{"slowly": time.Second, "at once": 0} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				x, err := l.client("0").Mutex(l.mutex()).Lock(t.Context())
				require.NoError(t, err)
				var leave []context.CancelFunc
				var left []<-chan result[*recipes.Lease]
				for range 3 {
					ctx, cancel := context.WithCancel(t.Context())
					m := l.client("x").Mutex("/m")
					leave = append(leave, cancel)
					left = append(left, async(func() (*recipes.Lease, error) { return m.Lock(ctx) }))
					l.settle()
				}
				w := l.locking(l.client("w").Mutex("/m"))
				for i, cancel := range leave {
					cancel()
					require.ErrorIs(t, (<-left[i]).err, context.Canceled)
					time.Sleep(pause)
				}
				time.Sleep(time.Minute)
				notYet(t, w, "the holder is there")
				start := time.Now()
				l.unlock(x)
				r := <-w
				require.NoError(t, r.err)
				require.Equal(t, 2*oneWay, r.at.Sub(start), "it is next")
				l.unlock(r.v)
			})
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
				t.Run(name+"/"+times+"/"+who, func(t *testing.T) {
					inLab(t, func(t *testing.T, l *lab) {
						l.srv.Inject(func(r zktest.Request) bool { return r.Op == "setWatches" && r.N <= n }, f)
						a, b := l.client("a"), l.client("b")
						x, err := a.Mutex(l.mutex()).Lock(t.Context())
						require.NoError(t, err)
						ctx, cancel := context.WithCancel(t.Context())
						second := async(func() (*recipes.Lease, error) { return b.Mutex("/m").Lock(ctx) })
						l.settle()
						c := l.client("c")
						m := c.Mutex("/m")
						w := l.locking(m)
						time.Sleep(time.Minute)
						if leaver == 0 {
							l.unlock(x)
							x = (<-second).v
						} else {
							cancel()
							require.Error(t, (<-second).err)
						}
						time.Sleep(time.Minute)
						notYet(t, w, "somebody is ahead")
						start := time.Now()
						l.unlock(x)
						r := <-w
						require.NoError(t, r.err)
						require.LessOrEqual(t, r.at.Sub(start), 4*oneWay)
						l.unlock(r.v)
						cancel()
						l.settle()
						require.Empty(t, l.children("/m"))
						require.Len(t, c.Newest().Stats().Watches, 1, "of the declaration")
					})
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
			line, id := l.queue("/m"), l.session(c)
			look := l.srv.Inject(zktest.Once(func(r zktest.Request) bool {
				return r.Session == id && r.Op == "getData" && r.Path == line[1]
			}), zktest.Hold)
			l.unlock(x)
			<-look.Hit()
			require.NoError(t, l.srv.Delete(line[2]))
			require.NoError(t, l.srv.Delete(line[1]))
			l.settle()
			look.Release()
			require.ErrorIs(t, hostile.Soon(t, w, "its node is gone").err, recipes.ErrLost)
			_ = (<-second).v.Unlock(t.Context()) // of a lease that is lost
			l.unlock(beats)
		})
	}
}

// The scout leaves, and while the waiter lists for that its predecessor leaves too. The listing shows another predecessor, the
// holder; the departure was not its.
func TestADepartureWhileTheWaiterListsIsNotTheHolders(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		x, err := l.client("a").Mutex(l.mutex()).Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		scout := async(func() (*recipes.Lease, error) { return l.client("b").Mutex("/m").Lock(ctx) })
		l.settle()
		ctx, leave := context.WithCancel(t.Context())
		ahead := async(func() (*recipes.Lease, error) { return l.client("c").Mutex("/m").Lock(ctx) })
		l.settle()
		c, beats := l.beating()
		w := l.locking(c.Mutex("/m"))
		id := l.session(c)
		list := l.srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Session == id && r.Op == "getChildren2" }), zktest.Hold)
		cancel()
		require.Error(t, (<-scout).err)
		<-list.Hit()
		leave()
		require.Error(t, (<-ahead).err)
		l.settle()
		list.Release()
		time.Sleep(time.Minute)
		notYet(t, w, "the holder is there")
		start := time.Now()
		l.unlock(x)
		r := <-w
		require.NoError(t, r.err)
		require.Equal(t, 2*oneWay, r.at.Sub(start), "it is next")
		l.unlock(r.v)
		l.unlock(beats)
	})
}

// No event tells of a node that we may not read, ours included: its silence is no proof.
func TestTheSilenceOfAnUnreadableNodeIsNoProof(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("c")
		beats := l.unreadable(c)
		first := l.foreign("/m", "_c_11111111-1111-4111-8111-111111111111-lock-0000000000", "")
		second := l.foreign("/m", "_c_22222222-2222-4222-8222-222222222222-lock-0000000001", "")
		w := l.locking(c.Mutex("/m"))
		own := l.queue("/m")[2]
		require.NoError(t, l.srv.Delete(first))
		l.settle()
		require.NoError(t, l.srv.Delete(own))
		l.settle()
		require.NoError(t, l.srv.Delete(second))
		require.ErrorIs(t, hostile.Soon(t, w, "it waits for nobody").err, recipes.ErrLost)
		l.unlock(beats)
	})
}

// A server that has refused to set watches has set none: the books said otherwise until the connection ended.
func TestARefusedLookAheadLeavesNoWatchInTheBooks(t *testing.T) {
	for name, code := range map[string]zktest.Code{"throttled": zktest.CodeThrottled, "unknown to the server": codeUnimplemented} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				x, err := l.client("a").Mutex(l.mutex()).Lock(t.Context())
				require.NoError(t, err)
				second := l.locking(l.client("b").Mutex("/m"))
				l.srv.Inject(func(r zktest.Request) bool { return r.Op == "setWatches" }, zktest.Fail(code))
				m := l.client("c").Mutex("/m")
				w := l.locking(m)
				l.unlock(x)
				l.unlock((<-second).v)
				l.unlock((<-w).v)
				l.noneLeft(m)
			})
		})
	}
}

// Who gives up takes its watches with it.
func TestAWaiterThatLooksAheadLeavesNoWatches(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("c")
		ctx, cancel := context.WithCancel(t.Context())
		m := c.Mutex("/m")
		x, err := l.client("first").Mutex(l.mutex()).Lock(t.Context())
		require.NoError(t, err)
		second := l.locking(l.client("second").Mutex("/m"))
		w := async(func() (*recipes.Lease, error) { return m.Lock(ctx) })
		l.settle()
		require.Len(t, c.Newest().Stats().Watches, 4, "the declaration, and three contenders")
		cancel()
		require.ErrorIs(t, (<-w).err, context.Canceled)
		l.settle()
		require.Len(t, c.Newest().Stats().Watches, 1, "the declaration")
		l.unlock(x)
		l.unlock((<-second).v)
		l.noneLeft(m)
	})
}
