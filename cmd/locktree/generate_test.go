package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// hostile are pieces of node names: what HCL, its templates, shells and addresses
// give a meaning to, and ZooKeeper does not.
var hostile = []string{"a", "B", "0", "-", "_", ".", " ", `"`, "'", "`", "$", "${", "%{", "}", "{", `\`, `\n`, "#", "//", "*", "[", "]", "=", "é", "日", "null", "mutex", "\u200b", "${var.zk}"}

func nodeName(t *rapid.T, taken map[string]bool) string {
	for {
		name := strings.ReplaceAll(strings.Join(rapid.SliceOfN(rapid.SampledFrom(hostile), 1, 6).Draw(t, "name"), ""), "/", "")
		if kind.ValidateName(name) != nil || taken[name] || name == "zookeeper" {
			continue
		}
		taken[name] = true
		return name
	}
}

// raw makes a tree of nodes nobody declared below path, and returns how many there
// are in it.
func raw(t *rapid.T, create func(path string, acl ...zk.ACL), path string, depth int) int {
	taken, n := map[string]bool{}, 0
	for range rapid.IntRange(1, 3).Draw(t, "children") {
		child := kind.JoinPath(path, nodeName(t, taken))
		acl := zk.WorldACL(zk.PermAll)
		if rapid.Bool().Draw(t, "closer") {
			acl = append(acl, rapid.SampledFrom([]zk.ACL{
				{Scheme: "digest", ID: `us"${er:` + strings.Repeat("A", 27) + "=", Perms: 7}, {Scheme: "ip", ID: "10.0.0.0/8", Perms: 1}, {Scheme: "digest", ID: "b:" + strings.Repeat("B", 27) + "=", Perms: 29},
			}).Draw(t, "entry"))
		}
		create(child, acl...)
		n++
		switch what := rapid.IntRange(0, 3).Draw(t, "what"); {
		case what == 0 && depth > 0:
			n += raw(t, create, child, depth-1)
		case what == 1:
			marker := rapid.SampledFrom([]string{"-lock-", "-__READ__", "-latch-"}).Draw(t, "marker")
			create(child+"/_c_11111111-1111-4111-8111-111111111111"+marker+"0000000000", zk.WorldACL(zk.PermAll)...)
		}
	}
	return n
}

// Whatever a tree looks like, what import writes about it is a configuration that
// plans and applies, and nothing is left to do then: no node is lost, doubled,
// renamed or given other rights on the way to HCL and back.
func TestEveryTreeSurvivesTheWayToHCLAndBack(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	b := newBench(t, "")
	session, err := dialTest(t, b.server, "").Session(t.Context())
	require.NoError(t, err)
	create := func(path string, acl ...zk.ACL) {
		_, err := session.Create(b.t.Context(), path, nil, 0, acl)
		require.NoError(t, err, path)
	}
	tree := 0
	rapid.Check(t, func(t *rapid.T) {
		tree++
		root := fmt.Sprintf("/tree-%d", tree)
		create(root, zk.WorldACL(zk.PermAll)...)
		n := raw(t, create, root, 2)
		command := func(code int, args ...string) string {
			return tool(t, code, b.dir, []string{"LOCKTREE_VAR_zk=" + b.server.Addr(), "LOCKTREE_VAR_root=" + root, "ZOOKEEPER_SESSION=40"}, args...)
		}
		_ = os.Remove(filepath.Join(b.dir, "found.locktree.hcl"))
		found := []string{"import", "-from=" + root, "-generate=found.locktree.hcl"}
		if as := rapid.SampledFrom([]string{"mutex", "rwlock", "election", ""}).Draw(t, "idle"); as != "" {
			command(exit.OK, append(found, "-kind="+as)...)
		} else { // the comments are blocks, too
			command(exit.OK, found...)
			text := comments.ReplaceAllString(generated(b.dir), "$1$2")
			require.NoError(t, os.WriteFile(filepath.Join(b.dir, "found.locktree.hcl"), []byte(text), 0o600))
		}
		require.Contains(t, command(exit.OK, "plan"), fmt.Sprintf("Plan: %d to import, ", n))
		command(exit.OK, "apply", "-auto-approve")
		require.Contains(t, command(exit.OK, "plan", "-detailed-exitcode"), "No changes.")
		require.Equal(t, n, strings.Count(command(exit.OK, "show"), "\n# ")+1)
	})
}

// comments are the lines of blocks that are comments.
var comments = regexp.MustCompile(`(?m)^( *)# ( *(?:(?:mutex|namespace) ".*" \{|import \{|\w+ += .*|\}))$`)

func generated(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "found.locktree.hcl"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Nodes that are looked at one after the other take a thousand times the network's
// latency; and however they are answered, they are listed in their order.
func TestImportLooksAtManyNodesAtATime(t *testing.T) {
	inFakeTime(t, "", func(t *testing.T, b *bench) {
		var want strings.Builder
		fmt.Fprintf(&want, "%-40s unknown: no program uses what is in it\n", "/java")
		for i := range 20 {
			fmt.Fprintf(&want, "%-40s unknown: no program uses what is in it\n", fmt.Sprintf("/java/%02d", i))
			for j := range 15 {
				path := fmt.Sprintf("/java/%02d/%02d", i, j)
				require.NoError(t, b.server.Create(path, nil))
				fmt.Fprintf(&want, "%-40s unknown: no program uses it\n", path)
			}
		}
		b.server.ResetCounts()
		out, _ := b.run(exit.OK, "import", "-from=/java")
		require.Equal(t, want.String(), out)
		counts := b.server.Counts()
		require.Greater(t, counts.Total, 900)
		require.Less(t, counts.RoundTrips, 300, "%v", counts.ByOp)
	}, zktest.WithLatency(time.Millisecond))
}
