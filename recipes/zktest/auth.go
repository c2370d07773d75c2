package zktest

import (
	"crypto/sha1"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/zktest/internal/store"
	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// DigestID returns the id that ZooKeeper derives from "user:password" for the digest scheme: the user, a colon, and the SHA-1 of the whole
// text in base 64. Access lists of that scheme have this id, and [WithSuperDigest] takes it.
func DigestID(userPassword string) string {
	user, _, _ := strings.Cut(userPassword, ":")
	sum := sha1.Sum([]byte(userPassword))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// auth adds the identity that the credentials prove to the connection. A wrong password is no error: it makes another identity. The reply
// has zxid 0, and a failure ends the connection.
func (c *conn) auth(r *wire.Request) ([]byte, bool) {
	var proved []store.Identity
	switch r.Scheme {
	case "digest":
		id := DigestID(string(r.Auth))
		if id == c.s.opts.superDigest {
			proved = append(proved, store.Identity{Scheme: "super"})
		}
		proved = append(proved, store.Identity{Scheme: "digest", ID: id})
	case "ip":
		proved = append(proved, store.Identity{Scheme: "ip", ID: c.ip})
	default:
		return wire.ReplyFrame(r.Xid, 0, wire.CodeAuthFailed), true
	}
	for _, i := range proved {
		if !slices.Contains(c.ids, i) {
			c.ids = append(c.ids, i)
		}
	}
	return wire.ReplyFrame(r.Xid, 0, wire.CodeOK), false
}

// mustLogIn reports whether a request, or a ping, is refused because the client has not logged in.
func (c *conn) mustLogIn() bool {
	return c.s.opts.saslRequired && !slices.ContainsFunc(c.ids, func(i store.Identity) bool { return i.Scheme == "sasl" })
}

// sasl answers a token. A refusal ends the connection, and the session lives on (ZooKeeperServer.processSasl).
func (c *conn) sasl(r *wire.Request) ([]byte, bool) {
	answer := []byte(nil)
	if c.s.opts.saslPassword != nil { // a server without SASL answers every token with an empty one
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
