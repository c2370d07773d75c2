package recipes_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// nested takes a lock, and then another one with the context of the first lease.
func (l *lab) nested(first, second taking) (outer *recipes.Lease, inner <-chan result[*recipes.Lease]) {
	l.t.Helper()
	x, err := first(l.t.Context())
	require.NoError(l.t, err)
	return x, async(func() (*recipes.Lease, error) { return second(x.Context()) })
}

func TestTwoClientsThatLockInOppositeOrderAreADeadlockOfWhichOneIsTheVictim(t *testing.T) {
	for name, programs := range map[string]int{"one client": 1, "two clients": 2} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				paths := l.mutexes(2)
				a := l.client("A")
				b := a
				if programs == 2 {
					b = l.client("B")
				}
				xa, err := a.Mutex(paths[0]).Lock(t.Context())
				require.NoError(t, err)
				xb, wb := l.nested(b.Mutex(paths[1]).Lock, b.Mutex(paths[0]).Lock)
				l.settle()
				start := time.Now()
				_, err = a.Mutex(paths[1]).Lock(xa.Context())
				require.ErrorIs(t, err, recipes.ErrDeadlock)
				require.NotErrorIs(t, err, context.Canceled)
				require.False(t, recipes.Retryable(err))
				require.Less(t, time.Since(start), 2*time.Second)
				var d *recipes.DeadlockError
				require.ErrorAs(t, err, &d)
				require.Len(t, d.Circle, 2)
				t.Log(err, time.Since(start))
				notYet(t, wb, "the other goes on waiting")
				require.NoError(t, xa.Context().Err(), "its lease is untouched")
				l.unlock(xa)
				l.unlock((<-wb).v)
				l.unlock(xb)
			})
		})
	}
}

func TestAWaitCostsMoreOnlyIfItsCallerHoldsSomethingAndAfterASecond(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		paths := l.mutexes(2)
		a, b := l.client("A"), l.client("B")
		xb, err := b.Mutex(paths[1]).Lock(t.Context())
		require.NoError(t, err)
		xa, err := a.Mutex(paths[0]).Lock(t.Context())
		require.NoError(t, err)
		wait := func(ctx context.Context, d time.Duration, opts ...recipes.Option) string {
			l.settle()
			l.srv.ResetCounts()
			ctx, cancel := context.WithTimeout(ctx, d)
			defer cancel()
			_, err := a.Mutex(paths[1], opts...).Lock(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			l.settle()
			by := l.srv.Counts().ByOp
			delete(by, "multi") // heartbeats
			return operations(by)
		}
		_ = wait(t.Context(), time.Second) // reads the declaration
		for _, d := range []time.Duration{950 * time.Millisecond, 5 * time.Second} {
			require.Equal(t, "create delete getChildren2 2getData", wait(t.Context(), d), "no lease")
			require.Equal(t, "create delete getChildren2 2getData", wait(recipes.Detach(xa.Context()), d), "not that goroutine's")
			require.Equal(t, "create delete getChildren2 2getData", wait(xa.Context(), d, recipes.WithoutDeadlockDetection()))
		}
		require.Equal(t, "create delete getChildren2 2getData", wait(xa.Context(), 950*time.Millisecond))
		// It is said once, and both locks are looked at four times: their declarations, queues and contenders.
		require.Equal(t, "create delete 9getChildren2 24getData setData", wait(xa.Context(), 5*time.Second))
		l.unlock(xa)
		l.unlock(xb)
	})
}

// circle has two goroutines of two programs, each of which holds a lock, wait for the other's, and returns what becomes of them.
type circle struct {
	hold  [2]taking
	wait  [2]taking
	after func(x [2]*recipes.Lease) // both wait
}

func (l *lab) close(c circle) (errs [2]error) {
	l.t.Helper()
	var x [2]*recipes.Lease
	var ends [2]<-chan result[*recipes.Lease]
	for i, hold := range c.hold {
		var err error
		x[i], err = hold(l.t.Context())
		require.NoError(l.t, err)
	}
	for i, wait := range c.wait {
		ends[i] = async(func() (*recipes.Lease, error) {
			ctx, cancel := context.WithTimeout(x[i].Context(), 20*time.Second)
			defer cancel()
			inner, err := wait(ctx)
			if err == nil {
				err = inner.Unlock(l.t.Context())
			}
			_ = x[i].Unlock(l.t.Context())
			return nil, err
		})
		l.settle()
	}
	if c.after != nil {
		c.after(x)
	}
	for i := range ends {
		errs[i] = (<-ends[i]).err
	}
	return errs
}

