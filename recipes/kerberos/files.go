package kerberos

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/keytab"

	"github.com/locktree/locktree/recipes"
)

// files has the content of the files, and a stamp of their state when they were read.
type files struct {
	stamp  string
	conf   *config.Config
	keytab *keytab.Keytab // nil if the tickets come from a cache
	client principal
	tgt    *ticket // the ticket-granting ticket of the cache; nil without a cache
	cache  string
}

// paths returns the paths of the files that read reads.
func (l *Login) paths() (conf []string, cache string) {
	conf = strings.Split(cmp.Or(l.cfg.Krb5Conf, os.Getenv("KRB5_CONFIG"), "/etc/krb5.conf"), ":")
	return conf, cmp.Or(l.cfg.CCache, os.Getenv("KRB5CCNAME"), fmt.Sprintf("FILE:/tmp/krb5cc_%d", os.Getuid()))
}

// stamp returns a text that changes whenever one of the login's files changes.
func (l *Login) stamp() string {
	conf, cache := l.paths()
	last := strings.TrimPrefix(cache, "FILE:")
	if l.cfg.Keytab != "" {
		last = l.cfg.Keytab
	}
	var b strings.Builder
	for _, name := range append(conf, last) {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprintf(&b, "%q %d %d\n", name, info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}

// read reads the files. Only a person can cure its errors, so they wrap ErrAuth.
func (l *Login) read() (files, error) {
	f := files{stamp: l.stamp()} // taken before the files are read: the next stamp shows a change in between
	paths, cache := l.paths()
	var err error
	if f.conf, err = readConf(paths); err != nil {
		return f, err
	}
	realm := f.conf.LibDefaults.DefaultRealm
	if l.cfg.Principal != "" {
		if f.client, err = parse(l.cfg.Principal, realm); err != nil {
			return f, setupError("%v", err)
		}
		if f.client.realm == "" {
			return f, setupError("principal %s has no realm, and %s no default_realm: write it as user@REALM", l.cfg.Principal, paths[0])
		}
	}
	if l.cfg.Keytab != "" {
		return f, f.readKeytab(l.cfg.Keytab)
	}
	return f, f.readCache(cache, l.cfg.Principal != "")
}

// setupError is an error that only a person can cure.
func setupError(format string, args ...any) error {
	return fmt.Errorf("%w: %w", recipes.ErrAuth, fmt.Errorf(format, args...))
}

// read reads a regular file, of at most 4 MiB: a device, a pipe or a wrong file must not keep the program busy.
func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > 4<<20) {
		return nil, fmt.Errorf("%s is not a regular file of at most 4 MiB", path)
	}
	return os.ReadFile(path)
}

func readConf(paths []string) (conf *config.Config, err error) {
	var text strings.Builder
	for _, path := range paths {
		content, err := read(path)
		if err != nil {
			return nil, setupError("cannot read the configuration of Kerberos: %v; name it in krb5_conf or KRB5_CONFIG, and make it readable", err)
		}
		text.Write(content)
		text.WriteByte('\n')
	}
	failed := guard(func() error {
		conf, err = config.NewFromString(text.String())
		return nil
	})
	if failed != nil || conf == nil {
		return nil, setupError("%s is not a configuration of Kerberos that can be read here: %v", strings.Join(paths, ":"), cmp.Or(failed, err))
	}
	// For an unsupported directive gokrb5 returns an error together with the configuration.
	return conf, nil
}

func (f *files) readKeytab(path string) error {
	content, err := read(path)
	if err != nil {
		return setupError("cannot read the keytab: %v; export one with kadmin (ktadd -k %s %s), and make it readable for this user", err, path, f.client)
	}
	f.keytab = keytab.New()
	// The error of gokrb5 is not passed on, because it quotes the file with its keys.
	if err := guard(func() error { return f.keytab.Unmarshal(content) }); err != nil {
		return setupError("%s is not a keytab, or was cut short; export it again with kadmin (ktadd -k %s %s)", path, path, f.client)
	}
	// The KDC encrypts with a key of a type that we ask for: ask for the types in the keytab.
	var types []int32
	held := map[string]bool{}
	for _, e := range f.keytab.Entries {
		name := principal{e.Principal.Components, e.Principal.Realm}.String()
		held[name] = true
		if name == f.client.String() {
			types = append(types, e.Key.KeyType)
		}
	}
	if len(types) == 0 {
		return setupError("%s has no key of %s, only of %s; name one of those, or export another with kadmin (ktadd -k %s %s)", path, f.client, list(held), path, f.client)
	}
	missing := func(kind int32) bool { return !slices.Contains(types, kind) }
	if common := slices.DeleteFunc(slices.Clone(f.conf.LibDefaults.DefaultTktEnctypeIDs), missing); len(common) > 0 {
		f.conf.LibDefaults.DefaultTktEnctypeIDs = common
		f.conf.LibDefaults.PreferredPreauthTypes = []int{int(common[0])} // gokrb5 reads this as a type of key
	}
	return nil
}

func (f *files) readCache(name string, pinned bool) error {
	kind, path, ok := strings.Cut(name, ":")
	switch {
	case !ok:
		path = name
	case kind != "FILE":
		return setupError("tickets are kept in %s, and only caches in files can be read: run \"kinit -c FILE:/tmp/krb5cc_%d\", and set ccache or KRB5CCNAME to that", name, os.Getuid())
	}
	f.cache = path
	kinit := fmt.Sprintf("run \"kinit -c FILE:%s\", or name a keytab", strings.TrimSpace(path+" "+f.client.String()))
	content, err := read(path)
	if err != nil {
		return setupError("no tickets: %v; %s", err, kinit)
	}
	whose, cached, err := parseCache(content)
	if err != nil || len(whose.parts) == 0 {
		return setupError("%s is not a credential cache, or was cut short: %v; %s", path, err, kinit)
	}
	if pinned && whose.String() != f.client.String() {
		return setupError("the tickets in %s are of %s, not of %s; %s", path, whose, f.client, kinit)
	}
	f.client = whose
	for _, c := range cached {
		if c.server.String() != "krbtgt/"+whose.realm+"@"+whose.realm {
			continue
		}
		if c.auth.After(c.start) {
			c.start = c.auth
		}
		t := &ticket{client: whose, key: c.key, start: c.start, end: c.end, renewTill: c.renewTill}
		if err := guard(func() error { return t.ticket.Unmarshal(c.ticket) }); err != nil {
			return setupError("the ticket in %s is malformed: %v; %s", path, err, kinit)
		}
		f.tgt = t
	}
	if f.tgt == nil {
		return setupError("%s has no ticket-granting ticket; %s", path, kinit)
	}
	return nil
}

// guard runs f, which may panic on bytes that it did not expect.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("malformed: %v", p)
		}
	}()
	return f()
}
