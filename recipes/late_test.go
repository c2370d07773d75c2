package recipes_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// In these tests a transaction is stuck in a thread of a server while the connection is cut. The client finds that it was not applied, and
// goes on. Then the thread goes on too.

// stuck holds the next transaction on several nodes in the thread that reads it, and cuts the connection.
func (l *lab) stuck(c *recipes.Client, begin func()) (late *zktest.Injection) {
	l.T.Helper()
	late = l.Srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "multi" && len(r.Paths) > 1 }), zktest.HoldReader)
	begin()
	<-late.Hit()
	l.Srv.Disconnect(l.SessionID(c))
	return late
}

// lateSet takes a set with its second transaction, and gives it back. The first transaction is still to come.
func (l *lab) lateSet(c *recipes.Client) (late *zktest.Injection) {
	l.T.Helper()
	paths := l.Mutexes(2)
	var got <-chan result[*recipes.Lease]
	late = l.stuck(c, func() { got = async(func() (*recipes.Lease, error) { return multi(c, paths...).Lock(l.T.Context()) }) })
	l.Unlock(l.Got(got))
	return late
}

// Seen in 2 of 6,329 simulated worlds: the node stayed for as long as its session lived, and blocked its lock for all clients.
func TestASetThatIsAppliedBetweenTheListingsOfItsQueuesLeavesNoNode(t *testing.T) {
	for _, second := range []string{"/m0", "/m1"} {
		runInLab(t, second, func(t *testing.T, l *lab) {
			late := l.lateSet(l.Client("a"))
			look := l.Listing(second, zktest.HoldReader)
			<-look.Hit() // if this is "/m1", "/m0" has been listed
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
		l.warm(c.Mutex(paths[0]).Lock)
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
		l.vacant(paths[0], paths[1])
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

// The lease went on after the failed downgrade. Then the transaction deleted its node, and a reader was granted while the writer still
// believed, for 89 ms.
func TestADowngradeThatMayStillBeExecutedEndsTheLease(t *testing.T) {
	doubtful := 0
	for i := 0; i < 416; i += effort.Of(1, 2) { // cut, reconnect, search, pause: few of these moments lie between two tries
		after := time.Duration(4+i) * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			l := &lab{harness.NewLab(t, zktest.WithLatency(time.Millisecond))}
			c, other := l.Client("writer"), l.Client("reader")
			m, read := c.RWMutex(l.RWLock()), func() (*recipes.Lease, error) { return other.RWMutex("/rw").RLock(context.Background()) }
			warm := must(read())(t)
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

// A closed client stayed in memory for up to an hour if one of its creates had been lost. A timer was to look for the node that a slow
// server might have made.
func TestNothingLooksForALateCreateOnceTheClientIsClosed(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Mutex()
		closed := func() weak.Pointer[session.Session] {
			c := must(recipes.Dial(t.Context(), recipes.Config{Servers: []string{"zk"}, Dialer: l.Srv.DialContext}))(t)
			lost := l.Srv.Inject(zktest.Once(zktest.On("create")), zktest.CutBefore)
			x := l.Lock(c.Mutex("/m").Lock)
			require.Equal(t, 1, lost.Hits())
			lost.Remove()
			l.Unlock(x)
			require.NoError(t, c.Close())
			return weak.Make(x.Session())
		}()
		for range 20 { // a timer that was stopped may be kept until others are due
			time.Sleep(time.Second)
			runtime.GC()
			synctest.Wait()
		}
		require.True(t, closed.Value() == nil, "something still refers to the session")
	})
}

// movedTo makes a client connect to r while moved says so.
func (l *lab) movedTo(r *zktest.Replica, moved *atomic.Bool) func(*recipes.Config) {
	return func(cfg *recipes.Config) {
		cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			if !moved.Load() {
				return l.Srv.DialContext(ctx, network, address)
			}
			return r.DialContext(ctx, network, address)
		}
	}
}

// createLostOn warms a mutex up, and loses the reply to its next create. The client then connects to a replica that the function wrong has
// impaired.
func (l *lab) createLostOn(wrong func(*zktest.Replica)) (*recipes.Client, *recipes.Mutex, *atomic.Bool, *zktest.Injection) {
	r, moved := l.Srv.Replica(), new(atomic.Bool)
	c := l.Client("a", l.movedTo(r, moved))
	m := c.Mutex(l.Mutex())
	l.warm(m.Lock)
	wrong(r)
	moved.Store(true)
	return c, m, moved, l.Srv.Inject(zktest.Once(at("create")), zktest.DropReply)
}

func TestASearchOnAServerThatLagsFindsTheNode(t *testing.T) { // failure matrix, row 3: a follower hides the node, a second one is made
	inLab(t, func(t *testing.T, l *lab) {
		_, m, _, lost := l.createLostOn((*zktest.Replica).Lag)
		before := l.Changes("/m")
		ctx := l.Within(5 * time.Second)
		x, err := m.Lock(ctx)
		require.Equal(t, 1, lost.Hits())
		require.NoError(t, err, "it stands behind itself: %v", l.Children("/m"))
		require.Len(t, l.Children("/m"), 1)
		require.EqualValues(t, 1, l.Changes("/m")-before, "a second one was made, and one deleted")
		l.Unlock(x)
	})
}

// A leader that was cut off answers a sync by itself. So the client took the node for absent, and queued behind it with a second one.
func TestASearchOnALeaderThatWasCutOffFindsTheNode(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c, m, moved, lost := l.createLostOn((*zktest.Replica).CutOff)
		before := l.Changes("/m")
		w := async(func() (*recipes.Lease, error) { return m.Lock(t.Context()) })
		<-lost.Hit()
		time.Sleep(3 * time.Second) // the client searches there for as long as that server has not noticed
		require.Empty(t, w)
		moved.Store(false)
		l.Srv.Disconnect(l.SessionID(c))
		time.Sleep(3 * time.Second)
		require.Len(t, w, 1, "it stands behind itself: %v", l.Children("/m"))
		r := l.Got(w)
		require.Len(t, l.Children("/m"), 1)
		require.EqualValues(t, 1, l.Changes("/m")-before, "a second one was made, and one deleted")
		l.Unlock(r)
	})
}

func TestASessionThatWasIdleGrantsInOneRoundTripAndForAWhile(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		l.warm(m.Lock)
		time.Sleep(time.Hour)
		start := time.Now()
		x := l.Lock(m.Lock)
		require.Equal(t, 2*oneWay, time.Since(start))
		require.Greater(t, time.Until(x.Deadline()), 4*time.Second, "of half a session timeout of 12 s")
		time.Sleep(time.Hour)
		require.NoError(t, x.Context().Err())
		require.Greater(t, time.Until(x.Deadline()), 3*time.Second, "heartbeats move the deadline on")
		l.Unlock(x)
	})
}

