package recipes_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// both matches the transactions that exchange one lock for another.
func both(r zktest.Request) bool { return r.Op == "multi" && len(r.Paths) == 2 }

func TestAStreamOfExchangesCostsOneTransactionAndOneRoundTripEach(t *testing.T) {
	const locks = 50
	inLab(t, func(t *testing.T, l *lab) {
		all := l.stream(l.client("a"), locks)
		got := l.cost(func() {
			x, err := all[0].Lock(t.Context())
			require.NoError(t, err)
			for _, m := range all[1:] {
				before := x
				x, err = m.LockFrom(t.Context(), before)
				require.NoError(t, err)
				require.Greater(t, x.Token(), before.Token())
				require.Equal(t, m.Path(), x.Path())
				require.ErrorIs(t, context.Cause(before.Context()), recipes.ErrReleased)
				require.NoError(t, before.Unlock(t.Context()), "a second end")
			}
			x.Release()
		})
		require.Equal(t, spent{locks, fmt.Sprintf("create delete %dgetChildren2 %dmulti", locks, locks-1)}, got)
		l.emptied(all)
	})
}

// Its node goes when the servers apply the transaction, which may be long before the answer is here, or while it never comes.
func TestAnExchangedLeaseIsOverBeforeTheTransactionIsSent(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c, b := l.tallied()
		all := l.stream(c, 2)
		x, err := all[0].Lock(t.Context())
		require.NoError(t, err)
		l.settle() // it is watched
		l.srv.Inject(zktest.Once(both), zktest.DelayReply(2*time.Second))
		over := make(chan time.Time, 1)
		context.AfterFunc(x.Context(), func() { over <- time.Now() })
		start := time.Now()
		got := async(func() (*recipes.Lease, error) { return all[1].LockFrom(context.Background(), x) })
		require.Zero(t, (<-over).Sub(start))
		require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrReleased)
		y, err := l.client("rival").Mutex(all[0].Path()).Lock(t.Context())
		require.NoError(t, err)
		notYet(t, got, "it is not answered")
		b.are(l, all[0].Path(), 0, 0)
		r := <-got
		require.NoError(t, r.err)
		l.unlock(r.v)
		l.unlock(y)
		l.emptied(all)
	})
}

func TestAnExchangeWaitsInTheQueueAndKeepsNothing(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		all := l.stream(l.client("a"), 2)
		rival := l.client("rival")
		x, err := all[0].Lock(t.Context())
		require.NoError(t, err)
		y, err := rival.Mutex(all[1].Path()).Lock(t.Context())
		require.NoError(t, err)
		w := l.locker(func(ctx context.Context) (*recipes.Lease, error) { return all[1].LockFrom(ctx, x) })
		notYet(t, w, "a rival holds it")
		z, err := rival.Mutex(all[0].Path()).TryLock(t.Context())
		require.NoError(t, err, "what was exchanged is free")
		behind := l.locking(l.client("third").Mutex(all[1].Path()))
		l.unlock(y)
		r := <-w
		require.NoError(t, r.err, "it is the first of those who wait")
		notYet(t, behind, "it came later")
		l.unlock(z)
		r.v.Release()
		l.unlock((<-behind).v)
		l.emptied(all)
	})
}

// Everything that can be exchanged, for everything that it can be exchanged for.
func TestAnyLeaseOfItsOwnIsExchanged(t *testing.T) {
	for name, take := range map[string]func(*recipes.Client) func(context.Context) (*recipes.Lease, error){
		"mutex":     func(c *recipes.Client) func(context.Context) (*recipes.Lease, error) { return c.Mutex("/m").Lock },
		"writer":    func(c *recipes.Client) func(context.Context) (*recipes.Lease, error) { return c.RWMutex("/rw").Lock },
		"election":  campaign,
		"3 permits": draws(3),
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				l.everyKind()
				l.declare("/next", kind.Mutex.New())
				l.declare("/rw2", kind.RWLock.New())
				c := l.client("a")
				for range 2 {
					x, err := take(c)(t.Context())
					require.NoError(t, err)
					y, err := c.Mutex("/next").LockFrom(t.Context(), x)
					require.NoError(t, err)
					l.nothingLeft()
					z, err := c.RWMutex("/rw2").LockFrom(t.Context(), y)
					require.NoError(t, err)
					require.False(t, z.Reads())
					require.Empty(t, l.children("/next"))
					z.Release()
					l.settle()
					require.Empty(t, l.children("/rw2"))
				}
				require.Empty(t, c.Leftovers())
			})
		})
	}
}

