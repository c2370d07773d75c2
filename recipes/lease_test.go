package recipes_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// The deadline of a lease that had been given back, or lost without its session, moved on with the session.
func TestTheDeadlineOfALeaseThatHasEndedIsPast(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		c := l.Client("a")
		held := l.Lock(c.Mutex("/other", recipes.WithParams(kind.Mutex.New()), recipes.WithCreate()).Lock)
		end := map[string]func(*recipes.Lease){
			"released": func(x *recipes.Lease) { l.Unlock(x) },
			"lost":     func(x *recipes.Lease) { require.NoError(t, l.Srv.Delete(x.Node())) },
		}
		for how, end := range end {
			x := l.Lock(way.Take(c))
			require.True(t, time.Now().Before(x.Deadline()))
			end(x)
			<-ended(x)
			over := time.Now()
			time.Sleep(time.Minute)
			require.NoError(t, held.Verify(t.Context()), "the session lives on")
			require.False(t, x.Deadline().After(over), how)
		}
	})
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").RWMutex(l.RWLock())
		x := l.Lock(m.RLock)
		y := l.Lock(m.RLock)
		l.Unlock(x)
		over := time.Now()
		time.Sleep(time.Minute)
		require.False(t, x.Deadline().After(over), "of one share")
		require.True(t, y.Deadline().After(over), "and not of the other")
	})
}

// A program was stopped for longer than its session, or its machine was suspended. It has run no timer when it first asks whether it still
// holds: Err said yes.
func TestTheFirstLookAtALeasesContextAfterAStopTellsTheLoss(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		var asleep atomic.Int64
		c := l.Asleep("a", l.Srv.DialContext, func() time.Duration { return time.Duration(asleep.Load()) }) // with a session timeout of 40 s
		x := l.Lock(way.Take(c))
		asleep.Add(int64(5 * time.Second))
		require.NoError(t, x.Context().Err(), "a nap")
		l.Settle()
		asleep.Add(int64(21 * time.Second))
		require.ErrorIs(t, x.Context().Err(), context.Canceled)
		select {
		case <-ended(x):
		default:
			require.Fail(t, "Err says that it has ended, Done does not")
		}
		require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
		require.False(t, time.Now().Before(x.Deadline()))
		_ = x.Unlock(t.Context())
	})
	inLab(t, func(t *testing.T, l *lab) {
		l.Mutex()
		var asleep atomic.Int64
		c := l.Asleep("a", l.Srv.DialContext, func() time.Duration { return time.Duration(asleep.Load()) })
		err := c.Mutex("/m").Do(t.Context(), func(ctx context.Context, _ *recipes.Lease) error {
			require.NoError(t, ctx.Err())
			asleep.Add(int64(21 * time.Second))
			require.Error(t, ctx.Err())
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, recipes.ErrLost)
	})
}

// A function that Do runs has no other context at hand. Its release ended the context that it waited with, so it returned ErrReleasePending
// before the servers could confirm.
func TestAReleaseIsNotCutShortByTheContextThatItEnds(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		x := l.Lock(way.Take(l.Client("a")))
		ctx, cancel := context.WithCancel(x.Context())
		defer cancel()
		require.NoError(t, x.Unlock(ctx))
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		_, there := l.Srv.Get(x.Node())
		require.False(t, there)
	})
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		require.NoError(t, c.Mutex(l.Mutex()).Do(t.Context(), func(ctx context.Context, x *recipes.Lease) error { return x.Unlock(ctx) }))
		l.Srv.Inject(zktest.On("delete", "multi"), zktest.Fail(zktest.CodeThrottled))
		for given, waited := range map[time.Duration]time.Duration{time.Second: time.Second, time.Hour: 12 * time.Second} {
			l.Declare("/"+given.String(), kind.Mutex.New())
			x := l.Lock(c.Mutex("/" + given.String()).Lock)
			ctx, cancel := context.WithTimeout(x.Context(), given)
			defer cancel()
			began := time.Now()
			require.ErrorIs(t, x.Unlock(ctx), recipes.ErrReleasePending)
			require.Equal(t, waited, time.Since(began))
		}
	})
}

