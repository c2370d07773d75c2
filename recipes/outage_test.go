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

// goes makes the servers unreachable.
func (l *lab) goes() {
	l.CutOff(0)
	synctest.Wait()
}

// sixth is a sixth of the laboratory's session timeout.
const sixth = 2 * time.Second

func TestAnOutageIsNotContentionForTheFirstCallerNorForTheTenth(t *testing.T) {
	for _, before := range []time.Duration{0, 3 * time.Second, time.Minute} {
		t.Run(fmt.Sprintf("%v of outage", before), func(t *testing.T) {
			forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
				c, seen := l.tallied()
				l.Unlock(l.Lock(way.Take(c)))
				l.goes()
				time.Sleep(before)
				var all []<-chan result[*recipes.Lease]
				for range 10 {
					all = append(all, async(func() (*recipes.Lease, error) { return bounded(3*time.Second, way.Take(c))(t.Context()) }))
				}
				for _, r := range all {
					err := (<-r).Err
					require.ErrorIs(t, err, recipes.ErrUnreachable)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.NotErrorIs(t, err, recipes.ErrHeld, "nobody holds it")
					require.False(t, recipes.Retryable(err))
					require.Equal(t, "unreachable", recipes.ResultOf(err))
				}
				synctest.Wait()
				seen.mu.Lock()
				defer seen.mu.Unlock()
				require.Equal(t, 10, seen.told[recipes.EventRefused])
				require.Equal(t, "unreachable", seen.last[recipes.EventRefused].Result)
			})
		})
	}
}

func TestAWaitThatEndsInAnOutageSaysBothWhoWasAheadAndThatNobodyCanBeReached(t *testing.T) { // case 20: kazoo #732, #429, #430
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		x := l.Lock(way.Block(l.Client("holder")))
		c := l.Client("waiter")
		id := l.SessionID(c)
		waiting := l.Waiting(bounded(4*time.Second, way.Take(c)))
		l.goes()
		err := (<-waiting).Err
		require.ErrorIs(t, err, recipes.ErrUnreachable)
		held := heldBy(t, err)
		require.Equal(t, x.Node(), held.Holder.Path)
		require.Equal(t, "unreachable", recipes.ResultOf(err))
		l.Srv.RefuseDials(false)
		time.Sleep(3 * time.Second)
		require.Equal(t, id, l.SessionID(c), "the scenario needs the session to survive")
		l.Unlock(x)
		l.NothingLeft()
	})
}

func TestATryWhileDisconnectedAnswersAtOnce(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c, seen := l.tallied()
		for _, try := range tries(c) { // c knows the declarations now
			l.Unlock(l.Lock(try))
		}
		l.goes()
		for _, passed := range []time.Duration{sixth, 3 * time.Second, 20 * time.Second} {
			time.Sleep(passed)
			_, _ = c.Mutex("/m").TryLock(t.Context()) // asks for a session, if there is none
			for name, try := range tries(c) {
				start := time.Now()
				err := l.Refused(try, recipes.ErrUnreachable, name)
				require.NotErrorIs(t, err, recipes.ErrHeld, name)
				require.NotErrorIs(t, err, context.Canceled, name)
				require.ErrorContains(t, err, "no connection for", name)
				require.True(t, recipes.Retryable(err), name)
				require.Zero(t, time.Since(start), name)
				require.Equal(t, "unreachable", recipes.ResultOf(err))
			}
		}
		l.Srv.RefuseDials(false)
		time.Sleep(10 * time.Second)
		for name, try := range tries(c) {
			l.Unlock(l.Lock(try, name))
		}
		l.NothingLeft()
		seen.mu.Lock()
		defer seen.mu.Unlock()
		require.Empty(t, seen.wrong)
	})
}