func TestALeaseThatCannotBeExchangedIsNotTouched(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.everyKind()
		all := l.stream(l.client("a"), 3)
		c, to := all[0].Client(), all[2]
		lock := func(m interface {
			Lock(context.Context) (*recipes.Lease, error)
		}) *recipes.Lease {
			t.Helper()
			x, err := m.Lock(t.Context())
			require.NoError(t, err)
			return x
		}
		refused := func(x *recipes.Lease, ctx context.Context, to *recipes.Mutex, want string) {
			t.Helper()
			l.settle()
			l.srv.ResetCounts()
			y, err := to.LockFrom(ctx, x)
			require.ErrorContains(t, err, want)
			require.False(t, recipes.Retryable(err))
			require.Same(t, x, y, "its caller has it still")
			require.NotContains(t, l.srv.Counts().ByOp, "multi")
			require.NoError(t, x.Verify(t.Context()))
		}
		refused(lock(multi(c, all[0].Path(), all[1].Path())), t.Context(), to, "MultiLock")
		reader, err := c.RWMutex("/rw").RLock(t.Context())
		require.NoError(t, err)
		refused(reader, t.Context(), to, "a reader's")
		reader.Release()
		refused(lock(c.Mutex("/m", recipes.WithRetention(time.Second))), t.Context(), to, "WithRetention")
		l.declare("/n", kind.Mutex.New())
		n := c.Mutex("/n", recipes.WithReentrancy())
		x := lock(n)
		inner, err := n.Lock(x.Context())
		require.NoError(t, err)
		refused(x, t.Context(), to, "was entered 2 times; give the inner leases back first")
		refused(inner, t.Context(), to, "was entered 2 times")
		l.unlock(inner)
		refused(x, x.Context(), to, "a context that ends with the lease of /n")
		refused(x, t.Context(), l.client("b").Mutex(to.Path()), "from another Client")

		// What cannot be opened, or not waited for.
		refused(x, t.Context(), c.Mutex("/nowhere"), "not provisioned")
		refused(x, t.Context(), c.Mutex("/rw"), "another kind")
		refused(x, t.Context(), c.Mutex("/"), "the root of the tree is no lock")
		over, end := context.WithCancel(t.Context())
		end()
		refused(x, over, to, "context canceled")
		e := lock(electing{c.Election("/e")})
		refused(x, e.Context(), c.Mutex("/e"), "another kind")
		w := lock(to)
		refused(x, w.Context(), to, "would deadlock")
		l.unlock(w)
		l.declare("/drained", kind.Mutex.New(), draining)
		refused(x, t.Context(), c.Mutex("/drained"), "draining")

		// Nor is one that is over, or none.
		l.unlock(x)
		y, err := to.LockFrom(t.Context(), x)
		require.ErrorIs(t, err, recipes.ErrReleased)
		require.Nil(t, y)
		_, err = to.LockFrom(t.Context(), nil)
		require.ErrorContains(t, err, "got no lease; use Lock")
		require.NoError(t, y.Unlock(t.Context()))
		require.Empty(t, l.children(to.Path()))
	})
}

// electing is an election whose campaigns are locks.
type electing struct{ *recipes.Election }

func (e electing) Lock(ctx context.Context) (*recipes.Lease, error) { return e.Campaign(ctx) }

func TestALostLeaseIsNotExchanged(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		all := l.stream(l.client("a"), 2)
		x, err := all[0].Lock(t.Context())
		require.NoError(t, err)
		l.srv.Expire(x.SessionID())
		<-x.Context().Done()
		y, err := all[1].LockFrom(t.Context(), x)
		require.ErrorIs(t, err, recipes.ErrLost)
		require.False(t, recipes.Retryable(err))
		require.Same(t, x, y)
		require.ErrorIs(t, y.Unlock(t.Context()), recipes.ErrLost)
		l.nextIsServed(all[1].Path())
	})
}

// Somebody deleted its node, and nobody has heard of it: the transaction fails as a whole, and the lock is taken without it.
func TestAnExchangeOfALeaseWhoseNodeIsGoneTakesTheLockAlone(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		all := l.stream(l.client("a"), 2)
		x, err := all[0].Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.srv.Delete(x.Node()))
		y, err := all[1].LockFrom(t.Context(), x)
		require.NoError(t, err)
		require.NoError(t, y.Verify(t.Context()))
		y.Release()
		l.emptied(all)
	})
}

