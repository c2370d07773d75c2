package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// drawing starts an Acquire and waits until it queues.
func (l *lab) drawing(c *recipes.Client, n int) <-chan result[*recipes.Lease] {
	return l.Waiting(permits(c.Semaphore("/s"), n))
}

func TestTwoClientsWantingAllPermitsDoNotBlockEachOther(t *testing.T) { // case 46: Curator V2 deadlocks 10 of 10
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(2)
		a, b := l.Client("a"), l.Client("b")
		for range 5 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			done := make(chan error, 2)
			for _, c := range []*recipes.Client{a, b} {
				go func() {
					done <- c.Semaphore("/s").Do(ctx, 2, func(context.Context, *recipes.Lease) error { time.Sleep(time.Second); return nil })
				}()
			}
			require.NoError(t, <-done)
			require.NoError(t, <-done)
			cancel()
		}
		l.Settle()
		l.Empty("/s/leases")
	})
}

func TestTheLimitIsFollowedLive(t *testing.T) { // case 48: raised 1 to 3 with waiters, lowered 3 to 1
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(1)
		first := l.Lock(draws(1)(l.Client("0")))
		w1, w2, w3 := l.drawing(l.Client("1"), 1), l.drawing(l.Client("2"), 1), l.drawing(l.Client("3"), 1)
		l.Semaphore(3)
		second, third := <-w1, <-w2
		require.NoError(t, second.Err)
		require.NoError(t, third.Err)
		l.Settle()
		notYet(t, w3, "a fourth of three")
		l.Semaphore(1)
		l.Unlock(first)
		l.Unlock(second.V)
		l.Settle()
		notYet(t, w3, "admitted above the lowered limit")
		require.NoError(t, third.V.Context().Err(), "lowering interrupted a holder")
		l.Unlock(third.V)
		fourth := l.Granted(w3)
		l.Unlock(fourth.V)
	})
}

func TestAWaiterForManyIsNotOvertakenByOneForFew(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(3)
		x := l.Lock(draws(2)(l.Client("0")))
		many := l.drawing(l.Client("many"), 3)
		few := l.drawing(l.Client("few"), 1)
		notYet(t, many, "three of three while two are taken")
		notYet(t, few, "one permit is free, but others came first")
		_, err := l.Client("try").Semaphore("/s").TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, recipes.ErrHeld)
		l.Unlock(x)
		l.Unlock(l.Got(many))
		require.NoError(t, (<-few).Err)
	})
}

func TestGoroutinesOfOneClientKeepOnePlaceInTheQueue(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(1)
		c := l.Client("a")
		x := l.Lock(draws(1)(c))
		var ws []<-chan result[*recipes.Lease]
		for range 20 {
			ws = append(ws, l.drawing(c, 1))
		}
		require.Len(t, l.Children("/s/locks"), 1)
		for _, w := range ws {
			l.Unlock(x)
			x = l.Got(w)
		}
		l.Unlock(x)
	})
}

func TestPermitsThatCannotBeAreRefusedAtOnce(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Semaphore(l.Semaphore(2))
		_, err := m.Acquire(t.Context(), 3)
		require.ErrorIs(t, err, recipes.ErrTooManyPermits)
		require.ErrorContains(t, err, "3 permits asked for, 2 are declared")
		_, err = m.Acquire(t.Context(), 0)
		require.ErrorContains(t, err, "at least 1")
		l.Empty("/s/leases")
	})
}

func TestARowOfCuratorsPermitsIsCounted(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(2)
		one := l.Foreign("/s/leases", "_c_2f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-lease-0000000000", "10.0.0.1")
		l.Foreign("/s/leases", "_c_3f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-lease-0000000001", "10.0.0.2")
		l.Foreign("/s/leases", "readme", "junk is not counted")
		require.NoError(t, l.Srv.SetCreateCount("/s/leases", 3))
		w := l.drawing(l.Client("a"), 1)
		notYet(t, w, "a third of two")
		require.NoError(t, l.Srv.Delete(one))
		require.NoError(t, (<-w).Err)
	})
}

func TestALimitLoweredWhileAPermitIsTakenIsObeyed(t *testing.T) { // case 48: the listing was of the old limit, the write is not
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(3)
		var held []*recipes.Lease
		for range 3 {
			held = append(held, l.Lock(draws(1)(l.Client("holder"))))
		}
		w := l.drawing(l.Client("w"), 1)
		taking := l.Srv.Inject(zktest.Once(zktest.On("multi")), zktest.Hold)
		l.Unlock(held[0])
		<-taking.Hit()
		l.Semaphore(2)
		taking.Release()
		l.Settle()
		notYet(t, w, "a third permit under a limit of two")
		require.Len(t, l.Children("/s/leases"), 2)
		l.Semaphore(3)
		require.NoError(t, (<-w).Err)
	})
}

func TestAPermitTakenFromTheQueueCountsThoseCreatedDirectlyMeanwhile(t *testing.T) {
	// A direct create, then the front's transaction, which gives its place up, then the direct one's listing: each
	// alone sees nothing wrong. Only the order of the permits does.
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(3)
		x := l.Lock(draws(3)(l.Client("0")))
		front, direct := l.Client("front"), l.Client("direct")
		sessionOf := map[string]int64{"front": l.SessionID(front), "direct": l.SessionID(direct)}
		err := direct.Semaphore("/s").Declared(t.Context()) // knows the declaration from here on
		require.NoError(t, err)
		w := l.drawing(front, 3)
		taking := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "multi" && r.Session == sessionOf["front"] }), zktest.Hold)
		l.Unlock(x)
		<-taking.Hit()
		looking := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "getChildren2" && r.Session == sessionOf["direct"] }), zktest.Hold)
		try := async(func() (*recipes.Lease, error) { return direct.Semaphore("/s").TryAcquire(context.Background(), 2) })
		<-looking.Hit()
		l.Settle()
		taking.Release()
		l.Settle()
		looking.Release()
		got := l.Granted(try) // its permits are the oldest and nobody is seen to wait
		l.Settle()
		notYet(t, w, "five permits of three")
		l.Unlock(got.V)
		l.Unlock(l.Got(w))
		l.Empty("/s/leases")
	})
}

func TestAWaitForTakenPermitsThatEndsWithdrawsThem(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(2)
		x := l.Lock(draws(2)(l.Client("0")))
		front := l.Client("front")
		ctx := l.Within(time.Minute)
		w := l.Waiting(func(context.Context) (*recipes.Lease, error) { return front.Semaphore("/s").Acquire(ctx, 2) })
		taking := l.Srv.Inject(zktest.Once(l.By(front, "multi")), zktest.Hold)
		l.Unlock(x)
		<-taking.Hit()
		other := l.Foreign("/s/leases", "_c_2f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-lease-0000000002", "")
		require.NoError(t, l.Srv.SetCreateCount("/s/leases", 9))
		taking.Release()
		l.Settle()
		require.Len(t, l.Children("/s/leases"), 3)
		next := l.drawing(front, 1) // must not inherit a permit as a place in the queue
		require.ErrorIs(t, (<-w).Err, context.DeadlineExceeded)
		r := l.Got(next)
		l.Settle()
		require.Len(t, l.Children("/s/leases"), 2)
		l.Unlock(r)
		require.NoError(t, l.Srv.Delete(other))
		l.Empty("/s/leases")
	})
}