func TestATryOutlivesAShortInterruptionAndNoLongerOne(t *testing.T) {
	// The client tries to connect at least every T/12.
	for _, lasts := range []time.Duration{sixth / 3, time.Minute} {
		t.Run(fmt.Sprint(lasts), func(t *testing.T) {
			forEveryTry(t, func(t *testing.T, l *lab, way harness.Way) {
				try := way.Try(l.Client("a"))
				l.Unlock(l.Lock(try))
				l.goes()
				time.AfterFunc(lasts, func() { l.Srv.RefuseDials(false) })
				time.Sleep(sixth / 4)
				start := time.Now()
				x, err := try(context.Background())
				if lasts < sixth {
					require.NoError(t, err)
					l.Unlock(x)
					return
				}
				require.ErrorIs(t, err, recipes.ErrUnreachable)
				require.InDelta(t, sixth*3/4, time.Since(start), float64(oneWay), "the loss of the connection takes its time to arrive")
			})
		})
	}
}

// A failed attempt to connect is no reason to refuse a Try that comes long after the attempt.
func TestATryAfterAnOutageThatAnotherHasMetWaitsForAConnection(t *testing.T) {
	forEveryTry(t, func(t *testing.T, l *lab, way harness.Way) {
		c := l.Client("a", func(cfg *recipes.Config) { cfg.ConnectTimeout = sixth / 4 })
		try := way.Try(c)
		l.goes()
		time.Sleep(time.Minute)
		for range 2 {
			start := time.Now()
			l.Refused(try, recipes.ErrUnreachable)
			require.Equal(t, sixth, time.Since(start), "of several attempts")
			time.Sleep(time.Minute)
		}
		time.AfterFunc(sixth/2, func() { l.Srv.RefuseDials(false) })
		l.Unlock(l.Lock(try))
	})
}

func TestATryWhoseReplyIsLostInAnOutageAnswersSoonAndLeavesNothing(t *testing.T) {
	forEveryTry(t, func(t *testing.T, l *lab, way harness.Way) {
		c := l.Client("a")
		try := way.Try(c)
		l.Unlock(l.Lock(try))
		lost := l.Srv.Inject(zktest.Once(zktest.On("create", "multi")), zktest.DropReply)
		go func() { <-lost.Hit(); l.Srv.RefuseDials(true) }()
		start := time.Now()
		l.Refused(try, recipes.ErrUnreachable)
		require.LessOrEqual(t, time.Since(start), sixth+time.Second/4)
		l.Srv.RefuseDials(false)
		time.Sleep(time.Minute)
		l.NothingLeft()
	})
}

func TestATryOfALockThatThisClientHoldsIsRefusedAsHeldInAnOutageToo(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		x := l.Lock(m.Lock)
		l.goes()
		for _, passed := range []time.Duration{0, sixth} {
			time.Sleep(passed)
			err := l.Refused(m.TryLock, recipes.ErrHeld)
			require.NotErrorIs(t, err, recipes.ErrUnreachable)
			require.ErrorContains(t, err, "is held by this client (a)")
			require.Equal(t, "held", recipes.ResultOf(err))
		}
		_ = x.Unlock(t.Context())
	})
}

func TestATryBehindAGoroutineThatCannotAskEitherIsNotRefusedAsHeld(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		l.warm(m.Lock)
		l.goes()
		asking := l.Locking(m)
		err := l.Refused(m.TryLock, recipes.ErrUnreachable)
		require.NotErrorIs(t, err, recipes.ErrHeld)
		require.ErrorContains(t, err, "asked for by this client (a)")
		require.True(t, recipes.Retryable(err))
		l.Srv.RefuseDials(false)
		l.Unlock((<-asking).V)
	})
}

func TestAClientWhoseSessionIsOverTriesAgainWhenItIsAsked(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) { // no call came since, so the client has not dialled
		c := l.Client("a")
		l.warm(c.Mutex(l.Mutex()).Lock)
		l.goes()
		time.Sleep(time.Minute)
		l.Srv.RefuseDials(false)
		time.Sleep(time.Minute)
		l.Unlock(l.Lock(c.Mutex("/m").TryLock))
	})
}

