package page

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/bcrypt"

	"github.com/locktree/locktree/recipes/kind"
)

// Door decides who may look at the page. Prometheus' web configuration file says who that is. The exporter-toolkit encrypts and
// asks for passwords; it reads the file for each connection and each request.
type Door struct {
	file       string     // "": everybody who can reach the page
	protection protection // how the file protected the page at the start

	mu   sync.Mutex
	said string // the last error of the file that was printed
}

// protection is how a web configuration protects the page.
type protection struct{ passwords, certificates, tls bool }

// OpenDoor reads a web configuration; "" is none. A page that seems protected and is not would be worse than an open one, so a
// file that is not understood is an error.
func OpenDoor(file string) (*Door, error) {
	d := &Door{file: file}
	if file == "" {
		return d, nil
	}
	c, err := readWeb(file)
	if err != nil {
		return nil, err
	}
	for name, hash := range c.Users {
		if _, err := bcrypt.Cost([]byte(hash)); err != nil {
			return nil, fmt.Errorf("%s: basic_auth_users: the password of %q is not a bcrypt hash: make one with \"htpasswd -nB USER\"", file, name)
		}
	}
	if !reflect.ValueOf(c.TLSConfig).IsZero() {
		if err := checkTLS(&c.TLSConfig); err != nil {
			return nil, fmt.Errorf("%s: tls_server_config: %w", file, err)
		}
	}
	if err := web.Validate(file); err != nil {
		return nil, fmt.Errorf("%s: %s", file, notUnderstood(err))
	}
	d.protection = protectionOf(c)
	return d, nil
}

// checkTLS loads the files. Without a file of certificate authorities the toolkit trusts those of the system; with an empty
// file it trusts none.
func checkTLS(c *web.TLSConfig) error {
	t, err := web.ConfigToTLSConfig(c)
	switch {
	case err != nil:
		return err
	case c.ClientAuth != requireCertificate:
		return nil
	case t.ClientCAs == nil:
		return fmt.Errorf("client_auth_type %s needs a client_ca_file", requireCertificate)
	case t.ClientCAs.Equal(x509.NewCertPool()):
		return errors.New("client_ca_file holds no PEM certificate")
	}
	return nil
}

const requireCertificate = "RequireAndVerifyClientCert"

func readWeb(file string) (*web.Config, error) {
	// Check this before the file is opened: opening a FIFO waits for a writer.
	if info, err := os.Stat(file); err == nil && (!info.Mode().IsRegular() || info.Size() > 16<<20) {
		return nil, fmt.Errorf("%s is not a regular file of at most 16 MiB: write the configuration to one", file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c := &web.Config{}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(c); err != nil {
		return nil, fmt.Errorf("%s: %s; the file has the layout of Prometheus' web configuration", file, notUnderstood(err))
	}
	c.TLSConfig.SetDirectory(filepath.Dir(file))
	return c, nil
}

func protectionOf(c *web.Config) protection {
	return protection{passwords: len(c.Users) > 0, certificates: c.TLSConfig.ClientAuth == requireCertificate, tls: c.TLSConfig.IsEnabled()}
}

// Errors of YAML quote values, and one of them may be a password in the wrong place.
var (
	values = regexp.MustCompile(" `[^`]*`")
	fields = regexp.MustCompile(` not found in type [\w.]+`)
)

// notUnderstood says what is wrong with the file, and quotes nothing of it.
func notUnderstood(err error) string {
	if errors.Is(err, io.EOF) {
		return "the file is empty"
	}
	text := strings.TrimPrefix(values.ReplaceAllString(err.Error(), ""), "yaml: ")
	text = strings.ReplaceAll(strings.TrimPrefix(text, "unmarshal errors:\n  "), "\n  ", "; ")
	return kind.Visible(fields.ReplaceAllString(text, " is not known"))
}

// Authenticates reports whether a viewer has to prove who it is.
func (d *Door) Authenticates() bool { return d.protection.passwords || d.protection.certificates }

// Encrypts reports whether the page is served by TLS.
func (d *Door) Encrypts() bool { return d.protection.tls }

// serve serves the handler of s. If the file cannot be used any more, it calls the function say with the reason.
func (d *Door) serve(l net.Listener, s *http.Server, hosts []string, say func(string)) error {
	page := s.Handler
	s.Handler = d.recheck(page, say)
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true) // the limits count connections, and HTTP/1 serves one request at a time on each
	// BaseContext is called once, before the first connection. The toolkit has wrapped our handler by then; here we wrap the
	// toolkit's handler in ours.
	s.BaseContext = func(net.Listener) context.Context {
		s.Handler = guard(front(d.recheck(s.Handler, say), page), hosts)
		return context.Background()
	}
	return web.Serve(l, s, &web.FlagConfig{WebConfigFile: &d.file}, slog.New(slog.DiscardHandler))
}

// longestPassword is the number of bytes that bcrypt compares. It would accept a longer password with any ending.
const longestPassword = 72

// front lets a health check through without a password, and refuses a password that is longer than bcrypt compares.
func front(asks, page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch _, password, _ := r.BasicAuth(); {
		case r.URL.Path == "/healthz" || r.URL.Path == "/readyz":
			page.ServeHTTP(w, r)
		case len(password) > longestPassword:
			w.Header().Set("WWW-Authenticate", "Basic")
			plain(w, http.StatusUnauthorized, "log in\n")
		default:
			asks.ServeHTTP(w, r)
		}
	})
}

