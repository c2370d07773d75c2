package sasl

import (
	"context"
	"crypto/md5" //nolint:gosec // the mechanism is MD5
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// DigestMD5 logs in by the SASL mechanism DIGEST-MD5 (RFC 2831) as ZooKeeper has it; recipes.DigestMD5 says more.
func DigestMD5(user string, password func() (Secret, error)) Mechanism {
	return digestMD5{user, password}
}

type digestMD5 struct {
	user     string
	password func() (Secret, error)
}

func (d digestMD5) Identity() string { return d.user }

// The realm that ZooKeeper's servers offer, and the name that they have in the exchange, whatever the name of their
// host is (SecurityUtils.createSaslServer).
const (
	digestHost = "zk-sasl-md5"
	digestURI  = "zookeeper/" + digestHost
)

// Start obtains the password again for each connection.
func (d digestMD5) Start(context.Context, string, string) (Exchange, error) {
	if d.user == "" {
		return Exchange{}, fmt.Errorf("%w: DIGEST-MD5 without a user", wire.ErrAuth)
	}
	password, err := d.password()
	switch {
	case err != nil:
		return Exchange{}, errs.Errorf("%w: the password of %s: %w", wire.ErrAuth, d.user, err)
	case password == "":
		return Exchange{}, fmt.Errorf("%w: the password of %s is empty", wire.ErrAuth, d.user)
	}
	x := &digestExchange{user: d.user, password: string(password), uri: digestURI, cnonce: rand.Text()}
	x.next = x.begin
	return Exchange{
		Next: func(challenge []byte) ([]byte, bool, error) { return x.next(challenge) },
		Refused: fmt.Sprintf("check the password of %s, and that the server's JAAS section Server has that user and a DigestLoginModule; "+
			"a server in FIPS mode refuses DIGEST-MD5, and one with Kerberos wants a ticket. Its log says which", d.user),
	}, nil
}

// digestExchange is one login. Each step puts the step that follows into x.next.
type digestExchange struct {
	user, password, uri, cnonce string
	realm, nonce                string // the server's
	next                        func(challenge []byte) (token []byte, done bool, err error)
}

// begin sends nothing: the server speaks first.
func (x *digestExchange) begin([]byte) ([]byte, bool, error) {
	x.next = x.respond
	return []byte{}, false, nil
}

// respond proves that we know the password.
func (x *digestExchange) respond(challenge []byte) ([]byte, bool, error) {
	if len(challenge) == 0 {
		return nil, false, fmt.Errorf("%w: the server answered with nothing: it has no login of its own (no JAAS section Server), or it does not know the user", wire.ErrAuth)
	}
	says, err := directives(string(challenge))
	if err != nil {
		return nil, false, errs.Errorf("%w: not a challenge of DIGEST-MD5: %w", wire.ErrProtocol, err)
	}
	var realms []string
	for _, s := range says {
		switch s.name {
		case "realm":
			realms = append(realms, s.value)
		case "nonce":
			x.nonce = s.value
		case "qop":
			offers := func(protection string) bool { return strings.TrimSpace(protection) == "auth" }
			if !slices.ContainsFunc(strings.Split(s.value, ","), offers) {
				return nil, false, fmt.Errorf("%w: the server offers DIGEST-MD5 only with protection %q, which ZooKeeper never uses", wire.ErrProtocol, s.value)
			}
		case "algorithm":
			if s.value != "md5-sess" {
				return nil, false, fmt.Errorf("%w: DIGEST-MD5 with algorithm %q", wire.ErrProtocol, s.value)
			}
		}
	}
	if x.nonce == "" {
		return nil, false, fmt.Errorf("%w: a challenge of DIGEST-MD5 without a nonce", wire.ErrProtocol)
	}
	if x.realm = digestHost; len(realms) > 0 {
		x.realm = realms[0]
	}
	x.next = x.verify
	return fmt.Appendf(nil, `charset=utf-8,username=%s,realm=%s,nonce=%s,nc=00000001,cnonce=%s,digest-uri="%s",maxbuf=65536,response=%s,qop=auth`,
		quote(x.user), quote(x.realm), quote(x.nonce), quote(x.cnonce), x.uri, x.proof("AUTHENTICATE")), false, nil
}

// verify makes the server prove that it knows the password too, so that no other server passes for it.
func (x *digestExchange) verify(answer []byte) ([]byte, bool, error) {
	says, err := directives(string(answer))
	if err != nil || len(says) == 0 || says[0].name != "rspauth" {
		return nil, false, fmt.Errorf("%w: the server has not proven that it knows the password of %s: the password is wrong and the server accepts failed logins (zookeeper.allowSaslFailedClients), or another program answers in its place", wire.ErrAuth, x.user)
	}
	if subtle.ConstantTimeCompare([]byte(says[0].value), []byte(x.proof(""))) != 1 {
		return nil, false, fmt.Errorf("%w: the server's proof that it knows the password of %s is wrong: another program answers in its place", wire.ErrAuth, x.user)
	}
	x.next = func([]byte) ([]byte, bool, error) {
		return nil, false, fmt.Errorf("%w: the login is over", wire.ErrProtocol)
	}
	return nil, true, nil
}

// proof is RFC 2831's response-value. With method "" it is the value that the server must answer.
func (x *digestExchange) proof(method string) string {
	secret := md5.Sum([]byte(latin1(x.user) + ":" + latin1(x.realm) + ":" + latin1(x.password))) //nolint:gosec // see above
	a1 := md5hex(string(secret[:]) + ":" + x.nonce + ":" + x.cnonce)
	return md5hex(a1 + ":" + x.nonce + ":00000001:" + x.cnonce + ":auth:" + md5hex(method+":"+x.uri))
}

func md5hex(text string) string {
	sum := md5.Sum([]byte(text)) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}

// latin1 returns text in ISO 8859-1 if all of it exists there: the hash is over that form (RFC 2831 section 2.1.2.1).
func latin1(text string) string {
	var b []byte
	for _, r := range text {
		if r > 0xff {
			return text
		}
		b = append(b, byte(r))
	}
	return string(b)
}

// quote returns text as a quoted-string of RFC 2831.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// directive is a part of a challenge: name=value, or name="value".
type directive struct{ name, value string }

// directives reads a challenge.
func directives(text string) (all []directive, err error) {
	for text = strings.TrimLeft(text, " \t\r\n,"); text != ""; text = strings.TrimLeft(text, " \t\r\n,") {
		name, rest, ok := strings.Cut(text, "=")
		if !ok || name == "" || strings.ContainsAny(name, "\",\x00") {
			return nil, errors.New("something else than name=value")
		}
		var value string
		if value, text, err = directiveValue(strings.TrimLeft(rest, " \t")); err != nil {
			return nil, err
		}
		all = append(all, directive{strings.ToLower(strings.TrimSpace(name)), value})
	}
	return all, nil
}

func directiveValue(text string) (value, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexByte(text, ',')
		if end < 0 {
			end = len(text)
		}
		return strings.TrimSpace(text[:end]), text[end:], nil
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), text[i+1:], nil
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", errors.New("a quote that does not end")
}
