package recipes

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

func pipeDialer(srv *zktest.Server) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		by, _ := ctx.Deadline()
		return srv.Dialer()(network, address, time.Until(by))
	}
}

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		c, err := Dial(t.Context(), Config{Servers: []string{"a"}, Dialer: pipeDialer(srv), SessionTimeout: 12 * time.Second})
		require.NoError(t, err)
		s, err := c.Session(t.Context())
		require.NoError(t, err)
		p, err := s.Create(t.Context(), "/a", []byte("x"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		require.Equal(t, "/a", p)
		_, st, w, err := s.getW(t.Context(), "/a")
		require.NoError(t, err)
		require.Zero(t, st.Version)
		require.NoError(t, srv.Set("/a", []byte("y")))
		<-w.C()
		w.stop()
		srv.ResetCounts()
		created, cerr, lists, lerr := s.createAndList(t.Context(), &zk.CreateRequest{Path: "/a/guid-", Acl: zk.WorldACL(zk.PermAll), Flags: 3}, "/a")
		require.NoError(t, cerr)
		require.NoError(t, lerr)
		t.Log(created, lists, srv.Counts())
		require.NoError(t, s.confirm(t.Context(), created))
		rel, err := s.hold(created)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		t.Log(s.State(), srv.Counts(), time.Until(s.leaseDeadline()))
		rel()
		require.NoError(t, c.Close())
		t.Log(s.Err(), len(srv.Sessions()))
	})
}
