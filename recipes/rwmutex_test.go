package recipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestReadersShareAndWritersExclude(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		p := l.RWLock()
		r1 := l.Lock(l.Client("r1").RWMutex(p).RLock)
		r2 := l.Lock(l.Client("r2").RWMutex(p).RLock)
		w := l.Waiting(l.Client("w").RWMutex(p).Lock)
		r3 := l.Waiting(l.Client("r3").RWMutex(p).RLock)
		l.Unlock(r2)
		l.Settle()
		notYet(t, w, "a writer beside a reader")
		notYet(t, r3, "a reader overtook the writer before it")
		l.Refused(l.Client("try").RWMutex(p).TryRLock, recipes.ErrHeld)
		l.Unlock(r1)
		writer := l.Granted(w)
		l.Settle()
		notYet(t, r3, "a reader beside a writer")
		l.Unlock(writer.V)
		l.Unlock(l.Got(r3))
	})
}

func TestAReaderBehindTwoWritersWaitsForTheNearest(t *testing.T) { // case 42, kazoo #649
	inLab(t, func(t *testing.T, l *lab) {
		p := l.RWLock()
		w1 := l.Lock(l.Client("w1").RWMutex(p).Lock)
		w2 := l.Waiting(l.Client("w2").RWMutex(p).Lock)
		reader := l.Client("r")
		r := l.Waiting(reader.RWMutex(p).RLock)
		w3 := l.Waiting(l.Client("w3").RWMutex(p).Lock)
		id := l.SessionID(reader)
		l.Settle()
		l.Srv.ResetCounts()
		l.Unlock(w1)
		second := l.Granted(w2)
		l.Settle()
		require.Zero(t, l.Srv.SessionCounts(id).WatchEvents, "the reader was woken by a writer that is not its nearest")
		notYet(t, r, "a reader beside the second writer")
		l.Unlock(second.V)
		got := l.Granted(r)
		l.Settle()
		notYet(t, w3, "a writer beside the reader before it")
		l.Unlock(got.V)
		third := l.Granted(w3)
		l.Unlock(third.V)
	})
}

func TestReadersBehindOneWriterAreAllWokenByItsRelease(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		p := l.RWLock()
		w := l.Lock(l.Client("w").RWMutex(p).Lock)
		var rs []<-chan result[*recipes.Lease]
		for range 5 {
			rs = append(rs, l.Waiting(l.Client("r").RWMutex(p).RLock))
		}
		start := time.Now()
		l.Unlock(w)
		for _, ch := range rs {
			r := l.Granted(ch)
			require.Equal(t, 4*oneWay, r.At.Sub(start), "release and one round trip")
		}
	})
}

func TestDowngradeLetsNobodyInBetween(t *testing.T) { // case 43, CURATOR-276, CURATOR-621
	inLab(t, func(t *testing.T, l *lab) {
		p := l.RWLock()
		m := l.Client("a").RWMutex(p)
		w := l.Lock(m.Lock)
		other := l.Waiting(l.Client("w").RWMutex(p).Lock)
		behind := l.Waiting(l.Client("r").RWMutex(p).RLock)
		r, err := m.Downgrade(t.Context(), w)
		require.NoError(t, err)
		require.ErrorIs(t, context.Cause(w.Context()), recipes.ErrReleased)
		require.NoError(t, r.Context().Err())
		_, err = m.Downgrade(t.Context(), r)
		require.ErrorContains(t, err, "Downgrade needs a write lease of /rw")
		require.Equal(t, w.Node()[len(w.Node())-10:], r.Node()[len(r.Node())-10:], "the reader must stand where the writer stood")
		l.Settle()
		notYet(t, other, "a writer got in while the lock is read")
		require.NoError(t, r.Context().Err(), "the read lease ended with the write lease")
		r2, err := l.Client("b").RWMutex(p).TryRLock(t.Context())
		require.ErrorIs(t, err, recipes.ErrHeld, "a reader overtook the waiting writer: %v", r2)
		l.Unlock(r)
		got := l.Granted(other)
		l.Settle()
		notYet(t, behind, "reader beside writer")
		l.Unlock(got.V)
		l.Unlock((<-behind).V)
	})
}

