package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes/zktest"
)

type served struct {
	t    *testing.T
	url  string
	stop context.CancelFunc
	done chan int
	dir  string
	env  []string
	told paper // on standard error
}

func (s *served) said() string { return s.told.String() }

func (s *served) says(text string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return strings.Contains(s.said(), text) }, time.Minute, 10*time.Millisecond, text)
}

func startServe(t *testing.T, dir string, env []string, args ...string) *served {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	s := &served{t: t, stop: stop, done: make(chan int, 1), dir: dir, env: env}
	out, in := io.Pipe()
	go func() {
		s.done <- start(ctx, append([]string{"-chdir=" + dir, "serve", "-listen=127.0.0.1:0", "-interval=100ms"}, args...), env, strings.NewReader(""), in, &s.told)
		in.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	s.url = strings.TrimSpace(line)
	t.Cleanup(func() {
		stop()
		<-s.done
	})
	return s
}

// The soft memory limit is for a plan. A daemon with more than that in use would collect garbage without pause.
func TestServeHasNoMemoryGoal(t *testing.T) {
	before := debug.SetMemoryLimit(memoryGoal)
	defer debug.SetMemoryLimit(before)
	startServe(t, t.TempDir(), nil, "-servers=127.0.0.1:1")
	require.Equal(t, int64(math.MaxInt64), debug.SetMemoryLimit(-1))
}

func (s *served) get(path string) (int, string) {
	s.t.Helper()
	resp, err := http.Get(s.url + path)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp.StatusCode, string(body)
}

func (s *served) until(path, text string) string {
	s.t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, body := s.get(path); strings.Contains(body, text) {
			return body
		} else if time.Now().After(end) {
			require.Contains(s.t, body, text)
		}
	}
}

// quickstart applies the example, and returns what a command needs to find it.
func quickstart(t *testing.T, srv *zktest.Server) (dir string, env []string) {
	t.Helper()
	dir = t.TempDir()
	text, err := os.ReadFile("../../examples/quickstart/locks.locktree.hcl")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "locks.locktree.hcl"), text, 0o644))
	env = []string{"NO_COLOR=1", "ZOOKEEPER_SESSION=40", `LOCKTREE_VAR_servers=["` + srv.Addr() + `"]`}
	tool(t, exit.OK, dir, env, "apply", "-auto-approve")
	return dir, env
}

const ledgerPath = "/locks/payments/ledger"

func TestServeShowsWhatStatusPlanAndDoctorSay(t *testing.T) {
	srv := zktest.Start(t)
	dir, env := quickstart(t, srv)
	a, b := dialTest(t, srv, "app-a"), dialTest(t, srv, "app-b")
	l, err := a.Mutex(ledgerPath).Lock(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _, _ = b.Mutex(ledgerPath).Lock(ctx) }()
	s := startServe(t, dir, env)
	s.until("locks", "1 held, 1 waiting")
	page := s.until("lock?ensemble=local&path="+ledgerPath, "app-a")
	require.Contains(t, page, "app-b")
	s.until("drift", "No changes. Your locks match the configuration.")
	s.until("doctor", "session timeout")
	type party struct{ ID string }
	type statusLock struct {
		Address          string
		Holders, Waiters []party
	}
	var status struct {
		Timestamp      time.Time
		Configurations []struct{ Stack, Path, Fingerprint, Error string }
		Ensembles      []struct {
			Stack, Compared_with string
			Changes              struct{ Add, Change, Remove *int }
			Locks                []statusLock
		}
	}
	_, doc := s.get("api/v1/status")
	require.NoError(t, json.Unmarshal([]byte(doc), &status), doc)
	require.WithinDuration(t, time.Now(), status.Timestamp, hanging)
	require.Equal(t, dir, status.Configurations[0].Path)
	e := status.Ensembles[0]
	require.Equal(t, status.Configurations[0].Fingerprint, e.Compared_with)
	i := slices.IndexFunc(e.Locks, func(l statusLock) bool { return l.Address == "namespace.payments.mutex.ledger" })
	require.Equal(t, []party{{"app-a"}}, e.Locks[i].Holders, doc)
	require.Equal(t, []party{{"app-b"}}, e.Locks[i].Waiters, doc)
	require.Zero(t, *e.Changes.Add)
	s.until("readyz", "ok\n")
	s.until("metrics", `locktree_lock_waiters{ensemble="local",stack="quickstart",lock="namespace.payments.mutex.ledger",kind="mutex"} 1`)
	s.until("metrics", "locktree_drift_checked_timestamp_seconds")

	require.NoError(t, l.Unlock(t.Context()))
	s.until("lock?ensemble=local&path="+ledgerPath, "1 held</dd>")
	s.stop()
	require.Zero(t, <-s.done)
	s.done <- 0
	require.Eventually(t, func() bool { return len(srv.Sessions()) == 2 }, 20*time.Second, time.Millisecond, "its own is closed before the servers would expire it")
}

