package recipes_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// keepsReading is a client's handle on a read-write lock, and a read lease that was given back: its place is kept.
func (l *lab) keepsReading() (*recipes.Client, *recipes.RWMutex, *recipes.Lease) {
	l.t.Helper()
	c := l.client("a")
	m := c.RWMutex(l.rwlock(), recipes.WithRetention(retention))
	x, err := m.RLock(l.t.Context())
	require.NoError(l.t, err)
	l.unlock(x)
	l.settle()
	require.Contains(l.t, l.queue("/rw"), x.Node())
	require.Equal(l.t, 1, c.Kept())
	return c, m, x
}

// unread requires that nothing of the lock is left.
func (l *lab) unread(c *recipes.Client) {
	l.t.Helper()
	l.settle()
	require.Empty(l.t, l.children("/rw"))
	require.Empty(l.t, c.Leftovers())
}

func TestReadersTakeAPlaceThatIsKeptWithoutARequest(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c, m, first := l.keepsReading()
		l.srv.ResetCounts()
		start := time.Now()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				for i := range 50 {
					x, err := m.RLock(context.Background())
					if err != nil || x.Node() != first.Node() {
						t.Errorf("%v, %v", x, err)
						return
					}
					if i%2 == 0 {
						x.Release()
					} else if err := x.Unlock(context.Background()); err != nil {
						t.Error(err)
					}
					if x.Context().Err() == nil {
						t.Error("it goes on")
					}
				}
			})
		}
		all.Wait()
		require.Zero(t, time.Since(start))
		x, err := m.TryRLock(t.Context())
		require.NoError(t, err)
		y, err := m.RLock(t.Context()) // beside it
		require.NoError(t, err)
		require.True(t, x.With(y))
		l.unlock(x)
		require.NoError(t, y.Context().Err())
		l.unlock(y)
		l.settle()
		require.Empty(t, operations(l.srv.Counts().ByOp))
		require.Equal(t, 1, c.Kept())
		time.Sleep(retention)
		l.unread(c)
	})
}

func TestAPlaceThatTwoLeaveAtTheSameMomentIsKept(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c, m, first := l.keepsReading()
		l.srv.ResetCounts()
		for range 2000 {
			var leases [2]*recipes.Lease
			for i := range leases {
				x, err := m.RLock(t.Context())
				require.NoError(t, err)
				require.Equal(t, first.Node(), x.Node())
				leases[i] = x
			}
			var left sync.WaitGroup
			for _, x := range leases {
				left.Go(func() {
					for range 5 { // so that each finds the place's mutex taken now and then, between any two steps
						x.Deadline()
					}
					x.Release()
					x.Deadline()
				})
			}
			left.Wait()
			require.Equal(t, 1, c.Kept())
		}
		require.Empty(t, operations(l.srv.Counts().ByOp))
		time.Sleep(retention)
		l.unread(c)
	})
}

func TestAWriterEndsARetentionOfReaders(t *testing.T) {
	for name, of := range map[string]string{"of another client": "b", "of the same client": "a"} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				c, m, x := l.keepsReading()
				writer := m
				if of == "b" {
					writer = l.client("b").RWMutex("/rw")
				}
				time.Sleep(time.Second)
				start := time.Now()
				y, err := writer.Lock(t.Context())
				require.NoError(t, err)
				require.LessOrEqual(t, time.Since(start), 12*oneWay)
				require.NotContains(t, l.queue("/rw"), x.Node())
				r := l.locker(m.RLock)
				notYet(t, r, "a writer holds")
				l.unlock(y)
				l.unlock((<-r).v)
				time.Sleep(retention)
				l.unread(c)
			})
		})
	}
}

// While it is used, no reader of the client passes a writer that it has heard of; the last of them gives the place back.
func TestAWriterThatQueuesWhileAKeptPlaceIsReadHasItNext(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c, m, _ := l.keepsReading()
		x, err := m.RLock(t.Context())
		require.NoError(t, err)
		w := l.locker(l.client("b").RWMutex("/rw").Lock)
		time.Sleep(time.Second)
		late := l.locker(m.RLock)
		notYet(t, late, "a writer has queued before")
		l.unlock(x)
		l.settle()
		r := <-w
		require.NoError(t, r.err)
		notYet(t, late, "it writes")
		l.unlock(r.v)
		l.unlock((<-late).v)
		time.Sleep(retention)
		l.unread(c)
	})
}

// Readers of other clients are not in the way, and cost one listing for each time that they come or go, ten a second at most.
func TestOtherReadersDoNotEndARetention(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c, m, x := l.keepsReading()
		other := l.client("b").RWMutex("/rw")
		id := l.session(c)
		for range 3 {
			y, err := other.RLock(t.Context())
			require.NoError(t, err)
			l.settle()
			l.unlock(y)
			z, err := m.RLock(t.Context())
			require.NoError(t, err)
			require.Equal(t, x.Node(), z.Node())
			l.unlock(z)
		}
		l.settle()
		time.Sleep(time.Second)
		before := l.srv.SessionCounts(id).ByOp["getChildren2"]
		start := time.Now()
		for range 20 {
			y, err := other.RLock(t.Context())
			require.NoError(t, err)
			l.unlock(y)
		}
		most := int(time.Since(start)/(100*time.Millisecond)) + 2
		l.settle()
		require.LessOrEqual(t, l.srv.SessionCounts(id).ByOp["getChildren2"]-before, most)
		y, err := other.RLock(t.Context())
		require.NoError(t, err)
		start = time.Now()
		w := l.locker(l.client("c").RWMutex("/rw").Lock)
		l.unlock(y)
		r := <-w
		require.NoError(t, r.err)
		require.LessOrEqual(t, r.at.Sub(start), time.Second)
		l.unlock(r.v)
		time.Sleep(retention)
		l.unread(c)
	})
}

