package page

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/net/netutil"
)

func TestWhoMayAskWhat(t *testing.T) {
	h := guard(boardOf(t, scene()).handler(), []string{"locks.example.com"})
	for name, c := range map[string]struct {
		method, host string
		header       map[string]string
		want         int
	}{
		"plain":                     {"GET", "127.0.0.1:7676", nil, 200},
		"head":                      {"HEAD", "127.0.0.1:7676", nil, 200},
		"by name":                   {"GET", "localhost:7676", nil, 200},
		"by name with a dot":        {"GET", "LOCALHOST.:7676", nil, 200},
		"IPv6":                      {"GET", "[::1]:7676", nil, 200},
		"a name we gave":            {"GET", "Locks.Example.com", nil, 200},
		"rebinding":                 {"GET", "evil.example:7676", nil, 421},
		"rebinding, like a number":  {"GET", "127.0.0.1.evil.example", nil, 421},
		"rebinding, like localhost": {"GET", "localhost.evil.example", nil, 421},
		"no host":                   {"GET", "", nil, 421},
		"post":                      {"POST", "127.0.0.1:7676", nil, 405},
		"delete":                    {"DELETE", "127.0.0.1:7676", nil, 405},
		"options":                   {"OPTIONS", "127.0.0.1:7676", nil, 405},
		"odd method":                {"GETX", "127.0.0.1:7676", nil, 405},
		"our own script":            {"GET", "127.0.0.1:7676", map[string]string{"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, 200},
		"a link from elsewhere":     {"GET", "127.0.0.1:7676", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200},
		"a frame elsewhere":         {"GET", "127.0.0.1:7676", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403},
		"an image elsewhere":        {"GET", "127.0.0.1:7676", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403},
		"another port":              {"GET", "127.0.0.1:7676", map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403},
		"a foreign origin":          {"GET", "127.0.0.1:7676", map[string]string{"Origin": "https://evil.example"}, 403},
		"no origin to speak of":     {"GET", "127.0.0.1:7676", map[string]string{"Origin": "null"}, 403},
		"our origin":                {"GET", "127.0.0.1:7676", map[string]string{"Origin": "http://127.0.0.1:7676"}, 200},
	} {
		for _, path := range []string{"/", "/metrics", "/api/v1/status", "/static/app.js"} {
			if c.want == 200 && path == "/api/v1/status" {
				continue
			}
			r := httptest.NewRequest(c.method, "http://127.0.0.1"+path, nil)
			r.Host = c.host
			for k, v := range c.header {
				r.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.Equal(t, c.want, w.Code, "%s: %s", name, path)
			require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'", name)
			require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
			require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
		}
	}
}

func TestThePageIsReadyWhileItsLookIsFresh(t *testing.T) {
	b := boardOf(t)
	require.Equal(t, http.StatusOK, get(t, b.handler(), "/healthz").Code)
	require.Equal(t, http.StatusServiceUnavailable, get(t, b.handler(), "/readyz").Code)
	b.publishLook("main", scene())
	require.Equal(t, http.StatusOK, get(t, b.handler(), "/readyz").Code)
	b.opts.Now = func() time.Time { return noon.Add(time.Minute) }
	require.Equal(t, "stale: main\n", body(t, b, "/readyz"))
	b.change("main", func(e *Ensemble) { e.looking = "A look is under way: 2310 of 5000 nodes." }) // over a slow line
	require.Equal(t, http.StatusOK, get(t, b.handler(), "/readyz").Code)
	require.Contains(t, body(t, b, "/"), "A look is under way: 2310 of 5000 nodes.")
	require.Contains(t, body(t, b, "/metrics"), `locktree_up{ensemble="main",stack="shop"} 1`)
	b.publishFailure("main", errors.New("the servers have sent nothing for 16s"))
	require.Equal(t, "stale: main\n", body(t, b, "/readyz"))
	require.Equal(t, http.StatusNotFound, get(t, b.handler(), "/nothing").Code)
}

func opened(t *testing.T, text string) (*Door, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "web.yml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return OpenDoor(file)
}

// behind serves a page behind a door, and returns its address without a scheme.
func behind(t *testing.T, d *Door, say func(string)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := newServer(boardOf(t, scene()).handler())
	s.ErrorLog = log.New(sayings(say), "", 0)
	ended := make(chan error, 1)
	go func() {
		ended <- d.serve(netutil.LimitListener(l, maxConnections), s, []string{"locks.example.com"}, say)
	}()
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	return l.Addr().String()
}

type says struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *says) say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.WriteString(line + "\n")
}

func (s *says) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func answer(t *testing.T, url, user, password string) *http.Response {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	require.NoError(t, err)
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp
}

func hashOf(t *testing.T, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	return string(hash)
}

func TestOnlyTheRightPasswordOpensThePage(t *testing.T) {
	secret := strings.Repeat("s", longestPassword) // bcrypt ignores the rest: any longer text would be right
	d, err := opened(t, "basic_auth_users:\n  alice: "+hashOf(t, secret)+"\n")
	require.NoError(t, err)
	require.True(t, d.Authenticates())
	require.False(t, d.Encrypts())
	at := "http://" + behind(t, d, func(string) {})
	ask := func(path, user, password string) int {
		resp := answer(t, at+path, user, password)
		if resp.StatusCode == http.StatusUnauthorized {
			require.Contains(t, resp.Header.Get("WWW-Authenticate"), "Basic")
		}
		require.Contains(t, resp.Header.Get("Content-Security-Policy"), "default-src 'none'")
		return resp.StatusCode
	}
	for range 2 { // the second time from memory
		require.Equal(t, 200, ask("/", "alice", secret))
		require.Equal(t, 401, ask("/", "alice", "wrong"))
		require.Equal(t, 401, ask("/", "alice", secret[1:]))
		require.Equal(t, 401, ask("/metrics", "bob", secret))
		require.Equal(t, 401, ask("/static/app.js", "", ""))
		require.Equal(t, 401, ask("/locks", "alice", strings.Repeat("x", 4096)))
		require.Equal(t, 401, ask("/locks", "alice", secret+"x"))
		require.Equal(t, 200, ask("/healthz", "", ""))
		require.Equal(t, 200, ask("/readyz", "", ""))
	}
	r, err := http.NewRequest(http.MethodGet, at, nil)
	require.NoError(t, err)
	r.Host = "evil.example"
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusMisdirectedRequest, resp.StatusCode, "before a password is asked for")
}

