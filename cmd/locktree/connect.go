package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes"
)

// dial connects to an ensemble. Package config knows servers and identity; session and TLS
// can also come from the ZOOKEEPER_ variables that the Terraform provider for ZooKeeper reads.
// A readOnly client refuses every write: a command that only looks must not be able to do more.
func (a *app) dial(ctx context.Context, e *config.Ensemble, readOnly bool) (*recipes.Client, error) {
	cfg, err := a.clientConfig(e)
	if err != nil {
		return nil, err
	}
	cfg.ReadOnly = readOnly
	return a.dialClient(ctx, cfg)
}

// maxReply is how long a listing may be for the tool, in bytes: eight times what a plan allows, so that a namespace that others
// have filled can be looked at and emptied. Memory is used as a reply arrives.
const maxReply = 128 << 20

func (a *app) clientConfig(e *config.Ensemble) (recipes.Config, error) {
	cfg := recipes.Config{Servers: e.Servers, SessionTimeout: e.SessionTimeout, ConnectTimeout: e.ConnectTimeout, Logger: a.logger(), MaxReply: maxReply}
	if len(cfg.Servers) == 0 {
		return cfg, view.Failf("No servers", "Ensemble %q has no servers, and the environment variable ZOOKEEPER_SERVERS is not set. Set one of them, for example to \"zk1:2181,zk2:2181\".", e.Name)
	}
	if text := a.env.get("ZOOKEEPER_SESSION"); text != "" && cfg.SessionTimeout == 0 {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds < 1 {
			return cfg, view.Failf("Bad session timeout", "The environment variable ZOOKEEPER_SESSION is %q: it must be a number of seconds.", text)
		}
		cfg.SessionTimeout = time.Duration(seconds) * time.Second
	}
	for _, auth := range e.Auth {
		cfg.Auth = append(cfg.Auth, recipes.Auth{Scheme: auth.Scheme, Credentials: recipes.Secret(auth.Username + ":" + string(auth.Password))})
	}
	var err error
	cfg.GetTLS, err = a.followTLS(e)
	return cfg, err
}

// followTLS reads the files of an ensemble's TLS now, and again for each connection, so that a command that lasts, such as exec,
// goes on when certificates and authorities were replaced. While the files cannot be read or do not fit together, what they said
// before is used. It returns nil for a plain connection.
func (a *app) followTLS(e *config.Ensemble) (func() (*tls.Config, error), error) {
	first, err := a.tlsConfig(e)
	if first == nil {
		return nil, err
	}
	var last atomic.Pointer[tls.Config]
	last.Store(first)
	return func() (*tls.Config, error) {
		now, err := a.tlsConfig(e)
		if err == nil {
			last.Store(now)
		} else if log := a.logger(); log != nil {
			log.Warn("the certificates cannot be read again, so those read before are used", "error", err)
		}
		return last.Load(), nil
	}, nil
}

// tlsConfig is nil for a plain connection. The server's certificate is always verified:
// a lock from an impostor is no lock.
func (a *app) tlsConfig(e *config.Ensemble) (*tls.Config, error) {
	t := a.tlsOf(e)
	if isTrue(a.env.get("ZOOKEEPER_TLS_SKIP_VERIFY")) {
		return nil, view.Failf("TLS cannot go unverified", "The environment variable ZOOKEEPER_TLS_SKIP_VERIFY is set; locktree does not offer that. Unset it, and name the certificate authority of the servers in ca_file or ZOOKEEPER_TLS_CA_FILE.")
	}
	if t == nil {
		return nil, nil
	}
	out := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, view.Failf("Cannot read the certificate authority", "%v. It is named by ca_file of the tls block, or ZOOKEEPER_TLS_CA_FILE.", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, view.Failf("Cannot read the certificate authority", "%s holds no PEM certificate, which begins with -----BEGIN CERTIFICATE-----. It is named by ca_file of the tls block, or ZOOKEEPER_TLS_CA_FILE.", t.CAFile)
		}
	}
	if t.CertFile != "" || t.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, view.Failf("Cannot read the client certificate", "%s and %s: %v. They are named by cert_file and key_file of the tls block, or ZOOKEEPER_TLS_CERT_FILE and ZOOKEEPER_TLS_KEY_FILE.", t.CertFile, t.KeyFile, err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// tlsOf are the files of an ensemble's TLS; nil for a plain connection.
func (a *app) tlsOf(e *config.Ensemble) *config.TLS {
	if e.TLS == nil && isTrue(a.env.get("ZOOKEEPER_TLS_ENABLED")) {
		return &config.TLS{CAFile: a.envFile("ZOOKEEPER_TLS_CA_FILE"), CertFile: a.envFile("ZOOKEEPER_TLS_CERT_FILE"), KeyFile: a.envFile("ZOOKEEPER_TLS_KEY_FILE")}
	}
	return e.TLS
}

func tlsFiles(t *config.TLS) []string {
	return slices.DeleteFunc([]string{t.CAFile, t.CertFile, t.KeyFile}, func(name string) bool { return name == "" })
}

// envFile is the file that an environment variable names, or "".
func (a *app) envFile(variable string) string {
	if name := a.env.get(variable); name != "" {
		return a.path(name)
	}
	return ""
}

func isTrue(text string) bool {
	b, err := strconv.ParseBool(text)
	return err == nil && b
}

// logger is for debugging connections: LOCKTREE_LOG=debug, info, warn or error logs
// to stderr. Unset, it logs nothing.
func (a *app) logger() *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.env.get("LOCKTREE_LOG"))); err != nil {
		return nil
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}