// One lost reply ended a Verify, with an error that was not worth another try.
func TestVerifySurvivesALostReply(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
		confirm := func(r zktest.Request) bool { return r.Op == "multi" && r.Path == x.Node() }
		for name, fault := range map[string]zktest.Fault{"cut after": zktest.DropReply, "cut before": zktest.CutBefore, "lost alone": zktest.LoseReply} {
			lost := l.Srv.Inject(zktest.Once(confirm), fault)
			require.NoError(t, x.Verify(t.Context()), name)
			<-lost.Hit()
		}

		all := l.Srv.Inject(confirm, zktest.DropReply)
		ctx := l.Within(time.Second)
		start := time.Now()
		require.ErrorIs(t, x.Verify(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))

		verified := async(func() (struct{}, error) { return struct{}{}, x.Verify(context.Background()) })
		l.Settle()
		all.Remove()
		l.Unlock(x)
		require.ErrorIs(t, (<-verified).Err, recipes.ErrReleased)
	})
}

// The documentation said that no guarded write is applied after its lease has ended. But a lease ends by the clock, at half a session
// timeout, before its node goes.
func TestAGuardedWriteIsAppliedOnlyBeforeTheNextGrant(t *testing.T) {
	for name, granted := range map[string]bool{"lease over, nobody else granted": false, "somebody else granted": true} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			path := l.Mutex()
			require.NoError(t, l.Srv.Create("/guarded", nil))
			x := l.Lock(l.Client("a").Mutex(path).Lock)
			rival := l.Locking(l.Client("b").Mutex(path))
			stuck := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "multi" && len(r.Paths) == 2 && r.Paths[1] == "/guarded" }), zktest.Hold)
			written := async(func() ([]zk.MultiResponse, error) {
				return x.Multi(context.Background(), &zk.SetDataRequest{Path: "/guarded", Data: []byte("late"), Version: -1})
			})
			<-stuck.Hit() // and with it all that the session sends after it
			<-ended(x)
			require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
			if granted {
				require.NoError(t, (<-rival).Err)
			} else {
				require.Empty(t, rival)
			}
			stuck.Release()
			require.Error(t, (<-written).Err)
			l.Settle()
			g, _ := l.Srv.Get("/guarded")
			require.Equal(t, !granted, string(g.Data) == "late")
		})
	}
}

// A release was reported pending, or done, although its lease had ended while the process was stopped: others may have held the lock by
// then.
func TestAReleaseAfterAStopTellsTheLoss(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		for how, release := range map[string]func(x *recipes.Lease) error{
			"Unlock": func(x *recipes.Lease) error { return x.Unlock(t.Context()) },
			"Release": func(x *recipes.Lease) error {
				x.Release()
				return context.Cause(x.Context())
			},
		} {
			var asleep atomic.Int64
			c := l.Asleep(how, l.Srv.DialContext, func() time.Duration { return time.Duration(asleep.Load()) })
			x := l.Lock(c.Mutex(m).Lock)
			asleep.Add(int64(21 * time.Second))
			require.ErrorIs(t, release(x), recipes.ErrLost, how)
			require.NoError(t, c.Close())
			err := l.Awake("do", l.Srv.DialContext).Mutex(m).Do(t.Context(), func(context.Context, *recipes.Lease) error { return nil })
			require.NoError(t, err)
		}
	})
}