func TestAKeptPlaceOfReadersIsGivenUpBeforeItsTime(t *testing.T) {
	for name, end := range map[string]func(*lab, *recipes.Client, *recipes.Lease){
		"drained": func(l *lab, _ *recipes.Client, _ *recipes.Lease) { l.declare("/rw", kind.RWLock.New(), draining) },
		"asked back": func(l *lab, _ *recipes.Client, x *recipes.Lease) {
			require.NoError(l.t, l.client("c").Revoke(l.t.Context(), x.Node()))
		},
		"disconnected": func(l *lab, c *recipes.Client, _ *recipes.Lease) { l.srv.Disconnect(l.session(c)) },
		"expired":      func(l *lab, c *recipes.Client, _ *recipes.Lease) { l.srv.Expire(l.session(c)) },
		"deleted":      func(l *lab, _ *recipes.Client, x *recipes.Lease) { require.NoError(l.t, l.srv.Delete(x.Node())) },
		"its time":     func(l *lab, _ *recipes.Client, _ *recipes.Lease) { time.Sleep(retention) },
		"a handle without the option": func(l *lab, c *recipes.Client, x *recipes.Lease) {
			y, err := c.RWMutex("/rw").RLock(l.t.Context())
			require.NoError(l.t, err)
			require.NotEqual(l.t, x.Node(), y.Node())
			l.unlock(y)
		},
		"another ID": func(l *lab, c *recipes.Client, x *recipes.Lease) {
			y, err := c.RWMutex("/rw", recipes.WithID("other"), recipes.WithRetention(time.Second)).RLock(l.t.Context())
			require.NoError(l.t, err)
			require.NotEqual(l.t, x.Node(), y.Node())
			l.unlock(y)
			time.Sleep(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				c, m, x := l.keepsReading()
				end(l, c, x)
				time.Sleep(time.Second)
				require.NotContains(t, l.queue("/rw"), x.Node())
				if name == "drained" {
					l.declare("/rw", kind.RWLock.New())
				}
				y, err := m.RLock(t.Context())
				require.NoError(t, err)
				require.NotEqual(t, x.Node(), y.Node())
				l.unlock(y)
				time.Sleep(retention + time.Second)
				l.unread(c)
			})
		})
	}
}

// A reader that has waited for a writer, and one that prefers writers, keep what the documentation says.
func TestWritersAreNotKept(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("a")
		m := c.RWMutex(l.rwlock(), recipes.WithRetention(retention))
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		r := l.locker(m.RLock)
		l.unlock(x)
		l.unlock((<-r).v)
		l.unread(c)
	})
}

// Each kept place has a watch at the servers and delays whoever wants the lock: a client keeps so many, and gives up the one that it
// has not used for longest.
func TestTheKeptPlaceThatWasUsedLeastRecentlyGoesFirst(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		const most = 4
		c := l.client("a")
		c.KeepPlaces(most)
		keep := recipes.WithRetention(time.Hour)
		var all []*recipes.Mutex
		for _, path := range l.mutexes(most + 2) {
			all = append(all, c.Mutex(path, keep))
		}
		l.declare("/rw", kind.RWLock.New())
		use := func(take func(context.Context) (*recipes.Lease, error)) {
			t.Helper()
			x, err := take(t.Context())
			require.NoError(t, err)
			l.unlock(x)
			l.settle()
		}
		use(c.RWMutex("/rw", keep).RLock)
		for _, m := range all[:most-1] {
			use(m.Lock)
		}
		require.Equal(t, most, c.Kept())
		use(c.RWMutex("/rw", keep).RLock)
		use(all[0].Lock) // all[1] is the one that was used least recently
		use(all[most-1].Lock)
		use(all[most].Lock)
		require.Equal(t, most, c.Kept())
		for i, want := range []int{1, 0, 0, 1, 1, 0} {
			require.Len(t, l.children(all[i].Path()), want, "%d", i)
		}
		require.Len(t, l.children("/rw"), 1)
		x, err := all[0].Lock(t.Context()) // in use is not kept
		require.NoError(t, err)
		require.Equal(t, most-1, c.Kept())
		use(all[most+1].Lock)
		require.Len(t, l.children("/rw"), 1)
		l.unlock(x)
		l.settle()
		require.Empty(t, l.children("/rw"))
		time.Sleep(2 * time.Hour)
		for _, m := range all {
			require.Empty(t, l.children(m.Path()))
		}
		require.Zero(t, c.Kept())
		require.Empty(t, c.Leftovers())
	})
}

func TestAClientKeepsAThousandPlaces(t *testing.T) {
	effort.Proof(t, effort.Raced)
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("a")
		for _, path := range l.mutexes(1010) {
			x, err := c.Mutex(path, recipes.WithRetention(time.Hour)).Lock(t.Context())
			require.NoError(t, err)
			x.Release()
		}
		require.Equal(t, 1000, c.Kept())
	})
}