// recheck lets a request through while the file protects the page as it did at the start. A request passes recheck twice, before
// and after the toolkit's handler. The toolkit reads the file in between, when another program may have written only half of it.
func (d *Door) recheck(next http.Handler, say func(string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := d.changed(r); err != nil {
			if text := err.Error(); d.isNews(text) {
				say("The page is closed: " + text + ".")
			}
			plain(w, http.StatusServiceUnavailable, "the web configuration cannot be used now: standard error of serve says why\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (d *Door) changed(r *http.Request) error {
	if d.file == "" {
		return nil
	}
	c, err := readWeb(d.file)
	switch {
	case err != nil:
		return err
	case protectionOf(c) != d.protection:
		return errors.New("the web configuration now asks for passwords, client certificates or TLS where it did not at the start, or the reverse: restart serve")
	case d.protection.certificates && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0): // the connection was made while the file required no client certificate
		return errors.New("this connection has no client certificate, which the web configuration now requires: connect again")
	}
	d.isNews("")
	return nil
}

// isNews reports whether the text differs from the last one.
func (d *Door) isNews(text string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.said
	d.said = text
	return old != text
}

// guard admits GET and HEAD requests for a name of this server or an IP address, unless a page of another origin sent them
// (foreignOrigin).
func guard(next http.Handler, hosts []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			plain(w, http.StatusMethodNotAllowed, "this page changes nothing: GET and HEAD only\n")
		case !isOurs(r.Host, hosts):
			plain(w, http.StatusMisdirectedRequest, "serve does not know this host name: add it with -host, or use the address\n")
		case foreignOrigin(r):
			plain(w, http.StatusForbidden, "other sites may link to this page, but not read it\n")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isOurs reports whether the host of a request is a name of this server, or an IP address. If a foreign page's name was made to
// point here (DNS rebinding), the browser sends that name. No page can make it send an IP address instead.
func isOurs(host string, known []string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "localhost" || slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) })
}

// foreignOrigin reports whether a page of another origin asks. A link from there may be followed.
func foreignOrigin(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		_, host, ok := strings.Cut(origin, "://")
		return !ok || !strings.EqualFold(host, r.Host)
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// newServer is an http.Server with a limit on everything.
func newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 10 * time.Second,
		MaxHeaderBytes: 16 << 10,
	}
}

// maxConnections limits the connections that are served at a time: the next one waits until one of them ends. An idle connection
// ends soon, see newServer.
const maxConnections = 1024