// A write was under way when the lock was given to the next goroutine, or its reply was lost. It was applied after its lease had been given
// back, under the lease of the next holder, because both held the same node.
func TestAGuardedWriteIsNotAppliedUnderTheNextLocalHolder(t *testing.T) {
	faults := map[string]struct {
		fault zktest.Fault
		first time.Duration // how long the caller waits for the write
	}{
		"given up":     {zktest.Delay(2 * time.Second), 100 * time.Millisecond},
		"reply lost":   {zktest.DropReply, time.Minute},
		"request lost": {zktest.CutBefore, time.Minute},
		"under way":    {zktest.Delay(2 * time.Second), time.Minute},
	}
	for _, name := range []string{"mutex", "writer", "election"} {
		for how, f := range faults {
			runInLab(t, name+", "+how, func(t *testing.T, l *lab) {
				l.EveryKind()
				require.NoError(t, l.Srv.Create("/data", []byte("0")))
				take := harness.Ways()[name].Take(l.Client("a"))
				x := l.Lock(take)
				next := l.Waiting(take)
				l.Srv.Inject(zktest.Once(zktest.On("multi")), f.fault)
				wrote := async(func() ([]zk.MultiResponse, error) {
					ctx := l.Within(f.first)
					return x.Multi(ctx, &zk.SetDataRequest{Path: "/data", Data: []byte("1"), Version: -1})
				})
				synctest.Wait()
				if how != "under way" {
					require.Error(t, (<-wrote).Err)
					time.Sleep(time.Second) // until there is a connection again
				}
				l.Unlock(x)
				r := l.Got(next)
				require.NotEqual(t, x.Node(), r.Node(), "handed over while a write may still come")
				before, _ := l.Srv.Get("/data")
				time.Sleep(10 * time.Second)
				after, _ := l.Srv.Get("/data")
				require.Equal(t, before.Data, after.Data, "written under the next holder")
				l.Unlock(r)
			})
		}
	}
}

// A change of the node before it is watched is reported as soon as it is watched.
func TestWhatHappensInTheFirstMomentIsToldWhenItIsOver(t *testing.T) {
	for name, tt := range map[string]struct {
		happens func(*lab, string) error
		cause   error
	}{
		"deleted":    {func(l *lab, node string) error { return l.Srv.Delete(node) }, recipes.ErrLost},
		"asked back": {func(l *lab, node string) error { return l.Srv.Set(node, []byte(kind.RevokeMessage)) }, recipes.ErrRevoked},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
			start := time.Now()
			require.NoError(t, tt.happens(l, x.Node()))
			<-x.Context().Done()
			require.ErrorIs(t, context.Cause(x.Context()), tt.cause)
			require.Equal(t, 100*time.Millisecond+2*oneWay, time.Since(start))
			_ = x.Unlock(t.Context())
		})
	}
}

// The end of a connection wakes each look at a node. A look whose answer was lost with the connection asks again by itself.
func TestLooksAtANodeDoNotMultiply(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		require.NoError(t, m.Declared(t.Context()))
		x := l.Lock(m.Lock)
		s := l.live(m.Client())
		cut := l.Srv.Inject(zktest.On("getData"), zktest.CutBefore)
		most := 0
		for i := 0; s.Stats().Connections < 6; i++ {
			require.Less(t, i, 12_000, "in a minute")
			time.Sleep(5 * time.Millisecond)
			most = max(most, len(s.Stats().Watches))
		}
		cut.Remove()
		require.LessOrEqual(t, most, 2, "of the declaration and the node")
		time.Sleep(time.Second)
		require.NoError(t, x.Context().Err())
		require.NoError(t, l.Srv.Delete(x.Node())) // it is watched again
		l.Settle()
		require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
	})
}

func TestAPartitionedHolderKnowsBeforeItsRivalIsGranted(t *testing.T) { // case 25: CURATOR-206, etcd #10811, redisson #3636
	for name, dir := range map[string]zktest.Direction{"both ways": zktest.Both, "to the server": zktest.ToServer, "to the client": zktest.ToClient} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			m := l.Mutex()
			c := l.Client("a")
			x := l.Lock(c.Mutex(m).Lock)
			rival := l.Locking(l.Client("b").Mutex(m))
			time.Sleep(time.Minute)
			l.Srv.Partition(l.SessionID(c), dir)
			start := time.Now()
			told := make(chan time.Time, 1)
			context.AfterFunc(x.Context(), func() { told <- time.Now() })
			r := l.Granted(rival)
			lost := <-told
			require.True(t, lost.Before(r.At), "told %v after the cut, the rival was granted after %v", lost.Sub(start), r.At.Sub(start))
			require.Less(t, lost.Sub(start), 12*time.Second)
			require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
			require.Greater(t, r.V.Token(), x.Token())
			last := start // when the server last heard of the client
			if dir == zktest.ToClient {
				last = lost // the client does not close its session while work under the lease may still run
			}
			require.LessOrEqual(t, r.At.Sub(last), 12*time.Second+2*2*time.Second, "session timeout and two ticks")
		})
	}
}