// Each exchanges the one for the other, again and again, in one client and in several. That they do not wait in a circle shows that
// nobody waits with a lock, or a ticket, in hand.
func TestGoroutinesThatExchangeTwoLocksForEachOtherDoNotDeadlock(t *testing.T) {
	for name, clients := range map[string]int{"one client": 1, "two clients": 2, "three clients": 3} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				paths := l.mutexes(2)
				var all sync.WaitGroup
				var inside [2]int // the locks guard them
				var cs []*recipes.Client
				for range clients {
					cs = append(cs, l.client("c"))
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				for i := range 6 {
					c := cs[i%clients]
					all.Go(func() {
						var x *recipes.Lease
						var err error
						for j := range 20 {
							at := (i + j) % 2
							if m := c.Mutex(paths[at]); x == nil {
								x, err = m.Lock(ctx)
							} else {
								x, err = m.LockFrom(ctx, x)
							}
							if err != nil {
								t.Errorf("goroutine %d: %v", i, err)
								return
							}
							if inside[at]++; inside[at] != 1 {
								t.Errorf("%d hold %s", inside[at], paths[at])
							}
							time.Sleep(oneWay / 2)
							inside[at]--
						}
						x.Release()
					})
				}
				all.Wait()
				require.NoError(t, ctx.Err())
				for _, path := range paths {
					l.nextIsServed(path)
				}
				for _, c := range cs {
					require.Empty(t, c.Leftovers())
				}
			})
		})
	}
}

// Where the client has, wants or keeps the other lock there is no transaction that could do both.
func TestAnExchangeForALockThatThisClientHasIsAReleaseAndALock(t *testing.T) {
	for name, c := range map[string]struct {
		opts  []recipes.Option
		ready func(l *lab, m *recipes.Mutex) (rest func())
		ops   string
	}{
		"held": {nil, func(l *lab, m *recipes.Mutex) func() {
			x, err := m.Lock(l.t.Context())
			require.NoError(l.t, err)
			return func() { x.Release() }
		}, "create 2delete 2getChildren2"},
		"kept": {[]recipes.Option{recipes.WithRetention(time.Minute)}, func(l *lab, m *recipes.Mutex) func() {
			x, err := m.Lock(l.t.Context())
			require.NoError(l.t, err)
			l.unlock(x)
			return func() {}
		}, "delete"},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				all := l.stream(l.client("a"), 2)
				to := all[0].Client().Mutex(all[1].Path(), c.opts...)
				rest := c.ready(l, to)
				x, err := all[0].Lock(t.Context())
				require.NoError(t, err)
				l.settle()
				l.srv.ResetCounts()
				w := l.locker(func(ctx context.Context) (*recipes.Lease, error) { return to.LockFrom(ctx, x) })
				require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrReleased, "it waits with nothing in hand")
				require.Empty(t, l.children(all[0].Path()))
				require.NotContains(t, l.srv.Counts().ByOp, "create")
				rest()
				r := <-w
				require.NoError(t, r.err)
				r.v.Release()
				time.Sleep(time.Minute)
				l.emptied(all)
			})
		})
	}
}

func TestAnExchangeForTheSameLockQueuesAgain(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex())
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		w := l.locking(l.client("b").Mutex("/m"))
		again := l.locker(func(ctx context.Context) (*recipes.Lease, error) { return m.LockFrom(ctx, x) })
		r := <-w
		require.NoError(t, r.err)
		notYet(t, again, "the other one has waited longer")
		l.unlock(r.v)
		l.unlock((<-again).v)
		l.noneLeft(m)
	})
}

func TestAnExchangeEntersALockOfItsCallerAgain(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		all := l.stream(l.client("a"), 2)
		to := all[0].Client().Mutex(all[1].Path(), recipes.WithReentrancy())
		outer, err := to.Lock(t.Context())
		require.NoError(t, err)
		x, err := all[0].Lock(t.Context())
		require.NoError(t, err)
		inner, err := to.LockFrom(outer.Context(), x)
		require.NoError(t, err)
		require.True(t, inner.With(outer))
		require.Error(t, x.Context().Err())
		l.unlock(inner)
		require.NoError(t, outer.Verify(t.Context()))
		l.unlock(outer)
		l.emptied(all)
	})
}

// A goroutine that waits for the lock that is exchanged has its turn when the node is gone.
func TestWhoWaitsHereForAnExchangedLockIsNext(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		all := l.stream(l.client("a"), 2)
		x, err := all[0].Lock(t.Context())
		require.NoError(t, err)
		w := l.locking(all[0])
		y, err := all[1].LockFrom(t.Context(), x)
		require.NoError(t, err)
		r := <-w
		require.NoError(t, r.err)
		r.v.Release()
		y.Release()
		l.emptied(all)
	})
}

