package recipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

func (l *lab) rwlock(change ...func(*kind.RWLockParams)) string {
	p := kind.RWLock.New().(*kind.RWLockParams)
	for _, c := range change {
		c(p)
	}
	l.declare("/rw", p)
	return "/rw"
}

// locker runs any acquisition in the background and waits until it queues.
func (l *lab) locker(f func(context.Context) (*recipes.Lease, error)) <-chan result[*recipes.Lease] {
	ch := async(func() (*recipes.Lease, error) { return f(context.Background()) })
	l.settle()
	return ch
}

func TestReadersShareAndWritersExclude(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		p := l.rwlock()
		r1, err := l.client("r1").RWMutex(p).RLock(t.Context())
		require.NoError(t, err)
		r2, err := l.client("r2").RWMutex(p).RLock(t.Context())
		require.NoError(t, err)
		w := l.locker(l.client("w").RWMutex(p).Lock)
		r3 := l.locker(l.client("r3").RWMutex(p).RLock)
		l.unlock(r2)
		l.settle()
		notYet(t, w, "a writer beside a reader")
		notYet(t, r3, "a reader overtook the writer before it")
		_, err = l.client("try").RWMutex(p).TryRLock(t.Context())
		require.ErrorIs(t, err, recipes.ErrHeld)
		l.unlock(r1)
		writer := <-w
		require.NoError(t, writer.err)
		l.settle()
		notYet(t, r3, "a reader beside a writer")
		l.unlock(writer.v)
		r := <-r3
		require.NoError(t, r.err)
		l.unlock(r.v)
	})
}

func TestAReaderBehindTwoWritersWaitsForTheNearest(t *testing.T) { // case 42, kazoo #649
	inLab(t, func(t *testing.T, l *lab) {
		p := l.rwlock()
		w1, err := l.client("w1").RWMutex(p).Lock(t.Context())
		require.NoError(t, err)
		w2 := l.locker(l.client("w2").RWMutex(p).Lock)
		reader := l.client("r")
		r := l.locker(reader.RWMutex(p).RLock)
		w3 := l.locker(l.client("w3").RWMutex(p).Lock)
		id := l.session(reader)
		l.settle()
		l.srv.ResetCounts()
		l.unlock(w1)
		second := <-w2
		require.NoError(t, second.err)
		l.settle()
		require.Zero(t, l.srv.SessionCounts(id).WatchEvents, "the reader was woken by a writer that is not its nearest")
		notYet(t, r, "a reader beside the second writer")
		l.unlock(second.v)
		got := <-r
		require.NoError(t, got.err)
		l.settle()
		notYet(t, w3, "a writer beside the reader before it")
		l.unlock(got.v)
		third := <-w3
		require.NoError(t, third.err)
		l.unlock(third.v)
	})
}

func TestReadersBehindOneWriterAreAllWokenByItsRelease(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		p := l.rwlock()
		w, err := l.client("w").RWMutex(p).Lock(t.Context())
		require.NoError(t, err)
		var rs []<-chan result[*recipes.Lease]
		for range 5 {
			rs = append(rs, l.locker(l.client("r").RWMutex(p).RLock))
		}
		start := time.Now()
		l.unlock(w)
		for _, ch := range rs {
			r := <-ch
			require.NoError(t, r.err)
			require.Equal(t, 4*oneWay, r.at.Sub(start), "release and one round trip")
		}
	})
}

func TestDowngradeLetsNobodyInBetween(t *testing.T) { // case 43, CURATOR-276, CURATOR-621
	inLab(t, func(t *testing.T, l *lab) {
		p := l.rwlock()
		m := l.client("a").RWMutex(p)
		w, err := m.Lock(t.Context())
		require.NoError(t, err)
		other := l.locker(l.client("w").RWMutex(p).Lock)
		behind := l.locker(l.client("r").RWMutex(p).RLock)
		r, err := m.Downgrade(t.Context(), w)
		require.NoError(t, err)
		require.ErrorIs(t, context.Cause(w.Context()), recipes.ErrReleased)
		require.NoError(t, r.Context().Err())
		_, err = m.Downgrade(t.Context(), r)
		require.ErrorContains(t, err, "Downgrade needs a write lease of /rw")
		require.Equal(t, w.Node()[len(w.Node())-10:], r.Node()[len(r.Node())-10:], "the reader must stand where the writer stood")
		l.settle()
		notYet(t, other, "a writer got in while the lock is read")
		require.NoError(t, r.Context().Err(), "the read lease ended with the write lease")
		r2, err := l.client("b").RWMutex(p).TryRLock(t.Context())
		require.ErrorIs(t, err, recipes.ErrHeld, "a reader overtook the waiting writer: %v", r2)
		l.unlock(r)
		got := <-other
		require.NoError(t, got.err)
		l.settle()
		notYet(t, behind, "reader beside writer")
		l.unlock(got.v)
		l.unlock((<-behind).v)
	})
}

// What Downgrade returned was nil then, and a deferred Unlock of it panicked.
func TestDowngradeReturnsTheLeaseThatItCouldNotExchange(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").RWMutex(l.rwlock(), recipes.WithReentrancy())
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		inner, err := m.Lock(x.Context())
		require.NoError(t, err)
		x, err = m.Downgrade(t.Context(), x)
		require.ErrorContains(t, err, "/rw was entered 2 times")
		require.NoError(t, x.Context().Err())
		l.unlock(inner)
		refused := l.srv.Inject(zktest.On("multi"), zktest.Fail(zktest.CodeNoAuth))
		x, err = m.Downgrade(t.Context(), x)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		refused.Remove()
		require.NoError(t, x.Verify(t.Context()), "a refused exchange cost the lease")
		l.unlock(x)
		l.settle()
		require.Empty(t, l.children("/rw"))
	})
	var none *recipes.Lease
	require.NoError(t, none.Unlock(t.Context()))
}

func TestDoGivesBackTheReadLeaseThatItsFunctionMade(t *testing.T) { // it stayed held, and Do returned nil
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").RWMutex(l.rwlock())
		var r *recipes.Lease
		require.NoError(t, m.Do(t.Context(), func(ctx context.Context, x *recipes.Lease) (err error) {
			r, err = m.Downgrade(ctx, x)
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), recipes.ErrReleased)
			return err
		}))
		require.ErrorIs(t, context.Cause(r.Context()), recipes.ErrReleased)
		l.settle()
		require.Empty(t, l.children("/rw"))
		l.unlock(r)
	})
}

func TestReadersRespectEveryKnownWriter(t *testing.T) { // kazoo writers and plain mutex names block readers too
	for _, name := range []string{
		"_c_2f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-__WRIT__0000000000", "0123456789abcdef0123456789abcdef__lock__0000000000",
		"_c_0123456789abcdef0123456789abcdef-lock-0000000000", "x-72057594037927936-0000000000",
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				p := l.rwlock()
				writer := l.foreign(p, name, "")
				require.NoError(t, l.srv.SetCreateCount(p, 7))
				r := l.locker(l.client("r").RWMutex(p).RLock)
				notYet(t, r, "a reader beside a foreign writer")
				require.NoError(t, l.srv.Delete(writer))
				got := <-r
				require.NoError(t, got.err)
				synctest.Wait()
				l.unlock(got.v)
			})
		})
	}
}

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