// After the Unlock of a lost lease, its Verify and Multi said that it had been released.
func TestALeaseLostBeforeItsUnlockSaidReleased(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
		l.Settle()
		require.NoError(t, l.Srv.Delete(x.Node()))
		<-x.Context().Done()
		require.ErrorIs(t, x.Unlock(t.Context()), recipes.ErrLost)
		require.NoError(t, x.Unlock(t.Context()), "again")
		require.ErrorIs(t, x.Verify(t.Context()), recipes.ErrLost)
		_, err := x.Multi(t.Context())
		require.ErrorIs(t, err, recipes.ErrLost)
		require.NotErrorIs(t, err, recipes.ErrReleased)
	})
}

func TestAGuardedWriteOfAStaleHolderWritesNothing(t *testing.T) { // case 32
	inLab(t, func(t *testing.T, l *lab) {
		require.NoError(t, l.Srv.Create("/data", []byte("0")))
		x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
		res := must(x.Multi(t.Context(), &zk.SetDataRequest{Path: "/data", Data: []byte("1"), Version: -1}))(t)
		require.Len(t, res, 1)
		require.NotNil(t, res[0].Stat)
		_, err := x.Multi(t.Context(), &zk.SetDataRequest{Path: "/data", Data: []byte("2"), Version: 7})
		require.ErrorIs(t, err, zk.ErrBadVersion, "an operation's own failure is not a loss")
		require.NoError(t, x.Context().Err())
		// The holder does not know yet: the event and the write are under way at the same time, in opposite directions.
		require.NoError(t, l.Srv.Delete(x.Node()))
		_, err = x.Multi(t.Context(), &zk.SetDataRequest{Path: "/data", Data: []byte("stale"), Version: -1})
		require.ErrorIs(t, err, recipes.ErrLost)
		n, _ := l.Srv.Get("/data")
		require.Equal(t, "1", string(n.Data))
		y := l.Lock(l.Client("b").Mutex("/m").Lock)
		l.Unlock(y)
		_, err = y.Multi(t.Context(), &zk.SetDataRequest{Path: "/data", Data: []byte("after"), Version: -1})
		require.ErrorIs(t, err, recipes.ErrReleased)
		_, err = x.Multi(t.Context(), &zk.SetDataRequest{Path: "/data", Data: make([]byte, 1<<20), Version: -1})
		require.ErrorIs(t, err, recipes.ErrLost)
	})
}

// A lock that is given back is no longer held, even while a goroutine of the same client waits for it. So the session lasts as long as one
// that holds nothing.
func TestAReleaseForAWaiterOfTheSameClientCostsNoSession(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Mutex()
		l.Declare("/other", kind.Mutex.New())
		a, b := l.Client("a"), l.Client("b")
		other := l.Lock(b.Mutex("/other").Lock)
		x := l.Lock(a.Mutex("/m").Lock)
		near, far := l.Locking(a.Mutex("/m")), l.Locking(a.Mutex("/other"))
		line := l.Queue("/other")
		l.CutOff(l.SessionID(a))
		ctx := l.Within(time.Second)
		require.ErrorIs(t, x.Unlock(ctx), recipes.ErrReleasePending)
		time.Sleep(7 * time.Second) // a lease lasts 6 s
		notYet(t, far, "its place is lost")
		l.Srv.RefuseDials(false)
		r := l.Got(near)
		require.Equal(t, line, l.Queue("/other"))
		l.Unlock(r)
		l.Unlock(other)
		l.Unlock((<-far).V)
	})
}