// untimed removes from a status what changes with time, and with every session and ping. In its first millisecond a lock has no for_ms.
func untimed(status string) string {
	return regexp.MustCompile(`\s*"(timestamp|at|zxid|session_expires|for_ms)": [^,\n]+,?`).ReplaceAllString(status, "")
}

func TestServeWithoutAConfigurationShowsWhatIsBelowAPrefix(t *testing.T) {
	srv := zktest.Start(t)
	require.NoError(t, srv.Create("/java/orders", nil))
	c := dialTest(t, srv, "foreign")
	session, err := c.Session(t.Context())
	require.NoError(t, err)
	_, err = session.Create(t.Context(), "/java/orders/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-", []byte("10.0.0.7"), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	env := []string{"NO_COLOR=1", "ZOOKEEPER_SESSION=40", "ZOOKEEPER_SERVERS=" + srv.Addr()}
	s := startServe(t, t.TempDir(), env, "-servers="+srv.Addr())
	require.Contains(t, s.until("locks", "/java/orders"), "10.0.0.7")
	shown, status := "", "-"
	for tries := 0; tries < 10 && shown != status; tries++ { // other connections come and go, and a look may tell of them
		_, doc := s.get("api/v1/status")
		shown, status = untimed(tool(t, exit.OK, s.dir, s.env, "status", "-json", "/")), untimed(doc)
	}
	require.Equal(t, shown, status)
	require.Contains(t, s.until("drift", "Not checked"), "no configuration")
	_, metrics := s.get("metrics")
	require.NotContains(t, metrics, "locktree_drift_checked_timestamp_seconds")
}

func TestServeSurvivesTheServersAbsence(t *testing.T) {
	srv := zktest.Start(t)
	dir, env := quickstart(t, srv)
	srv.RefuseDials(true)
	s := startServe(t, dir, append(env, "ZOOKEEPER_SESSION=4"))
	s.until("", "Nothing could be read yet")
	s.says("Ensemble local does not answer since 20")
	code, _ := s.get("readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	code, _ = s.get("api/v1/status")
	require.Equal(t, http.StatusServiceUnavailable, code)
	s.until("metrics", `locktree_drift_checked_timestamp_seconds{ensemble="local",stack="quickstart"} 0`)
	srv.RefuseDials(false)
	s.until("", "by dump")
	s.says("Ensemble local answers again, after ")
}

// A container's health check works, even if the page encrypts and admits only clients with a certificate.
func TestAHealthcheckNeedsNoPasswordAndNoCertificate(t *testing.T) {
	a := newAuthority(t)
	a.server()
	web := filepath.Join(a.dir, "web.yml")
	require.NoError(t, os.WriteFile(web, []byte("tls_server_config: {cert_file: server.pem, key_file: server.key, client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.pem}\n"), 0o600))
	env := []string{"ZOOKEEPER_SERVERS=127.0.0.1:1"} // no server is there, which is no reason to restart the page
	for _, args := range [][]string{{"-prefix=/"}, {"-prefix=/", "-web-config=" + web}} {
		s := startServe(t, t.TempDir(), env, args...)
		at := strings.Trim(s.url[strings.Index(s.url, "//"):], "/")
		_, port, err := net.SplitHostPort(at)
		require.NoError(t, err)
		for _, listen := range []string{at, "localhost:" + port, ":" + port, "0.0.0.0:" + port} {
			require.Empty(t, tool(t, exit.OK, s.dir, s.env, "serve", "-healthcheck", "-listen="+listen))
		}
		if len(args) > 1 { // other clients are still refused, and the page says so
			c, err := tls.Dial("tcp", at, &tls.Config{InsecureSkipVerify: true})
			if err == nil {
				_, err = c.Read(make([]byte, 1))
			}
			require.Error(t, err)
			s.says("The page: TLS handshake error from 127.0.0.1:")
		}
		require.NotContains(t, s.said(), "HTTP request to an HTTPS server", "of a health check there is one each minute")
		s.stop()
		require.Zero(t, <-s.done)
		s.done <- 0
		require.Contains(t, tool(t, exit.Failed, s.dir, s.env, "serve", "-healthcheck", "-listen="+at), "No page answers")
	}
}

// rewrite changes a file as deployments do: a new file takes its name.
func rewrite(t *testing.T, name, from, to string) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Contains(t, string(text), from)
	require.NoError(t, os.WriteFile(name+".new", []byte(strings.Replace(string(text), from, to, 1)), 0o644))
	require.NoError(t, os.Rename(name+".new", name))
}

var fingerprint = regexp.MustCompile(`fingerprint ([0-9a-f]{12})`)

// The configuration was read once. After each deployment the page showed drift where there was none, until a restart, and a SIGHUP ended
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

// The page does not compare with a configuration that has errors, and says so everywhere.
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
	s.until("api/v1/status", `"error": "`+file)
	s.until("readyz", "ok\n") // the locks are looked at as before
	rewrite(t, file, `mutexes "ledger" {`, `mutex "ledger" {`)
	s.until("metrics", "locktree_config_last_reload_successful{stack=\"quickstart\"} 1\n")
	require.Contains(t, s.said(), "The configuration was read again and is active.")
}

