package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes/zktest"
)

// rewrite changes a file as deployments do: another one takes its name.
func rewrite(t *testing.T, name, from, to string) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Contains(t, string(text), from)
	require.NoError(t, os.WriteFile(name+".new", []byte(strings.Replace(string(text), from, to, 1)), 0o644))
	require.NoError(t, os.Rename(name+".new", name))
}

var fingerprint = regexp.MustCompile(`fingerprint ([0-9a-f]{12})`)

// The configuration was read once: after each deployment the page showed drift that was none, until a restart, and a SIGHUP ended
// the program.
func TestServeComparesWithTheConfigurationAsItIsNow(t *testing.T) {
	srv := zktest.Start(t)
	dir, env := quickstart(t, srv)
	s := startServe(t, dir, env, "-drift-interval=1h")
	before := fingerprint.FindString(s.until("drift", "No changes. Your locks match the configuration."))
	require.NotEmpty(t, before)
	file := filepath.Join(dir, "locks.locktree.hcl")
	rewrite(t, file, `mutex "ledger" {`, "mutex \"another\" {}\n  mutex \"ledger\" {")
	page := s.until("drift", "1 to add")
	require.NotEqual(t, before, fingerprint.FindString(page))
	require.Equal(t, 2, strings.Count(page, fingerprint.FindString(page)), "what is in use, and what was compared with: %s", page)
	tool(t, exit.OK, dir, env, "apply", "-auto-approve")
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	s.until("drift", "No changes. Your locks match the configuration.")
	s.until("locks?show=all", "/locks/payments/another")
}

// A configuration with errors is not compared with, and that is said wherever somebody looks.
func TestServeKeepsTheConfigurationWhileItsFilesHaveErrors(t *testing.T) {
	srv := zktest.Start(t)
	dir, env := quickstart(t, srv)
	s := startServe(t, dir, env, "-drift-interval=1h")
	good := fingerprint.FindString(s.until("drift", "No changes. Your locks match the configuration."))
	file := filepath.Join(dir, "locks.locktree.hcl")
	rewrite(t, file, `mutex "ledger" {`, `mutexes "ledger" {`)
	require.Contains(t, s.until("", "it cannot be read again, so the one of"), "locks.locktree.hcl:")
	require.Equal(t, good, fingerprint.FindString(s.until("drift", "it cannot be read again:")))
	s.until("metrics", "locktree_config_last_reload_successful{stack=\"quickstart\"} 0\n")
	require.Regexp(t, `The configuration was read again and is not used: .*[^.?][.?] The one of `, s.said())
	_, doc := s.get("api/v1/status")
	require.Contains(t, doc, `"error": "`+file)
	code, _ := s.get("readyz")
	require.Equal(t, http.StatusOK, code, "the locks are looked at as before")
	rewrite(t, file, `mutexes "ledger" {`, `mutex "ledger" {`)
	s.until("metrics", "locktree_config_last_reload_successful{stack=\"quickstart\"} 1\n")
	require.Contains(t, s.said(), "The configuration was read again and is active.")
}

// Servers and credentials come from files of variables, which are replaced while the page is served.
func TestServeFollowsItsFilesOfVariables(t *testing.T) {
	first, second := zktest.Start(t), zktest.Start(t)
	dir, env := quickstart(t, first)
	_, _ = quickstart(t, second)
	vars := filepath.Join(t.TempDir(), "secrets.ltvars")
	require.NoError(t, os.WriteFile(vars, []byte(`servers = ["`+first.Addr()+`"]`), 0o600))
	s := startServe(t, dir, env[:2], "-var-file="+vars)
	s.until("", first.Addr())
	s.until("", "as of")
	rewrite(t, vars, first.Addr(), second.Addr())
	s.until("", second.Addr())
	s.until("drift", "No changes. Your locks match the configuration.")
	for len(first.Sessions()) > 0 {
		_, _ = s.get("") // until the one that is not used any more is closed
	}
	require.NotEmpty(t, second.Sessions())
}

const twoEnsembles = `locktree {
  stack = "shop"
}
ensemble "z" {
  servers         = ["GOOD"]
  connect_timeout = "500ms"
}
ensemble "b" {
  servers         = ["127.0.0.1:1"]
  connect_timeout = "500ms"
}
` + world + `namespace "locks" {
  ensemble = ensemble.z
  acl      = acl.open
  mutex "ledger" {}
}
namespace "far" {
  ensemble = ensemble.b
  acl      = acl.open
  mutex "away" {}
}
`

