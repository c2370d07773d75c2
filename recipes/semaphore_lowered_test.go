package recipes_test

import (
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
	places := map[string]func(*lab, taking) (waiting <-chan result[*recipes.Lease], end func()){
		"at the front": func(l *lab, take taking) (<-chan result[*recipes.Lease], func()) {
			x := l.Lock(permits(l.Client("holder").Semaphore("/s"), 1))
			return l.Waiting(take), func() { l.Unlock(x) }
		},
		"behind another waiter": func(l *lab, take taking) (<-chan result[*recipes.Lease], func()) {
			x := l.Lock(permits(l.Client("holder").Semaphore("/s"), 3))
			next := l.drawing(l.Client("next"), 1)
			return l.Waiting(take), func() {
				l.Unlock(x)
				l.Unlock((<-next).V)
			}
		},
		"within the order": func(l *lab, take taking) (<-chan result[*recipes.Lease], func()) {
			x := l.Lock(permits(l.Client("holder").Semaphore("/s"), 1))
			w := l.Waiting(take)
			// Another client's direct permit, created an instant before the front takes its own.
			other := "/s/leases/_c_11111111-1111-4111-8111-111111111111-lease-0000000004"
			overtaken := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool {
				return r.Op == "multi" && len(l.Children("/s/locks")) == 1
			}), zktest.Hold)
			l.Unlock(x)
			<-overtaken.Hit()
			require.NoError(l.T, l.Srv.Create(other, nil))
			overtaken.Release()
			l.Settle()
			l.Empty("/s/locks")
			return w, func() { require.NoError(l.T, l.Srv.Delete(other)) }
		},
	}
	for where, bring := range places {
		runInLab(t, where, func(t *testing.T, l *lab) {
			l.Mutex()
			l.Semaphore(3)
			a := l.Client("a")
			l.Unlock(l.Lock(way(a)))
			l.Settle()
			w, end := bring(l, way(a))
			l.Settle()
			notYet(t, w, "not all three are free")
			l.Semaphore(2)
			select {
			case r := <-w:
				require.ErrorIs(t, r.Err, recipes.ErrTooManyPermits)
				require.ErrorContains(t, r.Err, "3 permits asked for, 2 are declared")
			case <-time.After(time.Second):
				require.Fail(t, "neither granted nor told")
			}
			end()
			b := l.drawing(l.Client("b"), 2)
			l.Settle()
			require.Len(t, b, 1, "something is left of the waiter")
			l.Unlock((<-b).V)
		})
	}
}

func TestALimitLoweredWhilePermitsAreCreatedDirectlyWasCalledHeld(t *testing.T) { // nobody holds any
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(3)
		a := l.Client("a")
		require.NoError(t, a.Semaphore("/s").Declared(t.Context()))
		late := l.Srv.Inject(zktest.Once(zktest.On("multi")), zktest.Hold)
		try := async(func() (*recipes.Lease, error) { return a.Semaphore("/s").TryAcquire(t.Context(), 3) })
		<-late.Hit()
		l.Semaphore(2)
		late.Release()
		require.ErrorContains(t, (<-try).Err, "3 permits asked for, 2 are declared")
		l.Settle()
		l.Empty("/s/leases")
	})
}
