package config_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

// The language was designed on this example, which loads as a whole.
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

// The guide declares three teams, and a further one costs one line.
func TestAFurtherTeamIsOneLine(t *testing.T) {
	guide, err := os.ReadFile("../docs/provisioning.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(guide), "\n### One line for each team\n")
	require.True(t, found)
	blocks := regexp.MustCompile("(?s)```hcl\n(.*?)```").FindAllStringSubmatch(section, 2)
	load := func(teams string) map[string][]string {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "team"), 0o700))
		for name, text := range map[string]string{"teams.locktree.hcl": teams, "team/main.locktree.hcl": blocks[1][1], "main.locktree.hcl": `
locktree { stack = "teams" }
ensemble "main" {
  servers = ["zk1:2181"]
  admins  = [principal.ops]
}
principal "ops" {
  scheme = "sasl"
  id     = "ops"
}
`} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		c, diags := config.Load(dir, config.Options{})
		require.Empty(t, diags)
		lists := map[string][]string{}
		for _, n := range c.Ensembles[0].Tree.Nodes {
			entries := strings.Split(n.ACL.String(), ", ")
			slices.Sort(entries)
			lists[n.Path] = entries
		}
		return lists
	}
	want := map[string][]string{}
	expect := func(teams ...string) {
		seen := []string{"sasl:ops:cdrwa"}
		for _, name := range teams {
			seen = append(seen, "sasl:"+name+"-programs:r")
		}
		slices.Sort(seen)
		for _, name := range teams {
			user := "sasl:" + name + "-programs:"
			for path, list := range map[string][]string{"": {user + "r", "sasl:ops:cdrwa"}, "/deploy": {user + "cdr", "sasl:ops:cdrwa"},
				"/workers": {user + "cdr", "sasl:ops:cdrwa"}, "/freeze": seen} {
				slices.Sort(list)
				want["/"+name+path] = list
			}
		}
	}
	expect("billing", "media", "search")
	require.Equal(t, want, load(blocks[0][1]))
	first := "  teams = {\n"
	require.Contains(t, blocks[0][1], first)
	expect("billing", "media", "search", "audit")
	require.Equal(t, want, load(strings.Replace(blocks[0][1], first, first+"    audit = \"audit-programs\"\n", 1)))
}

// The tree of an ensemble has all that is declared on it: the nodes, and the rest in its Intent.
func ExampleLoad() {
	cfg, diags := config.Load("../testdata/config/payments", config.Options{
		Inputs: []config.Input{{Var: "admin_password=correct horse"}},
	})
	if diags.HasErrors() {
		log.Fatal(diags)
	}
	tree := cfg.Ensembles[0].Tree
	fmt.Println(len(tree.Nodes), "nodes below", tree.Root)
	for _, m := range tree.Intent.Moves {
		fmt.Println("moved:", m.From, "is", m.To)
	}
	for _, i := range tree.Intent.Imports {
		fmt.Println("import:", i.Path, "becomes", i.To)
	}
	for _, r := range tree.Intent.Removals {
		fmt.Println("removed:", r.From, "destroy:", r.Destroy)
	}
	for _, o := range tree.Intent.Outputs {
		fmt.Printf("output: %s = %s\n", o.Name, o.Value)
	}

	// Output:
	// 12 nodes below /platform/locks
	// moved: namespace.payments.mutex.books is namespace.payments.mutex.ledger
	// import: /curator/catalog becomes namespace.payments.rwlock.catalog
	// removed: namespace.legacy destroy: false
	// output: ledger_path = "/platform/locks/payments/ledger"
}
