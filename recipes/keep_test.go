package recipes_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
)

const retention = 5 * time.Second

// keeping is a client's handle that keeps its mutex, and a lease of it that was given back: its place is kept.
func (l *lab) keeping(change ...func(*recipes.Config)) (*recipes.Mutex, *recipes.Lease) {
	l.t.Helper()
	m := l.client("a", change...).Mutex(l.mutex(), recipes.WithRetention(retention))
	x, err := m.Lock(l.t.Context())
	require.NoError(l.t, err)
	l.unlock(x)
	l.settle()
	require.Contains(l.t, l.queue("/m"), x.Node())
	return m, x
}

// locksAnew takes a lock that was given up since x, with a place of its own, and waits until that is given up too.
func (l *lab) locksAnew(m *recipes.Mutex, x *recipes.Lease) {
	l.t.Helper()
	y, err := m.Lock(l.t.Context())
	require.NoError(l.t, err)
	require.Greater(l.t, y.Token(), x.Token())
	l.unlock(y)
	time.Sleep(retention)
	l.noneLeft(m)
}

func TestALockThatIsKeptIsTakenAgainWithoutARequest(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m, first := l.keeping()
		l.srv.ResetCounts()
		start := time.Now()
		for range 1000 {
			x, err := m.Lock(t.Context())
			require.NoError(t, err)
			require.Equal(t, first.Token(), x.Token())
			require.NoError(t, x.Context().Err())
			_, err = m.TryLock(t.Context())
			require.ErrorIs(t, err, recipes.ErrHeld)
			l.unlock(x)
			require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrReleased)
		}
		require.Zero(t, time.Since(start))
		l.settle()
		require.Empty(t, operations(l.srv.Counts().ByOp))
		x, err := m.TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, x.Verify(t.Context()))
		l.unlock(x)
		time.Sleep(retention)
		l.noneLeft(m)
	})
}

// What a retention costs beside the lock: the list of contenders, watched, and its node, watched.
func TestTheCostOfARetention(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex(), recipes.WithRetention(retention))
		l.warm(l.client("a").Mutex("/m"))
		require.NoError(t, m.Declared(t.Context()))
		got := l.cost(func() {
			x, err := m.Lock(t.Context())
			require.NoError(t, err)
			l.unlock(x)
		})
		require.Equal(t, spent{1, "create 2getChildren2 getData"}, got)
		l.settle()
		l.srv.ResetCounts()
		time.Sleep(retention)
		l.settle()
		require.Equal(t, 1, l.srv.Counts().ByOp["delete"])
		l.noneLeft(m)
	})
}

func TestAPlaceIsKeptForAsLongAsItIsAskedTo(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m, x := l.keeping()
		for range 5 { // each use begins the time anew
			time.Sleep(retention - time.Second)
			x, err := m.Lock(t.Context())
			require.NoError(t, err)
			time.Sleep(2 * retention) // in use is not kept
			l.unlock(x)
		}
		time.Sleep(time.Second)
		z, err := m.Lock(t.Context())
		require.NoError(t, err)
		l.unlock(z)
		time.Sleep(retention - time.Millisecond)
		require.Len(t, l.queue("/m"), 1)
		time.Sleep(time.Millisecond + oneWay)
		l.settle()
		require.Empty(t, l.queue("/m"))
		y, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.Greater(t, y.Token(), x.Token())
		l.unlock(y)
	})
}

// Its timer runs for no longer than a session timeout: then the queue is listed again.
func TestAPlaceThatIsKeptForSeveralSessionTimeoutsIsGivenUpInTheEnd(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex(), recipes.WithRetention(time.Minute))
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		l.unlock(x)
		time.Sleep(time.Minute - time.Millisecond)
		require.Len(t, l.queue("/m"), 1)
		time.Sleep(time.Millisecond + oneWay)
		l.settle()
		require.Empty(t, l.queue("/m"))
	})
}