// Users change without a restart. A file that asks for less than at the start, or is not understood, closes the page.
func TestTheWebConfigurationIsReadForEachRequest(t *testing.T) {
	d, err := opened(t, "basic_auth_users:\n  alice: "+hashOf(t, "first")+"\n")
	require.NoError(t, err)
	var told says
	at := "http://" + behind(t, d, told.say)
	code := func(password string) int { return answer(t, at, "alice", password).StatusCode }
	write := func(text string) { require.NoError(t, os.WriteFile(d.file, []byte(text), 0o600)) }
	require.Equal(t, http.StatusOK, code("first"))
	write("basic_auth_users:\n  alice: " + hashOf(t, "second") + "\n")
	require.Equal(t, http.StatusOK, code("second"))
	require.Equal(t, http.StatusUnauthorized, code("first"))
	for text, why := range map[string]string{
		"": "the file is empty", "basic_auth_users: {}\n": "restart serve", "basic_auth_users: [canary]\n": "cannot unmarshal", "rate_limit: {burst: 1}\n": "restart serve",
	} {
		write(text)
		for range 2 {
			require.Equal(t, http.StatusServiceUnavailable, code("second"), text)
			require.Equal(t, http.StatusServiceUnavailable, answer(t, at, "", "").StatusCode, text)
		}
		require.Equal(t, http.StatusOK, answer(t, at+"/healthz", "", "").StatusCode, text)
		require.Contains(t, told.String(), why)
	}
	require.LessOrEqual(t, strings.Count(told.String(), "The page is closed"), 4, "each is said once")
	require.NoError(t, os.Remove(d.file))
	require.Equal(t, http.StatusServiceUnavailable, code("second"))
	write("basic_auth_users:\n  alice: " + hashOf(t, "second") + "\n")
	require.Equal(t, http.StatusOK, code("second"))
	require.NotContains(t, told.String(), "canary")
}

