package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes/zktest"
)

// promisePackages are the packages whose tests the page may name.
var promisePackages = map[string]string{
	"locktree": ".", "view": "internal/view", "apply": "../../apply", "diff": "../../plan/diff", "plan": "../../plan", "saved": "../../plan/saved", "config": "../../config", "recipes": "../../recipes", "session": "../../recipes/internal/session", "inspect": "../../recipes/inspect",
}

// Each promise in testdata/promises.md names a test, and each named test exists.
func TestPromisesNameTests(t *testing.T) {
	page, err := os.ReadFile("../../testdata/promises.md")
	require.NoError(t, err)
	exist := map[string]bool{}
	for name, dir := range promisePackages {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		require.NoError(t, err)
		for _, f := range files {
			source, err := os.ReadFile(f)
			require.NoError(t, err)
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllStringSubmatch(string(source), -1) {
				exist[name+"."+m[1]] = true
			}
		}
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+) \|[^|]+\|[^|]+\|([^|]+)\|$`).FindAllStringSubmatch(string(page), -1)
	require.Len(t, rows, 18)
	for i, row := range rows {
		require.Equal(t, fmt.Sprint(i+1), row[1])
		for name := range strings.SplitSeq(strings.TrimSpace(row[2]), ", ") {
			if strings.HasSuffix(name, ".txtar") {
				require.FileExists(t, filepath.Join("../../testdata/script", name), "promise %d", i+1)
				continue
			}
			require.True(t, exist[name], "promise %d: there is no test %q", i+1, name)
		}
	}
}

func manyLocks(n int) string {
	var names strings.Builder
	for i := range n {
		fmt.Fprintf(&names, "%q, ", fmt.Sprint(i))
	}
	return "namespace \"pay\" {\n  acl = acl.open\n  mutex \"many\" {\n    for_each = toset([" + names.String() + "])\n  }\n}\n"
}

// The command output read the whole tree for one record.
func TestOutputReadsTheRecordOnly(t *testing.T) {
	inFakeTime(t, manyLocks(100)+"output \"where\" {\n  value = 1\n}\n", func(t *testing.T, b *bench) {
		b.run(exit.OK, "apply", "-auto-approve")
		b.server.ResetCounts()
		out, _ := b.run(exit.OK, "output", "where")
		require.Equal(t, "1\n", out)
		require.Less(t, b.server.Counts().Total, 10)
	})
}

func TestNoCommandForcesALockOpen(t *testing.T) {
	var names []string
	eachCommand(func(c *cobra.Command) {
		names = append(names, c.Name())
		require.NotContains(t, c.Name(), "unlock")
	})
	require.Contains(t, names, "bash", "subcommands were looked at too")
}

// Requests one after the other would take hundreds of times the network's latency. The server answers late, so that round trips can be
// counted exactly.
func TestEveryPlanReadsManyNodesAtATime(t *testing.T) {
	t.Parallel()
	inFakeTime(t, manyLocks(500), func(t *testing.T, b *bench) {
		b.run(exit.OK, "apply", "-auto-approve")
		b.server.ResetCounts()
		b.run(exit.OK, "plan", "-detailed-exitcode")
		counts := b.server.Counts()
		require.Greater(t, counts.Total, 500, "every node was read")
		require.Less(t, counts.Total, 3*500+50, "%v", counts.ByOp)
		require.Less(t, counts.RoundTrips, 100, "%v", counts.ByOp)

		b.run(exit.Failed, "plan", "-refresh=false")
	}, zktest.WithLatency(2*time.Millisecond))
}
