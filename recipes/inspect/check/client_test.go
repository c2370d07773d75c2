package check_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect/check"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// found finds a condition by name, and requires that it says what, why and, when it does not hold, what next.
func found(t *testing.T, all []check.Condition, name string) check.Condition {
	t.Helper()
	for _, k := range all {
		if k.Name == name {
			require.NotEmpty(t, k.What)
			require.NotEmpty(t, k.Why)
			require.Equal(t, k.Verdict == check.Holds, k.Next == "", "%+v", k)
			return k
		}
	}
	require.Failf(t, "not checked", "%s in %v", name, all)
	return check.Condition{}
}

// wordless is a server whose four-letter words are not whitelisted.
type wordless struct{ net.Conn }

func (w wordless) Write(b []byte) (int, error) {
	if len(b) == 4 && b[0] >= 'a' {
		_ = w.Conn.Close()
		return len(b), nil
	}
	return w.Conn.Write(b)
}

func TestCheckComparesTheSessionTimeoutWithTheTick(t *testing.T) {
	for name, words := range map[string]bool{"asked": true, "inferred": false} {
		t.Run(name, func(t *testing.T) {
			harness.InLab(t, func(t *testing.T, l *harness.Lab) {
				for timeout, want := range map[time.Duration]check.Verdict{12 * time.Second: check.Holds, 8 * time.Second: check.Holds, 6 * time.Second: check.Fails} {
					c := l.Client("a", func(cfg *recipes.Config) {
						cfg.SessionTimeout = timeout
						cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
							conn, err := l.Srv.DialContext(ctx, network, address)
							if err == nil && !words {
								conn = wordless{conn}
							}
							return conn, err
						}
					})
					before := l.Srv.Dump()
					all, err := check.Client(t.Context(), c)
					require.NoError(t, err)
					k := found(t, all, "session timeout")
					require.Equal(t, want, k.Verdict, "%+v", k)
					require.Contains(t, k.What, "a tick is 2s")
					if want == check.Fails {
						require.Contains(t, k.Next, "set the session timeout to 8s")
					}
					if !words {
						require.Equal(t, check.Unsure, found(t, all, "server version").Verdict)
					}
					require.Equal(t, before, l.Srv.Dump())
					require.Len(t, l.Srv.Sessions(), 1, "the session that told the tick is closed")
					require.NoError(t, c.Close())
				}
			})
		})
	}
}

func TestCheckOfAccessNamesTheRightsWeLack(t *testing.T) {
	harness.InLab(t, func(t *testing.T, l *harness.Lab) {
		app := kind.ACL{Scheme: "digest", ID: zktest.DigestID("app:x1"), Perms: kind.PermAll}
		l.Declare("/open", kind.Mutex.New())
		l.Declare("/theirs", kind.Mutex.New(), func(p *kind.Payload) { p.ChildACL = kind.List{app} })
		require.NoError(t, l.Srv.Create("/foreign", []byte("10.0.0.1")))
		admin, err := l.Client("admin").Session(t.Context())
		require.NoError(t, err)
		_, err = admin.SetACL(t.Context(), "/theirs", append(zk.WorldACL(zk.PermRead), zk.DigestACL(zk.PermAll, "app", "x1")...), -1)
		require.NoError(t, err)
		paths := []string{"/open", "/theirs", "/foreign", "/nowhere"}
		all, err := check.Client(t.Context(), l.Client("b", func(c *recipes.Config) { c.Auth = []recipes.Auth{{Scheme: "digest", Credentials: "other:x"}} }), paths...)
		require.NoError(t, err)
		require.Equal(t, check.Holds, found(t, all, "access /open").Verdict)
		require.Equal(t, check.Unsure, found(t, all, "access /foreign").Verdict)
		require.Equal(t, check.Fails, found(t, all, "access /nowhere").Verdict)
		k := found(t, all, "access /theirs")
		require.Equal(t, check.Fails, k.Verdict)
		require.Contains(t, k.What, "lack CREATE DELETE READ (on contenders")
		require.NotContains(t, k.What, zktest.DigestID("app:x1"))
		all, err = check.Client(t.Context(), l.Client("a", func(c *recipes.Config) { c.Auth = []recipes.Auth{{Scheme: "digest", Credentials: "app:x1"}} }), paths...)
		require.NoError(t, err)
		require.Equal(t, check.Holds, found(t, all, "access /theirs").Verdict)
	})
}
