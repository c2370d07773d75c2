package examples_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

// The command line of the unit, as systemd would run it, with the credentials it loads: it does not start with the example of
// users as it is shipped, who has no password sees nothing, who has it sees the locks, and a SIGTERM ends it in good order.
func TestTheUnitServesThePage(t *testing.T) {
	unit, err := os.ReadFile("service/locktree-serve.service")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/locktree (.*)$`).FindStringSubmatch(string(unit))
	require.NotNil(t, line)
	srv := zktest.Start(t)
	dir := t.TempDir()
	stack := filepath.Join(dir, "stack")
	require.NoError(t, os.Mkdir(stack, 0o755))
	for from, to := range map[string]string{"quickstart/locks.locktree.hcl": "stack/locks.locktree.hcl", "service/web.yml": "web.yml"} {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, to), text, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "variables"), []byte(`servers = ["`+srv.Addr()+`"]`), 0o600))
	for _, credential := range regexp.MustCompile(`(?m)^LoadCredential=([^:]+):`).FindAllStringSubmatch(string(unit), -1) {
		require.FileExists(t, filepath.Join(dir, credential[1]), "the unit loads what this test has")
	}
	args := strings.NewReplacer("/etc/locktree/stack", stack, "${CREDENTIALS_DIRECTORY}", dir, ":7676", "127.0.0.1:0").Replace(line[1])

	programs, err := binary()
	require.NoError(t, err)
	env := append(os.Environ(), "ZOOKEEPER_SESSION=40")
	apply := exec.Command(filepath.Join(programs, "locktree"), "-chdir="+stack, "apply", "-auto-approve", "-var-file="+filepath.Join(dir, "variables"))
	apply.Env = env
	out, err := apply.CombinedOutput()
	require.NoError(t, err, string(out))
	c := exec.CommandContext(t.Context(), filepath.Join(programs, "locktree"), strings.Fields(args)...)
	c.Env = env
	out, err = c.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "is not a bcrypt hash")
	users, err := os.ReadFile(filepath.Join(dir, "web.yml"))
	require.NoError(t, err)
	users = bytes.Replace(users, []byte("NAME: HASH"), []byte("demo: $2a$10$hJ8GOK.VC4j.IEeVKdesmuRMRxlmTUU/aaZp9CgF4quT7HUSSkPWC"), 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "web.yml"), users, 0o600))
	c = exec.CommandContext(t.Context(), filepath.Join(programs, "locktree"), strings.Fields(args)...)
	c.Env = env
	stdout, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	url := make([]byte, 64)
	n, err := stdout.Read(url)
	require.NoError(t, err)
	address := strings.TrimSpace(string(url[:n]))

	ask := func(password string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"locks?show=all", nil)
		require.NoError(t, err)
		r.SetBasicAuth("demo", password)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	code, _ := ask("guess")
	require.Equal(t, http.StatusUnauthorized, code)
	for body := ""; !strings.Contains(body, "/locks/payments/ledger"); {
		code, body = ask("demo")
		require.Equal(t, http.StatusOK, code)
	}
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	_, _ = io.Copy(io.Discard, stdout)
	require.NoError(t, c.Wait())
	require.Empty(t, srv.Sessions(), "its session was closed")
}

// What the container and the compose file give as arguments are flags there are.
func TestTheContainersArgumentsAreFlags(t *testing.T) {
	programs, err := binary()
	require.NoError(t, err)
	help, err := exec.Command(filepath.Join(programs, "locktree"), "serve", "-help").CombinedOutput()
	require.NoError(t, err)
	for _, file := range []string{"service/Containerfile", "service/compose.yaml"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		lists := regexp.MustCompile(`(?m)^(?:CMD|    command:) (\[.*\])$`).FindAllStringSubmatch(string(text), -1)
		require.Len(t, lists, 1, file)
		var args []string
		require.NoError(t, json.Unmarshal([]byte(lists[0][1]), &args))
		require.Equal(t, "serve", args[0])
		for _, flag := range args[1:] {
			name, _, _ := strings.Cut(flag, "=")
			require.Contains(t, string(help), "  "+name+" ", file)
		}
	}
}