// What is a deadlock to whom. Programs A and B are different ones, or one where both are A's.
func TestWhichCirclesEnd(t *testing.T) {
	const neither = -1
	for name, c := range map[string]struct {
		one    bool // both are of one program, with a client each
		circle func(l *lab, a, b *recipes.Client) circle
		ends   int // the wait that does
	}{
		"the younger place": {false, func(_ *lab, a, b *recipes.Client) circle {
			return circle{hold: [2]taking{a.Mutex("/m0").Lock, b.Mutex("/m1").Lock}, wait: [2]taking{a.Mutex("/m1").Lock, b.Mutex("/m0").Lock}}
		}, 1},
		"not where one is switched off": {false, func(_ *lab, a, b *recipes.Client) circle {
			return circle{hold: [2]taking{a.Mutex("/m0").Lock, b.Mutex("/m1").Lock},
				wait: [2]taking{a.Mutex("/m1", recipes.WithoutDeadlockDetection()).Lock, b.Mutex("/m0").Lock}}
		}, neither},
		"one of several readers": {false, func(l *lab, a, b *recipes.Client) circle {
			x, err := l.client("reader").RWMutex("/rw").RLock(l.t.Context())
			require.NoError(l.t, err)
			l.t.Cleanup(func() { _ = x.Unlock(context.Background()) })
			return circle{hold: [2]taking{a.RWMutex("/rw").RLock, b.Mutex("/m1").Lock}, wait: [2]taking{a.Mutex("/m1").Lock, b.RWMutex("/rw").Lock},
				after: func([2]*recipes.Lease) { time.Sleep(2 * time.Second); l.unlock(x) }}
		}, 1},
		"not if another has a permit": {false, func(l *lab, a, b *recipes.Client) circle {
			x, err := l.client("holder").Semaphore("/s").Acquire(l.t.Context(), 1)
			require.NoError(l.t, err)
			return circle{hold: [2]taking{draws(1)(a), b.Mutex("/m1").Lock}, wait: [2]taking{a.Mutex("/m1").Lock, draws(1)(b)},
				after: func([2]*recipes.Lease) { time.Sleep(10 * time.Second); l.unlock(x) }}
		}, neither},
		"all permits": {false, func(l *lab, a, b *recipes.Client) circle {
			return circle{hold: [2]taking{draws(2)(a), b.Mutex("/m1").Lock}, wait: [2]taking{a.Mutex("/m1").Lock, draws(1)(b)}}
		}, 1},
		"an election, in one program": {true, func(_ *lab, a, b *recipes.Client) circle {
			return circle{hold: [2]taking{a.Election("/e").Campaign, b.Mutex("/m1").Lock}, wait: [2]taking{a.Mutex("/m1").Lock, b.Election("/e").Campaign}}
		}, 1},
		"not an election, between two": {false, func(_ *lab, a, b *recipes.Client) circle {
			return circle{hold: [2]taking{a.Election("/e").Campaign, b.Mutex("/m1").Lock}, wait: [2]taking{a.Mutex("/m1").Lock, b.Election("/e").Campaign}}
		}, neither},
		"kazoo's names, in one program": {true, func(_ *lab, a, b *recipes.Client) circle {
			return circle{hold: [2]taking{a.Mutex("/k").Lock, b.Mutex("/m1").Lock}, wait: [2]taking{a.Mutex("/m1").Lock, b.Mutex("/k").Lock}}
		}, 1},
		"not kazoo's names, between two": {false, func(_ *lab, a, b *recipes.Client) circle {
			return circle{hold: [2]taking{a.Mutex("/k").Lock, b.Mutex("/m1").Lock}, wait: [2]taking{a.Mutex("/m1").Lock, b.Mutex("/k").Lock}}
		}, neither},
		"not if one is asked back": {false, func(l *lab, a, b *recipes.Client) circle {
			return circle{hold: [2]taking{a.Mutex("/m0").Lock, b.Mutex("/m1").Lock}, wait: [2]taking{a.Mutex("/m1").Lock, b.Mutex("/m0").Lock},
				after: func(x [2]*recipes.Lease) { require.NoError(l.t, a.Revoke(l.t.Context(), x[0].Node())) }}
		}, neither},
		"a set": {false, func(l *lab, a, b *recipes.Client) circle {
			return circle{hold: [2]taking{multi(a, "/m0", "/m2").Lock, b.Mutex("/m1").Lock}, wait: [2]taking{a.Mutex("/m1").Lock, b.Mutex("/m2").Lock}}
		}, 1},
		"through a set that holds nothing yet": {false, func(l *lab, a, b *recipes.Client) circle {
			// The set of C is the first in /m0, and waits for /m1.
			return circle{hold: [2]taking{a.Mutex("/m2").Lock, b.Mutex("/m1").Lock}, wait: [2]taking{
				func(ctx context.Context) (*recipes.Lease, error) {
					go func() {
						if x, err := multi(a, "/m0", "/m1").Lock(l.t.Context()); err == nil {
							_ = x.Unlock(context.Background())
						}
					}()
					time.Sleep(200 * time.Millisecond)
					return a.Mutex("/m1").Lock(ctx)
				}, b.Mutex("/m0").Lock}}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				l.mutexes(3)
				l.declare("/rw", kind.RWLock.New())
				l.declare("/s", &kind.SemaphoreParams{Permits: 2})
				l.declare("/e", kind.Election.New())
				l.declare("/k", &kind.MutexParams{Common: kind.Common{Wire: kind.WireKazoo}})
				a, b := l.client("A"), l.client("B")
				if !c.one {
					recipes.Programs(a, b)
				}
				errs := l.close(c.circle(l, a, b))
				for i, err := range errs {
					require.Equal(t, i == c.ends, errors.Is(err, recipes.ErrDeadlock), "%d: %v", i, err)
				}
			})
		})
	}
}