// One ensemble that could not be reached hid drift and doctor of all others, and the whole of /api/v1/status.
func TestAnEnsembleThatCannotBeReachedHidesNoOtherOnThePage(t *testing.T) {
	srv := zktest.Start(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "locks.locktree.hcl"), []byte(strings.Replace(twoEnsembles, "GOOD", srv.Addr(), 1)), 0o644))
	s := startServe(t, dir, []string{"NO_COLOR=1", "ZOOKEEPER_SESSION=40"})
	s.until("drift", "Plan: 2 to add, 0 to change, 0 to destroy.")
	s.until("doctor", "session timeout")
	s.until("", "b is unreachable.")
	code, doc := s.get("api/v1/status")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, doc, `"/locks/ledger"`)
	require.Contains(t, doc, `"error": `)
	found := tool(t, exit.Failed, s.dir, s.env, "doctor")
	require.Contains(t, found, "fails   connection")
	require.Contains(t, found, "z  /, 1 lock checked")
	require.Contains(t, found, "b  /, 0 locks checked")
}

// It read everything again for each reader: 13 s and 27 MB with 100,000 locks.
func TestStatusOfThePageAsksNoServer(t *testing.T) {
	srv := zktest.Start(t)
	dir, env := quickstart(t, srv)
	s := startServe(t, dir, env, "-interval=1h")
	s.until("drift", "No changes. Your locks match the configuration.")
	s.until("doctor", "session timeout")
	s.until("", "as of")
	srv.ResetCounts()
	for range 10 {
		_, doc := s.get("api/v1/status")
		require.Contains(t, doc, ledgerPath)
	}
	require.Zero(t, srv.Counts().Total, "%v", srv.Counts().ByOp)
}

// Two stacks and their ensembles of one name are on one page, told apart. One ensemble that does not answer, and a configuration that
// has errors from the beginning and is mended later, hide nothing of the others.
func TestServeShowsSeveralStacks(t *testing.T) {
	srv, other := zktest.Start(t), zktest.Start(t)
	dir, late, away := t.TempDir(), t.TempDir(), t.TempDir()
	write := func(dir, stack, servers, more string) {
		text := strings.NewReplacer("stack = \"shop\"", "stack = \""+stack+"\"", "GOOD", servers).Replace(twoEnsembles)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "locks.locktree.hcl"), []byte(text+more), 0o644))
	}
	write(dir, "shop", srv.Addr(), "")
	write(late, "bank", other.Addr(), "mutexes \"wrong\" {}\n")
	write(away, "far", "127.0.0.1:2", "")
	env := []string{"NO_COLOR=1", "ZOOKEEPER_SESSION=40"}
	s := startServe(t, dir, env, "-config=.", "-config="+late, "-config="+away)

	require.Regexp(t, `is not used: .*[^.?][.?] It is read again`, s.said(), "its sentence ends once")
	s.until("", "shop/b is unreachable.")
	s.until("", "far/z is unreachable.")
	require.Contains(t, s.until("", "Stack "+late+". Since "), "it cannot be read, so nothing of it is looked at")
	s.until("metrics", `locktree_up{ensemble="shop/z",stack="shop"} 1`)
	s.until("metrics", `locktree_up{ensemble="far/z",stack="far"} 0`)
	s.until("metrics", `locktree_config_last_reload_successful{stack="`+late+`"} 0`)
	s.until("drift", "The configuration of shop is "+dir)

	write(late, "bank", other.Addr(), "")
	s.until("metrics", `locktree_up{ensemble="bank/z",stack="bank"} 1`)
	s.until("metrics", `locktree_config_last_reload_successful{stack="bank"} 1`)
	_, doc := s.get("api/v1/status")
	require.Contains(t, doc, `"ensemble": "bank/z"`)
	require.Contains(t, doc, `"stack": "bank"`)

	// Stacks of one name would be one.
	write(late, "shop", other.Addr(), "")
	s.until("", " shop is also declared in "+dir)
	s.until("metrics", `locktree_up{ensemble="bank/z",stack="bank"} 1`)
	s.says("Ensemble shop/b does not answer since 20")
}
