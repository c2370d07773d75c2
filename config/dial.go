package config

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/config/internal/eval"
	"github.com/locktree/locktree/config/internal/functions"
	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kerberos"
	"github.com/locktree/locktree/recipes/kind"
)

// FromEnvironment returns the ensemble that the environment alone describes. An ensemble block without arguments means the same:
// ZOOKEEPER_SERVERS, ZOOKEEPER_USERNAME, and ZOOKEEPER_PASSWORD or ZOOKEEPER_PASSWORD_FILE, which is relative to dir. It returns
// nil without an error if no servers are set. Commands that name a path use it, because they need no configuration. Nothing is
// declared on this ensemble.
func FromEnvironment(dir string, environ []string) (*Ensemble, error) {
	e, err := eval.OfEnvironment(dir, environ)
	if err != nil || e == nil {
		return nil, err
	}
	return ensembleOf(e), nil
}

// Dial connects to the ensemble, see [Ensemble.ClientConfig] and [recipes.Dial].
func (e *Ensemble) Dial(ctx context.Context, with recipes.Config) (*recipes.Client, error) {
	cfg, err := e.ClientConfig(with)
	if err != nil {
		return nil, err
	}
	return recipes.Dial(ctx, cfg)
}

// ClientConfig returns base, completed by the servers, timeouts, identities and encryption of the ensemble, as far as it has any.
// So no program that dials can leave one of them out.
//
// The files of TLS, a keytab, a credential cache and the password_file of auth "sasl" are read now, and again for each connection.
// So a long-running program goes on when they are replaced. Load has read the password_file of auth "digest", and it is not read
// again. While the files of TLS cannot be read or do not fit together, the former contents are used, and base.Logger gets a
// message. The servers' certificates are always verified. An error is an [*hcl.Diagnostic].
func (e *Ensemble) ClientConfig(base recipes.Config) (recipes.Config, error) {
	if len(e.Servers) > 0 {
		base.Servers = e.Servers
	}
	if len(base.Servers) == 0 {
		return base, e.trouble("No servers", "Ensemble %q has no servers, and the environment variable ZOOKEEPER_SERVERS is not set. Set one of them, for example to \"zk1:2181,zk2:2181\".", e.Name)
	}
	base.SessionTimeout, base.ConnectTimeout = cmp.Or(e.SessionTimeout, base.SessionTimeout), cmp.Or(e.ConnectTimeout, base.ConnectTimeout)
	if len(e.Auth) > 0 {
		base.Auth = e.Auth
	}
	if e.AuthName != "" {
		base.Auth = append([]recipes.Auth{{Scheme: "ensemble", Credentials: recipes.Secret(e.AuthName)}}, base.Auth...)
	}
	var err error
	if base.SASL, err = e.sasl(base); err != nil || e.TLS == nil {
		return base, err
	}
	first, err := e.encryption()
	if err != nil {
		return base, err
	}
	var last atomic.Pointer[tls.Config]
	last.Store(first)
	base.TLS, base.GetTLS = nil, func() (*tls.Config, error) {
		now, err := e.encryption()
		if err == nil {
			last.Store(now)
		} else if base.Logger != nil {
			base.Logger.Warn("the certificates cannot be read again, so those read before are used", "error", err)
		}
		return last.Load(), nil
	}
	return base, nil
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
	return syntax.ErrorAt(e.DeclRange, summary, fmt.Sprintf(format, args...))
}

// Login is how clients of an ensemble log in by SASL: with Kerberos if that is set, otherwise as User with DIGEST-MD5.
type Login struct {
	Kerberos     *kerberos.Config
	User         string
	Password     recipes.Secret
	PasswordFile string // read for each connection, in place of Password
}

// SecretFiles returns the files from which the identities of the ensemble are read.
func (e *Ensemble) SecretFiles() []string {
	files := slices.Clone(e.passwordFiles)
	if l := e.Login; l != nil {
		files = append(files, l.PasswordFile)
		if k := l.Kerberos; k != nil {
			files = append(files, k.Keytab, strings.TrimPrefix(k.CCache, "FILE:"), k.Krb5Conf)
		}
	}
	return slices.DeleteFunc(files, func(name string) bool { return name == "" })
}

// sasl returns the SASL mechanism for the ensemble's login.
func (e *Ensemble) sasl(with recipes.Config) (recipes.SASL, error) {
	switch l := e.Login; {
	case l == nil:
		return with.SASL, nil
	case l.Kerberos != nil:
		how := *l.Kerberos
		how.Logger = with.Logger
		login, err := kerberos.New(how)
		if err != nil {
			return nil, e.trouble("Cannot log in with Kerberos", "%s. It is the auth block \"kerberos\" of the ensemble.", syntax.UpperFirst(strings.TrimPrefix(err.Error(), "kerberos: "+recipes.ErrAuth.Error()+": ")))
		}
		return login, nil
	default:
		if _, err := l.password(); err != nil {
			return nil, e.trouble("Cannot read the password", "%v. The file is named by password_file of the auth block \"sasl\".", err)
		}
		return recipes.DigestMD5(l.User, l.password), nil
	}
}

func (l *Login) password() (recipes.Secret, error) {
	if l.PasswordFile == "" {
		return l.Password, nil
	}
	return eval.PasswordIn(l.PasswordFile)
}

// ownACL is the access list of nodes without any acl above them: the declared admins and readers, if the ensemble block has them.
// Otherwise the identities of the ensemble's own auth blocks get all rights.
func ownACL(e *eval.Ensemble) kind.List {
	if e.Access != nil {
		return e.Access.List()
	}
	var list kind.List
	for _, a := range e.Auth {
		user, password, _ := strings.Cut(string(a.Credentials), ":")
		list = append(list, kind.ACL{Scheme: a.Scheme, ID: functions.DigestID(user, password), Perms: kind.PermAll})
	}
	if name := (*Login)(e.Login).identity(); name != "" {
		list = append(list, kind.ACL{Scheme: "sasl", ID: name, Perms: kind.PermAll})
	}
	return list.Normalize()
}

// identity is the name that access lists have for this login; "" if only its files say that.
func (l *Login) identity() string {
	switch {
	case l == nil:
		return ""
	case l.Kerberos == nil:
		return l.User
	}
	return kerberos.NameOf(*l.Kerberos)
}

// ensembleOf is an evaluated block, without a tree.
func ensembleOf(e *eval.Ensemble) *Ensemble {
	return &Ensemble{
		Name: e.Name, Servers: e.Servers, AuthName: e.AuthName, Root: e.Root, SessionTimeout: e.SessionTimeout, ConnectTimeout: e.ConnectTimeout,
		TLS: (*TLS)(e.TLS), Auth: e.Auth, Login: (*Login)(e.Login), DeclRange: e.DeclRange, passwordFiles: e.PasswordFiles,
	}
}