func TestADeadlockNamesEverybody(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.mutexes(2)
		a, b := l.client("A"), l.client("B")
		recipes.Programs(a, b)
		errs := l.close(circle{hold: [2]taking{a.Mutex("/m0").Lock, b.Mutex("/m1").Lock}, wait: [2]taking{a.Mutex("/m1").Lock, b.Mutex("/m0").Lock}})
		require.NoError(t, errs[0])
		require.EqualError(t, errs[1], "recipes: deadlock: B holds /m1 (since 00:00:00.280Z) and waits for /m0 (since 00:00:00.760Z); "+
			"A holds /m0 (since 00:00:00.200Z) and waits for /m1 (since 00:00:00.360Z); "+
			"the first wait was ended: give back what its caller holds, and take all again, or together with a MultiLock")
	})
}

// A client of Curator's does not say for what it waits: the queue of the lock that ours holds shows it. It never is the victim.
func TestACircleThroughCuratorEndsOurWait(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		paths := l.mutexes(2)
		b, java := l.client("B"), l.guest("10.0.0.7")
		_, err := java.queue(t.Context(), paths[0], "-lock-")
		require.NoError(t, err)
		xb, wb := l.nested(b.Mutex(paths[1]).Lock, b.Mutex(paths[0]).Lock)
		time.Sleep(20 * time.Second)
		notYet(t, wb, "Curator's does not wait yet")
		closed := time.Now()
		_, err = java.queue(t.Context(), paths[1], "-lock-")
		require.NoError(t, err)
		r := <-wb
		require.ErrorIs(t, r.err, recipes.ErrDeadlock)
		require.ErrorContains(t, r.err, "10.0.0.7 holds /m0")
		require.GreaterOrEqual(t, r.at.Sub(closed), time.Second, "its wait has lasted for a second")
		require.Less(t, r.at.Sub(closed), 14*time.Second, "it was found at the next look, within a session timeout, and then seen for a second")
		l.unlock(xb)
	})
}

