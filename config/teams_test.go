package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
)

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
