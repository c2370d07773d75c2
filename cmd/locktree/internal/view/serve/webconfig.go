package serve

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/bcrypt"

	"github.com/locktree/locktree/recipes/kind"
)

// WebConfig is the part of Prometheus' web configuration file that is understood here: the same file serves both.
type WebConfig struct {
	TLS struct {
		CertFile       string `yaml:"cert_file"`
		KeyFile        string `yaml:"key_file"`
		ClientAuthType string `yaml:"client_auth_type"`
		ClientCAFile   string `yaml:"client_ca_file"`
		MinVersion     string `yaml:"min_version"`
	} `yaml:"tls_server_config"`
	Users map[string]string `yaml:"basic_auth_users"`

	dir   string
	tls   *tls.Config
	dummy []byte // what an unknown user's password is compared with: it takes as long
	key   [32]byte
	slots chan struct{} // a comparison is made to be slow: two at a time
	mu    sync.Mutex
	known map[[32]byte]bool
}

// ReadWebConfig reads the file. What it does not understand is an error: a protection that is asked for and not there would be
// worse than none.
func ReadWebConfig(file string) (*WebConfig, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c := &WebConfig{dir: filepath.Dir(file), known: map[[32]byte]bool{}, slots: make(chan struct{}, 2)}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(c); err != nil {
		return nil, fmt.Errorf("%s: %s; the file has the layout of Prometheus' web configuration, of which tls_server_config and basic_auth_users are understood", file, notUnderstood(err))
	}
	cost := bcrypt.MinCost
	for name, hash := range c.Users {
		n, err := bcrypt.Cost([]byte(hash))
		if err != nil {
			return nil, fmt.Errorf("%s: basic_auth_users: the password of %q is not a bcrypt hash: make one with \"htpasswd -nB USER\"", file, name)
		}
		cost = max(cost, n)
	}
	if len(c.Users) > 0 {
		if c.dummy, err = bcrypt.GenerateFromPassword([]byte(rand.Text()), min(cost, 14)); err != nil {
			return nil, err
		}
	}
	_, _ = rand.Read(c.key[:]) // which never fails
	if c.tls, err = c.TLSConfig(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// Door is who may look at the page, and how.
type Door struct {
	Config *WebConfig // nil: everybody who can reach it
	login  func(*http.Request) bool
	tls    *tls.Config
}

// OpenDoor reads a web configuration; "" is none.
func OpenDoor(file string) (*Door, error) {
	if file == "" {
		return &Door{}, nil
	}
	web, err := ReadWebConfig(file)
	if err != nil {
		return nil, err
	}
	if web.tls != nil {
		web.tls.NextProtos = []string{"http/1.1"} // the limits are on connections, each of which is one request at a time
	}
	return &Door{web, web.Login(), web.tls}, nil
}

// sameAs refuses what would have to be decided anew.
func (d *Door) sameAs(now *Door) error {
	if d.Config.Authenticates() != now.Config.Authenticates() || d.Config.Encrypts() != now.Config.Encrypts() {
		return errors.New("the web configuration asks for passwords or certificates now, or does not any more: restart serve")
	}
	return nil
}

// longestPassword is how much of a password bcrypt looks at: whatever stood behind it would be right.
const longestPassword = 72

// values are what YAML's errors quote, which may be a password in the wrong place.
var values = regexp.MustCompile(" `[^`]*`")

// notUnderstood says what is wrong with the file, without what stands in it.
func notUnderstood(err error) string {
	var wrong *yaml.TypeError
	switch {
	case errors.Is(err, io.EOF):
		return "the file is empty"
	case errors.As(err, &wrong):
		text := values.ReplaceAllString(strings.Join(wrong.Errors, "; "), "")
		return kind.Visible(strings.ReplaceAll(text, " not found in type serve.WebConfig", " is not known"))
	}
	return kind.Visible(strings.TrimPrefix(err.Error(), "yaml: "))
}

// Authenticates reports whether who asks has to prove who it is.
func (c *WebConfig) Authenticates() bool {
	return c != nil && (len(c.Users) > 0 || c.TLS.ClientAuthType == "RequireAndVerifyClientCert")
}

// Encrypts reports whether the page is served by TLS.
func (c *WebConfig) Encrypts() bool { return c != nil && c.TLS.CertFile != "" }

// Login checks the password of a request; nil where none is asked for.
func (c *WebConfig) Login() func(*http.Request) bool {
	if c == nil || len(c.Users) == 0 {
		return nil
	}
	return func(r *http.Request) bool {
		user, password, ok := r.BasicAuth()
		if !ok || len(user) > 1024 || len(password) > longestPassword {
			return false
		}
		hash, exists := c.Users[user]
		if !exists {
			hash = string(c.dummy)
		}
		proof := sha256.Sum256(slices.Concat(c.key[:], []byte(fmt.Sprintf("%d:%s%s%s", len(user), user, password, hash))))
		c.mu.Lock()
		known := c.known[proof]
		c.mu.Unlock()
		if known {
			return true
		}
		select {
		case c.slots <- struct{}{}:
		case <-r.Context().Done():
			return false
		}
		defer func() { <-c.slots }()
		if bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) != nil || !exists {
			return false
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.known[proof] = true // one a user: wrong ones are not kept
		return true
	}
}

// TLSConfig is nil for a plain server. The certificate is read again for every connection, so that a new one is used at once. While
// its files cannot be read or do not fit together, the one before is used.
func (c *WebConfig) TLSConfig() (*tls.Config, error) {
	t := c.TLS
	if t.CertFile == "" && t.KeyFile == "" && t.ClientAuthType == "" && t.ClientCAFile == "" && t.MinVersion == "" {
		return nil, nil
	}
	if t.CertFile == "" || t.KeyFile == "" {
		return nil, errors.New("tls_server_config needs a cert_file and a key_file")
	}
	first, err := tls.LoadX509KeyPair(c.path(t.CertFile), c.path(t.KeyFile))
	if err != nil {
		return nil, fmt.Errorf("cert_file and key_file: %w", err)
	}
	var last atomic.Pointer[tls.Certificate]
	last.Store(&first)
	out := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if pair, err := tls.LoadX509KeyPair(c.path(t.CertFile), c.path(t.KeyFile)); err == nil {
			last.Store(&pair)
		}
		return last.Load(), nil
	}}
	switch t.MinVersion {
	case "", "TLS12":
	case "TLS13":
		out.MinVersion = tls.VersionTLS13
	default:
		return nil, fmt.Errorf("min_version %q: TLS12 or TLS13 are understood", t.MinVersion)
	}
	switch t.ClientAuthType {
	case "", "NoClientCert":
		return out, nil
	case "RequireAndVerifyClientCert":
	default:
		return nil, fmt.Errorf("client_auth_type %q: NoClientCert or RequireAndVerifyClientCert are understood", t.ClientAuthType)
	}
	out.ClientAuth, out.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	pem, err := os.ReadFile(c.path(t.ClientCAFile))
	if err != nil {
		return nil, fmt.Errorf("client_ca_file: %w", err)
	}
	if !out.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("client_ca_file holds no PEM certificate")
	}
	return out, nil
}

// path is a file of the configuration, which is named from where that stands.
func (c *WebConfig) path(file string) string {
	if file == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(c.dir, file)
}
