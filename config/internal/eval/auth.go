package eval

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kerberos"
)

// PasswordIn is the password in a file, which usually ends in a newline that is no part of it.
func PasswordIn(file string) (recipes.Secret, error) {
	text, err := syntax.ReadTextFile(file)
	if err != nil {
		return "", err
	}
	password := strings.TrimRight(string(text), "\r\n")
	if err := syntax.TextError(password); err != nil {
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

// fitsScheme reports whether an auth block has only arguments of its scheme.
func fitsScheme(s scope, b *syntax.Block) bool {
	takes, ok := schemeArguments[b.Name()]
	if !ok {
		s.refuse(b.LabelAt(), "Unknown scheme", "locktree cannot authenticate with the scheme %q: only with digest, sasl (DIGEST-MD5) and kerberos. Set a client certificate in the tls block.", b.Name())
		return false
	}
	for _, a := range b.Args {
		if !slices.Contains(takes, a.Name) {
			s.spoil(a)
			s.in.Errorf(a.NameRange, "Argument of another scheme", "An auth block %q takes no %s. It takes %s.", b.Name(), a.Name, strings.Join(takes, ", "))
			ok = false
		}
	}
	return ok
}

// needsArgument reports an argument that is missing, or null.
func needsArgument(s scope, b *syntax.Block, name string) (*syntax.Attribute, bool) {
	a := b.Arg(name)
	if a == nil {
		s.refuse(b.Head, "Missing required argument", "An auth block %q needs the argument %q.", b.Name(), name)
		return nil, false
	}
	a.Required = true // null is refused
	return a, true
}

// evaluateLogin reads an auth block "sasl" or "kerberos".
func evaluateLogin(s scope, b *syntax.Block, e *Ensemble) {
	if e.Login != nil {
		s.refuse(b.Head, "Second SASL login", "A connection logs in by SASL once, and ensemble %q has an auth block for that already. Remove one of them.", e.Name)
		return
	}
	e.Login = &Login{}
	if b.Name() == "kerberos" {
		e.Login.Kerberos = evaluateKerberos(s, b)
		return
	}
	at, ok := needsArgument(s, b, "username")
	if !ok {
		return
	}
	user, ok := s.text(at)
	if ok && (user == "" || strings.ContainsAny(user, "@/")) {
		s.reportWrong(at, "Invalid user name", "The user name must not be empty or contain @ or a slash, which would make it a principal of Kerberos.")
	}
	e.Login.User = user
	e.Login.Password, e.Login.PasswordFile = passwordOf(s, b)
}

func evaluateKerberos(s scope, b *syntax.Block) *kerberos.Config {
	k := &kerberos.Config{Keytab: fileOf(s, b.Arg("keytab")), Krb5Conf: fileOf(s, b.Arg("krb5_conf"))}
	for name, to := range map[string]*string{"principal": &k.Principal, "ccache": &k.CCache, "server_principal": &k.ServerPrincipal, "service": &k.Service, "realm": &k.ServerRealm} {
		*to, _ = s.text(b.Arg(name))
	}
	k.RemoveHost, k.RemoveRealm = s.yes(b.Arg("remove_host")), s.yes(b.Arg("remove_realm"))
	if v, ok := s.publicValue(b.Arg("canonicalize"), cty.Bool); ok {
		k.AsConfigured = v.False()
	}
	for _, name := range []string{"principal", "server_principal"} {
		if text, ok := s.text(b.Arg(name)); ok && !kerberos.IsPrincipal(text) {
			s.reportWrong(b.Arg(name), "Invalid principal", fmt.Sprintf("%q is not a principal: write user@REALM, or service/host@REALM.", text))
		}
	}
	switch {
	case s.isSet(b.Arg("keytab")) && s.isSet(b.Arg("ccache")):
		s.refuse(b.Head, "Two sources of tickets", "Set keytab, or ccache, or neither: then KRB5CCNAME says where kinit has put the tickets.")
	case s.isSet(b.Arg("keytab")) && !s.isSet(b.Arg("principal")):
		s.refuse(b.Head, "Missing required argument", "A keytab holds keys of several principals: set principal to the one that logs in.")
	case s.isSet(b.Arg("server_principal")) && s.isSet(b.Arg("service")):
		s.refuse(b.Head, "Two names for the servers", "Set server_principal, which is all of the name, or service, which is the part before the host.")
	}
	if kind, _, ok := strings.Cut(k.CCache, ":"); ok && kind != "FILE" {
		s.reportWrong(b.Arg("ccache"), "Cache that cannot be read", fmt.Sprintf("Tickets in a cache of type %s cannot be read here, only in files: run \"kinit -c FILE:/tmp/krb5cc_locktree\", and write that.", kind))
	} else if path := strings.TrimPrefix(k.CCache, "FILE:"); path != "" && !filepath.IsAbs(path) {
		k.CCache = filepath.Join(s.in.Declared.Files.Dir, path)
	}
	k.Krb5Conf = cmp.Or(k.Krb5Conf, s.in.All.getenv("KRB5_CONFIG"))
	if k.Keytab == "" {
		k.CCache = cmp.Or(k.CCache, s.in.All.getenv("KRB5CCNAME"))
	}
	return k
}

// fileOf returns the file that an argument names, relative to the configuration; "" if the argument is not set.
func fileOf(s scope, a *syntax.Attribute) string {
	path, ok := s.text(a)
	if ok && path != "" && !filepath.IsAbs(path) {
		return filepath.Join(s.in.Declared.Files.Dir, path)
	}
	return path
}

// passwordOf returns the password of an auth block, or the file it is in. A warning says if anybody can read it.
func passwordOf(s scope, b *syntax.Block) (text recipes.Secret, inFile string) {
	a, file := b.Arg("password"), b.Arg("password_file")
	inFile = fileOf(s, file)
	switch set, inFileSet := s.isSet(a), s.isSet(file); {
	case set && inFileSet:
		s.refuse(b.Head, "Two passwords", "Set password or password_file, not both.")
		return "", ""
	case inFileSet:
		if text, ok := s.text(file); ok && text == "" {
			s.reportWrong(file, "Empty password", "password_file names no file. Is the variable or the environment variable set?")
		}
		return "", inFile
	case a == nil:
		s.refuse(b.Head, "Missing required argument", "An auth block %q needs a password: set password, or password_file.", b.Name())
		return "", ""
	}
	a.Required = true // null is refused
	password, ok := s.secret(a)
	if ok && password == "" {
		s.reportWrong(a, "Empty password", "The password is empty, so anybody could use it. Is the variable or the environment variable set?")
	}
	// The value decides, not the type of the expression: "a${"b"}" is a literal too.
	if _, diags := a.Expr.Value(&hcl.EvalContext{}); !diags.HasErrors() && ok {
		s.in.Add(syntax.WarningAt(b.Head, "Password in the configuration",
			"This password is in a file that people read and version control keeps. Use a sensitive variable, env(\"NAME\"), or password_file."))
	}
	return recipes.Secret(password), ""
}
