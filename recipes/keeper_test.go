package recipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/zktest"
)

// inKeeperLab is inLab against a ClickHouse Keeper, as zktest has it.
func inKeeperLab(t *testing.T, f func(t *testing.T, l *lab)) {
	t.Helper()
	harness.Bubble(t, func(t *testing.T) {
		f(t, &lab{t: t, srv: zktest.Start(t, zktest.WithKeeper(), zktest.WithLatency(oneWay))})
	})
}

// through makes a client know one server of several.
func through(r *zktest.Replica) func(*recipes.Config) {
	return func(c *recipes.Config) { c.Dialer = r.DialContext }
}

// No session of a Keeper can be resumed, and its nodes stay for a session timeout: a client would queue behind itself.
func TestNobodyWaitsForTheNodesOfItsOwnSessionThatAKeeperHasNotEndedYet(t *testing.T) {
	for what, leave := range leaves {
		for name, take := range retakers() {
			t.Run(what+"/"+name, func(t *testing.T) {
				inKeeperLab(t, func(t *testing.T, l *lab) {
					l.declareAll(1)
					c := l.client("a")
					l.read(take, c)
					leave(l, take, c)
					first := c.Newest().ID()
					began := time.Now()
					l.srv.Disconnect(first)
					time.Sleep(2 * oneWay)
					x, err := again(take, c)
					require.NoError(t, err)
					require.Less(t, time.Since(began), 3*time.Second, "up to a second for each connection that ended soon")
					l.unlock(x)
					time.Sleep(2 * time.Second) // whoever held a share gives it back
					require.NoError(t, c.Close())
					for _, s := range l.srv.Sessions() {
						require.False(t, s.Connected, "it lives on, as nobody can close it")
						require.Empty(t, s.Ephemerals)
					}
				})
			})
		}
	}
}

// The session is all there is to believe in, so a lease ends with the connection and not half a session timeout later.
func TestALeaseEndsWithTheConnectionToAKeeper(t *testing.T) {
	for name, take := range retakers() {
		t.Run(name, func(t *testing.T) {
			inKeeperLab(t, func(t *testing.T, l *lab) {
				l.declareAll(1)
				c, other := l.client("a"), l.client("b")
				l.read(take, c, other)
				x, err := take(t.Context(), c, 0)
				require.NoError(t, err)
				began := time.Now()
				l.srv.Disconnect(l.session(c))
				<-x.Context().Done()
				require.Equal(t, oneWay, time.Since(began))
				require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
				// What ran under it may still run, so its place stays until it is given back, for everybody.
				rival := take
				if name == "read" {
					rival = takers["write"]
				}
				got := async(func() (*recipes.Lease, error) { return rival(context.Background(), other, 0) })
				l.settle()
				notYet(t, got, "the first holder has not given back yet")
				require.ErrorIs(t, x.Unlock(context.Background()), recipes.ErrLost)
				_, err = c.Session(t.Context()) // the next one, which removes what is left of the first
				require.NoError(t, err)
				l.settle()
				require.Len(t, got, 1)
				r := <-got
				require.NoError(t, r.err)
				l.unlock(r.v)
			})
		})
	}
}

// A thread of a Keeper that stands still creates a contender when the client has gone on in another session. There is no closing the
// first one, and nobody is to wait for its end.
func TestWhatAKeeperCreatesLateInALostSessionIsRemoved(t *testing.T) {
	inKeeperLab(t, func(t *testing.T, l *lab) {
		path := l.mutex()
		a, b := l.client("a"), l.client("b")
		require.NoError(t, a.Mutex(path).Declared(t.Context()))
		late := l.srv.Inject(zktest.Once(zktest.On("create")), zktest.HoldReader)
		got := async(func() (*recipes.Lease, error) {
			return again(func(ctx context.Context, c *recipes.Client, _ int) (*recipes.Lease, error) {
				return c.Mutex(path).Lock(ctx)
			}, a)
		})
		<-late.Hit()
		first := l.session(a)
		l.srv.Disconnect(first)
		r := <-got
		require.NoError(t, r.err)
		require.NotEqual(t, first, r.v.SessionID())
		late.Release()
		synctest.Wait()
		require.Len(t, l.children(path), 2, "the contender of the lost session stands behind the holder")
		waits := l.locking(b.Mutex(path))
		began := time.Now()
		l.unlock(r.v)
		next := <-waits
		require.NoError(t, next.err)
		require.Less(t, next.at.Sub(began), 2*time.Second)
		l.unlock(next.v)
	})
}

