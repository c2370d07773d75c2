package kerberos

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes"
)

// principal is a name of Kerberos: service/host@REALM, or user@REALM.
type principal struct {
	parts []string
	realm string
}

func (p principal) String() string {
	text := strings.Join(p.parts, "/")
	if p.realm != "" {
		text += "@" + p.realm
	}
	return text
}

// localName is the client's name as the servers write it (SaslServerCallbackHandler.handleAuthorizeCallback).
func (p principal) localName(removeHost, removeRealm bool) string {
	if len(p.parts) == 0 {
		return ""
	}
	name := p.parts[0]
	if len(p.parts) > 1 && !removeHost {
		name += "/" + p.parts[1]
	}
	if p.realm != "" && !removeRealm {
		name += "@" + p.realm
	}
	return name
}

// form matches the texts that ZooKeeper accepts as a principal (KerberosName).
var form = regexp.MustCompile(`^[^/@\s]+(/[^/@\s]+)?(@[^/@\s]+)?$`)

// parse reads a principal. If text has no realm, the principal is in the parameter realm.
func parse(text, realm string) (principal, error) {
	if !form.MatchString(text) {
		return principal{}, fmt.Errorf("%q is not a principal such as user@REALM or service/host@REALM", text)
	}
	name, of, ok := strings.Cut(text, "@")
	if !ok {
		of = realm
	}
	return principal{strings.Split(name, "/"), of}, nil
}

// IsPrincipal reports whether text is a principal such as user, user@REALM or service/host@REALM.
func IsPrincipal(text string) bool { return form.MatchString(text) }

// NameOf returns the Identity of a Login with this configuration; "" if a file has to be read for that.
func NameOf(cfg Config) string {
	p, err := parse(cfg.Principal, "")
	if err != nil || p.realm == "" {
		return ""
	}
	return p.localName(cfg.RemoveHost, cfg.RemoveRealm)
}

// spn is a server's principal, as text.
type spn struct{ name, realm string }

func (s spn) String() string { return s.name + "@" + s.realm }

// server is the principal of a server, by ZooKeeper's rules (SaslServerPrincipal, SecurityUtils.createSaslClient).
func (l *Login) server(ctx context.Context, server, address string) (spn, error) {
	l.mu.Lock()
	realm := l.name.realm
	l.mu.Unlock()
	if l.cfg.ServerRealm != "" {
		realm = l.cfg.ServerRealm
	}
	if l.cfg.ServerPrincipal != "" {
		p, err := parse(l.cfg.ServerPrincipal, realm)
		if err != nil {
			return spn{}, fmt.Errorf("%w: the servers' principal: %w", recipes.ErrAuth, err)
		}
		return spn{strings.Join(p.parts, "/"), p.realm}, nil
	}
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		host = server
	}
	if !l.cfg.AsConfigured {
		host = l.canonicalName(ctx, host, address)
	}
	return spn{l.cfg.Service + "/" + strings.ToLower(host), realm}, nil
}

// canonicalName is the name that an address has in DNS, if that name resolves to the same address; otherwise the host as
// configured.
func (l *Login) canonicalName(ctx context.Context, host, address string) string {
	ip, _, err := net.SplitHostPort(address)
	if err != nil {
		return host
	}
	if net.ParseIP(ip) == nil { // with a Dialer, address has a name: ask the resolver for its address
		all, err := l.lookupHost(ctx, ip)
		if err != nil || len(all) == 0 {
			return host
		}
		ip = all[0]
	}
	names, err := l.lookupAddr(ctx, ip)
	if err != nil {
		return host
	}
	for _, name := range names {
		if back, err := l.lookupHost(ctx, name); err == nil && slices.Contains(back, ip) {
			return strings.TrimSuffix(name, ".")
		}
	}
	return host
}
