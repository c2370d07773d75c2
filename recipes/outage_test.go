package recipes_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// goes makes the servers unreachable.
func (l *lab) goes() {
	l.srv.RefuseDials(true)
	l.srv.Disconnect(0)
	synctest.Wait()
}

// sixth is a sixth of the laboratory's session timeout.
const sixth = 2 * time.Second

// tries are the Try methods, with the Lock method that is in each one's way.
func tries(c *recipes.Client, opts ...recipes.Option) map[string]func(context.Context) (*recipes.Lease, error) {
	return map[string]func(context.Context) (*recipes.Lease, error){
		"mutex":  c.Mutex("/m", opts...).TryLock,
		"writer": c.RWMutex("/rw", opts...).TryLock,
		"reader": c.RWMutex("/rw", opts...).TryRLock,
		"permits": func(ctx context.Context) (*recipes.Lease, error) {
			return c.Semaphore("/s", opts...).TryAcquire(ctx, 2)
		},
		"set": mixed(c).TryLock,
	}
}

func TestAnOutageIsNotContentionForTheFirstCallerNorForTheTenth(t *testing.T) {
	for _, before := range []time.Duration{0, 3 * time.Second, time.Minute} {
		t.Run(fmt.Sprintf("%v of outage", before), func(t *testing.T) {
			forEveryRecipe(t, func(t *testing.T, l *lab, way recipeWay) {
				c, seen := l.tallied()
				warm, err := way.take(c)(t.Context())
				require.NoError(t, err)
				l.unlock(warm)
				l.goes()
				time.Sleep(before)
				var all []<-chan result[*recipes.Lease]
				for range 10 {
					all = append(all, async(func() (*recipes.Lease, error) {
						ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
						defer cancel()
						return way.take(c)(ctx)
					}))
				}
				for _, r := range all {
					err := (<-r).err
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

func TestAWaitThatEndsInAnOutageSaysBothWhoWasAheadAndThatNobodyCanBeReached(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way recipeWay) {
		x, err := way.block(l.client("holder"))(t.Context())
		require.NoError(t, err)
		waiting := async(func() (*recipes.Lease, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
			defer cancel()
			return way.take(l.client("waiter"))(ctx)
		})
		l.settle()
		l.goes()
		err = (<-waiting).err
		require.ErrorIs(t, err, recipes.ErrUnreachable)
		var held *recipes.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, x.Node(), held.Holder.Path)
		require.Equal(t, "unreachable", recipes.ResultOf(err))
	})
}

func TestAWaitBehindAHolderOfTheSameClientSaysThatItIsHeld(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex())
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err = m.Lock(ctx)
		require.ErrorContains(t, err, "recipes: lock /m is held by this client (a), 1 ahead, gave up after 3s: context deadline exceeded")
		require.NotErrorIs(t, err, recipes.ErrUnreachable)
		l.unlock(x)
	})
}

func TestATryWhileDisconnectedAnswersAtOnce(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.everyKind()
		c, seen := l.tallied()
		for _, try := range tries(c) { // knows the declarations
			x, err := try(t.Context())
			require.NoError(t, err)
			l.unlock(x)
		}
		l.goes()
		for _, passed := range []time.Duration{sixth, 3 * time.Second, 20 * time.Second} {
			time.Sleep(passed)
			_, _ = c.Mutex("/m").TryLock(t.Context()) // asks for a session, if there is none
			for name, try := range tries(c) {
				start := time.Now()
				_, err := try(context.Background())
				require.ErrorIs(t, err, recipes.ErrUnreachable, name)
				require.NotErrorIs(t, err, recipes.ErrHeld, name)
				require.NotErrorIs(t, err, context.Canceled, name)
				require.ErrorContains(t, err, "no connection for", name)
				require.True(t, recipes.Retryable(err), name)
				require.Zero(t, time.Since(start), name)
				require.Equal(t, "unreachable", recipes.ResultOf(err))
			}
		}
		l.srv.RefuseDials(false)
		time.Sleep(10 * time.Second)
		for name, try := range tries(c) {
			x, err := try(t.Context())
			require.NoError(t, err, name)
			l.unlock(x)
		}
		l.nothingLeft()
		seen.mu.Lock()
		defer seen.mu.Unlock()
		require.Empty(t, seen.wrong)
	})
}