func TestASearchIgnoresANodeOfAnotherSession(t *testing.T) { // case 2, 49: CURATOR-498; kazoo adopts it
	inLab(t, func(t *testing.T, l *lab) {
		c, other := l.Client("a"), l.Client("b")
		m := c.Mutex(l.Mutex())
		l.warm(m.Lock)
		s := l.live(c)
		ks := must(m.Contenders(t.Context(), s, 1))(t)
		theirs := l.session(other)
		_, err := theirs.Create(t.Context(), kind.JoinPath("/m", ks[0].Prefix), nil, 3, openACL)
		require.NoError(t, err)
		name := must(recipes.Find(t.Context(), s, ks[0]))(t)
		require.Empty(t, name)
	})
}

// Failures that the simulation has found, each made as small as possible.

// listening reports the operation of every frame before the client writes the frame.
type listening struct {
	net.Conn
	hear func(op int32)
}

func (c listening) Write(frame []byte) (int, error) {
	if len(frame) >= 12 {
		c.hear(int32(binary.BigEndian.Uint32(frame[8:])))
	}
	return c.Conn.Write(frame)
}

func TestCloseEndsLeasesBeforeItTellsTheServers(t *testing.T) { // simulation, seed 175: a rival was granted in between
	for range 50 { // the order of goroutines decided
		inLab(t, func(t *testing.T, l *lab) {
			var x *recipes.Lease
			closed := false
			c := l.Client("a", func(cfg *recipes.Config) {
				cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := l.Srv.DialContext(ctx, network, address)
					if err != nil {
						return nil, err
					}
					return listening{conn, func(op int32) {
						if op == -11 { // closeSession
							closed = true
							require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrClosed)
						}
					}}, nil
				}
			})
			x = l.Lock(c.Mutex(l.Mutex()).Lock)
			require.NoError(t, c.Close())
			require.True(t, closed)
		})
	}
}

func TestATransactionWhoseReplyIsLostIsLostWhenItsNodesAreDeleted(t *testing.T) { // simulation, seed 2130: searched for ever
	for deleted := range 2 {
		runInLab(t, fmt.Sprint("node ", deleted), func(t *testing.T, l *lab) {
			paths := l.Mutexes(2)
			c := l.Client("a")
			l.warm(multi(c, paths...).Lock)
			lost := l.Srv.Inject(zktest.Once(zktest.On("multi")), zktest.DropReply)
			got := async(func() (*recipes.Lease, error) { return multi(c, paths...).Lock(context.Background()) })
			<-lost.Hit()
			l.Srv.RefuseDials(true)
			l.Settle()
			require.NoError(t, l.Srv.Delete(l.Queue(paths[deleted])[0]))
			l.Srv.RefuseDials(false)
			require.ErrorIs(t, within(t, time.Minute, func() error { return (<-got).Err }), recipes.ErrLost)
			time.Sleep(time.Second)
			l.Empty(paths...)
			l.Unlock(l.Lock(multi(c, paths...).Lock))
		})
	}
}

func TestAWaitThatEndsBetweenTwoTriesSaysThatItEnded(t *testing.T) { // simulation, seed 7269: only "was not applied"
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		l.Mutex()
		l.Semaphore(1)
		l.warm(c.Mutex("/m").Lock)
		for name, f := range map[string]taking{
			"mutex":      c.Mutex("/m").Lock,
			"semaphore":  permits(c.Semaphore("/s"), 1),
			"multi-lock": multi(c, "/m").Lock,
		} {
			for ms := 100; ms < 400; ms += 3 { // cut, reconnect, search: somewhere in here lies the pause
				rule := l.Srv.Inject(zktest.Once(zktest.On("create", "multi")), zktest.CutBefore)
				x, err := bounded(time.Duration(ms)*time.Millisecond, f)(t.Context())
				rule.Remove()
				if err == nil {
					l.Unlock(x)
				} else {
					require.ErrorIs(t, err, context.DeadlineExceeded, "%s, %d ms", name, ms)
				}
				time.Sleep(3 * time.Second)
			}
		}
	})
}
