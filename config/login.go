package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

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
			return nil, e.trouble("Cannot log in with Kerberos", "%s. It is the auth block \"kerberos\" of the ensemble.", upperFirst(strings.TrimPrefix(err.Error(), "kerberos: "+recipes.ErrAuth.Error()+": ")))
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
	return passwordIn(l.PasswordFile)
}

// passwordIn is the password in a file, which usually ends in a newline that is no part of it.
func passwordIn(file string) (recipes.Secret, error) {
	text, err := readText(system{}, file)
	if err != nil {
		return "", err
	}
	password := strings.TrimRight(string(text), "\r\n")
	if err := TextError(password); err != nil {
		return "", fmt.Errorf("the password in %s %w: choose another one", file, err)
	}
	if password == "" {
		return "", fmt.Errorf("%s is empty", file)
	}
	return recipes.Secret(password), nil
}

// schemeArguments are the arguments of an auth block, by its scheme; the first ones are required.
var schemeArguments = map[string][]string{
	"digest":   {"username", "password", "password_file"},
	"sasl":     {"username", "password", "password_file"},
	"kerberos": {"principal", "keytab", "ccache", "krb5_conf", "server_principal", "service", "realm", "canonicalize", "remove_host", "remove_realm"},
}

// fits reports whether an auth block has only arguments of its scheme.
func (s scope) fits(b *block) bool {
	takes, ok := schemeArguments[b.name()]
	if !ok {
		s.refuse(b.labelAt(), "Unknown scheme", "locktree cannot authenticate with the scheme %q: only with digest, sasl (DIGEST-MD5) and kerberos. Set a client certificate in the tls block.", b.name())
		return false
	}
	for _, a := range b.args {
		if !slices.Contains(takes, a.name) {
			s.spoil(a)
			s.errorf(a.nameRange, "Argument of another scheme", "An auth block %q takes no %s. It takes %s.", b.name(), a.name, strings.Join(takes, ", "))
			ok = false
		}
	}
	return ok
}

// needs reports an argument that is missing, or null.
func (s scope) needs(b *block, name string) (*attribute, bool) {
	a := b.arg(name)
	if a == nil {
		s.refuse(b.head, "Missing required argument", "An auth block %q needs the argument %q.", b.name(), name)
		return nil, false
	}
	a.required = true // null is no value for it
	return a, true
}

// evaluateLogin reads an auth block "sasl" or "kerberos".
func (s scope) evaluateLogin(b *block, e *Ensemble) {
	if e.Login != nil {
		s.refuse(b.head, "Second SASL login", "A connection logs in by SASL once, and ensemble %q has an auth block for that already. Remove one of them.", e.Name)
		return
	}
	e.Login = &Login{}
	if b.name() == "kerberos" {
		e.Login.Kerberos = s.evaluateKerberos(b)
		return
	}
	at, ok := s.needs(b, "username")
	if !ok {
		return
	}
	user, ok := s.text(at)
	if ok && (user == "" || strings.ContainsAny(user, "@/")) {
		s.wrong(at, "Invalid user name", "The user name must not be empty or contain @ or a slash, which would make it a principal of Kerberos.")
	}
	e.Login.User = user
	e.Login.Password, e.Login.PasswordFile = s.password(b)
}

