package config

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/recipes"
)

// Dial connects to the ensemble, see [Ensemble.ClientConfig] and [recipes.Dial].
func (e *Ensemble) Dial(ctx context.Context, with recipes.Config) (*recipes.Client, error) {
	cfg, err := e.ClientConfig(with)
	if err != nil {
		return nil, err
	}
	return recipes.Dial(ctx, cfg)
}

// ClientConfig is the configuration of a client of the ensemble: with, where its servers, timeouts, identities and encryption
// are those of the ensemble, as far as it has any. So no program that dials can leave one of them out.
//
// The files of TLS, a keytab, a credential cache and a file with a password are read now, and again for each connection, so that
// a program that lasts goes on when certificates and authorities, keys and passwords were replaced. While those of TLS cannot be
// read or do not fit together, what they said before is used, and with.Logger is told. The servers' certificates are always
// verified. An error is an [*hcl.Diagnostic].
func (e *Ensemble) ClientConfig(with recipes.Config) (recipes.Config, error) {
	if len(e.Servers) > 0 {
		with.Servers = e.Servers
	}
	if len(with.Servers) == 0 {
		return with, e.trouble("No servers", "Ensemble %q has no servers, and the environment variable ZOOKEEPER_SERVERS is not set. Set one of them, for example to \"zk1:2181,zk2:2181\".", e.Name)
	}
	with.SessionTimeout, with.ConnectTimeout = cmp.Or(e.SessionTimeout, with.SessionTimeout), cmp.Or(e.ConnectTimeout, with.ConnectTimeout)
	if len(e.Auth) > 0 {
		with.Auth = e.Auth
	}
	if e.AuthName != "" {
		with.Auth = append([]recipes.Auth{{Scheme: "ensemble", Credentials: recipes.Secret(e.AuthName)}}, with.Auth...)
	}
	var err error
	if with.SASL, err = e.sasl(with); err != nil || e.TLS == nil {
		return with, err
	}
	first, err := e.encryption()
	if err != nil {
		return with, err
	}
	var last atomic.Pointer[tls.Config]
	last.Store(first)
	with.TLS, with.GetTLS = nil, func() (*tls.Config, error) {
		now, err := e.encryption()
		if err == nil {
			last.Store(now)
		} else if with.Logger != nil {
			with.Logger.Warn("the certificates cannot be read again, so those read before are used", "error", err)
		}
		return last.Load(), nil
	}
	return with, nil
}

// encryption reads the files of the tls block.
func (e *Ensemble) encryption() (*tls.Config, error) {
	t := e.TLS
	out := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := ReadFile(t.CAFile)
		if err != nil {
			return nil, e.trouble("Cannot read the certificate authority", "%v. It is named by ca_file of the tls block, or ZOOKEEPER_TLS_CA_FILE.", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, e.trouble("Cannot read the certificate authority", "%s holds no PEM certificate, which begins with -----BEGIN CERTIFICATE-----. It is named by ca_file of the tls block, or ZOOKEEPER_TLS_CA_FILE.", t.CAFile)
		}
	}
	if t.CertFile != "" || t.KeyFile != "" {
		cert, err := ReadFile(t.CertFile)
		key, unread := ReadFile(t.KeyFile)
		pair, unfit := tls.X509KeyPair(cert, key)
		if err = cmp.Or(err, unread, unfit); err != nil {
			return nil, e.trouble("Cannot read the client certificate", "%s and %s: %v. They are named by cert_file and key_file of the tls block, or ZOOKEEPER_TLS_CERT_FILE and ZOOKEEPER_TLS_KEY_FILE.", t.CertFile, t.KeyFile, err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// trouble is an error of the ensemble block, or of the environment in place of one.
func (e *Ensemble) trouble(summary, format string, args ...any) *hcl.Diagnostic {
	return errorAt(e.DeclRange, summary, fmt.Sprintf(format, args...))
}
