package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes/zktest"
)

// Fifty runs that each change a lock take 0.4 s of CPU. What can be counted of that is what a run asks of its server.
func TestFiftyRunsOfATestCostFewRequests(t *testing.T) {
	const runs, budget = 50, 40 // requests of a run: it logs in, locks, reads, writes, verifies and goes
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("base.locktree.hcl", base)
	write("pool.locktree.hcl", "variable \"permits\" {}\nsemaphore \"pool\" {\n  acl     = acl.open\n  permits = var.permits\n}\n")
	var b strings.Builder
	for i := range runs {
		fmt.Fprintf(&b, "run \"r%d\" {\n  variables {\n    permits = %d\n  }\n  assert {\n    condition     = plan.add + plan.change == 1 && semaphore.pool.permits == %[2]d\n    error_message = \"No.\"\n  }\n}\n", i, i+1)
	}
	write("a.locktreetest.hcl", b.String())
	files, sources, diags := config.LoadTests(dir)
	require.False(t, diags.HasErrors(), "%v", diags)
	require.Len(t, sources, 1)
	tests := &tester{app: &app{dir: dir, underWay: make(chan struct{}, 1)}, servers: map[string]*zktest.Server{}}
	defer tests.close()
	for _, r := range files[0].Runs {
		var out view.TestRun
		tests.run(t.Context(), r, config.Options{Environ: []string{"LOCKTREE_VAR_zk=zk:1", "LOCKTREE_VAR_root=/t"}}, &out)
		require.Equal(t, view.TestPass, out.Status, "%v", out.Diagnostics)
	}
	require.Less(t, tests.servers["main"].Counts().Total, runs*budget)
}
