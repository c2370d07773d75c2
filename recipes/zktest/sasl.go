package zktest

import (
	"crypto/md5"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/locktree/locktree/recipes/zktest/internal/store"
	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// WithSASL makes the server take logins by SASL's mechanism DIGEST-MD5, like one
// whose JAAS section Server has ZooKeeper's DigestLoginModule. It turns on the scheme
// sasl. password is asked at each login; it returns "" for a user that does not
// exist, and must not use the server. A connection that has not logged in is served
// as before, unless WithSASLRequired says otherwise.
func WithSASL(password func(user string) string) Option {
	return func(o *options) { o.saslPassword = password }
}

// WithSASLRequired makes the server serve only connections that have logged in by
// SASL (sessionRequireClientSASLAuth, or enforce.auth.schemes=sasl). Others get
// SessionClosedRequireSaslAuth (-124) and lose their connection.
func WithSASLRequired() Option { return func(o *options) { o.saslRequired = true } }

const (
	saslRealm = "zk-sasl-md5" // SecurityUtils.createSaslServer
	saslURI   = "zookeeper/" + saslRealm
)

// saslLogin is a connection's login: a nonce once it has begun, over in the end.
type saslLogin struct {
	nonce string
	over  bool
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
		if answer, ok = c.evaluate(r.Auth); !ok {
			code := wire.Code(wire.CodeAuthFailed)
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

// evaluate takes a login one step further, as Java's DigestMD5Server does.
func (c *conn) evaluate(token []byte) (answer []byte, ok bool) {
	l := &c.login
	switch {
	case l.over:
		return nil, false
	case l.nonce == "":
		l.nonce = rand.Text()
		return fmt.Appendf(nil, `realm="%s",nonce="%s",charset=utf-8,algorithm=md5-sess`, saslRealm, l.nonce), len(token) == 0
	}
	l.over = true
	says := map[string]string{}
	for _, m := range saslDirective.FindAllStringSubmatch(string(token), -1) {
		if _, twice := says[m[1]]; twice {
			return nil, false
		}
		says[m[1]] = saslEscape.ReplaceAllString(m[2], "$1") + m[3]
	}
	user := says["username"]
	password := c.s.opts.saslPassword(user)
	if password == "" || says["nonce"] != l.nonce || says["realm"] != saslRealm || says["nc"] != "00000001" || says["cnonce"] == "" ||
		says["qop"] != "auth" || !strings.EqualFold(says["digest-uri"], saslURI) || says["response"] != l.proof(user, password, says["cnonce"], "AUTHENTICATE") {
		return nil, false
	}
	c.ids = append(c.ids, store.Identity{Scheme: "sasl", ID: user})
	return []byte("rspauth=" + l.proof(user, password, says["cnonce"], "")), true
}

var (
	saslDirective = regexp.MustCompile(`([a-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^,"]+))(?:,|$)`)
	saslEscape    = regexp.MustCompile(`\\(.)`)
)

// proof is the response of RFC 2831 section 2.1.2.1, and with an empty method that of
// section 2.1.3. What can be written in ISO 8859-1 is hashed in that.
func (l *saslLogin) proof(user, password, cnonce, method string) string {
	hash := func(parts ...string) string {
		sum := md5.Sum([]byte(strings.Join(parts, ":")))
		return string(sum[:])
	}
	text := func(raw string) string { return hex.EncodeToString([]byte(raw)) }
	secret := hash(narrow(user), saslRealm, narrow(password))
	return text(hash(text(hash(secret, l.nonce, cnonce)), l.nonce, "00000001", cnonce, "auth", text(hash(method, saslURI))))
}

// narrow is text in ISO 8859-1, or as it is when it has other characters.
func narrow(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r > 0xff {
			return text
		}
		b.WriteByte(byte(r))
	}
	return b.String()
}
