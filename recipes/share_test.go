package recipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// sharing declares a read-write lock among locks of every kind, so that nothingLeft can look at all.
func (l *lab) sharing() string {
	l.everyKind()
	return "/rw"
}

// reading starts n calls of RLock and waits until they are stuck, or have their answers.
func (l *lab) reading(m *recipes.RWMutex, n int) []<-chan result[*recipes.Lease] {
	all := make([]<-chan result[*recipes.Lease], n)
	for i := range all {
		all[i] = async(func() (*recipes.Lease, error) { return m.RLock(context.Background()) })
	}
	l.settle()
	return all
}

func (l *lab) leases(all []<-chan result[*recipes.Lease]) []*recipes.Lease {
	l.t.Helper()
	leases := make([]*recipes.Lease, len(all))
	for i, ch := range all {
		r := <-ch
		require.NoError(l.t, r.err)
		leases[i] = r.v
	}
	return leases
}

func TestAHundredReadersOfOneClientAreOneContender(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		p := l.sharing()
		m := l.client("a").RWMutex(p)
		all := l.leases(l.reading(m, 100))
		require.Len(t, l.children(p), 1)
		require.Equal(t, 1, l.srv.Counts().ByOp["create"])
		for i, x := range all {
			require.NoError(t, x.Context().Err())
			l.unlock(x)
			require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrReleased, "whoever gave its share back holds nothing")
			require.ErrorIs(t, x.Verify(t.Context()), recipes.ErrReleased)
			require.Len(t, l.children(p), min(1, 99-i), "the place goes with its last reader")
		}
	})
}

func TestReadersThatComeLaterJoinInOneRoundTripWithoutAWrite(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").RWMutex(l.sharing())
		first, err := m.RLock(t.Context())
		require.NoError(t, err)
		l.settle()
		l.srv.ResetCounts()
		start := time.Now()
		second, err := m.TryRLock(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2*oneWay, time.Since(start))
		require.Equal(t, 1, l.srv.Counts().Total, "a listing is all")
		start = time.Now()
		l.unlock(first)
		require.Equal(t, start, time.Now(), "a share is given back without a word to the servers")
		require.NoError(t, second.Verify(t.Context()))
		l.unlock(second)
		l.nothingLeft()
	})
}

// Readers that overlap must not keep a writer out: who comes while one is queued gets a place behind it.
func TestReadersDoNotJoinAheadOfAQueuedWriter(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		p := l.sharing()
		m := l.client("readers").RWMutex(p)
		first, err := m.RLock(t.Context())
		require.NoError(t, err)
		w := l.locker(l.client("writer").RWMutex(p).Lock)
		late := l.reading(m, 5)
		for _, r := range late {
			notYet(t, r, "a writer came before")
		}
		_, err = m.TryRLock(t.Context())
		require.ErrorIs(t, err, recipes.ErrHeld)
		l.settle()
		require.Len(t, l.children(p), 3, "a reader, a writer, and one place for five readers")
		l.unlock(first)
		x := (<-w).v
		for _, r := range late {
			notYet(t, r, "the writer holds")
		}
		l.unlock(x)
		for _, r := range l.leases(late) {
			require.NoError(t, r.Context().Err())
			l.unlock(r)
		}
		l.nothingLeft()
	})
}

// The goroutine that contends for all gives up: another takes its place in the queue over, and nobody loses it.
func TestAReaderThatGivesUpLeavesItsPlaceToTheOthers(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		p := l.sharing()
		x, err := l.client("writer").RWMutex(p).Lock(t.Context())
		require.NoError(t, err)
		m := l.client("readers").RWMutex(p)
		ctx, cancel := context.WithCancel(t.Context())
		leader := async(func() (*recipes.Lease, error) { return m.RLock(ctx) })
		l.settle()
		others := l.reading(m, 3)
		before := l.queue(p)
		require.Len(t, before, 2)
		cancel()
		require.ErrorIs(t, (<-leader).err, context.Canceled)
		l.settle()
		require.Equal(t, before, l.queue(p))
		l.unlock(x)
		for _, r := range l.leases(others) {
			l.unlock(r)
		}
		l.nothingLeft()
	})
}

