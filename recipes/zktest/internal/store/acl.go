package store

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

const (
	permRead int32 = 1 << iota
	permWrite
	permCreate
	permDelete
	permAdmin
	permAll = 31
)

// OpenACL lets everybody do everything.
var OpenACL = []wire.ACL{{Perms: permAll, Scheme: "world", ID: "anyone"}}

var readACL = []wire.ACL{{Perms: permRead, Scheme: "world", ID: "anyone"}}

// Identity is an identity that a client has proved to have.
type Identity struct{ Scheme, ID string }

// Super may do everything.
var Super = Caller{Identities: []Identity{{Scheme: "super"}}}

// hasRight reports whether the caller has one of perms under acl (ZooKeeperServer.checkACL). An empty list allows everything, as in
// ZooKeeper. No client can set an empty list.
func (by Caller) hasRight(perms int32, acl []wire.ACL) bool {
	if len(acl) == 0 || slices.ContainsFunc(by.Identities, func(i Identity) bool { return i.Scheme == "super" }) {
		return true
	}
	for _, a := range acl {
		if a.Perms&perms == 0 {
			continue
		}
		if a.Scheme == "world" && a.ID == "anyone" {
			return true
		}
		for _, i := range by.Identities {
			if i.Scheme == a.Scheme && matchesIdentity(a, i.ID) {
				return true
			}
		}
	}
	return false
}

// matchesIdentity compares an entry with an identity of its scheme: addresses by prefix, others as strings.
func matchesIdentity(a wire.ACL, id string) bool {
	if a.Scheme != "ip" {
		return id == a.ID
	}
	prefix, ok := parseIP(a.ID)
	addr, err := netip.ParseAddr(id)
	return ok && err == nil && prefix.Contains(addr)
}

// parseIP reads an ip id. Version 3.8.0 knows dotted IPv4 only, with an optional prefix length.
func parseIP(id string) (netip.Prefix, bool) {
	host, length, found := strings.Cut(id, "/")
	parts := strings.Split(host, ".")
	if len(parts) != 4 {
		return netip.Prefix{}, false
	}
	var b [4]byte
	for i, p := range parts {
		// Java's parseInt accepts a sign and leading zeros, netip does not.
		v, err := strconv.Atoi(p)
		if err != nil || v < 0 || v > 255 {
			return netip.Prefix{}, false
		}
		b[i] = byte(v)
	}
	bits := 32
	if found {
		v, err := strconv.Atoi(length)
		if err != nil || v < 0 || v > 32 {
			return netip.Prefix{}, false
		}
		bits = v
	}
	return netip.PrefixFrom(netip.AddrFrom4(b), bits), true
}

// fixACL returns the list that the server stores when a client sends acl. It drops duplicates, and replaces "auth" by every authenticated
// identity of the connection. Other entries must have a known scheme and a well-formed id.
func (by Caller) fixACL(rules Rules, acl []wire.ACL) ([]wire.ACL, wire.Code) {
	var out []wire.ACL
	var seen []wire.ACL
	for _, a := range acl {
		// Only duplicates in the client's list are dropped. If "auth" yields an entry that the list already has, the entry is stored twice.
		if slices.Contains(seen, a) {
			continue
		}
		seen = append(seen, a)
		switch {
		case a.Scheme == "world" && a.ID == "anyone":
			out = append(out, a)
		case a.Scheme == "auth":
			n := len(out)
			for _, i := range by.Identities {
				if i.Scheme == "digest" || i.Scheme == "x509" || i.Scheme == "sasl" {
					out = append(out, wire.ACL{Perms: a.Perms, Scheme: i.Scheme, ID: i.ID})
				}
			}
			if len(out) == n {
				return nil, wire.CodeInvalidACL
			}
		case !rules.validID(a):
			return nil, wire.CodeInvalidACL
		default:
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return nil, wire.CodeInvalidACL
	}
	if slices.Equal(out, OpenACL) {
		return OpenACL, wire.CodeOK // all nodes with this most common list share one copy of it
	}
	return out, wire.CodeOK
}

// validID reports whether the scheme's provider accepts the id. A scheme without a provider makes the list invalid; x509 and sasl have a
// provider only if the rules say so.
func (r Rules) validID(a wire.ACL) bool {
	switch a.Scheme {
	case "digest":
		// Java's split drops trailing empty parts.
		return len(strings.Split(strings.TrimRight(a.ID, ":"), ":")) == 2
	case "ip":
		_, ok := parseIP(a.ID)
		return ok
	case "x509":
		return r.X509 && validDN(a.ID)
	case "sasl":
		return r.SASL && saslID.MatchString(a.ID)
	}
	return false
}

var dnPart = regexp.MustCompile(`^\s*([A-Za-z][A-Za-z0-9-]*|[0-9]+(\.[0-9]+)*)\s*=`)

var dnEscape = regexp.MustCompile(`\\.|"[^"]*"`)

// validDN checks RFC 2253 roughly: every part is a type and a value.
func validDN(dn string) bool {
	for part := range strings.SplitSeq(dnEscape.ReplaceAllString(dn, ""), ",") {
		if !dnPart.MatchString(part) {
			return false
		}
	}
	return true
}

var digestSecret = regexp.MustCompile(`:.*`)

// maskDigests hides password digests from readers without the admin right.
func maskDigests(acl []wire.ACL) []wire.ACL {
	out := slices.Clone(acl)
	for i := range out {
		if out[i].Scheme == "digest" {
			out[i].ID = digestSecret.ReplaceAllString(out[i].ID, ":x")
		}
	}
	return out
}

// saslID accepts what SASLAuthenticationProvider does: a Kerberos principal, or a name without "@".
var saslID = regexp.MustCompile(`^(?:[^@]*|[^/@]*(?:/[^/@]*)?@[^/@]*)$`)
