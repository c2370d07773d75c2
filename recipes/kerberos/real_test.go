//go:build linux

package kerberos_test

import (
	"maps"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kerberos"
	"github.com/locktree/locktree/recipes/zktest/kdc"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// strict is what a server is told that serves only who has logged in by SASL.
var strict = map[string]string{"zookeeper.sessionRequireClientSASLAuth": "true", "zookeeper.authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}

// kerberized starts a server that takes tickets of k's, and only those.
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

// enrol makes a user with a keytab.
func enrol(k *kdc.KDC, user string) kerberos.Config {
	k.Add(user)
	k.Keytab(user+".keytab", user)
	return configOf(k, user)
}

func TestAKeytabLogsIn(t *testing.T) {
	t.Parallel()
	k := kdc.Start(t, kdc.Options{})
	server := kerberized(t, k, realzk.Options{})
	login, err := kerberos.New(enrol(k, "ledger"))
	require.NoError(t, err)
	require.Equal(t, "ledger@LOCKTREE.TEST", login.Identity())
	c, err := recipes.Dial(t.Context(), recipes.Config{Servers: []string{server.Addr}, SASL: login, ConnectTimeout: 30 * time.Second})
	require.NoError(t, err)
	defer c.Close()
	s, err := c.Session(t.Context())
	require.NoError(t, err)
	_, err = s.Create(t.Context(), "/a", nil, 0, []zk.ACL{{Perms: zk.PermAll, Scheme: "auth"}})
	require.NoError(t, err)
	list, _, err := s.GetACL(t.Context(), "/a")
	require.NoError(t, err)
	require.Equal(t, []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "ledger@LOCKTREE.TEST"}}, list)
	require.Contains(t, server.Log(), "authenticationID=ledger@LOCKTREE.TEST")
}

// Servers that remove parts of a principal know its client by the rest, and so do we if we are told.
func TestServersThatRemovePartsOfAPrincipal(t *testing.T) {
	t.Parallel()
	k := kdc.Start(t, kdc.Options{})
	server := kerberized(t, k, realzk.Options{Properties: map[string]string{
		"zookeeper.kerberos.removeHostFromPrincipal": "true", "zookeeper.kerberos.removeRealmFromPrincipal": "true"}})
	k.Add("svc/host1")
	cfg := configOf(k, "svc/host1")
	cfg.Keytab, cfg.RemoveHost, cfg.RemoveRealm = k.Keytab("svc.keytab", "svc/host1"), true, true
	login, err := kerberos.New(cfg)
	require.NoError(t, err)
	require.Equal(t, "svc", login.Identity())
	require.Equal(t, "svc/host1@"+kdc.Realm, login.Principal())
	c, _ := asLogin(t, server, login)
	s, err := c.Session(t.Context())
	require.NoError(t, err)
	_, err = s.Create(t.Context(), "/a", nil, 0, []zk.ACL{{Perms: zk.PermAll, Scheme: "auth"}})
	require.NoError(t, err)
	list, _, err := s.GetACL(t.Context(), "/a")
	require.NoError(t, err)
	require.Equal(t, []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "svc"}}, list)
}