func TestATryOutlivesAShortInterruptionAndNoLongerOne(t *testing.T) {
	// The client tries to connect at least every T/12.
	for _, lasts := range []time.Duration{sixth / 3, time.Minute} {
		for name := range tries(new(recipes.Client)) {
			t.Run(fmt.Sprintf("%s, %v", name, lasts), func(t *testing.T) {
				inLab(t, func(t *testing.T, l *lab) {
					l.everyKind()
					c := l.client("a")
					try := tries(c)[name]
					warm, err := try(t.Context())
					require.NoError(t, err)
					l.unlock(warm)
					l.goes()
					time.AfterFunc(lasts, func() { l.srv.RefuseDials(false) })
					time.Sleep(sixth / 4)
					start := time.Now()
					x, err := try(context.Background())
					if lasts < sixth {
						require.NoError(t, err)
						l.unlock(x)
						return
					}
					require.ErrorIs(t, err, recipes.ErrUnreachable)
					require.InDelta(t, sixth*3/4, time.Since(start), float64(oneWay), "the loss of the connection takes its time to arrive")
				})
			})
		}
	}
}

// What an attempt to connect has found is no reason to refuse a Try that comes when it is long over.
func TestATryAfterAnOutageThatAnotherHasMetWaitsForAConnection(t *testing.T) {
	for name := range tries(new(recipes.Client)) {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				l.everyKind()
				c := l.client("a", func(cfg *recipes.Config) { cfg.ConnectTimeout = sixth / 4 })
				try := tries(c)[name]
				l.goes()
				time.Sleep(time.Minute)
				for range 2 {
					start := time.Now()
					_, err := try(context.Background())
					require.ErrorIs(t, err, recipes.ErrUnreachable)
					require.Equal(t, sixth, time.Since(start), "of several attempts")
					time.Sleep(time.Minute)
				}
				time.AfterFunc(sixth/2, func() { l.srv.RefuseDials(false) })
				x, err := try(context.Background())
				require.NoError(t, err)
				l.unlock(x)
			})
		})
	}
}

func TestATryWhoseReplyIsLostInAnOutageAnswersSoonAndLeavesNothing(t *testing.T) {
	for name := range tries(new(recipes.Client)) {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				l.everyKind()
				c := l.client("a")
				try := tries(c)[name]
				warm, err := try(t.Context())
				require.NoError(t, err)
				l.unlock(warm)
				lost := l.srv.Inject(zktest.Once(zktest.On("create", "multi")), zktest.DropReply)
				go func() { <-lost.Hit(); l.srv.RefuseDials(true) }()
				start := time.Now()
				_, err = try(context.Background())
				require.ErrorIs(t, err, recipes.ErrUnreachable)
				require.LessOrEqual(t, time.Since(start), sixth+time.Second/4)
				l.srv.RefuseDials(false)
				time.Sleep(time.Minute)
				l.nothingLeft()
			})
		})
	}
}

func TestATryOfALockThatThisClientHoldsIsRefusedAsHeldInAnOutageToo(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex())
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		l.goes()
		for _, passed := range []time.Duration{0, sixth} {
			time.Sleep(passed)
			_, err = m.TryLock(context.Background())
			require.ErrorIs(t, err, recipes.ErrHeld)
			require.NotErrorIs(t, err, recipes.ErrUnreachable)
			require.ErrorContains(t, err, "is held by this client (a)")
			require.Equal(t, "held", recipes.ResultOf(err))
		}
		_ = x.Unlock(t.Context())
	})
}

