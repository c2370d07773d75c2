//go:build linux

package conformance_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/conformance"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// Both servers serve nobody who has not logged in by DIGEST-MD5, and answer the same.
func TestRandomSequencesAreAnsweredAsByZooKeeperAfterALogin(t *testing.T) {
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
