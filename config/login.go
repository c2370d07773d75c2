package config

import (
	"slices"
	"strings"

	"github.com/locktree/locktree/config/internal/eval"
	"github.com/locktree/locktree/config/internal/functions"
	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kerberos"
	"github.com/locktree/locktree/recipes/kind"
)

// Login is how clients of an ensemble log in by SASL: with Kerberos, or else as User with DIGEST-MD5.
type Login struct {
	Kerberos     *kerberos.Config
	User         string
	Password     recipes.Secret
	PasswordFile string // read for each connection, in place of Password
}

// SecretFiles are those that the identities of the ensemble are read from.
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

// sasl makes what logs in.
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

// ownACL is the access list of nodes without any acl above them: that of the tool's own nodes, if it is
// declared, else everything for the identities of the ensemble's own auth blocks.
func ownACL(e *eval.Ensemble) kind.List {
	if e.Access != nil {
		return e.Access.List()
	}
	var list kind.List
	for _, a := range e.Auth {
		user, password, _ := strings.Cut(string(a.Credentials), ":")
		list = append(list, kind.ACL{Scheme: a.Scheme, ID: functions.DigestID(user, password), Perms: kind.PermAll})
	}
	return append(list, (*Login)(e.Login).own()...).Normalize()
}

// own is the entry of access lists for who logs in, if it is known.
func (l *Login) own() kind.List {
	if name := l.identity(); name != "" {
		return kind.List{{Scheme: "sasl", ID: name, Perms: kind.PermAll}}
	}
	return nil
}

// identity is the name that access lists have for it, "" if only its files say that.
func (l *Login) identity() string {
	switch {
	case l == nil:
		return ""
	case l.Kerberos == nil:
		return l.User
	}
	return kerberos.NameOf(*l.Kerberos)
}
