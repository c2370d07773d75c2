package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// A limit was lowered below what a waiter wants, and never raised again. A waiter whose permits stood in the order beyond
// the new limit was neither granted nor told, and they kept everybody else out.
func TestAWaiterThatWantsMoreThanALoweredLimitIsRefused(t *testing.T) {
	way := draws(3)
	// Each brings a waiter for 3 of 3 to some place, and returns how to end what keeps it there.
	places := map[string]func(*lab, func(context.Context) (*recipes.Lease, error)) (waiting <-chan result[*recipes.Lease], end func()){
		"at the front": func(l *lab, take func(context.Context) (*recipes.Lease, error)) (<-chan result[*recipes.Lease], func()) {
			x, err := l.client("holder").Semaphore("/s").Acquire(l.t.Context(), 1)
			require.NoError(l.t, err)
			return l.locker(take), func() { l.unlock(x) }
		},
		"behind another waiter": func(l *lab, take func(context.Context) (*recipes.Lease, error)) (<-chan result[*recipes.Lease], func()) {
			x, err := l.client("holder").Semaphore("/s").Acquire(l.t.Context(), 3)
			require.NoError(l.t, err)
			next := l.drawing(l.client("next"), 1)
			return l.locker(take), func() {
				l.unlock(x)
				l.unlock((<-next).v)
			}
		},
		"within the order": func(l *lab, take func(context.Context) (*recipes.Lease, error)) (<-chan result[*recipes.Lease], func()) {
			x, err := l.client("holder").Semaphore("/s").Acquire(l.t.Context(), 1)
			require.NoError(l.t, err)
			w := l.locker(take)
			// Another client's direct permit, created an instant before the front takes its own.
			other := "/s/leases/_c_11111111-1111-4111-8111-111111111111-lease-0000000004"
			overtaken := l.srv.Inject(zktest.Once(func(r zktest.Request) bool {
				return r.Op == "multi" && len(l.children("/s/locks")) == 1
			}), zktest.Hold)
			l.unlock(x)
			<-overtaken.Hit()
			require.NoError(l.t, l.srv.Create(other, nil))
			overtaken.Release()
			l.settle()
			require.Empty(l.t, l.children("/s/locks"))
			return w, func() { require.NoError(l.t, l.srv.Delete(other)) }
		},
	}
	for where, bring := range places {
		t.Run(where, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				l.mutex()
				l.semaphore(3)
				a := l.client("a")
				warm, err := way(a)(t.Context())
				require.NoError(t, err)
				l.unlock(warm)
				l.settle()
				w, end := bring(l, way(a))
				l.settle()
				notYet(t, w, "not all three are free")
				l.semaphore(2)
				select {
				case r := <-w:
					require.ErrorIs(t, r.err, recipes.ErrTooManyPermits)
					require.ErrorContains(t, r.err, "3 permits asked for, 2 are declared")
				case <-time.After(time.Second):
					require.Fail(t, "neither granted nor told")
				}
				end()
				b := l.drawing(l.client("b"), 2)
				l.settle()
				require.Len(t, b, 1, "something is left of the waiter")
				l.unlock((<-b).v)
			})
		})
	}
}

func TestALimitLoweredWhilePermitsAreCreatedDirectlyWasCalledHeld(t *testing.T) { // nobody holds any
	inLab(t, func(t *testing.T, l *lab) {
		l.semaphore(3)
		a := l.client("a")
		err := a.Semaphore("/s").Declared(t.Context())
		require.NoError(t, err)
		late := l.srv.Inject(zktest.Once(zktest.On("multi")), zktest.Hold)
		try := async(func() (*recipes.Lease, error) { return a.Semaphore("/s").TryAcquire(t.Context(), 3) })
		<-late.Hit()
		l.semaphore(2)
		late.Release()
		require.ErrorContains(t, (<-try).err, "3 permits asked for, 2 are declared")
		l.settle()
		require.Empty(t, l.children("/s/leases"))
	})
}