// Only who holds what Curator's client waits for sees that it does. The others of ours may wait for less long, and cannot end the circle.
func TestACircleThroughCuratorEndsTheWaitThatSeesIt(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		paths := l.mutexes(3)
		a, b, java := l.client("A"), l.client("B"), l.guest("java")
		recipes.Programs(a, b)
		_, err := java.first(t.Context(), paths[2], "-lock-")
		require.NoError(t, err)
		xb, err := b.Mutex(paths[1]).Lock(t.Context())
		require.NoError(t, err)
		xa, wa := l.nested(a.Mutex(paths[0]).Lock, a.Mutex(paths[1]).Lock)
		l.settle()
		_, err = java.queue(t.Context(), paths[0], "-lock-")
		require.NoError(t, err)
		wb := async(func() (*recipes.Lease, error) { return b.Mutex(paths[2]).Lock(xb.Context()) })
		select {
		case r := <-wa:
			require.ErrorIs(t, r.err, recipes.ErrDeadlock)
			var d *recipes.DeadlockError
			require.ErrorAs(t, r.err, &d)
			require.Len(t, d.Circle, 3)
		case <-time.After(time.Minute):
			require.Fail(t, "the circle lasts")
		}
		notYet(t, wb, "its lock is Curator's")
		l.unlock(xa)
		require.NoError(t, java.s.Delete(t.Context(), l.queue(paths[2])[0], -1))
		l.unlock((<-wb).v)
		l.unlock(xb)
	})
}

// A place that tells of a wait is not handed on to another goroutine, of whom that would be said then.
func TestAPlaceThatTellsOfAWaitIsNotHandedOn(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		paths := l.mutexes(2)
		a, b := l.client("A"), l.client("B")
		recipes.Programs(a, b)
		xb, err := b.Mutex(paths[1]).Lock(t.Context())
		require.NoError(t, err)
		m := a.Mutex(paths[0], recipes.WithLocalHandoff(10))
		xa, wa := l.nested(m.Lock, a.Mutex(paths[1]).Lock)
		next := l.locking(m)
		time.Sleep(2 * time.Second)
		said := l.said(xa)
		require.Len(t, said, 1)
		require.Equal(t, paths[1], said[0].Lock)
		l.unlock(xa) // by another goroutine: the wait goes on, and ends with the context
		x := (<-next).v
		require.NotEqual(t, xa.Node(), x.Node())
		require.Empty(t, l.said(x))
		require.ErrorIs(t, (<-wa).err, recipes.ErrReleased)
		l.unlock(x)
		l.unlock(xb)
	})
}

// Of a place that readers share, what one of them waits for is said no longer than it has its lease.
func TestASharedPlaceTellsOnlyOfWaitsOfItsReaders(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.declare("/rw", kind.RWLock.New())
		m := l.mutex()
		a, b := l.client("A"), l.client("B")
		xb, err := b.Mutex(m).Lock(t.Context())
		require.NoError(t, err)
		first, wa := l.nested(a.RWMutex("/rw").RLock, func(ctx context.Context) (*recipes.Lease, error) {
			return a.Mutex(m).Lock(context.WithoutCancel(ctx)) // it outlasts its lease
		})
		second, err := a.RWMutex("/rw").RLock(t.Context())
		require.NoError(t, err)
		require.Equal(t, first.Node(), second.Node())
		time.Sleep(2 * time.Second)
		require.Len(t, l.said(second), 1)
		l.unlock(first)
		l.settle()
		require.Empty(t, l.said(second))
		l.unlock(xb)
		l.unlock((<-wa).v)
		l.unlock(second)
	})
}

// waitsBehind has a goroutine that holds xa wait for three seconds behind another one of its client, which holds xb.
func (l *lab) waitsBehind() (xa, xb *recipes.Lease, wait <-chan result[*recipes.Lease]) {
	l.t.Helper()
	paths, a := l.mutexes(2), l.client("A")
	xb, err := a.Mutex(paths[1]).Lock(l.t.Context())
	require.NoError(l.t, err)
	xa, err = a.Mutex(paths[0]).Lock(l.t.Context())
	require.NoError(l.t, err)
	ctx, cancel := context.WithTimeout(xa.Context(), 3*time.Second)
	return xa, xb, async(func() (*recipes.Lease, error) {
		defer cancel()
		return a.Mutex(paths[1]).Lock(ctx)
	})
}

