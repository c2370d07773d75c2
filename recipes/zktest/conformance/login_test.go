//go:build linux

package conformance_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kerberos"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/conformance"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/kdc"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// Both servers serve no client that has not logged in by DIGEST-MD5, and answer the same.
func TestRandomSequencesAreAnsweredAsByZooKeeperAfterALogin(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	jaas := filepath.Join(t.TempDir(), "jaas")
	require.NoError(t, os.WriteFile(jaas, []byte("Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required user_ann=\"pass word\";\n};\n"), 0o600))
	s := realzk.Start(t, realzk.Options{Config: map[string]string{"forceSync": "no"}, Properties: map[string]string{
		"znode.container.checkIntervalMs": "86400000", "java.security.auth.login.config": jaas, "zookeeper.sessionRequireClientSASLAuth": "true",
		"zookeeper.authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
	}})
	login := func() (conformance.Step, error) {
		x, err := recipes.DigestMD5("ann", func() (recipes.Secret, error) { return "pass word", nil }).Start(t.Context(), "", "")
		return x.Next, err
	}
	conformance.RandomLoggedIn(t, conformance.TCP(s.Addr), login, login,
		zktest.WithSASL(func(user string) string { return map[string]string{"ann": "pass word"}[user] }), zktest.WithSASLRequired())
}

// The one logs in with a ticket of Kerberos, the other by DIGEST-MD5 under the same name.
func TestRandomSequencesAreAnsweredAsByZooKeeperAfterALoginWithATicket(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	k := kdc.Start(t, kdc.Options{})
	k.Add("zookeeper/localhost")
	k.Add("ledger")
	properties := k.JAAS("Server", k.Keytab("server.keytab", "zookeeper/localhost"), "zookeeper/localhost")
	properties["znode.container.checkIntervalMs"], properties["zookeeper.sessionRequireClientSASLAuth"] = "86400000", "true"
	properties["zookeeper.authProvider.sasl"] = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
	s := realzk.Start(t, realzk.Options{Config: map[string]string{"forceSync": "no"}, Properties: properties})
	login, err := kerberos.New(kerberos.Config{Principal: "ledger", Keytab: k.Keytab("ledger.keytab", "ledger"), Krb5Conf: k.Conf, ServerPrincipal: "zookeeper/localhost"})
	require.NoError(t, err)
	start := func(by recipes.SASL) func() (conformance.Step, error) {
		return func() (conformance.Step, error) {
			x, err := by.Start(t.Context(), s.Addr, s.Addr)
			return x.Next, err
		}
	}
	conformance.RandomLoggedIn(t, conformance.TCP(s.Addr), start(login),
		start(recipes.DigestMD5(login.Identity(), func() (recipes.Secret, error) { return "p", nil })),
		zktest.WithSASL(func(string) string { return "p" }), zktest.WithSASLRequired())
}