// However long nobody uses it, its session heartbeats for it.
func TestAKeptPlaceIsProvenAllTheTime(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex(), recipes.WithRetention(time.Hour))
		for range 10 {
			x, err := m.Lock(t.Context())
			require.NoError(t, err)
			require.True(t, time.Now().Before(x.Deadline()))
			l.unlock(x)
			time.Sleep(time.Minute)
		}
		s, err := m.Client().Live(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, s.Stats().Holds)
	})
}

// A timer that runs for a longer time is too late for a shorter one.
func TestAShorterRetentionThatFollowsALongerOneCounts(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m, _ := l.keeping()
		x, err := m.Client().Mutex("/m", recipes.WithRetention(time.Second)).Lock(t.Context())
		require.NoError(t, err)
		l.unlock(x)
		time.Sleep(time.Second + time.Millisecond)
		l.noneLeft(m)
	})
}

// Whoever queues, waits for one event to the keeper and one delete by it, and as long as these take.
func TestAKeptPlaceIsGivenUpWhenARivalQueues(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m, x := l.keeping()
		rival := l.client("b").Mutex("/m")
		require.NoError(t, rival.Declared(t.Context()))
		l.settle()
		l.srv.ResetCounts()
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), retention/2)
		defer cancel()
		y, err := rival.Lock(ctx)
		require.NoError(t, err)
		// Its create and, behind the delete's event, its proof; between these the event and the delete: a way each.
		require.LessOrEqual(t, time.Since(start), 8*oneWay)
		require.Greater(t, y.Token(), x.Token())
		l.settle()
		counts := l.srv.Counts()
		require.Equal(t, 1, counts.ByOp["delete"], "%v", counts.ByOp)
		require.Equal(t, 1, counts.ByOp["create"], "%v", counts.ByOp)
		// Of them the keeper has two: that somebody queues, and that its node, which it watches, is gone.
		require.LessOrEqual(t, counts.WatchEvents, 4)
		w := l.locking(m) // queues, behind it
		notYet(t, w, "a rival holds")
		l.unlock(y)
		l.unlock((<-w).v)
		time.Sleep(retention)
		l.noneLeft(m)
	})
}

func TestAKeptPlaceIsGivenUpForAForeignWaiter(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m, x := l.keeping()
		node := l.foreign("/m", "_c_00000000-0000-4000-8000-000000000000-lock-", "192.0.2.7")
		time.Sleep(2 * oneWay)
		l.settle()
		require.NotContains(t, l.queue("/m"), x.Node())
		require.NoError(t, l.srv.Delete(node))
		l.noneLeft(m)
	})
}

func TestARivalThatQueuesWhileALockIsInUseHasItNext(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m, _ := l.keeping()
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		local := l.locking(m)
		rival := l.locking(l.client("b").Mutex("/m"))
		l.unlock(x)
		time.Sleep(time.Second)
		notYet(t, local, "the rival is ahead")
		y := (<-rival).v
		require.Greater(t, y.Token(), x.Token())
		l.unlock(y)
		l.unlock((<-local).v)
		time.Sleep(retention)
		l.noneLeft(m)
	})
}

// A rival that came before the watch was set is in the list that comes with it.
func TestARivalThatWasThereBeforeTheWatchIsNotKeptWaiting(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m, other := l.client("a").Mutex(l.mutex(), recipes.WithRetention(time.Hour)), l.client("b").Mutex("/m")
		require.NoError(t, m.Declared(t.Context()))
		require.NoError(t, other.Declared(t.Context()))
		w := async(func() (*recipes.Lease, error) { return m.Lock(t.Context()) })
		time.Sleep(oneWay + oneWay/2) // it has been created, and listed
		rival := async(func() (*recipes.Lease, error) { return other.Lock(t.Context()) })
		x := (<-w).v
		start := time.Now()
		l.unlock(x) // the list that is watched is asked for
		time.Sleep(time.Second)
		require.NotContains(t, l.queue("/m"), x.Node())
		y := <-rival
		require.NoError(t, y.err)
		require.Less(t, y.at.Sub(start), 8*oneWay)
		l.unlock(y.v)
		l.noneLeft(m)
	})
}

