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
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes/zktest"
)

// served is "locktree serve" under way.
type served struct {
	t    *testing.T
	url  string
	stop context.CancelFunc
	done chan int
	dir  string
	env  []string
	told paper // on standard error
}

// said is what it has written to standard error.
func (s *served) said() string { return s.told.String() }

// says waits until it has.
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

// The soft limit is for a plan. A daemon with more than that in use would collect without pause.
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

// until asks for a page until it says so.
func (s *served) until(path, text string) string {
	s.t.Helper()
	for ctx, end := context.WithTimeout(s.t.Context(), 5*time.Minute); ; {
		if _, body := s.get(path); strings.Contains(body, text) {
			end()
			return body
		} else if ctx.Err() != nil {
			end()
			require.Contains(s.t, body, text)
		}
		time.Sleep(20 * time.Millisecond)
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
	code, _ := s.get("readyz")
	require.Equal(t, http.StatusOK, code)
	_, metrics := s.get("metrics")
	require.Contains(t, metrics, `locktree_lock_waiters{ensemble="local",stack="quickstart",lock="namespace.payments.mutex.ledger",kind="mutex"} 1`)
	require.Contains(t, metrics, "locktree_drift_checked_timestamp_seconds")

	require.NoError(t, l.Unlock(t.Context()))
	s.until("lock?ensemble=local&path="+ledgerPath, "1 held</dd>")
	s.stop()
	require.Zero(t, <-s.done)
	s.done <- 0
	require.Len(t, srv.Sessions(), 2, "its own is closed")
}

// untimed leaves out of a status what changes with time, every session and ping. In its first millisecond a lock has no for_ms.
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
	_, status := s.get("api/v1/status")
	require.Equal(t, untimed(tool(t, exit.OK, s.dir, s.env, "status", "-json", "/")), untimed(status))
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
	_, metrics := s.get("metrics")
	require.Contains(t, metrics, `locktree_drift_checked_timestamp_seconds{ensemble="local",stack="quickstart"} 0`)
	srv.RefuseDials(false)
	s.until("", "by dump")
	s.says("Ensemble local answers again, after ")
	srv.RefuseDials(true)
	for _, x := range srv.Sessions() {
		srv.Expire(x.ID)
	}
	s.until("", "stale")
	srv.RefuseDials(false)
	for page := "stale"; strings.Contains(page, "stale"); time.Sleep(20 * time.Millisecond) {
		page = s.until("", "by dump")
	}
}

// A container asks the page how it is: also where it encrypts, and lets in nobody without a certificate.
func TestAHealthcheckNeedsNoPasswordAndNoCertificate(t *testing.T) {
	a := newAuthority(t)
	a.server()
	web := filepath.Join(a.dir, "web.yml")
	require.NoError(t, os.WriteFile(web, []byte("tls_server_config: {cert_file: server.pem, key_file: server.key, client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.pem}\n"), 0o600))
	env := []string{"ZOOKEEPER_SERVERS=127.0.0.1:1"} // nobody is there, which is no reason to start the page anew
	for _, args := range [][]string{{"-prefix=/"}, {"-prefix=/", "-web-config=" + web}} {
		s := startServe(t, t.TempDir(), env, args...)
		at := strings.Trim(s.url[strings.Index(s.url, "//"):], "/")
		_, port, err := net.SplitHostPort(at)
		require.NoError(t, err)
		for _, listen := range []string{at, "localhost:" + port, ":" + port, "0.0.0.0:" + port} {
			require.Empty(t, tool(t, exit.OK, s.dir, s.env, "serve", "-healthcheck", "-listen="+listen))
		}
		if len(args) > 1 { // somebody else is let in no more, and that is said
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
