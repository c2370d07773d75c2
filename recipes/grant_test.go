package recipes_test

import (
	"context"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// replace puts a node of somebody else into the place of one, before anybody can have seen it gone.
func (l *lab) replace(node string) {
	l.t.Helper()
	require.NoError(l.t, l.srv.Delete(node))
	require.NoError(l.t, l.srv.Create(node, []byte("not yours")))
}

func TestAHolderWhoseNodeIsAnothersStopsAtOnce(t *testing.T) { // case 28: CURATOR-604
	inLab(t, func(t *testing.T, l *lab) {
		x, err := l.client("a").Mutex(l.mutex()).Lock(t.Context())
		require.NoError(t, err)
		l.settle()
		l.replace(x.Node())
		start := time.Now()
		<-x.Context().Done()
		require.LessOrEqual(t, time.Since(start), 3*oneWay, "the event and one read; a heartbeat would notice later")
		require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
	})
}

func TestAWaiterWhoseNodeIsAnothersIsNeverGranted(t *testing.T) { // case 28, of a waiter
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		x, err := l.client("a").Mutex(m).Lock(t.Context())
		require.NoError(t, err)
		w := l.locking(l.client("b").Mutex(m))
		l.replace(l.queue(m)[1])
		l.unlock(x)
		r := hostile.Soon(t, w, "the waiter was not told")
		require.ErrorIs(t, r.err, recipes.ErrLost)
	})
}

func TestAnExpiredSessionEndsItsLeases(t *testing.T) { // etcd #10811, consul #2332
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("a")
		x, err := c.Mutex(l.mutex()).Lock(t.Context())
		require.NoError(t, err)
		l.settle()
		l.srv.Expire(l.session(c))
		time.Sleep(20 * time.Second) // a session timeout and more, in case only a deadline notices
		synctest.Wait()
		select { // Err would look at the clock: what counts is that the lease ends though nobody looks
		case <-x.Context().Done():
		default:
			require.Fail(t, "the lease outlives its session")
		}
		require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
	})
}

// A follower that has lost its leader goes on answering reads and pings and showing what it has: 5.82 s of two holders
// were measured. It commits nothing.
func TestAGrantNeedsAServerThatCommits(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		x, err := l.client("a").Mutex(m).Lock(t.Context())
		require.NoError(t, err)
		c := l.client("b")
		w := l.locking(c.Mutex(m))
		id := l.session(c)
		cutOff := l.srv.Inject(func(r zktest.Request) bool {
			return r.Session == id && (r.Op == "setData" || r.Op == "multi")
		}, zktest.DropRequest)
		time.Sleep(c.Newest().Timeout()/6 + time.Second) // as long as that what was committed before may count
		l.unlock(x)
		l.settle()
		require.Positive(t, cutOff.Hits(), "it must try to commit something")
		notYet(t, w, "granted on what a server shows")
		cutOff.Remove()
		l.srv.Disconnect(id)
		r := hostile.Soon(t, w, "the server commits again")
		require.NoError(t, r.err)
		l.unlock(r.v)
	})
}

func TestTheQueueKeepsItsOrderWhereNumbersWrap(t *testing.T) { // case 58: ZooKeeper numbers on at -2147483648
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		order := []string{"b-lock-2147483646", "d-lock-2147483647", "c-lock--2147483648", "a-lock--2147483647"}
		for _, i := range []int{2, 0, 3, 1} {
			l.foreign(m, order[i], "")
		}
		in, err := inspect.Lock(t.Context(), l.client("who"), m)
		require.NoError(t, err)
		var got []string
		for _, k := range append(in.Holders, in.Waiters...) {
			got = append(got, path.Base(k.Path))
		}
		require.Equal(t, order, got)
		_, _, err = recipes.Decide(kind.Mutex.Queues[0], nil, order, order[2])
		require.NoError(t, err)
		granted, behind, err := recipes.Decide(kind.Mutex.Queues[0], nil, order, order[2])
		require.NoError(t, err)
		require.False(t, granted, "the first number beyond the wrap jumps the queue")
		require.Equal(t, order[1], behind)
	})
}

// Two that take their first place at the same moment, each where the other takes its second.
func TestMultiLocksOfOppositeOrderStartedAtOnceBothGetTheirTurn(t *testing.T) { // case 50: Curator InterProcessMultiLock
	inLab(t, func(t *testing.T, l *lab) {
		l.declare("/x", kind.Mutex.New())
		l.declare("/y", kind.Mutex.New())
		done := make(chan error, 2)
		for _, order := range [][]string{{"/x", "/y"}, {"/y", "/x"}} {
			c := l.client("c")
			l.warmDeclaration(c.Mutex("/x"))
			l.warmDeclaration(c.Mutex("/y"))
			start := time.Now().Truncate(time.Second).Add(2 * time.Second)
			go func() {
				time.Sleep(time.Until(start))
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				both := c.MultiLock(c.Mutex(order[0]), c.Mutex(order[1]))
				done <- both.Do(ctx, func(context.Context, *recipes.Lease) error { return nil })
			}()
		}
		require.NoError(t, <-done)
		require.NoError(t, <-done)
	})
}

func TestAnyPermitThatComesBackIsNoticed(t *testing.T) { // case 45: Curator V1 watches one of them
	for which := range 2 {
		inLab(t, func(t *testing.T, l *lab) {
			l.semaphore(2)
			var held [2]*recipes.Lease
			for i := range held {
				x, err := l.client("holder").Semaphore("/s").Acquire(t.Context(), 1)
				require.NoError(t, err)
				held[i] = x
			}
			w := l.drawing(l.client("waiter"), 1)
			l.unlock(held[which])
			r := hostile.Soon(t, w, "a permit is free")
			require.NoError(t, r.err)
			l.unlock(r.v)
			l.unlock(held[1-which])
		})
	}
}