func TestMaxWaitBoundsTheWaitAndNotTheWork(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c, rival := l.Client("a"), l.Client("rival")
		most := recipes.WithMaxWait(3 * time.Second)
		ways := map[string]func(context.Context, work) error{}
		for name, way := range harness.Ways() {
			ways[name] = way.Do(c, most)
		}
		ways["set, of its members the least"] = c.MultiLock(c.Election("/e"), c.Mutex("/m", recipes.WithMaxWait(time.Hour)), c.RWMutex("/rw", most)).Do
		for name, do := range ways {
			require.NoError(t, do(t.Context(), func(ctx context.Context, _ *recipes.Lease) error {
				time.Sleep(time.Minute)
				return ctx.Err()
			}), name)
		}
		release := l.holdsPermits(rival, rival.Mutex("/m"), rival.RWMutex("/rw"), rival.Election("/e"))
		for name, do := range ways {
			start := time.Now()
			err := do(t.Context(), func(context.Context, *recipes.Lease) error { require.Fail(t, name); return nil })
			require.ErrorIs(t, err, recipes.ErrHeld, name)
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.ErrorContains(t, err, "WithMaxWait(3s)", name)
			require.False(t, recipes.Retryable(err), name)
			require.Equal(t, "timeout", recipes.ResultOf(err))
			require.Equal(t, 3*time.Second, time.Since(start), name)
		}
		release()
		l.NothingLeft()
		_, err := c.Mutex("/m", recipes.WithMaxWait(-1)).Lock(t.Context())
		require.ErrorContains(t, err, "WithMaxWait(-1ns): the time must not be negative")
		_, err = c.Mutex("/m", recipes.WithMaxRelease(-1)).Lock(t.Context())
		require.ErrorContains(t, err, "WithMaxRelease(-1ns): the time must not be negative")
	})
}

func TestDoAndLeadReturnSoonAfterTheirContextInAnOutage(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		ctx, cancel := context.WithCancel(t.Context())
		var left time.Time
		err := way.Do(l.Client("a"))(ctx, func(ctx context.Context, _ *recipes.Lease) error {
			l.goes()
			time.AfterFunc(time.Second, cancel)
			<-ctx.Done()
			left = time.Now()
			return nil
		})
		require.ErrorIs(t, err, recipes.ErrReleasePending)
		require.False(t, recipes.Retryable(err))
		require.Equal(t, sixth, time.Since(left))
	})
}

func TestMaxReleaseBoundsTheRelease(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		c := l.Client("a")
		for _, most := range []time.Duration{0, time.Second} {
			var left time.Time
			err := way.Do(c, recipes.WithMaxRelease(most))(t.Context(), func(context.Context, *recipes.Lease) error {
				l.goes()
				left = time.Now()
				return nil
			})
			require.ErrorIs(t, err, recipes.ErrReleasePending)
			if most > 0 {
				require.Equal(t, most, time.Since(left))
				require.ErrorContains(t, err, "not confirmed within 1s")
			} else {
				require.Greater(t, time.Since(left), 5*time.Second)
				require.LessOrEqual(t, time.Since(left), 12*time.Second)
			}
			l.Srv.RefuseDials(false)
			time.Sleep(time.Minute)
			l.NothingLeft()
		}
	})
}

// unreadable declares /m so that clients may not read the contenders that they create there. It also takes another lock, so that the
// session can make its heartbeats on the node of that lock.
func (l *lab) unreadable(c *recipes.Client) (beats *recipes.Lease) {
	l.T.Helper()
	l.Declare("/m", kind.Mutex.New(), func(p *kind.Payload) {
		p.ChildACL = kind.List{{Scheme: "digest", ID: zktest.DigestID("other:x"), Perms: kind.PermAll}}
	})
	l.Declare("/beats", kind.Mutex.New())
	beats = l.Lock(c.Mutex("/beats").Lock)
	return beats
}

// A look is made again if its connection ends. A server that sheds a look has not said that the node is gone.
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

// flapping loses the k-th reply of each connection of the client, and cuts the connection, n times in a row. Reply 0 is the answer to the
// connect request. flapping first lets the server answer what the client is sending. Otherwise the connection that the scene breaks next
// could already lose its k-th reply.
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

