package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/conformance"
)

// comparing runs compat with an answer to its question.
func comparing(t *testing.T, answer string, args ...string) (code int, out, said string) {
	t.Helper()
	var stdout, stderr strings.Builder
	code = run(t.Context(), append([]string{"compat"}, args...), nil, strings.NewReader(answer), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestCompatReportsOnServersAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	for name, of := range map[string]struct {
		srv  *zktest.Server
		want []string
	}{
		"ZooKeeper": {zktest.Start(t), []string{"- Apache ZooKeeper, by its handshake", "- `Zookeeper version: 3.8.0", "| fencing tokens |"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := of.srv.Dump()
			file := filepath.Join(dir, name+".md")
			code, out, _ := comparing(t, "yes\n", "-out="+file, of.srv.Addr())
			require.Zero(t, code)
			for _, want := range append(of.want, "# Compatibility report", "## "+of.srv.Addr()) {
				require.Contains(t, out, want)
			}
			require.NotContains(t, out, differed)
			require.NotContains(t, out, unasked)
			saved, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, out, string(saved))
			require.Equal(t, before, of.srv.Dump())
		})
	}
}

func TestCompatWritesNothingWithoutApproval(t *testing.T) {
	srv := zktest.Start(t)
	before := srv.Counts().Total
	code, out, said := comparing(t, "no\n", srv.Addr())
	require.Equal(t, exitError, code)
	require.Empty(t, out)
	require.Contains(t, said, "Compat cancelled.")
	require.Equal(t, before, srv.Counts().Total)
}

func TestCompatShowsADifferenceAndFails(t *testing.T) {
	srv := zktest.Start(t)
	srv.Inject(zktest.On("sync"), zktest.Fail(zktest.CodeSystemError))
	code, out, _ := comparing(t, "", "-auto-approve", srv.Addr())
	require.Equal(t, exitError, code)
	require.Contains(t, out, differed)
	require.Contains(t, out, "### versions and refusals")
	require.Contains(t, out, "sync")
}

func TestCompatSaysWhatItCannotReachOrCreate(t *testing.T) {
	for _, args := range [][]string{{"127.0.0.1:1"}, {"-under=/nosuch", zktest.Start(t).Addr()}} {
		code, _, said := comparing(t, "", append(args, "-auto-approve")...)
		require.Equal(t, exitError, code)
		require.Contains(t, said, "Cannot compare")
	}
	code, _, said := comparing(t, "", "-under=nowhere", "-auto-approve", "127.0.0.1:1")
	require.Equal(t, exitError, code)
	require.Contains(t, said, "Not a path")
}

// A server chooses what it answers, and the report is read on a terminal.
func TestAReportOfCompatDoesNotObeyTheServer(t *testing.T) {
	const escape = "\x1b]0;gone\a"
	var report strings.Builder
	require.False(t, reportOn(&report, "zk1", &conformance.Examination{Version: escape, Results: []conformance.Result{
		{Check: conformance.Check{Name: "a", Needs: "locks"}, Difference: "the server said\n" + escape},
		{Check: conformance.Check{Name: "b", Needs: "locks"}, Err: errors.New(escape)},
	}}))
	require.NotContains(t, report.String(), "\x1b")
	require.Equal(t, 3, strings.Count(report.String(), `\x1b]0;gone\a`))
	require.Contains(t, report.String(), "the server said\n", "line by line")
}

// What is served by 3.9 is compared with that: the zxids of its events are no difference.
func TestCompatComparesWithTheReleaseOfTheServer(t *testing.T) {
	code, out, _ := comparing(t, "", "-auto-approve", zktest.Start(t, zktest.WithVersion("3.9")).Addr())
	require.Zero(t, code, out)
	require.Contains(t, out, "Zookeeper version: 3.9")
}
