package session

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

func inKeeper(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, zktest.Start(t, zktest.WithKeeper())) })
}

// A password of zeros is a Keeper's, except beside a timeout of 0, with which ZooKeeper says that a session has expired.
func TestAKeeperIsRecognisedByItsPassword(t *testing.T) {
	inKeeper(t, func(t *testing.T, srv *zktest.Server) {
		_, s := open(t, srv)
		require.Equal(t, Keeper, s.Kind())
	})
	synctest.Test(t, func(t *testing.T) {
		_, s := open(t, zktest.Start(t))
		require.Equal(t, ZooKeeper, s.Kind())
	})
	zeros := Secret(newPassword)
	require.Equal(t, Keeper, grant{id: 1, timeout: 10_000, password: zeros}.kind())
	require.Equal(t, ZooKeeper, grant{password: zeros}.kind())
	require.Equal(t, ZooKeeper, grant{id: 1, timeout: 10_000, password: "1234567890123456"}.kind())
	require.Equal(t, ZooKeeper, grant{id: 1, timeout: 10_000}.kind())
}

// A Keeper's rejection has a session id, which is none.
func TestAKeeperWithoutALeaderIsLeftForTheNextServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idle, srv := zktest.Start(t, zktest.WithKeeper()), zktest.Start(t, zktest.WithKeeper())
		idle.SetReadOnly(true)
		_, err := Dial(t.Context(), Config{Servers: []string{"zk"}, Dialer: idle.DialContext, SessionTimeout: 12 * time.Second})
		require.ErrorIs(t, err, ErrUnreachable)
		require.ErrorContains(t, err, "ClickHouse Keeper that has no leader")
		either := func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "idle") {
				return idle.DialContext(ctx, network, address)
			}
			return srv.DialContext(ctx, network, address)
		}
		for range 5 {
			c, err := Dial(t.Context(), Config{Servers: []string{"idle", "busy"}, Dialer: either, SessionTimeout: 12 * time.Second})
			require.NoError(t, err)
			require.NoError(t, c.Close())
		}
	})
}

func TestAKeepersSessionIsLostWithItsConnection(t *testing.T) {
	inKeeper(t, func(t *testing.T, srv *zktest.Server) {
		c, s := open(t, srv)
		path := s.mustCreate(t, "/e", zk.FlagEphemeral)
		var told error
		release, err := s.Hold(t.Context(), func(err error) { told = err }, path)
		require.NoError(t, err)
		defer release()
		srv.Disconnect(s.ID())
		synctest.Wait()
		require.Equal(t, StateLost, s.State())
		require.ErrorIs(t, told, ErrLost)
		require.ErrorContains(t, s.Err(), "resumes no session")
		require.False(t, s.Gone(), "the servers have not said so")
		require.False(t, s.Deadline().After(time.Now()))
		next, err := c.Session(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, s.ID(), next.ID())
		require.Equal(t, 2, srv.Counts().Connections, "the lost session was not asked for again")
	})
}

// What a Keeper may not know would cost the connection, and with it the session.
func TestNothingOptionalIsAskedOfAKeeper(t *testing.T) {
	inKeeper(t, func(t *testing.T, srv *zktest.Server) {
		_, s := open(t, srv)
		s.mustCreate(t, "/a", 0)
		_, _, w, err := s.GetW(t.Context(), "/a")
		require.NoError(t, err)
		w.Remove()
		_, err = s.SetWatches(t.Context(), 0, []string{"/a"}, nil, func() {})
		require.Equal(t, OutcomeNotSent, OutcomeOf(err))
		require.NoError(t, s.Sync(t.Context(), "/a"))
		synctest.Wait()
		require.NoError(t, s.Err())
		require.Empty(t, s.Stats().Watches)
	})
}

// Each session that a Keeper grants is a commit, and lives for its timeout. A client that asks for the next one without a pause fills
// a Keeper that drops its connections with them.
func TestAKeeperThatDropsItsConnectionsIsNotFilledWithSessions(t *testing.T) {
	inKeeper(t, func(t *testing.T, srv *zktest.Server) {
		c, _ := open(t, srv)
		began := time.Now()
		for time.Since(began) < time.Minute {
			s, err := c.Session(t.Context())
			require.NoError(t, err)
			srv.Disconnect(s.ID())
			<-s.Done()
		}
		require.LessOrEqual(t, srv.Counts().Connections, 125)
	})
}
