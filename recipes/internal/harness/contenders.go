package harness

import (
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// Declare declares a lock, and returns p, its parameters.
func Declare[P kind.Params](t testing.TB, srv *zktest.Server, path string, p P) P {
	t.Helper()
	require.NoError(t, srv.Provision(path, &kind.Payload{Params: p, Owner: kind.Owner{Stack: "test", Addr: "a." + kind.BaseName(path)}}))
	return p
}

// ReadOnly dials a session that cannot write.
func ReadOnly(t testing.TB, srv *zktest.Server) *session.Client {
	t.Helper()
	c, err := session.Dial(t.Context(), session.Config{Servers: []string{"zk:2181"}, ReadOnly: true, SessionTimeout: 30 * time.Second, ConnectTimeout: time.Minute, Dialer: srv.DialContext})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Foreign dials a session, and creates contenders of that session with the names of another library.
func Foreign(t testing.TB, srv *zktest.Server, paths ...string) *session.Session {
	t.Helper()
	c, err := session.Dial(t.Context(), session.Config{Servers: []string{"zk:2181"}, Dialer: srv.DialContext, SessionTimeout: 30 * time.Second, ConnectTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	s, err := c.Session(t.Context())
	require.NoError(t, err)
	for _, path := range paths {
		_, err := s.Create(t.Context(), path, []byte("10.1.2.3"), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	return s
}

// Contend creates the node of a key, unless it exists, and in the key's queue (for a semaphore,
// its child "leases") a contender of the session for each of the names. It returns the path of the node.
func Contend(t testing.TB, srv *zktest.Server, s *session.Session, path string, p *kind.KeyedParams, key string, names ...string) string {
	t.Helper()
	node, err := p.Path(path, key)
	require.NoError(t, err)
	if stat, err := s.Exists(t.Context(), node); err != nil || stat == nil {
		require.NoError(t, err)
		_, err = s.Create(t.Context(), node, nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	dir := node
	if p.Of == kind.Semaphore.Name {
		if dir += "/leases"; len(names) > 0 {
			_, _ = s.Create(t.Context(), dir, nil, 0, zk.WorldACL(zk.PermAll)) // the node may already exist
		}
	}
	for _, name := range names {
		id, name, _ := strings.Cut(name, " ")
		data := kind.Holder{ID: id, Host: "h", Since: time.Now().UTC(), Limit: p.Permits}.Encode()
		_, err := s.Create(t.Context(), dir+"/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-"+name, data, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	return node
}
