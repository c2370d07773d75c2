package recipes_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// A node that goroutines of one client hand on to each other was watched by none that held it for less than 100 ms: one that was
// deleted, or asked back, was noticed by the next heartbeat, or never.

// handedOn has goroutines of one client hand one node on to each other, each of them sooner than a holder watches its node.
func (l *lab) handedOn(c *recipes.Client, m string) (node string, ended <-chan error) {
	l.t.Helper()
	done := make(chan error, 3)
	nodes := make(chan string, 1)
	for range 3 {
		go func() {
			for start := time.Now(); time.Since(start) < time.Minute; {
				x, err := c.Mutex(m, recipes.WithLocalHandoff(1000)).Lock(context.Background())
				if err != nil {
					done <- err
					return
				}
				select {
				case nodes <- x.Node():
				default:
				}
				select {
				case <-time.After(83 * time.Millisecond):
					_ = x.Unlock(context.Background())
				case <-x.Context().Done():
					done <- context.Cause(x.Context())
					_ = x.Unlock(context.Background())
					return
				}
			}
			done <- nil
		}()
	}
	node = <-nodes
	l.settle()
	return node, done
}

func TestARevocationOfANodeThatIsHandedOnQuicklyIsHeard(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		node, _ := l.handedOn(l.client("a"), m)
		require.NoError(t, l.srv.Set(node, []byte(kind.RevokeMessage)))
		w := l.locking(l.client("b").Mutex(m)) // behind it: the row ends, and it is b's turn
		time.Sleep(300 * time.Millisecond)
		require.NotContains(t, l.queue(m), node)
		l.unlock((<-w).v)
	})
}

func TestTheDeletionOfANodeThatIsHandedOnQuicklyIsHeard(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		node, ended := l.handedOn(l.client("a"), l.mutex())
		gone := time.Now()
		require.NoError(t, l.srv.Delete(node))
		require.ErrorIs(t, <-ended, recipes.ErrLost)
		require.Less(t, time.Since(gone), 300*time.Millisecond)
	})
}

// What hundreds of goroutines cost in requests: those of the rotations, which give other processes their turn.
func TestALockIsHandedOnWithoutARequestBetweenRotations(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		const goroutines, cycles, row = 200, 10, 100
		c := l.client("a")
		m := c.Mutex(l.mutex(), recipes.WithLocalHandoff(row))
		l.warm(m)
		x, err := m.Lock(t.Context()) // all others wait when it begins
		require.NoError(t, err)
		var inside, rows atomic.Int64
		var tokens sync.Map
		var all sync.WaitGroup
		for range goroutines {
			all.Go(func() {
				for range cycles {
					x, err := m.Lock(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					if inside.Add(1) != 1 {
						t.Error("two goroutines hold the lock")
					}
					if _, known := tokens.LoadOrStore(x.Token(), true); !known {
						rows.Add(1)
					}
					inside.Add(-1)
					if err := x.Unlock(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		l.settle()
		l.srv.ResetCounts()
		l.unlock(x)
		all.Wait()
		require.EqualValues(t, goroutines*cycles/(row+1)+1, rows.Load(), "a row has %d goroutines", row+1)
		counts := l.srv.Counts()
		sum := 0
		for _, n := range counts.ByOp {
			sum += n
		}
		// A rotation is a transaction, and the listing that travels with it; the last goroutine deletes the node.
		require.LessOrEqual(t, sum, 2*int(rows.Load())+1, "%v", counts.ByOp)
	})
}

func TestALeaseThatWasHandedOnHasEnded(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex(), recipes.WithLocalHandoff(10))
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		asked := x.Context()
		w := l.locking(m)
		l.unlock(x)
		next := (<-w).v
		require.True(t, next.With(x))
		require.ErrorIs(t, context.Cause(asked), recipes.ErrReleased)
		require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrReleased)
		require.ErrorIs(t, x.Verify(t.Context()), recipes.ErrReleased)
		_, err = x.Multi(t.Context(), &zk.SetDataRequest{Path: "/m", Version: -1})
		require.ErrorIs(t, err, recipes.ErrReleased)
		require.NoError(t, next.Context().Err())
		require.NoError(t, x.Unlock(t.Context()), "again")
		require.NoError(t, next.Verify(t.Context()), "which is not the other's")
		l.unlock(next)
		l.noneLeft(m)
	})
}

// One that is asked for when it has ended knows why.
func TestALeasesContextThatIsAskedForLateKnowsTheEnd(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex())
		released, err := m.Lock(t.Context())
		require.NoError(t, err)
		l.unlock(released)
		require.ErrorIs(t, context.Cause(released.Context()), recipes.ErrReleased)
		lost, err := m.Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, l.srv.Delete(lost.Node()))
		l.settle()
		require.ErrorIs(t, lost.Unlock(t.Context()), recipes.ErrLost)
		require.ErrorIs(t, context.Cause(lost.Context()), recipes.ErrLost)
	})
}

func TestADrainedLockIsNotHandedOn(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex(), recipes.WithLocalHandoff(10))
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		w := l.locking(m)
		l.declare("/m", kind.Mutex.New(), draining)
		l.settle()
		l.unlock(x)
		require.ErrorIs(t, (<-w).err, recipes.ErrDraining)
		l.noneLeft(m)
	})
}

// A caller that gives up at the moment at which the lock is handed on to it is told so, as ever, and does not keep it.
func TestALockIsNotHandedOnToACallerThatHasLeft(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex(), recipes.WithLocalHandoff(10))
		for range 50 {
			x, err := m.Lock(t.Context())
			require.NoError(t, err)
			ctx, leave := context.WithCancel(t.Context())
			left := async(func() (*recipes.Lease, error) { return m.Lock(ctx) })
			synctest.Wait()
			next := async(func() (*recipes.Lease, error) { return m.Lock(t.Context()) })
			synctest.Wait()
			leave()
			l.unlock(x)
			require.ErrorIs(t, (<-left).err, context.Canceled)
			l.unlock((<-next).v)
		}
		l.noneLeft(m)
	})
}

// What was asked back is not handed on, also if the next goroutine waited all along.
func TestALockThatIsAskedBackIsNotHandedOn(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex(), recipes.WithLocalHandoff(10))
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		w := l.locking(m)
		rival := l.locking(l.client("b").Mutex("/m"))
		require.NoError(t, l.client("c").Revoke(t.Context(), x.Node()))
		l.settle()
		require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrRevoked)
		l.unlock(x)
		first := (<-rival).v
		notYet(t, w, "it was asked back for others")
		l.unlock(first)
		l.unlock((<-w).v)
		l.noneLeft(m)
	})
}

// noneLeft waits a little, and requires that nothing of the lock is left, there or here.
func (l *lab) noneLeft(m *recipes.Mutex) {
	l.t.Helper()
	l.settle()
	require.Empty(l.t, l.children(m.Path()))
	require.Empty(l.t, m.Client().Leftovers())
}