// A goroutine that waits behind another one of its client tells of that one's place, and takes it back when its own wait is over.
func TestWhatIsSaidOfAnothersPlaceIsTakenBack(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		xa, xb, wa := l.waitsBehind()
		time.Sleep(2 * time.Second)
		require.Equal(t, []kind.Wait{{Lock: xb.Path(), Node: xb.Node(), Token: xb.Token(), Behind: true}}, l.said(xa))
		require.ErrorIs(t, (<-wa).err, context.DeadlineExceeded)
		require.Empty(t, l.said(xa))
		l.unlock(xa)
		l.unlock(xb)
	})
}

// While the servers are away for longer than the call waits, it is taken back when they are there again.
func TestWhatIsSaidOfAnothersPlaceIsTakenBackBehindAnOutage(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		xa, xb, wa := l.waitsBehind()
		time.Sleep(2 * time.Second)
		l.goes()
		require.Len(t, l.said(xa), 1)
		require.ErrorIs(t, (<-wa).err, context.DeadlineExceeded)
		time.Sleep(time.Second)
		require.Len(t, l.said(xa), 1)
		l.srv.RefuseDials(false)
		time.Sleep(3 * time.Second)
		require.Empty(t, l.said(xa))
		l.unlock(xa)
		l.unlock(xb)
	})
}

// said is what the node of a lease says of waits.
func (l *lab) said(x *recipes.Lease) []kind.Wait {
	l.t.Helper()
	n, ok := l.srv.Get(x.Node())
	require.True(l.t, ok)
	h, ok := kind.ParseHolder(n.Data)
	require.True(l.t, ok)
	return h.Waits
}

// A wait of which a node tells leaves no place to another goroutine: the node would go on telling of it.
func TestThePlaceOfAWaitThatIsToldOfIsNotInherited(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		paths := l.mutexes(2)
		a, b := l.client("A"), l.client("B")
		xb, err := b.Mutex(paths[1]).Lock(t.Context())
		require.NoError(t, err)
		xa, err := a.Mutex(paths[0]).Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(xa.Context(), 3*time.Second)
		defer cancel()
		wa := async(func() (*recipes.Lease, error) { return a.Mutex(paths[1]).Lock(ctx) })
		l.settle()
		next := l.locking(a.Mutex(paths[1]))
		time.Sleep(time.Second)
		told := l.said(xa)
		require.Len(t, told, 1)
		require.ErrorIs(t, (<-wa).err, context.DeadlineExceeded)
		l.settle()
		require.NotContains(t, l.queue(paths[1]), told[0].Node)
		require.Len(t, l.queue(paths[1]), 2)
		l.unlock(xb)
		l.unlock((<-next).v)
		l.unlock(xa)
	})
}

// A call of the circle gives up at any moment before the other one ends. That one must not end when the circle has.
func TestACircleThatHasEndedHasNoVictim(t *testing.T) {
	ended := 0
	for after := 1000 * time.Millisecond; after < 2200*time.Millisecond; after += oneWay {
		inLab(t, func(t *testing.T, l *lab) {
			l.mutexes(2)
			a, b := l.client("A"), l.client("B")
			recipes.Programs(a, b)
			xa, err := a.Mutex("/m0").Lock(t.Context())
			require.NoError(t, err)
			xb, err := b.Mutex("/m1").Lock(t.Context())
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(xa.Context(), after)
			defer cancel()
			wa := async(func() (*recipes.Lease, error) { return a.Mutex("/m1").Lock(ctx) })
			l.settle()
			wb := async(func() (*recipes.Lease, error) { return b.Mutex("/m0").Lock(xb.Context()) })
			ra := <-wa
			if ra.err == nil { // the other one was the victim, and gives back what it has
				l.unlock(ra.v)
			}
			gone := time.Now()
			time.Sleep(time.Second)
			if errors.Is(ra.err, context.DeadlineExceeded) {
				select {
				case rb := <-wb:
					require.ErrorIs(t, rb.err, recipes.ErrDeadlock)
					require.LessOrEqual(t, rb.at.Sub(gone), 4*oneWay, "%v: it knew", after)
					ended++
				default:
				}
			}
			l.unlock(xa)
			if rb, ok := first(wb); ok && rb.err == nil {
				l.unlock(rb.v)
			}
			l.unlock(xb)
		})
	}
	t.Log(ended)
}

func first[T any](ch <-chan result[T]) (r result[T], ok bool) {
	select {
	case r = <-ch:
		return r, true
	case <-time.After(time.Second):
		return r, false
	}
}
