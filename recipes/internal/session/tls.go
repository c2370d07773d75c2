package session

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/locktree/locktree/recipes/internal/session/servers"
	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// tlsSource is where the TLS configuration of each connection comes from. Certificates and authorities live shorter than sessions.
type tlsSource struct {
	get  func() (*tls.Config, error) // nil: connections are plain
	last atomic.Pointer[tls.Config]  // of the newest connection
}

// tlsOf returns the source that cfg names.
func tlsOf(cfg Config) (get func() (*tls.Config, error), err error) {
	switch {
	case cfg.GetTLS == nil && cfg.TLS == nil:
		return nil, nil
	case cfg.GetTLS == nil:
		return func() (*tls.Config, error) { return cfg.TLS, nil }, nil
	case cfg.TLS != nil:
		return nil, errors.New("recipes: Config has both TLS and GetTLS; set one of them")
	}
	return cfg.GetTLS, nil
}

// next is the configuration for a new connection; nil for a plain one.
func (s *tlsSource) next() (*tls.Config, error) {
	if s.get == nil {
		return nil, nil
	}
	config, err := s.get()
	switch {
	case err != nil:
		return nil, fmt.Errorf("Config.GetTLS: %w", err)
	case config == nil: // a connection that was to be encrypted is not made without
		return nil, errors.New("Config.GetTLS returned no configuration")
	}
	s.last.Store(config)
	return config, nil
}

// shown are the certificates that a server has been shown on a connection: ours, and those between it and an authority.
type shown []*x509.Certificate

// open makes one connection: dialling and TLS within ctx. It returns what we have shown to the server, if it asked.
func (s *Session) open(ctx context.Context, t servers.Server) (net.Conn, shown, error) {
	config, err := s.client.tls.next()
	if err == nil {
		err = s.servable(t, config)
	}
	if err != nil {
		return nil, nil, err
	}
	conn, err := s.dial(ctx, t.Addr)
	if err != nil || config == nil {
		return conn, nil, err
	}
	config = config.Clone()
	if config.ServerName == "" && !config.InsecureSkipVerify {
		// Certificates carry the name as configured; what was dialled is one of its addresses.
		config.ServerName, _, _ = net.SplitHostPort(t.Name)
	}
	if t.Told {
		config.Certificates, config.GetClientCertificate = nil, nil
	}
	var ours shown
	choose := chooser(config)
	config.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		chosen, err := choose(asked)
		if err == nil {
			ours = shownBy(chosen)
		}
		return chosen, err
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, nil, ownFault(ours, fmt.Errorf("TLS handshake: %w", err))
	}
	return secure, ours, nil
}

// servable refuses a server that is not known, and one whose name is the word of the name servers alone. Their answers are not
// signed, so an attacker could name his own server, with a valid certificate. The name must be in the domain that the operator
// named.
func (s *Session) servable(t servers.Server, config *tls.Config) error {
	name, ok := t.Service()
	switch {
	case t.Addr == "":
		return errors.New(s.hosts.Unknown(t))
	case !ok || config == nil || config.ServerName != "" || config.InsecureSkipVerify:
		return nil
	}
	domain := name
	for strings.HasPrefix(domain, "_") {
		_, domain, _ = strings.Cut(domain, ".")
	}
	host, _, _ := net.SplitHostPort(t.Name)
	if host = strings.ToLower(host); host == strings.ToLower(domain) || strings.HasSuffix(host, "."+strings.ToLower(domain)) {
		return nil
	}
	return fmt.Errorf("the SRV records of %s name it, which is not in %s: as name servers can be forged, say which name the servers' certificates have (server_name, tls.Config.ServerName)", name, domain)
}

// shownBy reads a chain up to the first certificate that is none: of that the server will say so.
func shownBy(chosen *tls.Certificate) (all shown) {
	for _, der := range chosen.Certificate {
		one, err := x509.ParseCertificate(der)
		if err != nil {
			break
		}
		all = append(all, one)
	}
	return all
}

// Certificate is one that an encrypted connection depends on.
type Certificate struct {
	Ours    bool // it is our client certificate, or between that and an authority; otherwise the server's, or of who signed that
	Subject string
	Expires time.Time // no connection that depends on it is made from then on
}

// Certificates are those that the present connection depends on, as they were when it was made. There are none if there is no
// connection, if it is not encrypted, or if the server's certificate was not verified and it did not ask for ours.
func (s *Session) Certificates() (all []Certificate) {
	s.mu.Lock()
	l := s.link
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	for _, c := range l.shown {
		all = append(all, Certificate{true, c.Subject.String(), c.NotAfter})
	}
	if secure, ok := l.conn.(*tls.Conn); ok {
		for _, c := range lastingChain(secure.ConnectionState().VerifiedChains) {
			all = append(all, Certificate{false, c.Subject.String(), c.NotAfter})
		}
	}
	return all
}

// lastingChain is the chain that holds for longest: one is enough.
func lastingChain(chains [][]*x509.Certificate) (best []*x509.Certificate) {
	var until time.Time
	for _, chain := range chains {
		end := chain[0].NotAfter
		for _, c := range chain {
			if c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(until) {
			best, until = chain, end
		}
	}
	return best
}

// chooser chooses our certificate, as package tls does.
func chooser(config *tls.Config) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if config.GetClientCertificate != nil {
		return config.GetClientCertificate
	}
	return func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		for i := range config.Certificates {
			if asked.SupportsCertificate(&config.Certificates[i]) == nil {
				return &config.Certificates[i], nil
			}
		}
		return new(tls.Certificate), nil
	}
}

// expiredError is the error of a connection that got no answer after we had shown an expired certificate. Servers close such a
// connection with an alert that says little, or with none.
type expiredError struct {
	shown *x509.Certificate
	err   error
}

// ownFault returns err as an expiredError if it is one.
func ownFault(ours shown, err error) error {
	if err == nil || len(ours) == 0 || wire.TimedOut(err) || time.Now().Before(ours[0].NotAfter) {
		return err
	}
	return &expiredError{ours[0], err}
}

func (e *expiredError) Error() string {
	return fmt.Sprintf("our certificate, of %s, expired on %s: %v", e.shown.Subject, e.shown.NotAfter.UTC().Format(time.RFC3339), e.err)
}

func (e *expiredError) Unwrap() error { return e.err }
