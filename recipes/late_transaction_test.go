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
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// A transaction stands in a thread of a server while the connection is cut, the client finds that it was not applied, and goes
// on. Then the thread goes on too.

// stuck holds the next transaction on several nodes in its reader, and cuts the connection.
func (l *lab) stuck(c *recipes.Client, begin func()) (late *zktest.Injection) {
	l.T.Helper()
	late = l.Srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "multi" && len(r.Paths) > 1 }), zktest.HoldReader)
	begin()
	<-late.Hit()
	l.Srv.Disconnect(l.SessionID(c))
	return late
}

// lateSet takes a set by its second transaction, and gives it back; the first is still to come.
func (l *lab) lateSet(c *recipes.Client) (late *zktest.Injection) {
	l.T.Helper()
	paths := l.Mutexes(2)
	var got <-chan result[*recipes.Lease]
	late = l.stuck(c, func() { got = async(func() (*recipes.Lease, error) { return multi(c, paths...).Lock(l.T.Context()) }) })
	l.Unlock(l.Got(got))
	return late
}

// Seen in 2 of 6,329 simulated worlds: the node stayed for as long as its session lived, and blocked its lock for everybody.
func TestASetThatIsAppliedBetweenTheListingsOfItsQueuesLeavesNoNode(t *testing.T) {
	for _, second := range []string{"/m0", "/m1"} {
		runInLab(t, second, func(t *testing.T, l *lab) {
			late := l.lateSet(l.Client("a"))
			look := l.Listing(second, zktest.HoldReader)
			<-look.Hit() // "/m1": "/m0" has been listed
			late.Release()
			l.Settle()
			look.Release()
			time.Sleep(time.Minute)
			l.Empty("/m0", "/m1")
		})
	}
}

func TestASetThatIsAppliedWhileItIsSearchedForIsGranted(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		paths := l.Mutexes(2)
		l.warm(c.Mutex(paths[0]))
		var got <-chan result[*recipes.Lease]
		late := l.stuck(c, func() {
			got = async(func() (*recipes.Lease, error) { return multi(c, paths...).Lock(t.Context()) })
			l.Srv.RefuseDials(true)
		})
		look := l.Listing(paths[1], zktest.HoldReader)
		l.Srv.RefuseDials(false)
		<-look.Hit() // the first queue has been searched
		late.Release()
		l.Settle()
		look.Release()
		l.Unlock(l.Got(got))
		l.Settle()
		l.Empty(paths[0], paths[1])
	})
}

func TestALookForALateNodeThatIsNotAnsweredIsNotTheLast(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		late := l.lateSet(l.Client("a"))
		refused := l.Srv.Inject(func(r zktest.Request) bool { return r.Op == "getChildren2" && strings.HasPrefix(r.Path, "/m") },
			zktest.Fail(zktest.CodeNoAuth))
		time.Sleep(3 * time.Hour) // the last look would have been after 8,191 s
		require.Greater(t, refused.Hits(), 10)
		late.Release()
		refused.Remove()
		time.Sleep(2 * time.Hour)
		l.Empty("/m0", "/m1")
	})
}

// The lease was held as before; then the transaction deleted its node, and a reader was granted while the writer believed, for 89 ms.
func TestADowngradeThatMayStillBeExecutedEndsTheLease(t *testing.T) {
	doubtful := 0
	for i := 0; i < 416; i += effort.Of(1, 2) { // cut, reconnect, search, pause: few of these moments lie between two tries
		after := time.Duration(4+i) * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			l := &lab{harness.NewLab(t, zktest.WithLatency(time.Millisecond))}
			c, other := l.Client("writer"), l.Client("reader")
			m, read := c.RWMutex(l.RWLock()), func() (*recipes.Lease, error) { return other.RWMutex("/rw").RLock(context.Background()) }
			warm, err := read()
			require.NoError(t, err)
			l.Unlock(warm)
			w := l.Lock(m.Lock)
			l.Settle()
			ctx, cancel := context.WithCancel(t.Context())
			var down <-chan result[*recipes.Lease]
			late := l.stuck(c, func() { down = async(func() (*recipes.Lease, error) { return m.Downgrade(ctx, w) }) })
			time.Sleep(after)
			cancel()
			r := <-down
			if r.Err == nil { // by a second transaction: the first finds no writer
				late.Release()
				l.Unlock(r.V)
				return
			}
			require.Same(t, w, r.V)
			if errors.Is(r.Err, recipes.ErrNotApplied) {
				doubtful++
			}
			reader := async(func() (*recipes.Lease, error) {
				got, err := read()
				require.Error(t, w.Context().Err(), "a reader is granted while the writer believes: %v", r.Err)
				return got, err
			})
			time.Sleep(10 * time.Millisecond)
			late.Release()
			require.ErrorIs(t, r.Err, recipes.ErrLost)
			require.ErrorIs(t, w.Unlock(t.Context()), recipes.ErrLost)
			l.Unlock((<-reader).V)
			time.Sleep(time.Minute)
			l.Empty("/rw")
		})
	}
	require.Positive(t, doubtful, "no call ended between two tries")
}