// A lease ends half a session timeout after its last committed write, and a third of one after its first failed heartbeat. The client must
// not sleep through that time. The test tries each session timeout, each reply, and each number of cuts in a row.
func TestALockOutlivesEightCutsInARow(t *testing.T) {
	for what, scene := range map[string]func(t *testing.T, l *lab, c *recipes.Client, k, n int){
		"a lease": func(t *testing.T, l *lab, c *recipes.Client, k, n int) {
			x := l.Lock(c.Mutex("/m").Lock)
			time.Sleep(time.Minute)
			cuts := l.flapping(c, k, n)
			l.Srv.Disconnect(l.SessionID(c))
			time.Sleep(3 * time.Minute) // with a session of 30 s a quiet connection carries a heartbeat every 5 s and a ping every 10 s
			require.NoError(t, context.Cause(x.Context()))
			require.Equal(t, n, cuts.Hits())
			l.Unlock(x)
		},
		"a call": func(t *testing.T, l *lab, c *recipes.Client, k, n int) {
			l.warm(c.Mutex("/m").Lock)
			time.Sleep(time.Minute)
			cuts := l.flapping(c, k, n)
			l.Srv.Disconnect(l.SessionID(c))
			x := l.Lock(c.Mutex("/m").Lock)
			time.Sleep(time.Minute)
			require.NoError(t, context.Cause(x.Context()))
			require.Equal(t, n, cuts.Hits())
			l.Unlock(x)
		},
		"a place in the queue": func(t *testing.T, l *lab, c *recipes.Client, k, n int) {
			x := l.Lock(l.Client("holder").Mutex("/m").Lock)
			waiting := l.Locking(c.Mutex("/m"))
			line := l.Queue("/m")
			require.Len(t, line, 2)
			cuts := l.flapping(c, k, n)
			l.Srv.Disconnect(l.SessionID(c))
			time.Sleep(time.Minute) // meanwhile a waiter does little more than ping
			require.Positive(t, cuts.Hits())
			cuts.Remove()
			time.Sleep(time.Minute)
			require.Equal(t, line, l.Queue("/m"))
			l.Unlock(x)
			r := l.Got(waiting)
			require.Equal(t, line[1], r.Node())
			l.Unlock(r)
		},
		"a release": func(t *testing.T, l *lab, c *recipes.Client, k, n int) {
			x := l.Lock(c.Mutex("/m").Lock)
			time.Sleep(time.Minute)
			cuts := l.flapping(c, k, n)
			l.Srv.Disconnect(l.SessionID(c))
			require.NoError(t, x.Unlock(t.Context()))
			l.Empty("/m")
			time.Sleep(time.Minute) // meanwhile an idle session does little more than ping
			require.Positive(t, cuts.Hits())
		},
	} {
		for _, timeout := range []time.Duration{4 * time.Second, 10 * time.Second, 30 * time.Second} {
			for k := range 5 {
				for n := 8; n >= 3; n -= effort.Of(1, 6) {
					t.Run(fmt.Sprintf("%s, %v, reply %d, %d times", what, timeout, k, n), func(t *testing.T) {
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
}

// A lease is lost if the server is down when the lease runs out. It is kept if the server came back a little earlier.
func TestALeaseIsKeptByAServerThatIsBackJustBeforeItsEnd(t *testing.T) {
	for _, timeout := range []time.Duration{4 * time.Second, 10 * time.Second, 30 * time.Second} {
		for step := range 32 {
			synctest.Test(t, func(t *testing.T) {
				l := &lab{harness.NewLab(t, zktest.WithLatency(0))}
				c := l.Client("a", func(cfg *recipes.Config) { cfg.SessionTimeout = timeout })
				x := l.Lock(c.Mutex(l.Mutex()).Lock)
				time.Sleep(time.Minute + timeout*time.Duration(step)/32) // so the cut comes at any point between two heartbeats
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