func TestGoroutinesTakeAKeptLockOverFromEachOtherWhileNobodyElseQueues(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m, first := l.keeping()
		l.srv.ResetCounts()
		var all sync.WaitGroup
		held := 0 // the lock guards it
		for range 100 {
			all.Go(func() {
				for range 10 {
					x, err := m.Lock(context.Background())
					if err != nil || x.Token() != first.Token() {
						t.Errorf("%v", err)
						return
					}
					held++
					_ = x.Unlock(context.Background())
				}
			})
		}
		all.Wait()
		require.Equal(t, 1000, held)
		require.Empty(t, operations(l.srv.Counts().ByOp))
		time.Sleep(retention)
		l.noneLeft(m)
	})
}

// Where others wait too a lock is not kept, and costs what it costs without the option.
func TestALockThatWasWaitedForIsNotKept(t *testing.T) {
	var ops []string
	for _, d := range []time.Duration{0, time.Hour} {
		inLab(t, func(t *testing.T, l *lab) {
			m, other := l.client("a").Mutex(l.mutex(), recipes.WithRetention(d)), l.client("b").Mutex("/m")
			require.NoError(t, m.Declared(t.Context()))
			x := (<-l.locking(other)).v
			w := l.locking(m)
			l.srv.ResetCounts()
			l.unlock(x)
			l.unlock((<-w).v)
			l.settle()
			ops = append(ops, operations(l.srv.Counts().ByOp))
			l.noneLeft(m)
		})
	}
	require.Equal(t, ops[0], ops[1])
}

// An Observer is told of each lease, with a call of its own, and of the place by node and token.
func TestEachLeaseOfARetainedPlaceHasEventsOfItsOwn(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		var mu sync.Mutex
		var events []recipes.Event
		m, first := l.keeping(func(cfg *recipes.Config) {
			cfg.Observer = func(e recipes.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Call != 0 {
					events = append(events, e)
				}
			}
		})
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		l.unlock(x)
		time.Sleep(retention)
		l.noneLeft(m)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, events, 4, "the end of the retention is nobody's")
		for i, want := range []recipes.EventType{recipes.EventAcquired, recipes.EventReleased, recipes.EventAcquired, recipes.EventReleased} {
			require.Equal(t, want, events[i].Type)
			require.Equal(t, first.Node(), events[i].Node)
			require.Equal(t, first.Token(), events[i].Token)
			require.Equal(t, i < 2, events[i].Call == events[0].Call)
		}
	})
}

func TestANodeSaysForHowLongItMayBeKept(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.keeping()
		in, err := inspect.Lock(t.Context(), l.client("who"), "/m")
		require.NoError(t, err)
		require.Len(t, in.Holders, 1)
		require.Equal(t, retention, in.Holders[0].Retains)
		plain := l.locking(l.client("a").Mutex("/m"))
		x := (<-plain).v
		in, err = inspect.Lock(t.Context(), l.client("who"), "/m")
		require.NoError(t, err)
		require.Zero(t, in.Holders[0].Retains)
		l.unlock(x)
	})
}

func TestOnlyMutexesAndReadersAreKeptAndNumbersMakeSense(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.everyKind()
		c, keep := l.client("a"), recipes.WithRetention(time.Second)
		for _, take := range []func(context.Context) (*recipes.Lease, error){
			c.RWMutex("/rw", recipes.WithRetention(-time.Second)).RLock,
			func(ctx context.Context) (*recipes.Lease, error) { return c.Semaphore("/s", keep).Acquire(ctx, 1) },
			c.Mutex("/m", recipes.WithRetention(-time.Second)).Lock,
		} {
			_, err := take(t.Context())
			require.ErrorContains(t, err, "WithRetention")
		}
		_, err := c.Mutex("/m", recipes.WithLocalHandoff(-1)).Lock(t.Context())
		require.ErrorContains(t, err, "WithLocalHandoff(-1): the number must not be negative")
		_, err = c.Election("/e", keep).Campaign(t.Context())
		require.ErrorContains(t, err, "WithRetention is for a mutex, and for readers: leave it out")
	})
}
