package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
)

func TestWhoMayAskWhat(t *testing.T) {
	h := Guard(board(t, scene()).Handler(), []string{"locks.example.com"}, nil)
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

func TestReadiness(t *testing.T) {
	b := board(t)
	require.Equal(t, http.StatusOK, get(t, b.Handler(), "/healthz").Code)
	require.Equal(t, http.StatusServiceUnavailable, get(t, b.Handler(), "/readyz").Code)
	b.Saw("main", scene())
	require.Equal(t, http.StatusOK, get(t, b.Handler(), "/readyz").Code)
	b.opts.Now = func() time.Time { return noon.Add(time.Minute) }
	require.Equal(t, "stale: main\n", get(t, b.Handler(), "/readyz").Body.String())
	require.Equal(t, http.StatusNotFound, get(t, b.Handler(), "/nothing").Code)
	require.NotEqual(t, http.StatusOK, get(t, b.Handler(), "/static/../page.html").Code)
}

// web writes a web configuration.
func web(t *testing.T, text string) (*WebConfig, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "web.yml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return ReadWebConfig(file)
}

func TestPasswords(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	require.NoError(t, err)
	c, err := web(t, "basic_auth_users:\n  alice: "+string(hash)+"\n")
	require.NoError(t, err)
	require.True(t, c.Authenticates())
	require.False(t, c.Encrypts())
	h := Guard(board(t, scene()).Handler(), nil, c.Login())
	ask := func(path, user, password string) int {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil)
		if user != "" {
			r.SetBasicAuth(user, password)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == http.StatusUnauthorized {
			require.Contains(t, w.Header().Get("WWW-Authenticate"), "Basic")
		}
		return w.Code
	}
	for range 2 { // the second time from memory
		require.Equal(t, 200, ask("/", "alice", "secret"))
		require.Equal(t, 401, ask("/", "alice", "wrong"))
		require.Equal(t, 401, ask("/metrics", "bob", "secret"))
		require.Equal(t, 401, ask("/static/app.js", "", ""))
		require.Equal(t, 401, ask("/locks", "alice", strings.Repeat("x", 4096)))
		require.Equal(t, 200, ask("/healthz", "", ""))
	}
}

func TestWebConfigurationsThatAreNotUnderstoodAreRefused(t *testing.T) {
	for text, why := range map[string]string{
		"basic_auth_users: {alice: secret}":              "not a bcrypt hash",
		"basic_auth_user: {}":                            "basic_auth_user",
		"http_server_config: {http2: true}":              "http_server_config",
		"tls_server_config: {cert_file: a, key_file: b}": "cert_file and key_file",
		"tls_server_config: {client_auth_type: RequireAndVerifyClientCert, client_ca_file: x}": "cert_file",
		"- a": "cannot unmarshal",
		"":    "the file is empty",
	} {
		_, err := web(t, text)
		require.ErrorContains(t, err, why, text)
	}
	_, err := ReadWebConfig(filepath.Join(t.TempDir(), "none.yml"))
	require.Error(t, err)
	for _, text := range []string{"basic_auth_users: canary", "basic_auth_users: [canary]", "basic_auth_users: {alice: {canary: 1}}", "canary", "basic_auth_users: {alice: canary}", "basic_auth_users: {alice: \"canary", "{canary: x, canary"} {
		_, err := web(t, text)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "canary", "what stands in the file may be a password")
	}
}

// bcrypt looks at 72 bytes. A password that is longer would be right whatever follows, and each one be remembered.
func TestPasswordsThatAreTooLongAreWrong(t *testing.T) {
	secret := strings.Repeat("s", 72)
	hash, err := bcrypt.GenerateFromPassword([]byte(secret), bcrypt.MinCost)
	require.NoError(t, err)
	c, err := web(t, "basic_auth_users:\n  alice: "+string(hash)+"\n")
	require.NoError(t, err)
	for password, want := range map[string]bool{secret: true, secret + "x": false, secret[1:]: false} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", nil)
		r.SetBasicAuth("alice", password)
		require.Equal(t, want, c.Login()(r), len(password))
	}
	require.Len(t, c.known, 1)
}

// Many who read slowly are given the same bytes.
func TestSlowReadersShareWhatTheyRead(t *testing.T) {
	b := board(t, scene())
	first := b.exposition()
	require.Same(t, &first[0], &b.exposition()[0])
	b.opts.Now = func() time.Time { return noon.Add(3 * time.Second) }
	require.NotEqual(t, string(first), string(b.exposition()), "ages go on")
	next := b.exposition()
	b.Saw("main", scene())
	require.NotSame(t, &next[0], &b.exposition()[0], "what was seen since is told")
}

func TestNothingButTheFilesOfThePageIsServed(t *testing.T) {
	b := board(t)
	for path, want := range map[string]int{
		"/static/app.js": 200, "/static/app.css": 200, "/static/icon.svg": 200, "/static/": 404, "/static/..%2fpage.html": 404, "/static/%2e%2e/page.html": 404, "/static/app.js/": 404,
	} {
		code := get(t, b.Handler(), path).Code
		if want == 200 {
			require.Equal(t, want, code, path)
		} else {
			require.NotEqual(t, 200, code, path)
		}
	}
}

// pair is a key and a certificate that it signed itself, as files.
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

func TestClientCertificates(t *testing.T) {
	dir := t.TempDir()
	pair(t, dir, "server")
	known, stranger := pair(t, dir, "known"), pair(t, dir, "stranger")
	file := filepath.Join(dir, "web.yml")
	require.NoError(t, os.WriteFile(file, []byte("tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: known.crt\n"), 0o600))
	c, err := ReadWebConfig(file)
	require.NoError(t, err)
	require.True(t, c.Authenticates())
	cfg, err := c.TLSConfig()
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(Guard(board(t, scene()).Handler(), nil, c.Login()))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = cfg
	s.StartTLS()
	defer s.Close()
	ask := func(certs ...tls.Certificate) error {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certs}}} //nolint:gosec // it is the client that is looked at
		defer client.CloseIdleConnections()
		resp, err := client.Get(s.URL)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	require.NoError(t, ask(known))
	require.Error(t, ask())
	require.Error(t, ask(stranger))
}
