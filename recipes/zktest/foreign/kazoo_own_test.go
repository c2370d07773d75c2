//go:build linux

package foreign_test

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest/effort"
)

const (
	debianPython = "/usr/bin/python3" // the one Debian installs kazoo for
	debianKazoo  = "/usr/lib/python3/dist-packages"
	// kazooGroups run at the same time: most of the tests wait most of the time.
	kazooGroups = 6
)

var (
	kazooTest   = regexp.MustCompile(`(?m)^kazoo/tests/\S+\.py::\S+$`)
	kazooResult = regexp.MustCompile(`(?m)^RESULT (\w+) (\S+)`)
)

func TestKazoosOwnTests(t *testing.T) {
	effort.Proof(t, effort.Raced)
	t.Parallel()
	if out, err := exec.Command(debianPython, "-c", "import kazoo.tests, pytest").CombinedOutput(); err != nil {
		t.Fatalf("kazoo's tests cannot run; install what they need with: apt-get install -y python3-kazoo python3-pytest\n%s", out)
	}
	pytest := func(address string, args ...string) string {
		return bounded(t, address, debianPython, append([]string{
			"-m", "pytest", "-p", "no:cacheprovider", "-p", "peer_kazoo",
			"-q", "-s", "-W", "ignore", "--tb=short", "--rootdir=" + debianKazoo,
		}, args...)...)
	}
	listed := pytest("", "--collect-only", "--pyargs", "kazoo.tests")
	all := kazooTest.FindAllString(listed, -1)
	for file, why := range kazooLeftOut {
		n := len(all)
		all = slices.DeleteFunc(all, func(test string) bool { return strings.HasPrefix(test, file+"::") })
		require.Less(t, len(all), n, "%s is left out (%s), and not there", file, why)
	}
	require.Greater(t, len(all), 300, "kazoo's tests were not found:\n%s", listed)
	s := suite{except: kazooExcept, run: func(_ *testing.T, address string, tests []string) (map[string]string, string) {
		if tests == nil {
			tests = all
		}
		results := map[string]string{} // of a test that says nothing, the process has died
		for _, test := range tests {
			results[test] = "lost"
		}
		outs := make([]string, min(kazooGroups, len(tests)))
		var running sync.WaitGroup
		for g := range outs {
			var args []string
			for i := g; i < len(tests); i += len(outs) {
				args = append(args, debianKazoo+"/"+tests[i])
			}
			running.Go(func() { outs[g] = pytest(address, args...) })
		}
		running.Wait()
		out := strings.Join(outs, "\n")
		for test, result := range verdicts(out, kazooResult) {
			results[test] = result
		}
		return results, out
	}}
	s.play(t)
}