func TestReleaseWithAnEndedContextReleases(t *testing.T) { // cases 37, 38: etcd #22123, ncps #913
	inLab(t, func(t *testing.T, l *lab) {
		ctx, cancel := context.WithCancel(t.Context())
		x := must(l.Client("a").Mutex(l.Mutex()).Lock(ctx))(t)
		cancel()
		require.NoError(t, x.Context().Err(), "the wait's context must not end the lease")
		require.ErrorIs(t, x.Unlock(ctx), recipes.ErrReleasePending)
		l.vacant("/m")
	})
}

func TestReleasingRacesTheLossWithoutRecreatingAnything(t *testing.T) { // case 41: LeaderLatch CURATOR-3
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		m := c.Mutex(l.Mutex())
		for i := range 200 {
			x := l.Lock(m.Lock)
			node := x.Node()
			go func() { _ = l.Srv.Delete(node) }()
			time.Sleep(time.Duration(i) * oneWay / 50)
			err := x.Unlock(t.Context())
			require.True(t, err == nil || errors.Is(err, recipes.ErrLost), "%v", err)
		}
		l.vacant("/m")
	})
}

func TestAHolderThatCannotHeartbeatIsRefusedOrLost(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Declare("/m", kind.Mutex.New(), func(p *kind.Payload) {
			p.ChildACL = kind.List{{Scheme: "digest", ID: zktest.DigestID("other:x"), Perms: kind.PermAll}}
		})
		x, err := l.Client("a").Mutex("/m").Lock(t.Context())
		if err == nil { // the create proves the grant; nothing proves it for longer than a lease lasts
			require.NotZero(t, x.Token())
			<-x.Context().Done()
			require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
		} else {
			require.ErrorIs(t, err, session.ErrCannotHeartbeat)
		}
		time.Sleep(20 * time.Second) // its session has expired
		l.Empty("/m")
	})
}

func TestClosingWhileALockIsBeingResolvedEndsIt(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		for range 20 {
			c := l.Client("a")
			m := c.Mutex(l.Mutex())
			l.warmDeclaration(m)
			rule := l.Srv.Inject(zktest.Once(at("create")), zktest.CutBefore)
			got := async(func() (*recipes.Lease, error) { return m.TryLock(context.Background()) })
			<-rule.Hit()
			l.Srv.Expire(l.SessionID(c))
			closed := async(func() (struct{}, error) { return struct{}{}, c.Close() })
			require.Error(t, (<-got).Err)
			<-closed // its error depends on whether the server was still reached
			l.Empty("/m")
		}
	})
}

// keeps lets no other client delete the node's children until free is called. A delete needs the right DELETE on the parent.
func (l *lab) keeps(path string) (free func()) {
	s := l.session(l.Client("a", func(cfg *recipes.Config) { cfg.Auth = []recipes.Auth{{Scheme: "digest", Credentials: "a:a"}} }))
	_, err := s.SetACL(l.T.Context(), path, append(zk.DigestACL(zk.PermAll, "a", "a"), zk.WorldACL(zk.PermRead|zk.PermCreate)...), -1)
	require.NoError(l.T, err)
	return func() {
		_, err := s.SetACL(l.T.Context(), path, zk.WorldACL(zk.PermAll), -1)
		require.NoError(l.T, err)
	}
}

