package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

func (l *lab) semaphore(permits int) string {
	p := kind.Semaphore.New().(*kind.SemaphoreParams)
	p.Permits = permits
	l.declare("/s", p)
	return "/s"
}

// drawing starts an Acquire and waits until it queues.
func (l *lab) drawing(c *recipes.Client, n int) <-chan result[*recipes.Lease] {
	return l.locker(func(ctx context.Context) (*recipes.Lease, error) { return c.Semaphore("/s").Acquire(ctx, n) })
}

func TestTwoClientsWantingAllPermitsDoNotBlockEachOther(t *testing.T) { // case 46: Curator V2 deadlocks 10 of 10
	inLab(t, func(t *testing.T, l *lab) {
		l.semaphore(2)
		a, b := l.client("a"), l.client("b")
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
		l.settle()
		require.Empty(t, l.children("/s/leases"))
	})
}

func TestTheLimitIsFollowedLive(t *testing.T) { // case 48: raised 1 to 3 with waiters, lowered 3 to 1
	inLab(t, func(t *testing.T, l *lab) {
		l.semaphore(1)
		first, err := l.client("0").Semaphore("/s").Acquire(t.Context(), 1)
		require.NoError(t, err)
		w1, w2, w3 := l.drawing(l.client("1"), 1), l.drawing(l.client("2"), 1), l.drawing(l.client("3"), 1)
		l.semaphore(3)
		second, third := <-w1, <-w2
		require.NoError(t, second.err)
		require.NoError(t, third.err)
		l.settle()
		notYet(t, w3, "a fourth of three")
		l.semaphore(1)
		l.unlock(first)
		l.unlock(second.v)
		l.settle()
		notYet(t, w3, "admitted above the lowered limit")
		require.NoError(t, third.v.Context().Err(), "lowering interrupted a holder")
		l.unlock(third.v)
		fourth := <-w3
		require.NoError(t, fourth.err)
		l.unlock(fourth.v)
	})
}

func TestAWaiterForManyIsNotOvertakenByOneForFew(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.semaphore(3)
		x, err := l.client("0").Semaphore("/s").Acquire(t.Context(), 2)
		require.NoError(t, err)
		many := l.drawing(l.client("many"), 3)
		few := l.drawing(l.client("few"), 1)
		notYet(t, many, "three of three while two are taken")
		notYet(t, few, "one permit is free, but others came first")
		_, err = l.client("try").Semaphore("/s").TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, recipes.ErrHeld)
		l.unlock(x)
		r := <-many
		require.NoError(t, r.err)
		l.unlock(r.v)
		require.NoError(t, (<-few).err)
	})
}

func TestGoroutinesOfOneClientKeepOnePlaceInTheQueue(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.semaphore(1)
		c := l.client("a")
		x, err := c.Semaphore("/s").Acquire(t.Context(), 1)
		require.NoError(t, err)
		var ws []<-chan result[*recipes.Lease]
		for range 20 {
			ws = append(ws, l.drawing(c, 1))
		}
		require.Len(t, l.children("/s/locks"), 1)
		for _, w := range ws {
			l.unlock(x)
			r := <-w
			require.NoError(t, r.err)
			x = r.v
		}
		l.unlock(x)
	})
}

func TestPermitsThatCannotBeAreRefusedAtOnce(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Semaphore(l.semaphore(2))
		_, err := m.Acquire(t.Context(), 3)
		require.ErrorIs(t, err, recipes.ErrTooManyPermits)
		require.ErrorContains(t, err, "3 permits asked for, 2 are declared")
		_, err = m.Acquire(t.Context(), 0)
		require.ErrorContains(t, err, "at least 1")
		require.Empty(t, l.children("/s/leases"))
	})
}

func TestARowOfCuratorsPermitsIsCounted(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.semaphore(2)
		one := l.foreign("/s/leases", "_c_2f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-lease-0000000000", "10.0.0.1")
		l.foreign("/s/leases", "_c_3f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-lease-0000000001", "10.0.0.2")
		l.foreign("/s/leases", "readme", "junk is not counted")
		require.NoError(t, l.srv.SetCreateCount("/s/leases", 3))
		w := l.drawing(l.client("a"), 1)
		notYet(t, w, "a third of two")
		require.NoError(t, l.srv.Delete(one))
		require.NoError(t, (<-w).err)
	})
}

