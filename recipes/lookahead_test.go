package recipes_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// A waiter misses no change between its create and the watches that it sets after the create.
func TestWhatHappensBeforeAWaiterLooksAheadIsNotMissed(t *testing.T) {
	for name, c := range map[string]struct {
		first  func(l *lab, line []string) // line: the nodes of the holder, of the waiter behind it, and ours
		leaves bool                        // and then both ahead of us go
		fails  error
	}{
		"both ahead go":                    {leaves: true},
		"ours is deleted, then both go":    {func(l *lab, line []string) { require.NoError(l.T, l.Srv.Delete(line[2])) }, true, recipes.ErrLost},
		"ours is deleted":                  {func(l *lab, line []string) { require.NoError(l.T, l.Srv.Delete(line[2])) }, false, recipes.ErrLost},
		"ours is another's, then both go":  {func(l *lab, line []string) { l.replace(line[2]) }, true, recipes.ErrLost},
		"we are asked back":                {func(l *lab, line []string) { require.NoError(l.T, l.Srv.Set(line[2], []byte(kind.RevokeMessage))) }, false, recipes.ErrRevoked},
		"the one ahead of us has new data": {func(l *lab, line []string) { require.NoError(l.T, l.Srv.Set(line[1], []byte("x"))) }, true, nil},
		"all have": {func(l *lab, line []string) {
			for _, node := range line {
				require.NoError(l.T, l.Srv.Set(node, []byte("x")))
			}
		}, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // a waiter that hears of several things at once takes one of them
				inLab(t, func(t *testing.T, l *lab) {
					x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
					second := l.Locking(l.Client("b").Mutex("/m"))
					c3, beats := l.beating()
					l.warmDeclaration(c3.Mutex("/m"))
					watches := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "setWatches" }), zktest.Hold)
					w := l.Locking(c3.Mutex("/m"))
					<-watches.Hit()
					if c.first != nil {
						c.first(l, l.Queue("/m"))
					}
					if c.leaves {
						l.Unlock(x)
						l.Unlock((<-second).V)
					}
					l.Srv.ResetCounts()
					watches.Release()
					r := hostile.Soon(t, w, "it waits for nobody")
					require.ErrorIs(t, r.Err, c.fails)
					require.LessOrEqual(t, l.Srv.SessionCounts(l.SessionID(c3)).Total, 12, "a watch that fires at once is set again and again")
					if r.V != nil {
						l.Unlock(r.V)
					}
					if !c.leaves {
						l.Unlock(x)
						l.Unlock((<-second).V)
					}
					l.Unlock(beats)
				})
			}
		})
	}
}

// Servers send no event to a client that may not read the node. Servers before 3.8.4 answer its exists all the same.
func TestAPredecessorThatMayNotBeReadWakesItsSuccessor(t *testing.T) {
	for name, hidden := range map[string]bool{"exists answers": false, "exists is refused": true} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
			foreign := l.Foreign("/m", "_c_11111111-1111-4111-8111-111111111111-lock-0000000005", "")
			for range 5 { // the next numbers are higher
				require.NoError(t, l.Srv.Create("/m/x", nil))
				require.NoError(t, l.Srv.Delete("/m/x"))
			}
			admin := l.session(l.Client("admin"))
			must(admin.SetACL(t.Context(), foreign, zk.DigestACL(zk.PermAll, "other", "x"), -1))(t)
			shown := func() {}
			if hidden {
				shown = l.hide(foreign)
			}
			w := l.Locking(l.Client("b").Mutex("/m"))
			require.Equal(t, foreign, l.Queue("/m")[1])
			time.Sleep(time.Second)
			l.Unlock(x)
			time.Sleep(time.Second)
			notYet(t, w, "the foreign one holds")
			shown()
			start := time.Now()
			require.NoError(t, l.Srv.Delete(foreign))
			r := hostile.Soon(t, w, "nobody is ahead")
			require.NoError(t, r.Err)
			require.Less(t, r.At.Sub(start), time.Second)
			l.Unlock(r.V)
		})
	}
}