func TestAnExchangeFollowsALockThatHasMoved(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("a")
		l.declare("/from", kind.Mutex.New())
		l.declare("/m", kind.Mutex.New())
		l.moves(l.mover(), kind.Mutex.New(), "/m", "/n")
		for range 2 {
			x, err := c.Mutex("/from").Lock(t.Context())
			require.NoError(t, err)
			y, err := c.Mutex("/m").LockFrom(t.Context(), x)
			require.NoError(t, err)
			require.Equal(t, "/n", y.Path())
			l.unlock(y)
		}
		l.settle()
		require.Empty(t, append(l.children("/from"), l.children("/n")...))
		require.Empty(t, c.Leftovers())
	})
}

// The move may wait for the lock that is exchanged, or for who waits for it.
func TestALockThatIsAboutToMoveIsWaitedForWithoutTheLease(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		all := l.stream(l.client("a"), 1)
		l.declare("/m", kind.Mutex.New(), goingTo("/n"))
		x, err := all[0].Lock(t.Context())
		require.NoError(t, err)
		w := l.locker(func(ctx context.Context) (*recipes.Lease, error) { return all[0].Client().Mutex("/m").LockFrom(ctx, x) })
		notYet(t, w, "it moves")
		l.nextIsServed(all[0].Path())
		l.moves(l.mover(), kind.Mutex.New(), "/m", "/n")
		r := <-w
		require.NoError(t, r.err)
		require.Equal(t, "/n", r.v.Path())
		l.unlock(r.v)
	})
}

// exchangeTraces are everything that can happen to the transaction and to what is asked behind a failure.
func exchangeTraces() map[string]func(l *lab) {
	once := func(f zktest.Fault) func(l *lab) { return func(l *lab) { l.srv.Inject(zktest.Once(both), f) } }
	all := map[string]func(l *lab){
		"not sent":         once(zktest.CutBefore),
		"answer lost":      once(zktest.DropReply),
		"answer swallowed": once(zktest.LoseReply),
		"request dropped":  once(zktest.DropRequest),
		"answered late":    once(zktest.DelayReply(8 * time.Second)),
		"applied late":     once(zktest.Delay(8 * time.Second)),
		"shed":             once(zktest.Fail(zktest.CodeThrottled)),
		"refused":          once(zktest.Fail(zktest.CodeNoAuth)),
		"quota":            once(zktest.Fail(zktest.CodeQuotaExceeded)),
		"cut again and again": func(l *lab) {
			l.srv.Inject(func(r zktest.Request) bool { return both(r) || r.Op == "multi" && r.N < 4 }, zktest.DropReply)
		},
		"the search is cut": func(l *lab) {
			once(zktest.DropReply)(l)
			l.srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "getChildren2" && strings.HasPrefix(r.Path, "/m1") }), zktest.CutAfter)
		},
	}
	for n := range longestReply {
		all[fmt.Sprintf("answer cut at byte %d", n)] = once(zktest.CutAt(n))
	}
	return all
}

func TestAnExchangeWhoseAnswerIsLostLeavesOneLease(t *testing.T) {
	for name, trace := range exchangeTraces() {
		inLab(t, func(t *testing.T, l *lab) {
			c := l.client("a", func(cfg *recipes.Config) { cfg.SessionTimeout = 40 * time.Second })
			all := l.stream(c, 2)
			x, err := all[0].Lock(t.Context())
			require.NoError(t, err)
			trace(l)
			y, err := all[1].LockFrom(t.Context(), x)
			require.NoError(t, err, name)
			require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrReleased)
			require.NoError(t, y.Verify(t.Context()), name)
			l.settle()
			require.Equal(t, []string{y.Node()}, l.queue("/m1"), name)
			require.Empty(t, l.children("/m0"), name)
			y.Release()
			time.Sleep(10 * time.Second)
			l.emptied(all)
		})
	}
}

// At every moment of every trace: what is returned is what there is, and nothing else is left.
func TestAnExchangeWhoseContextEndsLeavesWhatItReturns(t *testing.T) {
	for name, trace := range exchangeTraces() {
		if strings.HasPrefix(name, "answer cut at byte") && name != "answer cut at byte 9" {
			continue
		}
		for step := 0; step < 30; step += effort.Of(1, 3) {
			inLab(t, func(t *testing.T, l *lab) {
				c, b := l.tallied(func(cfg *recipes.Config) { cfg.SessionTimeout = 40 * time.Second })
				all := l.stream(c, 2)
				x, err := all[0].Lock(t.Context())
				require.NoError(t, err)
				trace(l)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(step)*oneWay/2)
				defer cancel()
				start := time.Now()
				y, err := all[1].LockFrom(ctx, x)
				require.LessOrEqual(t, time.Since(start), time.Duration(step)*oneWay/2)
				switch {
				case err == nil:
					require.NoError(t, y.Verify(t.Context()))
				case y == x:
					require.NoError(t, y.Verify(t.Context()), "%s, step %d: it was not touched", name, step)
				default:
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.Nil(t, y)
					require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrReleased)
				}
				y.Release()
				for _, m := range all { // another goroutine of this client, and another client
					z, err := m.Lock(t.Context())
					require.NoError(t, err)
					l.unlock(z)
					l.nextIsServed(m.Path())
				}
				time.Sleep(10 * time.Second)
				l.emptied(all)
				require.Empty(t, b.wrong)
			})
		}
	}
}

