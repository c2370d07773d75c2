package examples_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// binary builds the programs under test once: the tests run the examples as a user would, through the command line.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "locktree-examples-")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "../cmd/locktree").CombinedOutput()
	if err != nil {
		return "", errors.New(string(out))
	}
	return dir, nil
})

func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	programs, err := binary()
	require.NoError(t, err)
	return exec.CommandContext(t.Context(), filepath.Join(programs, "locktree"), args...)
}

func contents(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := binary(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// The tests plan each configuration, apply it, plan it again without changes, and destroy it. For payments, they check that destroy is
// refused.
var configurations = []string{"quickstart", "payments", "redpacket", "recipes"}

func TestConfigurationsOnTheEmbeddedServer(t *testing.T) {
	for _, dir := range configurations {
		t.Run(dir, func(t *testing.T) {
			srv := zktest.Start(t)
			walk(t, srv.Addr(), dir)
			if dir != "payments" { // payments protects itself
				require.NotContains(t, srv.Dump(), `\"addr\":\"namespace.`, "nothing declared may be left")
			}
		})
	}
}

func TestConfigurationsOnRealZooKeeper(t *testing.T) {
	t.Parallel()
	srv := realzk.Start(t, realzk.Options{})
	for _, dir := range configurations {
		t.Run(dir, func(t *testing.T) { walk(t, srv.Addr, dir) })
	}
}

func walk(t *testing.T, addr, dir string) {
	t.Helper()
	run := func(wantCode int, args ...string) string {
		out, code := locktreeAt(t, addr, dir, args...)
		require.Equal(t, wantCode, code, "locktree %s:\n%s", strings.Join(args, " "), out)
		require.NotContains(t, out, canary)
		return out
	}
	run(0, "validate")
	run(0, "fmt", "-check")
	run(2, "plan", "-detailed-exitcode")
	run(0, "apply", "-auto-approve")
	require.Contains(t, run(0, "plan", "-detailed-exitcode"), "No changes.")
	run(0, "show")
	run(0, "status")
	if dir == "payments" {
		// The example protects its ledger: a destroy must be refused as a whole.
		out := run(1, "destroy", "-auto-approve")
		require.Contains(t, out, "prevent_destroy")
		require.Contains(t, run(0, "plan", "-detailed-exitcode"), "No changes.")
		return
	}
	run(0, "destroy", "-auto-approve")
	run(2, "plan", "-detailed-exitcode")
}

// hanging is the time after which a command counts as hung.
const hanging = 3 * time.Minute

// canary is the example's administrator password: it must never appear.
const canary = "canary-7f3a-password"

func locktree(t *testing.T, srv *zktest.Server, dir string, args ...string) (string, int) {
	t.Helper()
	addr := "127.0.0.1:1" // nothing listens there: for commands that need no server
	if srv != nil {
		addr = srv.Addr()
	}
	return locktreeAt(t, addr, dir, args...)
}

func locktreeAt(t *testing.T, addr, dir string, args ...string) (string, int) {
	t.Helper()
	cmd := command(t, args...)
	cmd.Dir = dir
	return output(t, cmd, addr)
}

// environ is the environment without variables that change what a program does. Its session timeout outlives a machine that stalls for
// seconds.
func environ(addr string, more ...string) []string {
	own := slices.DeleteFunc(os.Environ(), func(e string) bool {
		return strings.HasPrefix(e, "LOCKTREE_") || strings.HasPrefix(e, "ZOOKEEPER_") || strings.HasPrefix(e, "CLICOLOR")
	})
	return append(append(own, "NO_COLOR=1", "ZOOKEEPER_SESSION=40", "ZOOKEEPER_SERVERS="+addr, `LOCKTREE_VAR_servers=["`+addr+`"]`), more...)
}

// output runs a command. A command that gets no session in the time that it has, because the machine is busy, is run again.
func output(t *testing.T, cmd *exec.Cmd, addr string) (string, int) {
	t.Helper()
	for tries := 1; ; tries++ {
		var out bytes.Buffer
		run := &exec.Cmd{Path: cmd.Path, Args: cmd.Args, Dir: cmd.Dir, Env: environ(addr, "LOCKTREE_VAR_admin_password="+canary), Stdout: &out, Stderr: &out}
		require.NoError(t, run.Start())
		hangs := time.AfterFunc(hanging, func() { _ = run.Process.Kill() })
		err := run.Wait()
		hangs.Stop()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			require.NoError(t, err)
		}
		if tries == 5 || addr == "127.0.0.1:1" || !strings.Contains(strings.ToLower(out.String()), "no session within") {
			return out.String(), run.ProcessState.ExitCode()
		}
	}
}