// The waiter hears that its node and then its predecessor's went, while its listing is on the way. Another server answers the listing; it
// lags, and there both nodes still exist. The first server's news of the predecessor and the second server's news of our node together prove
// no grant.
func TestADepartureToldOnTheLastConnectionIsNoTurn(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
		s := l.Locking(l.Client("s").Mutex("/m"))
		var moved atomic.Bool
		behind := l.Srv.Replica()
		w := l.Client("w", l.movedTo(behind, &moved))
		next := l.Locking(w.Mutex("/m"))
		rival := l.Locking(l.Client("rival").Mutex("/m"))
		id, line := l.SessionID(w), l.Queue("/m")
		list := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Session == id && r.Op == "getChildren2" }), zktest.Hold)
		l.Unlock(x)
		<-list.Hit() // the deletion of the node ahead of its predecessor has woken it
		behind.Lag()
		require.NoError(t, l.Srv.Delete(line[2]))
		require.NoError(t, l.Srv.Delete(line[1]))
		l.Settle()
		moved.Store(true)
		l.Srv.Disconnect(id)
		list.Release()
		var held []*recipes.Lease
		for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(oneWay / 4) {
			for _, ch := range []<-chan result[*recipes.Lease]{next, rival} {
				select {
				case r := <-ch:
					if r.Err == nil {
						held = append(held, r.V)
					}
				default:
				}
			}
			believed := 0
			for _, x := range held {
				if x.Context().Err() == nil {
					believed++
				}
			}
			require.LessOrEqual(t, believed, 1, "two believe to hold")
		}
		require.Len(t, held, 1)
		behind.CatchUp()
		_ = (<-s).V.Unlock(t.Context()) // it was granted, and lost
		l.Unlock(held[0])
	})
}

// A person made a contender by hand, as a node that can have children. Once it got a child, its watchers listed again and again.
func TestAContenderWithChildrenIsNotLookedAtForEver(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Mutex()
		byHand := l.Foreign("/m", "lock-0000000000", "")
		second := l.Locking(l.Client("b").Mutex("/m"))
		w := l.Locking(l.Client("c").Mutex("/m"))
		require.NoError(t, l.Srv.Create(byHand+"/child", nil))
		l.Settle()
		l.Srv.ResetCounts()
		time.Sleep(time.Second)
		require.LessOrEqual(t, l.Srv.Counts().Total, 2, "nothing happens")
		require.NoError(t, l.Srv.Delete(byHand))
		l.Unlock((<-second).V)
		l.Unlock((<-w).V)
	})
}

// codeUnimplemented is a code of the protocol that has no name in zktest.
const codeUnimplemented zktest.Code = -6

// The contender ahead of the predecessor leaves, and then the predecessor. The holder stays.
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

// The waiter is granted when its turn comes, and leaves nothing behind, whatever becomes of the request that sets the watches.
func TestALookAheadThatFailsCostsNobodyItsTurn(t *testing.T) {
	for name, f := range map[string]zktest.Fault{
		"cut before": zktest.CutBefore, "cut after": zktest.CutAfter,
		"throttled": zktest.Fail(zktest.CodeThrottled), "unknown to the server": zktest.Fail(codeUnimplemented),
		"late": zktest.Delay(5 * time.Second), "reply late": zktest.DelayReply(5 * time.Second),
	} {
		for times, n := range map[string]int{"once": 1, "always": 1000} {
			for who, leaver := range map[string]int{"the holder leaves": 0, "the predecessor leaves": 1} {
				runInLab(t, name+"/"+times+"/"+who, func(t *testing.T, l *lab) {
					looks := l.Srv.Inject(func(r zktest.Request) bool { return r.Op == "setWatches" && r.N <= n }, f)
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
					require.Positive(t, looks.Hits())
				})
			}
		}
	}
}

// The contender ahead of the predecessor (the scout) leaves. While the waiter lists because of that, its predecessor leaves too. The listing
// shows another predecessor, the holder, and the departure was not the holder's.
func TestADepartureWhileTheWaiterListsIsNotTheHolders(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
		scout, cancel := l.Leaving(l.Client("b").Mutex("/m").Lock)
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

// A server sends no event of a node that we may not read, not even of our own. So the silence of its watch is no proof.
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
