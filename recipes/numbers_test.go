package recipes_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kind"
)

// settled is how many cycles a client needs on a lock that nobody else wants before it leaves the listing out.
const settled = 3

// own takes and releases a lock until its client leaves the listing out.
func (l *lab) own(lock func(context.Context) (*recipes.Lease, error)) {
	l.t.Helper()
	for range settled {
		x, err := lock(l.t.Context())
		require.NoError(l.t, err)
		l.unlock(x)
	}
}

func TestALockThatNobodyElseWantsIsNotListed(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		a, b := l.client("a"), l.client("b")
		rw := a.RWMutex(l.rwlock())
		l.declare("/election", kind.Election.New())
		for name, lock := range map[string]func(context.Context) (*recipes.Lease, error){
			"mutex":    a.Mutex(l.mutex()).Lock,
			"write":    rw.Lock,
			"read":     rw.RLock,
			"try":      a.Mutex("/m").TryLock,
			"election": a.Election("/election").Campaign,
		} {
			l.own(lock)
			l.srv.ResetCounts()
			for range 5 {
				start := time.Now()
				x, err := lock(t.Context())
				require.NoError(t, err)
				require.Equal(t, 2*oneWay, time.Since(start), name)
				l.unlock(x)
			}
			require.Equal(t, map[string]int{"create": 5, "delete": 5}, l.srv.Counts().ByOp, name)
		}
		// A wrong guess costs one round trip, once.
		x, err := b.Mutex("/m").Lock(t.Context())
		require.NoError(t, err)
		l.unlock(x)
		for i := range settled {
			l.srv.ResetCounts()
			start := time.Now()
			x, err := a.Mutex("/m").Lock(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, l.srv.Counts().ByOp["getChildren2"], "cycle %d", i)
			trips := 1
			if i == 0 {
				trips = 2
			}
			require.Equal(t, time.Duration(trips)*2*oneWay, time.Since(start), "cycle %d", i)
			l.unlock(x)
		}
	})
}

// Everybody else in the queue is met, though the client expects nobody.
func TestARivalThatComesUnexpectedlyIsMet(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		a, b := l.client("a").Mutex(l.mutex()), l.client("b").Mutex("/m")
		l.own(a.Lock)
		held, err := b.Lock(t.Context())
		require.NoError(t, err)
		w := l.locking(a)
		notYet(t, w, "b holds it")
		l.unlock(held)
		r := hostile.Soon(t, w, "it is free")
		require.NoError(t, r.err)
		l.unlock(r.v)

		l.own(a.Lock)
		_, err = b.Lock(t.Context())
		require.NoError(t, err)
		_, err = a.TryLock(t.Context())
		require.ErrorIs(t, err, recipes.ErrHeld)
	})
}

// The numbers of a client's own contenders follow each other, and the first of them is still held.
func TestAClientDoesNotOverlookItsOwnHolders(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		rw := l.client("a").RWMutex(l.rwlock())
		l.own(rw.Lock)
		reads, err := rw.RLock(t.Context())
		require.NoError(t, err)
		w := l.locker(rw.Lock)
		notYet(t, w, "its own client reads")
		l.unlock(reads)
		r := hostile.Soon(t, w, "nobody reads")
		require.NoError(t, r.err)
		reader := l.locker(rw.RLock)
		notYet(t, reader, "its own client writes")
		l.unlock(r.v)
		l.unlock((<-reader).v)
	})
}

// Readers that were granted behind another, and have gone, say nothing of that one.
func TestAReaderThatIsAheadOfOursIsNotOverlooked(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		other, err := l.client("other").RWMutex(l.rwlock()).RLock(t.Context())
		require.NoError(t, err)
		rw := l.client("a").RWMutex("/rw")
		for range 2 * settled {
			x, err := rw.RLock(t.Context())
			require.NoError(t, err)
			l.unlock(x)
		}
		w := l.locker(rw.Lock)
		notYet(t, w, "another reads")
		l.unlock(other)
		l.unlock(hostile.Soon(t, w, "nobody reads").v)
	})
}

// again deletes the queue and makes another, in which a rival holds the number that was our last.
func (l *lab) again() (rival string) {
	l.t.Helper()
	require.NoError(l.t, l.srv.Delete("/m"))
	l.mutex()
	for i := range settled {
		if rival != "" {
			require.NoError(l.t, l.srv.Delete(rival))
		}
		rival = l.foreign("/m", fmt.Sprintf("_c_6e1f1f43-5d9a-4b46-9c3e-0a4f1d2b3c4d-lock-%010d", i), "rival")
	}
	return rival
}

