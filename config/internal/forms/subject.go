package forms

import (
	"errors"
	"regexp"
)

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