func TestCloseOnAKeeperRemovesTheNodesAndIsConfirmed(t *testing.T) {
	inKeeperLab(t, func(t *testing.T, l *lab) {
		path := l.mutex()
		c := l.client("a")
		_, err := c.Mutex(path).Lock(t.Context())
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, c.Close())
		require.Equal(t, 2*oneWay, time.Since(began))
		require.Empty(t, l.children(path))
		require.Empty(t, l.srv.Sessions())
	})
}

// stopped is a holder whose Keeper has stopped: its session is over, and it does not know. The connection stays, as it does until the
// process has gone.
func stopped(t *testing.T, after time.Duration, f func(l *lab, x *recipes.Lease, rival *recipes.Client)) {
	t.Helper()
	inKeeperLab(t, func(t *testing.T, l *lab) {
		path, follower := l.mutex(), l.srv.Replica()
		require.NoError(t, l.srv.Create("/guarded", nil))
		holder, rival := l.client("holder", through(follower)), l.client("rival")
		require.NoError(t, rival.Mutex(path).Declared(t.Context()))
		x, err := holder.Mutex(path).Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(after)
		follower.Stop()
		f(l, x, rival)
	})
}

// Between the end of its session and that of its connection a holder is believed beside the next one. This is how long that lasts.
func TestTheWindowOfAStoppingKeeperIsASixthOfASessionTimeout(t *testing.T) {
	const timeout = 12 * time.Second
	var longest time.Duration
	for i := range 60 {
		stopped(t, time.Duration(i)*timeout/31, func(l *lab, x *recipes.Lease, rival *recipes.Client) {
			began := time.Now()
			y, err := rival.Mutex("/m").Lock(l.t.Context())
			require.NoError(l.t, err)
			require.Equal(l.t, 2*oneWay, time.Since(began), "nothing is in its way")
			if x.Context().Err() == nil {
				require.NoError(l.t, y.Context().Err(), "this is the window: both are believed")
				require.Greater(l.t, y.Token(), x.Token(), "and whoever asks for the token tells them apart")
			}
			<-x.Context().Done()
			longest = max(longest, time.Since(began))
			require.ErrorIs(l.t, context.Cause(x.Context()), recipes.ErrLost)
			l.unlock(y)
		})
	}
	require.LessOrEqual(t, longest, timeout/6+2*oneWay)
	require.Greater(t, longest, timeout/12, "the window was hardly looked at")
	t.Logf("a stopped Keeper's lease was believed for %v of %v", longest, timeout)
}

// Where the network is gone too, the lease ends by the clock, as everywhere.
func TestTheWindowOfAStoppingKeeperEndsByTheClockWhereTheNetworkIsGone(t *testing.T) {
	for i := range 10 {
		stopped(t, time.Duration(i)*700*time.Millisecond, func(l *lab, x *recipes.Lease, _ *recipes.Client) {
			began := time.Now()
			l.srv.Partition(x.SessionID(), zktest.Both)
			<-x.Context().Done()
			require.LessOrEqual(l.t, time.Since(began), 6*time.Second)
		})
	}
}

func TestGuardedWritesAndVerifyRefuseInTheWindowOfAStoppingKeeper(t *testing.T) {
	for name, ask := range map[string]func(x *recipes.Lease) error{
		"Multi": func(x *recipes.Lease) error {
			_, err := x.Multi(context.Background(), &zk.SetDataRequest{Path: "/guarded", Data: []byte("late"), Version: -1})
			return err
		},
		"Verify": func(x *recipes.Lease) error { return x.Verify(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			stopped(t, time.Second, func(l *lab, x *recipes.Lease, rival *recipes.Client) {
				y, err := rival.Mutex("/m").Lock(l.t.Context())
				require.NoError(l.t, err)
				require.NoError(l.t, x.Context().Err())
				require.Error(l.t, ask(x))
				n, _ := l.srv.Get("/guarded")
				require.Empty(l.t, n.Data)
				l.settle()
				require.Error(l.t, x.Context().Err(), "the question has ended the connection, and so the lease")
				require.NoError(l.t, y.Context().Err())
				l.unlock(y)
			})
		})
	}
}
