package zktest_test

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

type dialer = func(network, address string, timeout time.Duration) (net.Conn, error)

// dialVia connects through one dialer a host name, in the given order.
func dialVia(t *testing.T, dialers map[string]dialer, order ...string) *client {
	t.Helper()
	c := &client{states: make(chan zk.State, 1000)}
	var err error
	c.Conn, c.events, err = zk.Connect(order, 10*time.Second, zk.WithHostProvider(&hosts{fixed: order}),
		zk.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
			return dialers[address](network, address, timeout)
		}), zk.WithLogger(quiet{}), zk.WithLogInfo(false), zk.WithEventCallback(func(e zk.Event) {
			if e.Type == zk.EventSession {
				c.states <- e.State
			}
		}))
	require.NoError(t, err)
	c.await(t, zk.StateHasSession)
	return c
}

func TestALaggingReplicaShowsTheOldViewUntilItIsSyncedOrWrittenThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New()
		defer s.Close()
		r := s.Replica()
		require.NoError(t, s.Create("/a", []byte("old")))
		c := dialVia(t, map[string]dialer{"r": r.Dialer()}, "r")
		defer c.end()
		r.Lag()
		_, _, ch, err := c.GetW("/a")
		require.NoError(t, err)
		require.NoError(t, s.Set("/a", []byte("new")))
		data, _, err := c.Get("/a")
		require.NoError(t, err)
		require.Equal(t, "old", string(data))
		synctest.Wait()
		require.Empty(t, ch, "a replica cannot tell what it does not know")
		_, err = c.Sync("/a")
		require.NoError(t, err)
		require.Equal(t, zk.EventNodeDataChanged, (<-ch).Type)
		data, _, err = c.Get("/a")
		require.NoError(t, err)
		require.Equal(t, "new", string(data))

		require.NoError(t, s.Set("/a", []byte("newer")))
		data, _, err = c.Get("/a")
		require.NoError(t, err)
		require.Equal(t, "new", string(data), "a sync does not end the lag")
		_, err = c.Create("/b", nil, 0, open)
		require.NoError(t, err)
		data, _, err = c.Get("/a")
		require.NoError(t, err)
		require.Equal(t, "newer", string(data))
	})
}

func TestAReplicaThatIsCutOffAnswersSyncsAndNoWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New()
		defer s.Close()
		r := s.Replica()
		require.NoError(t, s.Create("/a", []byte("old")))
		c := dialVia(t, map[string]dialer{"r": r.Dialer()}, "r")
		defer c.end()
		r.CutOff()
		require.NoError(t, s.Set("/a", []byte("new")))
		_, err := c.Sync("/a")
		require.NoError(t, err)
		data, _, err := c.Get("/a")
		require.NoError(t, err)
		require.Equal(t, "old", string(data), "it asks nobody")
		written := make(chan error, 1)
		go func() {
			_, err := c.Create("/b", nil, 0, open)
			written <- err
		}()
		time.Sleep(5 * time.Second)
		require.Empty(t, written)
		r.CatchUp()
		s.Disconnect(c.SessionID())
		require.ErrorIs(t, <-written, zk.ErrConnectionClosed)
		_, ok := s.Get("/b")
		require.False(t, ok)
		c.await(t, zk.StateHasSession)
		data, _, err = c.Get("/a")
		require.NoError(t, err)
		require.Equal(t, "new", string(data))
	})
}