// The error of a set named its first member, whichever node was still there. Then a Try of the same client took its own node for a
// stranger's.
func TestAReleaseOfASetThatTheServerRefusesNamesWhatIsStillThere(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Mutexes(4)
		free1, free2 := l.keeps("/m1"), l.keeps("/m2")
		c := l.Client("b")
		x := l.Lock(multi(c, "/m0", "/m1", "/m2", "/m3").Lock)
		err := x.Unlock(t.Context())
		require.ErrorIs(t, err, recipes.ErrReleasePending)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.ErrorContains(t, err, "pending: "+l.Queue("/m1")[0]+" and 1 more: ")
		require.NotContains(t, err.Error(), "/m0")
		require.NotContains(t, err.Error(), "/m3")
		l.Empty("/m0", "/m3")
		ours := func(err error) {
			t.Helper()
			held := heldBy(t, err)
			require.True(t, held.Local)
			require.ErrorContains(t, err, "recipes: lock /m1 is being given back by this client")
		}
		_, err = c.Mutex("/m1").TryLock(t.Context())
		ours(err)
		free1()
		free2()
		time.Sleep(10 * time.Second)
		l.Empty("/m1")
		free1 = l.keeps("/m1")
		first := l.Lock(l.Client("c").Mutex("/m0").Lock)
		err = l.Refused(multi(c, "/m0", "/m1").TryLock, recipes.ErrHeld)
		require.NotContains(t, err.Error(), "this client")
		_, err = multi(c, "/m1", "/m2").TryLock(t.Context())
		ours(err)
		waits := l.Waiting(bounded(time.Minute, c.Mutex("/m1").Lock))
		_, err = c.Mutex("/m1").TryLock(t.Context()) // behind that goroutine, which waits for our own node
		ours(err)
		ours((<-waits).Err)
		free1()
		l.Unlock(first)
		time.Sleep(10 * time.Second)
		l.Empty("/m1")
	})
}

func TestLoseOnSuspectEndsTheSessionAtTheFirstDoubt(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a", func(cfg *recipes.Config) { cfg.LoseOnSuspect = true })
		x := l.Lock(c.Mutex(l.Mutex()).Lock)
		time.Sleep(time.Second)
		start := time.Now()
		l.Srv.Disconnect(x.SessionID())
		<-x.Context().Done()
		require.LessOrEqual(t, time.Since(start), oneWay, "as soon as the client sees the end of the connection")
		require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
		require.ErrorContains(t, context.Cause(x.Context()), "LoseOnSuspect")
		require.ErrorIs(t, x.Unlock(t.Context()), recipes.ErrLost)
		y := must(c.Mutex("/m").Lock(t.Context()))(t) // the next session deletes the node of the lost one
		require.NotEqual(t, x.SessionID(), y.SessionID())
		require.Less(t, time.Since(start), time.Second)
		l.Unlock(y)
	})
}

// A session that holds nothing lasts while it is suspect. It is given something to hold only after a committed write.
func TestLoseOnSuspectIsForSessionsThatHold(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a", func(cfg *recipes.Config) { cfg.LoseOnSuspect = true })
		l.warm(c.Mutex(l.Mutex()).Lock)
		s := l.live(c)
		l.CutOff(s.ID())
		time.Sleep(time.Second)
		held := make(chan error, 1)
		go func() {
			_, err := s.Hold(t.Context(), nil, "/m")
			held <- err
		}()
		synctest.Wait()
		require.Empty(t, held, "the last write was committed a second ago, but the session is suspect")
		l.Srv.RefuseDials(false)
		require.NoError(t, <-held)
		require.Equal(t, session.StateActive, s.State())
	})
}

func TestASecondUnlockDeletesNoNodeOfAnother(t *testing.T) { // case 39: the numbers of a lock that is created again start from 0
	for _, lost := range []bool{false, true} {
		inLab(t, func(t *testing.T, l *lab) {
			x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
			if !lost {
				l.Unlock(x)
			}
			require.NoError(t, l.Srv.Delete("/m"))
			l.Mutex()
			y := l.Lock(l.Client("b").Mutex("/m").Lock)
			require.Equal(t, x.Node()[len(x.Node())-10:], y.Node()[len(y.Node())-10:], "the scenario needs equal numbers")
			require.Greater(t, y.Token(), x.Token())
			if lost {
				require.ErrorIs(t, x.Unlock(t.Context()), recipes.ErrLost)
			}
			l.Unlock(x)
			l.Settle()
			require.NoError(t, y.Verify(t.Context()))
			l.Unlock(y)
		})
	}
}
