package zktest

import (
	"crypto/sha1"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/zktest/internal/store"
	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// DigestID is the id ZooKeeper derives from "user:password" for the digest
// scheme: the user, a colon, and the SHA-1 of the whole in base 64. It is what
// an ACL of that scheme holds and what [WithSuperDigest] takes.
func DigestID(userPassword string) string {
	user, _, _ := strings.Cut(userPassword, ":")
	sum := sha1.Sum([]byte(userPassword))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// auth answers zxid 0, and a failure ends the connection. So does the name of another ensemble, without an answer.
func (c *conn) auth(r *wire.Request) ([]byte, bool) {
	if name := c.s.opts.ensembleName; r.Scheme == "ensemble" && name != "" {
		if string(r.Auth) != name {
			return nil, true
		}
		return wire.ReplyFrame(r.Xid, 0, wire.CodeOK), false
	}
	ids, ok := authenticate(c.s.opts, c.ids, c.ip, r.Scheme, r.Auth)
	if !ok {
		return wire.ReplyFrame(r.Xid, 0, wire.CodeAuthFailed), true
	}
	c.ids = ids
	return wire.ReplyFrame(r.Xid, 0, wire.CodeOK), false
}

// authenticate adds to a connection's identities what the credentials prove.
// A wrong password is no error: it makes another identity.
func authenticate(o options, ids []store.Identity, ip, scheme string, auth []byte) ([]store.Identity, bool) {
	add := func(i store.Identity) {
		if !slices.Contains(ids, i) {
			ids = append(ids, i)
		}
	}
	switch scheme {
	case "digest":
		id := DigestID(string(auth))
		if id == o.superDigest {
			add(store.Identity{Scheme: "super"})
		}
		add(store.Identity{Scheme: "digest", ID: id})
	case "ip":
		add(store.Identity{Scheme: "ip", ID: ip})
	default:
		return ids, false
	}
	return ids, true
}