// A queue that is deleted and made again counts anew, and may come to the number that would follow ours.
func TestNumbersOfAQueueThatWasMadeAgainAreNotCompared(t *testing.T) {
	for name, under := range map[string]bool{
		"before the call": false, "while the create is under way": true, "of a set, before": false, "of a set, under way": true,
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				c := l.client("a")
				lock := c.Mutex(l.mutex()).Lock
				if strings.HasPrefix(name, "of a set") {
					l.declare("/n", kind.Mutex.New())
					lock = c.MultiLock(c.Mutex("/m"), c.Mutex("/n")).Lock
				}
				l.own(lock)
				var rival string
				if !under {
					rival = l.again()
					l.settle()
				}
				w := async(func() (*recipes.Lease, error) { return lock(t.Context()) })
				if under {
					synctest.Wait()
					time.Sleep(oneWay / 2)
					rival = l.again()
				}
				l.settle()
				notYet(t, w, "the rival holds it")
				require.Equal(t, rival, l.queue("/m")[0])
				require.Contains(t, l.queue("/m")[1], fmt.Sprintf("%010d", settled), "it would follow")
				require.NoError(t, l.srv.Delete(rival))
				l.unlock(hostile.Soon(t, w, "it is free").v)
			})
		})
	}
}

// Servers tell nothing to a client that may not read the queue any more, so it does not hear that the queue was deleted and
// created again, and a number of the new one may follow its last.
func TestALeaseOfAQueueThatWasMadeAgainUnheardEndsAfterAMoment(t *testing.T) {
	for name, hidden := range map[string]bool{"the server says which queue it is": false, "it says nothing of the queue": true} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				m := l.client("a").Mutex(l.mutex())
				l.own(m.Lock)
				admin, err := l.client("admin").Session(t.Context())
				require.NoError(t, err)
				blind := []zk.ACL{{Scheme: "world", ID: "anyone", Perms: zk.PermCreate | zk.PermDelete | zk.PermAdmin}}
				_, err = admin.SetACL(t.Context(), "/m", blind, -1)
				require.NoError(t, err)
				rival := l.again()
				if hidden {
					l.hide("/m")
				}
				l.settle()
				x, err := m.Lock(t.Context())
				require.NoError(t, err, "nothing tells the client")
				granted := time.Now()
				require.Equal(t, rival, l.queue("/m")[0])
				<-x.Context().Done()
				require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
				require.ErrorContains(t, context.Cause(x.Context()), "created again")
				require.Equal(t, 100*time.Millisecond+4*oneWay, time.Since(granted))
				l.settle()
				require.Equal(t, []string{rival}, l.queue("/m"), "and its node is taken away")
			})
		})
	}
}

// A lease that is held for longer makes sure once, with one read, that its number is of the queue that it knows.
func TestALeaseWithoutAListingIsMadeSureOfAfterAMoment(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex())
		l.own(m.Lock)
		l.srv.ResetCounts()
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Equal(t, map[string]int{"create": 1, "exists": 1, "getData": 1}, l.srv.Counts().ByOp)
		require.NoError(t, context.Cause(x.Context()))
		l.unlock(x)
	})
}

// What is known of the numbers of each member saves the listing of that one.
func TestASetThatNobodyElseWantsIsNotListed(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.declare("/s", kind.Semaphore.New())
		l.declare("/n", kind.Mutex.New())
		c := l.client("a")
		set := c.MultiLock(c.Mutex(l.mutex()), c.Mutex("/n"), c.Semaphore("/s").Share(1), c.RWMutex(l.rwlock()))
		l.own(set.Lock)
		l.srv.ResetCounts()
		l.own(set.Lock)
		require.Equal(t, map[string]int{"multi": 2 * settled, "getChildren2": 2 * settled}, l.srv.Counts().ByOp, "permits are counted in two lists")

		held, err := l.client("b").Mutex("/n").Lock(t.Context())
		require.NoError(t, err)
		_, err = set.TryLock(t.Context())
		require.ErrorIs(t, err, recipes.ErrHeld)
		w := l.locker(set.Lock)
		notYet(t, w, "b holds one of them")
		l.unlock(held)
		l.unlock(hostile.Soon(t, w, "all are free").v)
	})
}

// The next goroutine of the client gets its place in the transaction that ends the last one's. Who has queued in between is
// ahead of it.
func TestAHeirWhoseNumberDoesNotFollowWaits(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex())
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		var line []<-chan result[*recipes.Lease]
		for range 3 * settled {
			line = append(line, l.locking(m))
		}
		turn := func() {
			r := <-line[0]
			require.NoError(t, r.err)
			x, line = r.v, line[1:]
		}
		for range 2 * settled {
			l.srv.ResetCounts()
			l.unlock(x)
			turn()
		}
		require.Equal(t, map[string]int{"multi": 1}, l.srv.Counts().ByOp)
		other := l.locking(l.client("b").Mutex("/m"))
		l.unlock(x)
		r := hostile.Soon(t, other, "it came first")
		require.NoError(t, r.err)
		l.settle()
		notYet(t, line[0], "b holds it")
		l.unlock(r.v)
		for len(line) > 0 {
			turn()
			l.unlock(x)
		}
		require.Empty(t, l.children("/m"))
	})
}
