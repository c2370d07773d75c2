package forms

import (
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// Schemes are those that a principal can have.
var Schemes = []string{"digest", "ip", "sasl", "world", "x509"}

// CheckPrincipal reports why no session could ever be this principal. The server
// accepts any "a:b" as a digest, and a node granted to such an id is lost. The
// error does not repeat the id.
func CheckPrincipal(scheme, id string) error {
	id = strings.TrimSpace(id)
	if scheme == "auth" {
		return errors.New("the scheme auth means the identities of the session that writes the access list, so the list would depend on who applies first. " +
			"Name the identity itself, for example with the scheme digest and digest(user, password)")
	}
	if !slices.Contains(Schemes, scheme) {
		return fmt.Errorf("%q is not a scheme.%s", scheme, strings.TrimSuffix(syntax.Hint(scheme, Schemes, ""), "."))
	}
	if id == "" {
		return fmt.Errorf("a principal of the scheme %s needs an id: %s", scheme, idForms[scheme])
	}
	if strings.ContainsFunc(id, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return errors.New("the id contains a control character")
	}
	switch scheme {
	case "world":
		if id != "anyone" {
			return errors.New(`the id of the scheme world is always "anyone": leave it out`)
		}
	case "digest":
		return CheckDigest(id)
	case "ip":
		return checkIP(id)
	case "sasl":
		if strings.Contains(id, "@") && !kerberosName.MatchString(id) {
			return errors.New("the id of the scheme sasl must be " + idForms["sasl"] + " or service/host@REALM")
		}
	case "x509":
		return checkSubject(id)
	}
	return nil
}

var idForms = map[string]string{
	"digest": "user:base64(sha1(user:password)), which digest(user, password) makes",
	"ip":     "an address, or a network such as 10.1.0.0/16",
	"sasl":   "the authenticated name, such as user@REALM",
	"world":  "anyone",
	"x509":   "the subject of a certificate, such as CN=sre,OU=ops",
}

// CheckDigest reports why a text is no id of the scheme digest.
func CheckDigest(id string) error {
	user, hash, ok := strings.Cut(id, ":")
	raw, err := base64.StdEncoding.DecodeString(hash)
	switch {
	case !ok || user == "":
		return errors.New("the id of the scheme digest must be " + idForms["digest"])
	case err != nil || len(raw) != sha1.Size:
		return errors.New("the part after the colon is not a base64-encoded SHA-1 hash of 28 characters (is it a password?). The id must be " + idForms["digest"])
	}
	return nil
}

// checkIP accepts what IPAuthenticationProvider does: an address, with the number of
// leading bits that must match behind a slash. Servers without ZOOKEEPER-4240 (of 2025; 3.8.0 has it
// not) know no IPv6 and answer such a list with InvalidACL, which undoes the whole transaction. That is
// left to them: which version a server has is not known here.
func checkIP(id string) error {
	var err error
	if strings.Contains(id, "/") {
		_, err = netip.ParsePrefix(id)
	} else {
		var addr netip.Addr
		addr, err = netip.ParseAddr(id)
		if addr.Zone() != "" { // a name of this machine's interfaces
			err = errors.New("zone")
		}
	}
	if err != nil {
		return errors.New("the id of the scheme ip must be " + idForms["ip"])
	}
	return nil
}

// kerberosName is what the servers' SASLAuthenticationProvider accepts (KerberosName); a name without "@", such as DIGEST-MD5
// authenticates, is accepted as it is.
var kerberosName = regexp.MustCompile(`^[^/@]*(/[^/@]*)?@[^/@]*$`)

// GrantPerms expands a role, or letters. Letters mean what they say on locks and
// contenders. On namespaces c and d are left out of them, because d there deletes
// any lock; unless a is granted as well, which gives everything
// else anyway.
func GrantPerms(word string) (plan.RolePerms, error) {
	if perms, ok := plan.Role(word).Perms(); ok {
		return perms, nil
	}
	p, err := kind.ParsePerm(word)
	if err != nil {
		return plan.RolePerms{}, fmt.Errorf("the argument allow must be a role (%s) or letters of cdrwa: %w.%s", syntax.OrList(plan.Roles), err, plan.DidYouMean(word, plan.Roles))
	}
	ns := p
	if p&kind.PermAdmin == 0 {
		ns &^= kind.PermCreate | kind.PermDelete
	}
	return plan.RolePerms{Namespace: ns, Lock: p, Contender: p}, nil
}

// The form in which servers write the subject of a certificate: that of X500Principal.getName() of Java, RFC 2253. They compare it
// with the entry character by character (X509AuthenticationProvider), and accept most other forms without an error: the owner
// of the certificate would be locked out.
var (
	subjectForm = func() *regexp.Regexp {
		const (
			char  = `(?:[^,=+<>#;"\\ ]|\\[,=+<>#;"\\])`
			value = `(?:\\ )*(?:` + char + `(?:(?: |` + char + `)*` + char + `)?)?(?:\\ )*`
			// The attributes that have names in RFC 2253 are the only ones that Java writes by name.
			attribute = `(?:(?:CN|C|L|ST|STREET|O|OU|UID|DC)=` + value + `|[0-9]+(?:\.[0-9]+)*=#(?:[0-9a-f]{2})+)`
		)
		return regexp.MustCompile(`^` + attribute + `(?:[,+]` + attribute + `)*$`)
	}()
	// FromTheTop is an order that is most often the wrong one: certificates have the common name last, so that it comes
	// first in RFC 2253.
	FromTheTop = regexp.MustCompile(`^(?:C|ST|L|O|OU|DC)=.*,CN=(?:[^,\\]|\\.)*$`)
)

func checkSubject(id string) error {
	if subjectForm.MatchString(id) {
		return nil
	}
	return errors.New(`the servers compare a subject with the certificate's character by character, and they do not write one in this form. ` +
		`Copy what "openssl x509 -noout -subject -nameopt RFC2253 -in FILE" prints, such as CN=sre,OU=ops; attributes other than CN, C, L, ST, STREET, O, OU, UID and DC ` +
		`are a number and the bytes in hexadecimal there, such as 1.2.3=#0c03616263`)
}