// What Downgrade returned was nil then, and a deferred Unlock of it panicked.
func TestDowngradeReturnsTheLeaseThatItCouldNotExchange(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").RWMutex(l.RWLock(), recipes.WithReentrancy())
		x := l.Lock(m.Lock)
		inner, err := m.Lock(x.Context())
		require.NoError(t, err)
		x, err = m.Downgrade(t.Context(), x)
		require.ErrorContains(t, err, "/rw was entered 2 times")
		require.NoError(t, x.Context().Err())
		l.Unlock(inner)
		refused := l.Srv.Inject(zktest.On("multi"), zktest.Fail(zktest.CodeNoAuth))
		x, err = m.Downgrade(t.Context(), x)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		refused.Remove()
		require.NoError(t, x.Verify(t.Context()), "a refused exchange cost the lease")
		l.Unlock(x)
		l.Settle()
		l.Empty("/rw")
	})
	var none *recipes.Lease
	require.NoError(t, none.Unlock(t.Context()))
}

func TestDoGivesBackTheReadLeaseThatItsFunctionMade(t *testing.T) { // it stayed held, and Do returned nil
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").RWMutex(l.RWLock())
		var r *recipes.Lease
		require.NoError(t, m.Do(t.Context(), func(ctx context.Context, x *recipes.Lease) (err error) {
			r, err = m.Downgrade(ctx, x)
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), recipes.ErrReleased)
			return err
		}))
		require.ErrorIs(t, context.Cause(r.Context()), recipes.ErrReleased)
		l.Settle()
		l.Empty("/rw")
		l.Unlock(r)
	})
}

func TestReadersRespectEveryKnownWriter(t *testing.T) { // kazoo writers and plain mutex names block readers too
	for _, name := range []string{
		"_c_2f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-__WRIT__0000000000", "0123456789abcdef0123456789abcdef__lock__0000000000",
		"_c_0123456789abcdef0123456789abcdef-lock-0000000000", "x-72057594037927936-0000000000",
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			p := l.RWLock()
			writer := l.Foreign(p, name, "")
			require.NoError(t, l.Srv.SetCreateCount(p, 7))
			r := l.Waiting(l.Client("r").RWMutex(p).RLock)
			notYet(t, r, "a reader beside a foreign writer")
			require.NoError(t, l.Srv.Delete(writer))
			got := l.Granted(r)
			synctest.Wait()
			l.Unlock(got.V)
		})
	}
}

// Many tries at once on a lock that is free all succeed; on one that is held none waits for it.
func TestTryRLockWaitsForAnAnswerNotForTheLock(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		m := l.Client("readers").RWMutex("/rw")
		tries := func() []<-chan result[*recipes.Lease] {
			all := make([]<-chan result[*recipes.Lease], 10)
			for i := range all {
				all[i] = async(func() (*recipes.Lease, error) { return m.TryRLock(context.Background()) })
			}
			return all
		}
		for _, r := range tries() {
			l.Unlock(l.Got(r))
		}
		l.NothingLeft()
		x := l.Lock(l.Client("writer").RWMutex("/rw").Lock)
		waiting := []<-chan result[*recipes.Lease]{l.Waiting(m.RLock), l.Waiting(m.RLock)}
		start := time.Now()
		for _, r := range tries() {
			held := heldBy(t, (<-r).Err)
			require.Equal(t, x.Node(), held.Holder.Path)
		}
		require.Less(t, time.Since(start), time.Second)
		l.Unlock(x)
		for _, r := range waiting {
			l.Unlock(l.Got(r))
		}
		l.NothingLeft()
	})
}
