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

// auth answers zxid 0, and a failure ends the connection.
func (c *conn) auth(r *wire.Request) ([]byte, bool) {
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

// unwelcome reports whether a request is refused because nobody has logged in. A ping
// is, too.
func (c *conn) unwelcome() bool {
	if !c.s.opts.saslRequired {
		return false
	}
	for _, i := range c.ids {
		if i.Scheme == "sasl" {
			return false
		}
	}
	return true
}

// sasl answers a token. A refusal ends the connection, and the session lives on
// (ZooKeeperServer.processSasl).
func (c *conn) sasl(r *wire.Request) ([]byte, bool) {
	answer := []byte(nil)
	if c.s.opts.saslPassword != nil { // a server without SASL answers every token with none
		var ok bool
		if answer, ok = c.login.Step(r.Auth, c.s.opts.saslPassword, func(user string) {
			c.ids = append(c.ids, store.Identity{Scheme: "sasl", ID: user})
		}); !ok {
			code := wire.CodeAuthFailed
			if c.s.opts.saslRequired {
				code = wire.CodeSASLRequired
			}
			e := wire.NewReply(r.Xid, 0, code)
			e.Buffer(nil)
			return e.Frame(), true
		}
	}
	e := wire.NewReply(r.Xid, 0, wire.CodeOK)
	e.Buffer(answer)
	return e.Frame(), false
}
