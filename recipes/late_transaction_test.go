package recipes_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// A transaction stands in a thread of a server while the connection is cut, the client finds that it was not applied, and goes
// on. Then the thread goes on too.

// stuck holds the next transaction on several nodes in its reader, and cuts the connection.
func (l *lab) stuck(c *recipes.Client, begin func()) (late *zktest.Injection) {
	l.t.Helper()
	late = l.srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "multi" && len(r.Paths) > 1 }), zktest.HoldReader)
	begin()
	<-late.Hit()
	l.srv.Disconnect(l.session(c))
	return late
}

// listing holds the next listing of a queue.
func (l *lab) listing(dir string, f zktest.Fault) *zktest.Injection {
	return l.srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "getChildren2" && r.Path == dir }), f)
}

// lateSet takes a set by its second transaction, and gives it back; the first is still to come.
func (l *lab) lateSet(c *recipes.Client) (late *zktest.Injection) {
	l.t.Helper()
	paths := l.mutexes(2)
	var got <-chan result[*recipes.Lease]
	late = l.stuck(c, func() { got = async(func() (*recipes.Lease, error) { return multi(c, paths...).Lock(l.t.Context()) }) })
	r := <-got
	require.NoError(l.t, r.err)
	l.unlock(r.v)
	return late
}

// Seen in 2 of 6,329 simulated worlds: the node stayed for as long as its session lived, and blocked its lock for everybody.
func TestASetThatIsAppliedBetweenTheListingsOfItsQueuesLeavesNoNode(t *testing.T) {
	for _, second := range []string{"/m0", "/m1"} {
		t.Run(second, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				late := l.lateSet(l.client("a"))
				look := l.listing(second, zktest.HoldReader)
				<-look.Hit() // "/m1": "/m0" has been listed
				late.Release()
				l.settle()
				look.Release()
				time.Sleep(time.Minute)
				require.Empty(t, append(l.children("/m0"), l.children("/m1")...), "a node that nobody owns")
			})
		})
	}
}

func TestASetThatIsAppliedWhileItIsSearchedForIsGranted(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("a")
		paths := l.mutexes(2)
		l.warm(c.Mutex(paths[0]))
		var got <-chan result[*recipes.Lease]
		late := l.stuck(c, func() {
			got = async(func() (*recipes.Lease, error) { return multi(c, paths...).Lock(t.Context()) })
			l.srv.RefuseDials(true)
		})
		look := l.listing(paths[1], zktest.HoldReader)
		l.srv.RefuseDials(false)
		<-look.Hit() // the first queue has been searched
		late.Release()
		l.settle()
		look.Release()
		r := <-got
		require.NoError(t, r.err)
		l.unlock(r.v)
		l.settle()
		require.Empty(t, append(l.children(paths[0]), l.children(paths[1])...))
	})
}

func TestALookForALateNodeThatIsNotAnsweredIsNotTheLast(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		late := l.lateSet(l.client("a"))
		refused := l.srv.Inject(func(r zktest.Request) bool { return r.Op == "getChildren2" && strings.HasPrefix(r.Path, "/m") },
			zktest.Fail(zktest.CodeNoAuth))
		time.Sleep(3 * time.Hour) // the last look would have been after 8,191 s
		require.Greater(t, refused.Hits(), 10)
		late.Release()
		refused.Remove()
		time.Sleep(2 * time.Hour)
		require.Empty(t, append(l.children("/m0"), l.children("/m1")...), "a node that nobody owns")
	})
}

// The lease was held as before; then the transaction deleted its node, and a reader was granted while the writer believed, for 89 ms.
func TestADowngradeThatMayStillBeExecutedEndsTheLease(t *testing.T) {
	doubtful := 0
	for i := 0; i < 416; i += effort.Of(1, 2) { // cut, reconnect, search, pause: few of these moments lie between two tries
		after := time.Duration(4+i) * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			l := &lab{t: t, srv: zktest.Start(t, zktest.WithLatency(time.Millisecond))}
			c, other := l.client("writer"), l.client("reader")
			m, read := c.RWMutex(l.rwlock()), func() (*recipes.Lease, error) { return other.RWMutex("/rw").RLock(context.Background()) }
			warm, err := read()
			require.NoError(t, err)
			l.unlock(warm)
			w, err := m.Lock(t.Context())
			require.NoError(t, err)
			l.settle()
			ctx, cancel := context.WithCancel(t.Context())
			var down <-chan result[*recipes.Lease]
			late := l.stuck(c, func() { down = async(func() (*recipes.Lease, error) { return m.Downgrade(ctx, w) }) })
			time.Sleep(after)
			cancel()
			r := <-down
			if r.err == nil { // by a second transaction: the first finds no writer
				late.Release()
				l.unlock(r.v)
				return
			}
			require.Same(t, w, r.v)
			if errors.Is(r.err, recipes.ErrNotApplied) {
				doubtful++
			}
			reader := async(func() (*recipes.Lease, error) {
				got, err := read()
				require.Error(t, w.Context().Err(), "a reader is granted while the writer believes: %v", r.err)
				return got, err
			})
			time.Sleep(10 * time.Millisecond)
			late.Release()
			require.ErrorIs(t, r.err, recipes.ErrLost)
			require.ErrorIs(t, w.Unlock(t.Context()), recipes.ErrLost)
			l.unlock((<-reader).v)
			time.Sleep(time.Minute)
			require.Empty(t, l.children("/rw"))
		})
	}
	require.Positive(t, doubtful, "no call ended between two tries")
}
