//go:build linux

package kerberos_test

import (
	"maps"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kerberos"
	"github.com/locktree/locktree/recipes/zktest/kdc"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// strict configures a server that serves only clients logged in by SASL.
var strict = map[string]string{"zookeeper.sessionRequireClientSASLAuth": "true", "zookeeper.authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}

// kerberized starts a server that takes only tickets of k.
func kerberized(t *testing.T, k *kdc.KDC, opts realzk.Options) *realzk.Server {
	t.Helper()
	k.Add("zookeeper/localhost")
	opts.Properties = maps.Clone(opts.Properties)
	if opts.Properties == nil {
		opts.Properties = map[string]string{}
	}
	maps.Copy(opts.Properties, strict)
	maps.Copy(opts.Properties, k.JAAS("Server", k.Keytab("server.keytab", "zookeeper/localhost"), "zookeeper/localhost"))
	return realzk.Start(t, opts)
}

func configOf(k *kdc.KDC, user string) kerberos.Config {
	return kerberos.Config{Principal: user, Keytab: k.Dir + "/" + user + ".keytab", Krb5Conf: k.Conf, ServerPrincipal: "zookeeper/localhost"}
}

// enrol adds a user with a keytab.
func enrol(k *kdc.KDC, user string) kerberos.Config {
	k.Add(user)
	k.Keytab(user+".keytab", user)
	return configOf(k, user)
}

// Servers that remove parts of a principal know its client by the rest, and so does a login with the same options.
func TestAKeytabLogsIn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		properties map[string]string
		principal  string
		identity   string
	}{
		"whole": {nil, "ledger", "ledger@" + kdc.Realm},
		"parts removed": {map[string]string{"zookeeper.kerberos.removeHostFromPrincipal": "true", "zookeeper.kerberos.removeRealmFromPrincipal": "true"},
			"svc/host1", "svc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := kdc.Start(t, kdc.Options{})
			server := kerberized(t, k, realzk.Options{Properties: c.properties})
			k.Add(c.principal)
			cfg := configOf(k, c.principal)
			cfg.Keytab, cfg.RemoveHost, cfg.RemoveRealm = k.Keytab("of-a-user.keytab", c.principal), c.properties != nil, c.properties != nil
			login, err := kerberos.New(cfg)
			require.NoError(t, err)
			require.Equal(t, c.identity, login.Identity())
			require.Equal(t, c.principal+"@"+kdc.Realm, login.Principal())
			client, _ := asLogin(t, server, login)
			s, err := client.Session(t.Context())
			require.NoError(t, err)
			_, err = s.Create(t.Context(), "/a", nil, 0, []zk.ACL{{Perms: zk.PermAll, Scheme: "auth"}})
			require.NoError(t, err)
			list, _, err := s.GetACL(t.Context(), "/a")
			require.NoError(t, err)
			require.Equal(t, []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: c.identity}}, list)
			require.Contains(t, server.Log(), "authenticationID="+c.principal+"@"+kdc.Realm)
		})
	}
}
