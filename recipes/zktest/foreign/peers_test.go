//go:build linux

package foreign_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// suite is the test suite of a client library. All of it passes on both servers, but for the tests that fail in memory for the
// reason given in except.
type suite struct {
	// run runs the named tests, nil for all, and returns how each ended ("passed", "failed", "skipped") and what they printed.
	run    func(t *testing.T, address string, tests []string) (map[string]string, string)
	except map[string]string
}

// super is the digest of super:test, which the suites expect of their servers.
const super = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="

// play runs a suite against both servers at once.
func (s *suite) play(t *testing.T) {
	// As far as over a network: some tests cut a connection and count on the answer coming too late.
	memory := zktest.Start(t, zktest.WithExtendedTypes(), zktest.WithSuperDigest(super), zktest.WithLatency(time.Millisecond))
	real := realzk.Start(t, realzk.Options{
		Config:     map[string]string{"extendedTypesEnabled": "true", "forceSync": "no"},
		Properties: map[string]string{"zookeeper.DigestAuthenticationProvider.superDigest": super},
	})
	var got, want map[string]string
	var both sync.WaitGroup
	both.Go(func() { got = s.settled(t, "in memory", memory.Addr()) })
	both.Go(func() { want = s.settled(t, "ZooKeeper", real.Addr) })
	both.Wait()
	passed := 0
	for _, test := range slices.Sorted(maps.Keys(want)) {
		_, excepted := s.except[test]
		switch {
		case excepted && got[test] == "passed":
			t.Errorf("%s passes in memory: it needs no exception any more", test)
		case !excepted && (got[test] != "passed" || want[test] != "passed"):
			t.Errorf("%s: %s in memory, %s on ZooKeeper", test, got[test], want[test])
		case !excepted:
			passed++
		}
	}
	for test := range s.except {
		require.Contains(t, want, test, "an exception for a test that is not there")
	}
	require.Len(t, got, len(want), "the same tests have run")
	t.Logf("%d tests, %d of them pass on both servers", len(want), passed)
}

// settled runs the suite, and up to four times more the tests that have not passed and should. These have clocks of their own,
// and may be too late on a busy machine.
func (s *suite) settled(t *testing.T, where, address string) map[string]string {
	results, out := s.run(t, address, nil)
	for range 4 {
		var again []string
		for test, result := range results {
			if s.except[test] == "" && result != "passed" {
				again = append(again, test)
			}
		}
		if len(again) == 0 {
			return results
		}
		var once map[string]string
		once, out = s.run(t, address, again)
		maps.Copy(results, once)
	}
	t.Logf("%s:\n%s", where, out)
	return results
}

// verdicts reads what a suite prints of each test.
func verdicts(out string, line *regexp.Regexp) map[string]string {
	words := map[string]string{"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
	results := map[string]string{}
	for _, m := range line.FindAllStringSubmatch(out, -1) {
		verdict := m[1]
		if w := words[verdict]; w != "" {
			verdict = w
		}
		if results[m[2]] != "failed" { // a test may fail in its end after having passed
			results[m[2]] = verdict
		}
	}
	return results
}

// bounded runs a program that has ten minutes, in an empty directory, and returns its output whatever its exit status.
func bounded(t *testing.T, address, name string, args ...string) string {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = 10 * time.Second
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Error(err)
		return ""
	}
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PEER_ADDRESS="+address, "ZK_VERSION=3.8.0", "PYTHONPATH="+testdata, "PYTHONDONTWRITEBYTECODE=1")
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// go-zookeeper's own helper starts servers; ours takes the one there is.
func TestGoZooKeepersOwnTests(t *testing.T) {
	effort.Proof(t, effort.Raced)
	t.Parallel()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/go-zookeeper/zk").Output()
	require.NoError(t, err)
	src := t.TempDir()
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*"))
	require.NoError(t, err)
	for _, f := range append(files, "testdata/gozk_test.go.txt") {
		name := filepath.Base(f)
		if name == "gozk_test.go.txt" {
			name = "server_help_test.go"
		} else if filepath.Ext(f) != ".go" && name != "go.mod" {
			continue
		}
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(src, name), text, 0o600))
	}
	binary := filepath.Join(src, "zk.test")
	build := exec.Command("go", "test", "-c", "-o", binary, ".")
	build.Dir = src
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	line := regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP): (\S+)`)
	s := suite{except: gozkExcept, run: func(t *testing.T, address string, tests []string) (map[string]string, string) {
		pattern := "^TestIntegration_"
		if tests != nil {
			for i, name := range tests {
				tests[i], _, _ = strings.Cut(name, "/")
			}
			pattern = fmt.Sprintf("^(%s)$", strings.Join(tests, "|"))
		}
		out := bounded(t, address, binary, "-test.v", "-test.timeout", "5m", "-test.run", pattern)
		return verdicts(out, line), out
	}}
	s.play(t)
}