func TestWebConfigurationsThatAreNotUnderstoodAreRefused(t *testing.T) {
	for text, why := range map[string]string{
		"basic_auth_users: {alice: secret}":                                                    "not a bcrypt hash",
		"basic_auth_user: {}":                                                                  "basic_auth_user",
		"http_server_configs: {http2: true}":                                                   "http_server_configs is not known",
		"http_server_config: {headers: {X-Other: a}}":                                          "X-Other",
		"tls_server_config: {cert_file: a, key_file: b}":                                       "cert_file",
		"tls_server_config: {min_version: TLS13}":                                              "TLS config is not present",
		"tls_server_config: {client_auth_type: RequireAndVerifyClientCert, client_ca_file: x}": "cert_file",
		"- a": "cannot unmarshal",
		"":    "the file is empty",
	} {
		_, err := opened(t, text)
		require.ErrorContains(t, err, why, text)
	}
	_, err := OpenDoor(filepath.Join(t.TempDir(), "none.yml"))
	require.Error(t, err)
	for _, text := range []string{"basic_auth_users: canary", "basic_auth_users: [canary]", "basic_auth_users: {alice: {canary: 1}}", "canary", "basic_auth_users: {alice: canary}", "basic_auth_users: {alice: \"canary", "{canary: x, canary"} {
		_, err := opened(t, text)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "canary", "what stands in the file may be a password")
	}
}

// Many slow readers are given the same bytes.
func TestSlowReadersShareWhatTheyRead(t *testing.T) {
	b := boardOf(t, scene())
	first := b.exposition()
	require.Same(t, &first[0], &b.exposition()[0])
	b.opts.Now = func() time.Time { return noon.Add(3 * time.Second) }
	require.NotEqual(t, string(first), string(b.exposition()), "ages go on")
	next := b.exposition()
	b.publishLook("main", scene())
	require.NotSame(t, &next[0], &b.exposition()[0], "what was seen since is told")
}

func TestNothingButTheFilesOfThePageIsServed(t *testing.T) {
	b := boardOf(t)
	for path, want := range map[string]int{
		"/static/app.js": 200, "/static/app.css": 200, "/static/icon.svg": 200, "/static/": 404, "/static/..%2fpage.html": 404, "/static/%2e%2e/page.html": 404, "/static/app.js/": 404,
	} {
		code := get(t, b.handler(), path).Code
		if want == 200 {
			require.Equal(t, want, code, path)
		} else {
			require.NotEqual(t, 200, code, path)
		}
	}
}

// pair is a key and a self-signed certificate, as files.
func pair(t *testing.T, dir, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	require.NoError(t, os.WriteFile(filepath.Join(dir, name+".crt"), cert, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name+".key"), secret, 0o600))
	out, err := tls.X509KeyPair(cert, secret)
	require.NoError(t, err)
	return out
}

func TestOnlyAKnownCertificateOpensThePage(t *testing.T) {
	dir := t.TempDir()
	pair(t, dir, "server")
	known, stranger := pair(t, dir, "known"), pair(t, dir, "stranger")
	file := filepath.Join(dir, "web.yml")
	require.NoError(t, os.WriteFile(file, []byte("tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: known.crt\n"), 0o600))
	d, err := OpenDoor(file)
	require.NoError(t, err)
	require.True(t, d.Authenticates())
	require.True(t, d.Encrypts())
	var told says
	at := "https://" + behind(t, d, told.say)
	ask := func(certs ...tls.Certificate) error {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certs}}} //nolint:gosec // it is the client that is looked at
		defer client.CloseIdleConnections()
		resp, err := client.Get(at)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				err = errors.New(resp.Status)
			}
		}
		return err
	}
	require.NoError(t, ask(known))
	require.Error(t, ask())
	require.Error(t, ask(stranger))

	// Other certificates are accepted without a restart, and a file that no longer verifies them closes the page.
	require.NoError(t, os.Rename(filepath.Join(dir, "stranger.crt"), filepath.Join(dir, "known.crt")))
	require.NoError(t, ask(stranger))
	require.Error(t, ask(known))
	rewriteWeb := func(from, to string) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), from, to, 1)), 0o600))
	}
	rewriteWeb("RequireAndVerifyClientCert", "RequireAnyClientCert")
	require.ErrorContains(t, ask(stranger), "503")
	kept := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{stranger}}}} //nolint:gosec // it is the client that is looked at
	defer kept.CloseIdleConnections()
	for range 2 { // on one connection
		resp, err := kept.Get(at)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		rewriteWeb("RequireAnyClientCert", "RequireAndVerifyClientCert")
	}
	require.NoError(t, ask(stranger))
	rewriteWeb("server.crt", "[canary]")
	require.Error(t, ask(stranger))
	require.Contains(t, told.String(), "TLS handshake error")
	require.NotContains(t, told.String(), "canary")
}