func (s scope) evaluateKerberos(b *block) *kerberos.Config {
	k := &kerberos.Config{Keytab: s.file(b.arg("keytab")), Krb5Conf: s.file(b.arg("krb5_conf"))}
	for name, to := range map[string]*string{"principal": &k.Principal, "ccache": &k.CCache, "server_principal": &k.ServerPrincipal, "service": &k.Service, "realm": &k.ServerRealm} {
		*to, _ = s.text(b.arg(name))
	}
	k.RemoveHost, k.RemoveRealm = s.yes(b.arg("remove_host")), s.yes(b.arg("remove_realm"))
	if v, ok := s.shown(b.arg("canonicalize"), cty.Bool); ok {
		k.AsConfigured = v.False()
	}
	for _, name := range []string{"principal", "server_principal"} {
		if text, ok := s.text(b.arg(name)); ok && !kerberos.IsPrincipal(text) {
			s.wrong(b.arg(name), "Invalid principal", fmt.Sprintf("%q is not a principal: write user@REALM, or service/host@REALM.", text))
		}
	}
	switch {
	case s.isSet(b.arg("keytab")) && s.isSet(b.arg("ccache")):
		s.refuse(b.head, "Two sources of tickets", "Set keytab, or ccache, or neither: then KRB5CCNAME says where kinit has put the tickets.")
	case s.isSet(b.arg("keytab")) && !s.isSet(b.arg("principal")):
		s.refuse(b.head, "Missing required argument", "A keytab holds keys of several principals: set principal to the one that logs in.")
	case s.isSet(b.arg("server_principal")) && s.isSet(b.arg("service")):
		s.refuse(b.head, "Two names for the servers", "Set server_principal, which is all of the name, or service, which is the part before the host.")
	}
	if kind, _, ok := strings.Cut(k.CCache, ":"); ok && kind != "FILE" {
		s.wrong(b.arg("ccache"), "Cache that cannot be read", fmt.Sprintf("Tickets in a cache of type %s cannot be read here, only in files: run \"kinit -c FILE:/tmp/krb5cc_locktree\", and write that.", kind))
	} else if path := strings.TrimPrefix(k.CCache, "FILE:"); path != "" && !filepath.IsAbs(path) {
		k.CCache = filepath.Join(s.files.dir, path)
	}
	k.Krb5Conf = cmp.Or(k.Krb5Conf, s.getenv("KRB5_CONFIG"))
	if k.Keytab == "" {
		k.CCache = cmp.Or(k.CCache, s.getenv("KRB5CCNAME"))
	}
	return k
}

// file is an argument that names one, relative to the configuration; "" when it is not set.
func (s scope) file(a *attribute) string {
	path, ok := s.text(a)
	if ok && path != "" && !filepath.IsAbs(path) {
		return filepath.Join(s.files.dir, path)
	}
	return path
}

// password is that of an auth block, or the file it is in. A warning says if anybody can read it.
func (s scope) password(b *block) (text recipes.Secret, inFile string) {
	a, file := b.arg("password"), b.arg("password_file")
	inFile = s.file(file)
	switch set, inFileSet := s.isSet(a), s.isSet(file); {
	case set && inFileSet:
		s.refuse(b.head, "Two passwords", "Set password or password_file, not both.")
		return "", ""
	case inFileSet:
		if text, ok := s.text(file); ok && text == "" {
			s.wrong(file, "Empty password", "password_file names no file. Is the variable or the environment variable set?")
		}
		return "", inFile
	case a == nil:
		s.refuse(b.head, "Missing required argument", "An auth block %q needs a password: set password, or password_file.", b.name())
		return "", ""
	}
	a.required = true // null is no value for it
	password, ok := s.secret(a)
	if ok && password == "" {
		s.wrong(a, "Empty password", "The password is empty, so anybody could use it. Is the variable or the environment variable set?")
	}
	// Not by its type: "a${"b"}" needs no reference and no function, too.
	if _, diags := a.expr.Value(&hcl.EvalContext{}); !diags.HasErrors() && ok {
		s.add(warningAt(b.head, "Password in the configuration",
			"This password is in a file that people read and version control keeps. Use a sensitive variable, env(\"NAME\"), or password_file."))
	}
	return recipes.Secret(password), ""
}

// own is the entry of access lists for who logs in, if it is known.
func (l *Login) own() kind.List {
	if name := l.identity(); name != "" {
		return kind.List{{Scheme: "sasl", ID: name, Perms: kind.PermAll}}
	}
	return nil
}