// As on a real follower, which answers pings by itself and applies its log in order (5.82 s of two believed holders were
// measured behind one that was cut off).
func TestAReplicaThatIsBehindKeepsASessionThatHasEnded(t *testing.T) {
	for name, behind := range map[string]func(*zktest.Replica){"lags": (*zktest.Replica).Lag, "cut off": (*zktest.Replica).CutOff} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.New()
			defer s.Close()
			r := s.Replica()
			c := dialVia(t, map[string]dialer{"r": r.Dialer()}, "r")
			defer c.end()
			_, err := c.Create("/mine", nil, zk.FlagEphemeral, open)
			require.NoError(t, err)
			var gone <-chan zk.Event
			if name == "lags" { // go-zookeeper races with itself when it reconnects with a watch
				_, _, gone, err = c.GetW("/mine")
				require.NoError(t, err)
			}
			behind(r)
			if name == "lags" {
				time.Sleep(time.Minute)
				require.Len(t, s.Sessions(), 1, "pings through it still count")
				s.Expire(c.SessionID())
			}
			time.Sleep(time.Minute)
			require.Empty(t, s.Sessions())
			_, ok := s.Get("/mine")
			require.False(t, ok)
			require.Equal(t, zk.StateHasSession, c.State(), name)
			_, _, err = c.Get("/mine")
			require.NoError(t, err, "it shows what it has")
			require.Empty(t, gone)
			if name == "cut off" {
				s.Disconnect(c.SessionID())
				c.await(t, zk.StateHasSession)
				_, _, gone, err = c.GetW("/mine")
				require.NoError(t, err, "it lets a session in that it does not know to be over")
			}
			r.CatchUp()
			require.Equal(t, zk.EventNodeDeleted, (<-gone).Type, "the events of the end come before the end")
			c.await(t, zk.StateExpired)
		})
	}
}

func TestAWriteOfAnEndedSessionTellsALaggingReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New()
		defer s.Close()
		r := s.Replica()
		c := dialVia(t, map[string]dialer{"r": r.Dialer()}, "r")
		defer c.end()
		r.Lag()
		s.Expire(c.SessionID())
		_, _, err := c.Get("/")
		require.NoError(t, err)
		_, err = c.Create("/late", nil, 0, open)
		require.Error(t, err)
		_, ok := s.Get("/late")
		require.False(t, ok)
	})
}

func TestAReconnectLandsOnStaleStateAndCatchUpTellsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New()
		defer s.Close()
		r := s.Replica()
		c := dialVia(t, map[string]dialer{"leader": s.Dialer(), "r": r.Dialer()}, "leader", "r")
		defer c.end()
		_, err := c.Create("/before", nil, 0, open)
		require.NoError(t, err)
		r.Lag()
		i := s.Inject(zktest.Once(zktest.On("create")), zktest.DropReply)
		_, err = c.Create("/lost", nil, zk.FlagEphemeral, open)
		require.ErrorIs(t, err, zk.ErrConnectionClosed)
		require.Equal(t, 1, i.Hits())
		c.await(t, zk.StateHasSession)
		_, ok := s.Get("/lost")
		require.True(t, ok)
		ok, _, made, err := c.ExistsW("/lost")
		require.NoError(t, err)
		require.False(t, ok, "the replica has not seen the create")
		r.CatchUp()
		require.Equal(t, zk.EventNodeCreated, (<-made).Type)
		require.Equal(t, c.SessionID(), s.Sessions()[0].ID)
	})
}

func TestAReplicaRefusesAClientThatHasSeenMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New()
		defer s.Close()
		r := s.Replica()
		dialed := make(chan string, 100)
		via := func(name string, d dialer) dialer {
			return func(network, address string, timeout time.Duration) (net.Conn, error) {
				dialed <- name
				return d(network, address, timeout)
			}
		}
		c := dialVia(t, map[string]dialer{"leader": via("leader", s.Dialer()), "r": via("r", r.Dialer())}, "leader", "r")
		defer c.end()
		r.Lag()
		_, err := c.Create("/a", nil, 0, open)
		require.NoError(t, err)
		s.Disconnect(c.SessionID())
		c.await(t, zk.StateHasSession)
		close(dialed)
		var order []string
		for name := range dialed {
			order = append(order, name)
		}
		require.Equal(t, []string{"leader", "r", "leader"}, order)
		ok, _, err := c.Exists("/a")
		require.NoError(t, err)
		require.True(t, ok)
	})
}
