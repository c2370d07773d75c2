package recipes_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// A payload without child_acl must not open to the world what the lock node does not.
func TestContendersAreNotMoreOpenThanTheirLock(t *testing.T) {
	app, ops := zktest.DigestID("app:x1"), zktest.DigestID("ops:x2")
	crd := zk.PermCreate | zk.PermRead | zk.PermDelete
	as := func(c string) func(*recipes.Config) {
		return func(cfg *recipes.Config) {
			cfg.Auth = []recipes.Auth{{Scheme: "digest", Credentials: recipes.Secret(c)}}
		}
	}
	for name, c := range map[string]struct {
		node   []zk.ACL
		client func(*recipes.Config)
		want   []zktest.ACL
	}{
		"open": {zk.WorldACL(zk.PermAll), as("app:x1"), []zktest.ACL{{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}}},
		"open to contend, not to administer": {append(zk.WorldACL(int32(crd)), zk.DigestACL(zk.PermAll, "ops", "x2")...), nil,
			[]zktest.ACL{{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}}},
		"ours, digests of others hidden": {[]zk.ACL{{Perms: int32(crd), Scheme: "digest", ID: app}, {Perms: zk.PermAll, Scheme: "digest", ID: ops}}, as("app:x1"),
			[]zktest.ACL{{Perms: zk.PermAll, Scheme: "digest", ID: app}}},
		"ours, and everybody may look": {append(zk.WorldACL(zk.PermRead), zk.ACL{Perms: int32(crd), Scheme: "digest", ID: app}), as("app:x1"),
			[]zktest.ACL{{Perms: zk.PermAll, Scheme: "digest", ID: app}, {Perms: zk.PermRead, Scheme: "world", ID: "anyone"}}},
		"we administer": {[]zk.ACL{{Perms: zk.PermAll, Scheme: "digest", ID: ops}, {Perms: int32(crd), Scheme: "digest", ID: app}}, as("ops:x2"),
			[]zktest.ACL{{Perms: zk.PermAll, Scheme: "digest", ID: ops},
				{Perms: zk.PermRead | zk.PermWrite | zk.PermAdmin, Scheme: "digest", ID: ops}, {Perms: zk.PermRead | zk.PermWrite, Scheme: "digest", ID: app}}},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			m := l.Mutex()
			admin := l.session(l.Client("admin"))
			_, err := admin.SetACL(t.Context(), m, c.node, -1)
			require.NoError(t, err)
			if c.client == nil {
				c.client = func(*recipes.Config) {}
			}
			one, two := l.Client("one", c.client).Mutex(m), l.Client("two", c.client).Mutex(m)
			x := l.Lock(one.Lock)
			n, ok := l.Srv.Get(x.Node())
			require.True(t, ok)
			require.Equal(t, c.want, n.ACL)
			w := l.Locking(two)
			l.Unlock(x)
			r := l.Got(w) // the lock must still work
			require.NoError(t, r.Verify(t.Context()))
			l.Unlock(r)
		})
	}
}

func TestContendersOfALockThatHidesItsACLAreTheCreators(t *testing.T) {
	require.Equal(t, zk.AuthACL(zk.PermAll), recipes.ContendersACL(nil, true))
	require.Equal(t, zk.WorldACL(zk.PermRead), recipes.ContendersACL(nil, false), "nobody may write what nobody is known to own")
}

func TestTheLockNodesACLIsReadOnceBesideItsDeclaration(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		start := time.Now()
		l.warmDeclaration(m)
		require.Equal(t, 2*oneWay, time.Since(start), "one round trip for both")
		l.warm(m)
		l.warm(m)
		require.Equal(t, 1, l.Srv.Counts().ByOp["getACL"], "once per client and path")
	})
}
