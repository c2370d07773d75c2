package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
)

func loadExample(t *testing.T, name string) (string, *config.Config) {
	t.Helper()
	dir := filepath.Join("..", "testdata", "config", name)
	c, diags := config.Load(dir, config.Options{Inputs: vars("admin_password=hunter2"), Version: "0.3.1-dev"})
	require.Empty(t, diags)
	return dir, c
}

// The example the language was designed on, whole.
func TestTheExampleOfTheDesignLoadsFromADirectory(t *testing.T) {
	dir, c := loadExample(t, "payments")
	require.Equal(t, "payments-prod", c.Stack)
	e := c.Ensembles[0]
	require.Equal(t, &config.TLS{
		CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "client.pem"), KeyFile: filepath.Join(dir, "client.key"),
	}, e.TLS)
	var paths []string
	for _, n := range e.Tree.Nodes {
		paths = append(paths, n.Path)
	}
	require.Equal(t, []string{
		"/platform/locks/payments", "/platform/locks/payments/batch", "/platform/locks/payments/batch/nightly",
		"/platform/locks/payments/catalog", "/platform/locks/payments/ledger", "/platform/locks/payments/pool-reports",
		"/platform/locks/payments/pool-thumbnails", "/platform/locks/payments/scheduler",
		"/platform/locks/team-billing", "/platform/locks/team-billing/deploy",
		"/platform/locks/team-search", "/platform/locks/team-search/deploy",
	}, paths)
	ledger := e.Tree.Find("/platform/locks/payments/ledger")
	require.True(t, ledger.Payload.Protect)
	require.Equal(t, "payments.locktree.hcl:57", ledger.Origin)
	require.Equal(t, "digest:payments:cdr, x509:CN=sre,OU=ops:cdrwa", ledger.ACL.String())
	require.Equal(t, "digest:payments:cdrw, x509:CN=sre,OU=ops:cdrwa", ledger.Payload.ChildACL.String())
	deploy := e.Tree.Find("/platform/locks/team-search/deploy")
	require.EqualValues(t, `module.team["search"].namespace.team.mutex.deploy`, deploy.Addr)
	require.Equal(t, ledger.ACL, deploy.ACL, "the access list came through the module's variable")
	require.Equal(t, plan.Intent{
		Moves:    []plan.Move{{From: "namespace.payments.mutex.books", To: "namespace.payments.mutex.ledger", Origin: "payments.locktree.hcl:78"}},
		Imports:  []plan.Import{{To: "namespace.payments.rwlock.catalog", Path: "/curator/catalog", Origin: "payments.locktree.hcl:82"}},
		Removals: []plan.Removal{{From: "namespace.legacy", Origin: "payments.locktree.hcl:86"}},
		Outputs:  c.Outputs,
		Nodeless: map[plan.Addr]bool{`module.team["billing"]`: false, `module.team["search"]`: false},
	}, e.Tree.Intent)
	require.Equal(t, "ledger_path", c.Outputs[0].Name)
	require.Equal(t, []plan.Check{{Addr: "check.small_pools", Origin: "payments.locktree.hcl:90", Verdict: plan.CheckPass}}, c.Checks)
}

func TestTheExampleInJSONIsTheSame(t *testing.T) {
	_, native := loadExample(t, "payments")
	_, inJSON := loadExample(t, "payments-json")
	native.Ensembles[0].TLS, inJSON.Ensembles[0].TLS = nil, nil // they name their directories
	require.Equal(t, dump(native, false), dump(inJSON, false))
	require.Equal(t, written(native), written(inJSON))
}

func TestTheExampleIsFormatted(t *testing.T) {
	for _, name := range []string{"payments.locktree.hcl", "modules/team/team.locktree.hcl"} {
		src, err := os.ReadFile(filepath.Join("..", "testdata", "config", "payments", name))
		require.NoError(t, err)
		formatted, diags := config.Format(src, name)
		require.Empty(t, diags)
		require.Equal(t, string(src), string(formatted))
	}
}