// Servers and credentials come from files of variables, which are replaced while the page is served.
func TestServeFollowsItsFilesOfVariables(t *testing.T) {
	first, second := zktest.Start(t), zktest.Start(t)
	dir, env := quickstart(t, first)
	vars := filepath.Join(t.TempDir(), "secrets.ltvars")
	require.NoError(t, os.WriteFile(vars, []byte(`servers = ["`+first.Addr()+`"]`), 0o600))
	s := startServe(t, dir, env[:2], "-var-file="+vars)
	s.until("", first.Addr())
	s.until("", "as of")
	rewrite(t, vars, first.Addr(), second.Addr())
	s.until("", second.Addr())
	s.until("drift", " to add, 0 to change") // only the second lacks the locks
	for len(first.Sessions()) > 0 {
		_, _ = s.get("") // until the unused one is closed
	}
	require.NotEmpty(t, second.Sessions())
}

const twoEnsembles = `locktree {
  stack = "shop"
}
ensemble "z" {
  servers         = ["GOOD"]
  connect_timeout = "30s"
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
	s.until("", "as of")
	code, doc := s.get("api/v1/status")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, doc, `"/locks/ledger"`)
	require.Contains(t, doc, `"error": `)
	found := tool(t, exit.Failed, s.dir, s.env, "doctor")
	require.Contains(t, found, "fails   connection")
	require.Contains(t, found, "z  /, 1 lock checked")
	require.Contains(t, found, "b  /, 0 locks checked")
}

// The page read everything again for each reader: 13 s and 27 MB with 100,000 locks.
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

// One page shows stacks whose ensembles have the same names, and tells them apart. An ensemble that does not answer, and a configuration
// that has errors from the beginning and is mended later, hide nothing of the others.
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

	// Stacks of one name would become one.
	write(late, "shop", other.Addr(), "")
	s.until("", " shop is also declared in "+dir)
	s.until("metrics", `locktree_up{ensemble="bank/z",stack="bank"} 1`)
	s.says("Ensemble shop/b does not answer since 20")
}
