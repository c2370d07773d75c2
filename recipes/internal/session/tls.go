package session

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
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

// open makes one connection: dialling and TLS within ctx. It returns the certificate that we have shown to the server, if any.
func (s *Session) open(ctx context.Context, t Server) (net.Conn, *x509.Certificate, error) {
	config, err := s.client.tls.next()
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
	var shown *x509.Certificate
	choose := chooser(config)
	config.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		ours, err := choose(asked)
		if err == nil && len(ours.Certificate) > 0 {
			shown, _ = x509.ParseCertificate(ours.Certificate[0]) // nil if it is none: the server will say so
		}
		return ours, err
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, nil, ownFault(shown, fmt.Errorf("TLS handshake: %w", err))
	}
	return secure, shown, nil
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

// expiredError is that of a connection that got no answer, and for which we had shown a certificate that no server accepts any
// more. Servers close such a connection with an alert that says little, or with none.
type expiredError struct {
	shown *x509.Certificate
	err   error
}

// ownFault returns err as an expiredError if it is one.
func ownFault(shown *x509.Certificate, err error) error {
	if err == nil || shown == nil || timedOut(err) || time.Now().Before(shown.NotAfter) {
		return err
	}
	return &expiredError{shown, err}
}

func (e *expiredError) Error() string {
	return fmt.Sprintf("our certificate, of %s, expired on %s: %v", e.shown.Subject, e.shown.NotAfter.UTC().Format(time.RFC3339), e.err)
}

func (e *expiredError) Unwrap() error { return e.err }
