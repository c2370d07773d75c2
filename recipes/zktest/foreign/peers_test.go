//go:build linux

// Package foreign_test runs the clients of other languages on zktest: they need more of a ZooKeeper than any Go client asks for.
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

// suite is the test suite of a client library. All of it passes on both servers, except for tests that fail in memory for the reason in
// except.
type suite struct {
	// run runs the named tests, nil for all, and returns how each ended ("passed", "failed", "skipped") and what they printed.
	run    func(t *testing.T, address string, tests []string) (map[string]string, string)
	except map[string]string
}

// super is the digest of super:test, which the suites expect of their servers.
const super = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="

// play runs a suite against both servers at once.
func (s *suite) play(t *testing.T) {
	// As slow as a network: some tests cut a connection, and rely on an answer that comes too late.
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

// settled runs the suite, and then, up to four times, the tests that did not pass and should. These have their own clocks, and may be too
// late on a busy machine.
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
		if results[m[2]] != "failed" { // a test may fail at its end after it has passed
			results[m[2]] = verdict
		}
	}
	return results
}

// bounded runs a program for at most ten minutes, in an empty directory. It returns the output whatever the exit status.
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

// go-zookeeper's own helper starts servers; ours takes the running one.
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

// Reasons why tests of a client's own suite fail in memory.
const (
	ensemble = "takes an ensemble whose servers can be stopped one by one"
	restart  = "takes a restart, at which this server forgets everything"
	authors  = "runs in its authors' CI only"
	sasl     = "starts a server of its own with a JAAS login"
	reconfig = "kazoo does not know the answer ReconfigDisabled, which ZooKeeper gives too unless it is told otherwise, and hangs"
)

var gozkExcept = map[string]string{
	"TestIntegration_BasicCluster":                ensemble,
	"TestIntegration_ClientClusterFailover":       ensemble,
	"TestIntegration_NoQuorum":                    ensemble,
	"TestIntegration_RecurringReAuthHang":         ensemble,
	"TestIntegration_DNSHostProviderReconnect":    ensemble,
	"TestIntegration_IncrementalReconfig":         ensemble,
	"TestIntegration_Reconfig":                    ensemble,
	"TestIntegration_IfAuthdataSurvivesReconnect": restart,
}

var kazooExcept = map[string]string{
	"kazoo/tests/test_build.py::TestBuildEnvironment::test_zookeeper_version":              authors,
	"kazoo/tests/test_client.py::TestClient::test_request_queuing_session_expired":         restart,
	"kazoo/tests/test_client.py::TestClient::test_request_queuing_session_recovered":       restart,
	"kazoo/tests/test_client.py::TestClient::test_update_host_list":                        ensemble,
	"kazoo/tests/test_client.py::TestReconfig::test_add_remove_observer":                   reconfig,
	"kazoo/tests/test_client.py::TestReconfig::test_bad_input":                             reconfig,
	"kazoo/tests/test_client.py::TestReconfig::test_no_super_auth":                         reconfig,
	"kazoo/tests/test_connection.py::TestReadOnlyMode::test_read_only":                     ensemble,
	"kazoo/tests/test_sasl.py::TestLegacySASLDigestAuthentication::test_connect_sasl_auth": sasl,
	"kazoo/tests/test_sasl.py::TestSASLDigestAuthentication::test_connect_sasl_auth":       sasl,
	"kazoo/tests/test_sasl.py::TestSASLGSSAPIAuthentication::test_connect_gssapi_auth":     sasl,
	"kazoo/tests/test_sasl.py::TestSASLGSSAPIAuthentication::test_invalid_gssapi_auth":     sasl,
}

// kazooLeftOut are the test files that do not run at all.
var kazooLeftOut = map[string]string{
	"kazoo/tests/test_eventlet_handler.py": "the client's tests once more, in other threads",
	"kazoo/tests/test_gevent_handler.py":   "the client's tests once more, in other threads",
}

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
		results := map[string]string{} // if a test says nothing, its process has died
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

// run executes a client program against an address and returns its output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // a hang; the programs have their own limits
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	require.NoError(t, err, "%s %s:\n%s", name, strings.Join(args, " "), out)
	return string(out)
}

// both runs a client against the server in memory and, to show that the program is right, against ZooKeeper.
func both(t *testing.T, client func(t *testing.T, address string)) {
	t.Run("in memory", func(t *testing.T) {
		s := zktest.Start(t)
		client(t, s.Addr())
		require.Empty(t, s.Sessions(), "every client has closed its session")
		t.Logf("the client sent %v", s.Counts().ByOp)
	})
	t.Run("ZooKeeper", func(t *testing.T) {
		client(t, realzk.Shared(t))
	})
}

func TestKazooContends(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command(debianPython, "-c", "import kazoo").CombinedOutput(); err != nil {
		t.Fatalf("kazoo is not there, which this test needs; install it with: apt-get install -y python3-kazoo\n%s", out)
	}
	both(t, func(t *testing.T, address string) {
		out := run(t, debianPython, "testdata/contend.py", address)
		require.Equal(t, "ok lock\nok election\nok watch\nok transaction\n", out)
	})
}

func TestCuratorContends(t *testing.T) {
	t.Parallel()
	var classes []string
	for _, jar := range []string{
		"curator-recipes", "curator-framework", "curator-client", "zookeeper", "guava", "slf4j-api", "slf4j-nop", "netty-resolver",
	} {
		path := filepath.Join("/usr/share/java", jar+".jar")
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("%s is not there, which this test needs; install it with: apt-get install -y libcurator-recipes-java default-jdk-headless", path)
		}
		classes = append(classes, path)
	}
	dir := t.TempDir()
	cp := strings.Join(classes, ":")
	run(t, "javac", "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-d", dir, "-cp", cp, "testdata/Contend.java")
	both(t, func(t *testing.T, address string) {
		out := run(t, "java", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", fmt.Sprintf("%s:%s", dir, cp), "Contend", address)
		require.Equal(t, "ok lock\nok election\nok transaction\nok watch\n", out)
	})
}
