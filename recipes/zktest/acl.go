package zktest

import (
	"crypto/sha1"
	"encoding/base64"
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

var (
	openACL = []wire.ACL{{Perms: permAll, Scheme: "world", ID: "anyone"}}
	readACL = []wire.ACL{{Perms: permRead, Scheme: "world", ID: "anyone"}}
)

// identity is one that a connection has authenticated.
type identity struct{ scheme, id string }

// super is the identity of the server's own writes.
var super = []identity{{scheme: "super"}}

// allowed reports whether one of ids has one of perms under acl (ZooKeeperServer.checkACL).
// As there, an empty list, which no client can set, allows everything.
func allowed(acl []wire.ACL, perms int32, ids []identity) bool {
	if len(acl) == 0 || slices.ContainsFunc(ids, func(i identity) bool { return i.scheme == "super" }) {
		return true
	}
	for _, a := range acl {
		if a.Perms&perms == 0 {
			continue
		}
		if a.Scheme == "world" && a.ID == "anyone" {
			return true
		}
		for _, i := range ids {
			if i.scheme == a.Scheme && matches(a, i.id) {
				return true
			}
		}
	}
	return false
}

// matches compares an entry with an identity of its scheme: addresses by prefix,
// others as strings.
func matches(a wire.ACL, id string) bool {
	if a.Scheme != "ip" {
		return id == a.ID
	}
	prefix, ok := parseIP(a.ID)
	addr, err := netip.ParseAddr(id)
	return ok && err == nil && prefix.Contains(addr)
}

// parseIP reads an ip id. Version 3.8.0 knows dotted IPv4 only, with an
// optional prefix length.
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

// fixACL is what the server stores for the list a client sends: duplicates
// dropped, "auth" replaced by every authenticated identity of the connection,
// everything else checked for a known scheme and a well-formed id.
func fixACL(o options, ids []identity, acl []wire.ACL) ([]wire.ACL, wire.Code) {
	var out []wire.ACL
	var seen []wire.ACL
	for _, a := range acl {
		// Only duplicates as sent are dropped: an entry that "auth" turns into one that is
		// there already is stored twice.
		if slices.Contains(seen, a) {
			continue
		}
		seen = append(seen, a)
		switch {
		case a.Scheme == "world" && a.ID == "anyone":
			out = append(out, a)
		case a.Scheme == "auth":
			n := len(out)
			for _, i := range ids {
				if i.scheme == "digest" || i.scheme == "x509" || i.scheme == "sasl" {
					out = append(out, wire.ACL{Perms: a.Perms, Scheme: i.scheme, ID: i.id})
				}
			}
			if len(out) == n {
				return nil, wire.CodeInvalidACL
			}
		case !validID(o, a):
			return nil, wire.CodeInvalidACL
		default:
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return nil, wire.CodeInvalidACL
	}
	if slices.Equal(out, openACL) {
		return openACL, wire.CodeOK // share by far the most common list
	}
	return out, wire.CodeOK
}

// validID is the judgement of the scheme's provider. A scheme without a provider
// makes the list invalid; x509 has one only with TLS, and sasl only WithSASL.
func validID(o options, a wire.ACL) bool {
	switch a.Scheme {
	case "digest":
		// Java's split drops trailing empty parts.
		return len(strings.Split(strings.TrimRight(a.ID, ":"), ":")) == 2
	case "ip":
		_, ok := parseIP(a.ID)
		return ok
	case "x509":
		return o.x509 && validDN(a.ID)
	case "sasl":
		return o.saslPassword != nil && saslID.MatchString(a.ID)
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

// DigestID is the id ZooKeeper derives from "user:password" for the digest
// scheme: the user, a colon, and the SHA-1 of the whole in base 64. It is what
// an ACL of that scheme holds and what [WithSuperDigest] takes.
func DigestID(userPassword string) string {
	user, _, _ := strings.Cut(userPassword, ":")
	sum := sha1.Sum([]byte(userPassword))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// authenticate adds to a connection's identities what the credentials prove.
// A wrong password is no error: it makes another identity.
func authenticate(o options, ids []identity, ip, scheme string, auth []byte) ([]identity, bool) {
	add := func(i identity) {
		if !slices.Contains(ids, i) {
			ids = append(ids, i)
		}
	}
	switch scheme {
	case "digest":
		id := DigestID(string(auth))
		if id == o.superDigest {
			add(identity{scheme: "super"})
		}
		add(identity{"digest", id})
	case "ip":
		add(identity{"ip", ip})
	default:
		return ids, false
	}
	return ids, true
}