// If no authority is named, the toolkit would take those of the system. It would take an empty file for none.
func TestClientCertificatesNeedAnAuthority(t *testing.T) {
	dir := t.TempDir()
	pair(t, dir, "server")
	file := filepath.Join(dir, "web.yml")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "empty.crt"), nil, 0o600))
	for authority, why := range map[string]string{"": "needs a client_ca_file", "\n  client_ca_file: empty.crt": "holds no PEM certificate", "\n  client_ca_file: none.crt": "none.crt"} {
		require.NoError(t, os.WriteFile(file, []byte("tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n  client_auth_type: RequireAndVerifyClientCert"+authority+"\n"), 0o600))
		_, err := OpenDoor(file)
		require.ErrorContains(t, err, why)
	}
}

type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

func inTime(t *testing.T, f func(t *testing.T, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		b := boardOf(t, scene())
		p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		s, door := newServer(b.handler()), &Door{}
		ended := make(chan error, 1)
		go func() { ended <- door.serve(netutil.LimitListener(p, maxConnections), s, nil, func(string) {}) }()
		f(t, p)
		require.NoError(t, s.Shutdown(context.Background()))
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
}

func request(t *testing.T, c net.Conn, path string) *bufio.Reader {
	t.Helper()
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	require.NoError(t, err)
	return bufio.NewReader(c)
}

func TestHeadersThatDoNotEndAndHeadersThatAreTooLong(t *testing.T) {
	inTime(t, func(t *testing.T, p *pipes) {
		start := time.Now()
		c := p.dial()
		defer c.Close()
		_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
		require.NoError(t, err)
		_, err = c.Read(make([]byte, 1))
		require.Error(t, err)
		require.LessOrEqual(t, time.Since(start), 6*time.Second) // in the bubble's time

		long := p.dial()
		defer long.Close()
		go func() {
			_, _ = io.WriteString(long, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: "+strings.Repeat("x", 1<<20)+"\r\n\r\n")
		}()
		resp, err := http.ReadResponse(bufio.NewReader(long), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, resp.StatusCode)
		long.Close()
	})
}

// A client that opened as many connections as are served, and sent no request, kept all others from the page for a minute.
func TestConnectionsThatAskForNothingEndSoon(t *testing.T) {
	inTime(t, func(t *testing.T, p *pipes) {
		idle := make([]net.Conn, maxConnections)
		for i := range idle { // some have asked before, some have not, and some have begun to
			idle[i] = p.dial()
			defer idle[i].Close()
			switch i % 3 {
			case 0:
				page(t, idle[i], "/healthz")
			case 1:
				_, err := io.WriteString(idle[i], "GET / HTTP/1.1\r\n")
				require.NoError(t, err)
			}
		}
		start := time.Now()
		for range 100 {
			c := p.dial()
			defer c.Close()
			page(t, c, "/")
		}
		require.Less(t, time.Since(start), 11*time.Second) // in the bubble's time
	})
}

// The next connection is served when one of those in use ends.
func TestConnectionsInUseAreCounted(t *testing.T) {
	inTime(t, func(t *testing.T, p *pipes) {
		slow := make([]net.Conn, maxConnections)
		for i := range slow {
			slow[i] = p.dial()
			defer slow[i].Close()
			request(t, slow[i], "/locks") // and reads nothing
		}
		synctest.Wait()
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			next := p.dial()
			defer next.Close()
			page(t, next, "/healthz")
		}()
		synctest.Wait()
		select {
		case <-asked:
			require.Fail(t, "one too many was served")
		default:
		}
		start := time.Now()
		require.NoError(t, slow[7].Close())
		<-asked
		require.Less(t, time.Since(start), time.Second, "without waiting for others' time to be up") // in the bubble's time
	})
}

func page(t *testing.T, c net.Conn, path string) {
	t.Helper()
	resp, err := http.ReadResponse(request(t, c, path), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
}
