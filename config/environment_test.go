package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes"
)

const bareEnsemble = `
locktree { stack = "s" }
ensemble "main" {}
mutex "a" {}
`

// What an ensemble leaves open comes from the environment, the identity also for
// the access lists nobody declared.
func TestEnsembleFromTheEnvironment(t *testing.T) {
	c, diags := loadText(bareEnsemble, config.Options{Environ: []string{"ZOOKEEPER_SERVERS=zk1:1, zk2:2", "ZOOKEEPER_USERNAME=ann", "ZOOKEEPER_PASSWORD=CANARYlong"}})
	require.Empty(t, diags)
	e := c.Ensembles[0]
	require.Equal(t, []string{"zk1:1", "zk2:2"}, e.Servers)
	require.Equal(t, []recipes.Auth{{Scheme: "digest", Credentials: "ann:CANARYlong"}}, e.Auth)
	require.Equal(t, config.DigestID("ann", "CANARYlong"), e.Tree.Nodes[0].ACL[0].ID)

	declared := "locktree { stack = \"s\" }\nensemble \"main\" {\n servers = [\"mine:1\"]\n auth \"digest\" {\n username = \"me\"\n password = env(\"P\")\n }\n}\nmutex \"a\" {}\n"
	c, diags = loadText(declared, config.Options{Environ: []string{"ZOOKEEPER_SERVERS=zk1:1", "ZOOKEEPER_USERNAME=ann", "ZOOKEEPER_PASSWORD=x", "P=own"}})
	require.Empty(t, diags)
	require.Equal(t, []string{"mine:1"}, c.Ensembles[0].Servers)
	require.Equal(t, []recipes.Auth{{Scheme: "digest", Credentials: "me:own"}}, c.Ensembles[0].Auth)
}

// Who only validates needs no servers; what stands in the environment wrongly is
// named, and a password is not.
func TestEnsembleFromAnIncompleteEnvironment(t *testing.T) {
	c, diags := loadText(bareEnsemble, config.Options{Environ: []string{"ZOOKEEPER_USERNAME=ann", "ZOOKEEPER_PASSWORD=x"}})
	require.Empty(t, diags)
	require.Empty(t, c.Ensembles[0].Servers)
	for env, want := range map[string]string{
		"ZOOKEEPER_SERVERS=zk1":           "ZOOKEEPER_SERVERS",
		"ZOOKEEPER_USERNAME=ann":          "ZOOKEEPER_PASSWORD",
		"ZOOKEEPER_USERNAME=CANARYuser:x": "without a colon",
	} {
		_, diags := loadText(bareEnsemble, config.Options{Environ: []string{"ZOOKEEPER_PASSWORD=", env}})
		require.True(t, diags.HasErrors(), env)
		require.Contains(t, diags[0].Detail, want)
		require.NotContains(t, diags[0].Detail, "CANARY")
	}
}