func TestATryBehindAGoroutineThatCannotAskEitherIsNotRefusedAsHeld(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex())
		l.warm(m)
		l.goes()
		asking := l.locking(m)
		_, err := m.TryLock(context.Background())
		require.ErrorIs(t, err, recipes.ErrUnreachable)
		require.NotErrorIs(t, err, recipes.ErrHeld)
		require.ErrorContains(t, err, "asked for by this client (a)")
		require.True(t, recipes.Retryable(err))
		l.srv.RefuseDials(false)
		l.unlock((<-asking).v)
	})
}

func TestAClientWhoseSessionIsOverTriesAgainWhenItIsAsked(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) { // nothing was asked of it since, so it has not dialled
		c := l.client("a")
		l.warm(c.Mutex(l.mutex()))
		l.goes()
		time.Sleep(time.Minute)
		l.srv.RefuseDials(false)
		time.Sleep(time.Minute)
		x, err := c.Mutex("/m").TryLock(t.Context())
		require.NoError(t, err)
		l.unlock(x)
	})
}

func TestMaxWaitBoundsTheWaitAndNotTheWork(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.everyKind()
		c, rival := l.client("a"), l.client("rival")
		most := recipes.WithMaxWait(3 * time.Second)
		ways := map[string]func(context.Context, work) error{
			"mutex":   c.Mutex("/m", most).Do,
			"writer":  c.RWMutex("/rw", most).Do,
			"reader":  c.RWMutex("/rw", most).RDo,
			"permits": func(ctx context.Context, f work) error { return c.Semaphore("/s", most).Do(ctx, 1, f) },
			"leader":  c.Election("/e", most).Lead,
			"set":     c.MultiLock(c.Election("/e"), c.Mutex("/m", recipes.WithMaxWait(time.Hour)), c.RWMutex("/rw", most)).Do,
		}
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
		l.nothingLeft()
		_, err := c.Mutex("/m", recipes.WithMaxWait(-1)).Lock(t.Context())
		require.ErrorContains(t, err, "WithMaxWait(-1ns): the time must not be negative")
		_, err = c.Mutex("/m", recipes.WithMaxRelease(-1)).Lock(t.Context())
		require.ErrorContains(t, err, "WithMaxRelease(-1ns): the time must not be negative")
	})
}

func TestDoAndLeadReturnSoonAfterTheirContextInAnOutage(t *testing.T) {
	for name := range waysToDo(new(recipes.Client)) {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				l.everyKind()
				ctx, cancel := context.WithCancel(t.Context())
				var left time.Time
				err := waysToDo(l.client("a"))[name](ctx, func(ctx context.Context, _ *recipes.Lease) error {
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
		})
	}
}

func TestMaxReleaseBoundsTheRelease(t *testing.T) {
	for name := range waysToDo(new(recipes.Client)) {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				l.everyKind()
				c := l.client("a")
				for _, most := range []time.Duration{0, time.Second} {
					var left time.Time
					err := waysToDo(c, recipes.WithMaxRelease(most))[name](t.Context(), func(context.Context, *recipes.Lease) error {
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
					l.srv.RefuseDials(false)
					time.Sleep(time.Minute)
					l.nothingLeft()
				}
			})
		})
	}
}

func waysToDo(c *recipes.Client, opts ...recipes.Option) map[string]func(context.Context, work) error {
	return map[string]func(context.Context, work) error{
		"mutex":   c.Mutex("/m", opts...).Do,
		"writer":  c.RWMutex("/rw", opts...).Do,
		"reader":  c.RWMutex("/rw", opts...).RDo,
		"permits": func(ctx context.Context, f work) error { return c.Semaphore("/s", opts...).Do(ctx, 1, f) },
		"leader":  c.Election("/e", opts...).Lead,
		"set":     c.MultiLock(c.Election("/e"), c.RWMutex("/rw", opts...).Reader()).Do,
	}
}