func TestALimitLoweredWhileAPermitIsTakenIsObeyed(t *testing.T) { // case 48: the listing was of the old limit, the write is not
	inLab(t, func(t *testing.T, l *lab) {
		l.semaphore(3)
		var held []*recipes.Lease
		for range 3 {
			x, err := l.client("holder").Semaphore("/s").Acquire(t.Context(), 1)
			require.NoError(t, err)
			held = append(held, x)
		}
		w := l.drawing(l.client("w"), 1)
		taking := l.srv.Inject(zktest.Once(zktest.On("multi")), zktest.Hold)
		l.unlock(held[0])
		<-taking.Hit()
		l.semaphore(2)
		taking.Release()
		l.settle()
		notYet(t, w, "a third permit under a limit of two")
		require.Len(t, l.children("/s/leases"), 2)
		l.semaphore(3)
		require.NoError(t, (<-w).err)
	})
}

func TestAPermitTakenFromTheQueueCountsThoseCreatedDirectlyMeanwhile(t *testing.T) {
	// A direct create, then the front's transaction, which gives its place up, then the direct one's listing: each
	// alone sees nothing wrong. Only the order of the permits does.
	inLab(t, func(t *testing.T, l *lab) {
		l.semaphore(3)
		x, err := l.client("0").Semaphore("/s").Acquire(t.Context(), 3)
		require.NoError(t, err)
		front, direct := l.client("front"), l.client("direct")
		sessionOf := map[string]int64{"front": l.session(front), "direct": l.session(direct)}
		err = direct.Semaphore("/s").Declared(t.Context()) // knows the declaration from here on
		require.NoError(t, err)
		w := l.drawing(front, 3)
		taking := l.srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "multi" && r.Session == sessionOf["front"] }), zktest.Hold)
		l.unlock(x)
		<-taking.Hit()
		looking := l.srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "getChildren2" && r.Session == sessionOf["direct"] }), zktest.Hold)
		try := async(func() (*recipes.Lease, error) { return direct.Semaphore("/s").TryAcquire(context.Background(), 2) })
		<-looking.Hit()
		l.settle()
		taking.Release()
		l.settle()
		looking.Release()
		got := <-try
		require.NoError(t, got.err, "its permits are the oldest and nobody is seen to wait")
		l.settle()
		notYet(t, w, "five permits of three")
		l.unlock(got.v)
		r := <-w
		require.NoError(t, r.err)
		l.unlock(r.v)
		require.Empty(t, l.children("/s/leases"))
	})
}

func TestAWaitForTakenPermitsThatEndsWithdrawsThem(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.semaphore(2)
		x, err := l.client("0").Semaphore("/s").Acquire(t.Context(), 2)
		require.NoError(t, err)
		front := l.client("front")
		id := l.session(front)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		w := l.locker(func(context.Context) (*recipes.Lease, error) { return front.Semaphore("/s").Acquire(ctx, 2) })
		taking := l.srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "multi" && r.Session == id }), zktest.Hold)
		l.unlock(x)
		<-taking.Hit()
		other := l.foreign("/s/leases", "_c_2f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-lease-0000000002", "")
		require.NoError(t, l.srv.SetCreateCount("/s/leases", 9))
		taking.Release()
		l.settle()
		require.Len(t, l.children("/s/leases"), 3)
		next := l.drawing(front, 1) // must not inherit a permit as a place in the queue
		require.ErrorIs(t, (<-w).err, context.DeadlineExceeded)
		r := <-next
		require.NoError(t, r.err)
		l.settle()
		require.Len(t, l.children("/s/leases"), 2)
		l.unlock(r.v)
		require.NoError(t, l.srv.Delete(other))
		require.Empty(t, l.children("/s/leases"))
	})
}