// Many tries at once on a lock that is free all succeed; on one that is held none waits for it.
func TestTryRLockWaitsForAnAnswerNotForTheLock(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		p := l.sharing()
		m := l.client("readers").RWMutex(p)
		tries := func() []<-chan result[*recipes.Lease] {
			all := make([]<-chan result[*recipes.Lease], 10)
			for i := range all {
				all[i] = async(func() (*recipes.Lease, error) { return m.TryRLock(context.Background()) })
			}
			return all
		}
		for _, x := range l.leases(tries()) {
			l.unlock(x)
		}
		l.nothingLeft()
		x, err := l.client("writer").RWMutex(p).Lock(t.Context())
		require.NoError(t, err)
		waiting := l.reading(m, 2)
		start := time.Now()
		for _, r := range tries() {
			var held *recipes.HeldError
			require.ErrorAs(t, (<-r).err, &held)
			require.Equal(t, x.Node(), held.Holder.Path)
		}
		require.Less(t, time.Since(start), time.Second)
		l.unlock(x)
		for _, r := range l.leases(waiting) {
			l.unlock(r)
		}
		l.nothingLeft()
	})
}

// The one that was known to wait gives up between the try's waking and its look: there is no holder to name yet.
func TestATryWaitsOnWhenTheNextHolderGivesUpBeforeItLooks(t *testing.T) {
	inLab(t, func(t *testing.T, _ *lab) {
		var turns recipes.Turns
		require.Nil(t, turns.Enter(t.Context(), "k", "a", false, true))
		tries := make([]<-chan result[struct{}], 2)
		for i := range tries {
			tries[i] = async(func() (struct{}, error) { return struct{}{}, turns.Enter(context.Background(), "k", "b", true, true) })
		}
		synctest.Wait()
		turns.Wake("k")
		for _, r := range tries {
			notYet(t, r, "nobody knows whom to name")
		}
		turns.WaitsFor("k", &recipes.HeldError{Path: "/k"})
		var first, second *recipes.HeldError
		require.ErrorAs(t, (<-tries[0]).err, &first)
		require.ErrorAs(t, (<-tries[1]).err, &second)
		require.NotSame(t, first, second, "Identify writes into it")
	})
}

func TestWhatEndsAReadersPlaceEndsAllItsShares(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(l *lab, x *recipes.Lease)
		want error
		left error // what Unlock says
	}{
		"deleted": {func(l *lab, x *recipes.Lease) { require.NoError(l.t, l.srv.Delete(x.Node())) }, recipes.ErrLost, recipes.ErrLost},
		"expired": {func(l *lab, x *recipes.Lease) { l.srv.Expire(l.session(x.Client())) }, recipes.ErrLost, recipes.ErrLost},
		"revoked": {func(l *lab, x *recipes.Lease) {
			require.NoError(l.t, l.client("admin").Revoke(l.t.Context(), x.Node()))
		}, recipes.ErrRevoked, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				p := l.sharing()
				m := l.client("readers").RWMutex(p)
				shares := l.leases(l.reading(m, 3))
				c.end(l, shares[0])
				for _, x := range shares {
					<-ended(x)
					require.ErrorIs(t, context.Cause(x.Context()), c.want)
				}
				l.settle()
				next, err := m.RLock(t.Context())
				require.NoError(t, err)
				require.NotEqual(t, shares[0].Node(), next.Node(), "what has ended is not joined")
				for _, x := range shares {
					require.ErrorIs(t, x.Unlock(t.Context()), c.left)
				}
				l.unlock(next)
				l.nothingLeft()
			})
		})
	}
}

// Downgraded, a writer is a reader whose place others may share.
func TestReadersJoinAWriterThatDowngraded(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		p := l.sharing()
		m := l.client("a").RWMutex(p)
		w, err := m.Lock(t.Context())
		require.NoError(t, err)
		r, err := m.Downgrade(t.Context(), w)
		require.NoError(t, err)
		other, err := m.RLock(t.Context())
		require.NoError(t, err)
		require.Equal(t, r.Node(), other.Node())
		l.unlock(r)
		l.unlock(other)
		l.nothingLeft()
	})
}

// The lease that was to be shared went with its session. Whoever wanted a share had no place to lose.
func TestAReaderWhoseSessionIsLostBeforeItSharesReadsInTheNext(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("a")
		m := c.RWMutex(l.rwlock())
		first, err := m.RLock(t.Context())
		require.NoError(t, err)
		id := l.session(c)
		listing := l.srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Session == id && r.Op == "getChildren2" }), zktest.Hold)
		second := async(func() (*recipes.Lease, error) { return m.RLock(t.Context()) })
		<-listing.Hit()
		l.srv.Expire(id)
		r := <-second
		require.NoError(t, r.err)
		require.NotEqual(t, id, l.session(c))
		require.ErrorIs(t, first.Unlock(t.Context()), recipes.ErrLost)
		l.unlock(r.v)
		listing.Release()
	})
}
