// Package digestmd5 is the server's side of a login by SASL's mechanism DIGEST-MD5, as ZooKeeper's DigestLoginModule has it.
package digestmd5

import (
	"crypto/md5"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

const (
	realm = "zk-sasl-md5" // SecurityUtils.createSaslServer
	uri   = "zookeeper/" + realm
)

// Login is a connection's login. When the login has begun, nonce is set; when it has ended, over is true.
type Login struct {
	nonce string
	over  bool
}

// Step takes a login one step further, as Java's DigestMD5Server does. The function password returns the password of a user, ""
// if there is no such user. The step that completes the login calls welcome with the client's name.
func (l *Login) Step(token []byte, password func(user string) string, welcome func(user string)) (answer []byte, ok bool) {
	switch {
	case l.over:
		return nil, false
	case l.nonce == "":
		l.nonce = rand.Text()
		return fmt.Appendf(nil, `realm="%s",nonce="%s",charset=utf-8,algorithm=md5-sess`, realm, l.nonce), len(token) == 0
	}
	l.over = true
	says := map[string]string{}
	for _, m := range directive.FindAllStringSubmatch(string(token), -1) {
		if _, twice := says[m[1]]; twice {
			return nil, false
		}
		says[m[1]] = escape.ReplaceAllString(m[2], "$1") + m[3]
	}
	user := says["username"]
	secret := password(user)
	if secret == "" || says["nonce"] != l.nonce || says["realm"] != realm || says["nc"] != "00000001" || says["cnonce"] == "" ||
		says["qop"] != "auth" || !strings.EqualFold(says["digest-uri"], uri) || says["response"] != l.proof(user, secret, says["cnonce"], "AUTHENTICATE") {
		return nil, false
	}
	welcome(user)
	return []byte("rspauth=" + l.proof(user, secret, says["cnonce"], "")), true
}

var (
	directive = regexp.MustCompile(`([a-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^,"]+))(?:,|$)`)
	escape    = regexp.MustCompile(`\\(.)`)
)

// proof returns the response of RFC 2831 section 2.1.2.1; with an empty method, it returns the response of section 2.1.3. A text is hashed
// in ISO 8859-1 if that character set has all its characters.
func (l *Login) proof(user, password, cnonce, method string) string {
	hash := func(parts ...string) string {
		sum := md5.Sum([]byte(strings.Join(parts, ":")))
		return string(sum[:])
	}
	text := func(raw string) string { return hex.EncodeToString([]byte(raw)) }
	secret := hash(narrowText(user), realm, narrowText(password))
	return text(hash(text(hash(secret, l.nonce, cnonce)), l.nonce, "00000001", cnonce, "auth", text(hash(method, uri))))
}

// narrowText returns text in ISO 8859-1, or unchanged if it has other characters.
func narrowText(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r > 0xff {
			return text
		}
		b.WriteByte(byte(r))
	}
	return b.String()
}