func TestASessionThatEndsWhileAnExchangeIsUnderWay(t *testing.T) {
	for name, end := range map[string]func(*lab, *recipes.Client, int64){
		"expired":     func(l *lab, _ *recipes.Client, id int64) { l.srv.Expire(id) },
		"another one": func(l *lab, _ *recipes.Client, id int64) { l.srv.SwapSessionID(id); l.srv.Disconnect(id) },
		"closed":      func(_ *lab, c *recipes.Client, _ int64) { _ = c.Close() },
		"an outage":   func(l *lab, _ *recipes.Client, _ int64) { l.outage(30*time.Second, true) },
	} {
		for phase, wait := range map[string]time.Duration{"sent": 0, "received": oneWay, "answered": oneWay + oneWay/2, "waiting": time.Second} {
			for _, held := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, held %v", name, phase, held), func(t *testing.T) {
					inLab(t, func(t *testing.T, l *lab) {
						c := l.client("a")
						all := l.stream(c, 2)
						x, err := all[0].Lock(t.Context())
						require.NoError(t, err)
						var rival *recipes.Lease
						if held {
							rival, err = l.client("rival").Mutex(all[1].Path()).Lock(t.Context())
							require.NoError(t, err)
						}
						got := async(func() (*recipes.Lease, error) { return all[1].LockFrom(context.Background(), x) })
						time.Sleep(wait)
						end(l, c, x.SessionID())
						if held {
							_ = rival.Unlock(t.Context())
						}
						r := <-got
						require.Error(t, x.Context().Err())
						if r.err == nil && r.v.SessionID() == x.SessionID() {
							<-r.v.Context().Done()
						}
						_ = r.v.Unlock(t.Context())
						time.Sleep(time.Minute)
						for _, m := range all {
							l.nextIsServed(m.Path())
						}
					})
				})
			}
		}
	}
}

// A transaction that a server executes after it was found not applied fails, because its lease's node is gone by then; or what it has
// made is found. Nobody holds by it, and it ends no lease.
func TestAnExchangeThatIsExecutedLateIsNobodys(t *testing.T) {
	for _, after := range []time.Duration{0, 10 * time.Millisecond, oneWay, 3 * oneWay, time.Second, time.Minute} {
		t.Run(after.String(), func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				c := l.client("a", func(cfg *recipes.Config) { cfg.SessionTimeout = 40 * time.Second })
				all := l.stream(c, 2)
				x, err := all[0].Lock(t.Context())
				require.NoError(t, err)
				var got <-chan result[*recipes.Lease]
				late := l.stuck(c, func() {
					got = async(func() (*recipes.Lease, error) { return all[1].LockFrom(context.Background(), x) })
				})
				time.Sleep(after)
				late.Release()
				r := <-got
				require.NoError(t, r.err)
				require.NoError(t, r.v.Verify(t.Context()))
				time.Sleep(time.Hour)
				require.Equal(t, []string{r.v.Node()}, l.queue("/m1"), "a node that nobody owns")
				require.Empty(t, l.children("/m0"))
				require.NoError(t, r.v.Context().Err())
				l.unlock(r.v)
				l.emptied(all)
			})
		})
	}
}

// The bytes of the old node count until it is gone.
func TestAnExchangeInASessionThatIsFullIsRefused(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		all := l.stream(l.client("a"), 2)
		x, err := all[0].Lock(t.Context())
		require.NoError(t, err)
		s, err := all[0].Client().Live(t.Context())
		require.NoError(t, err)
		bytes := all[0].Client().PathBytes(s)
		room := recipes.MaxEphemeralBytes - bytes.Load()
		bytes.Add(room)
		_, err = all[1].LockFrom(t.Context(), x)
		require.ErrorIs(t, err, recipes.ErrSessionFull)
		require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrReleased)
		bytes.Add(-room)
		l.emptied(all)
	})
}
