// Package identity computes the identities that servers will write into access lists, from a client certificate and from a password.
package identity

import (
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// attribute is one part of a subject, with the bytes of its value as in the certificate.
type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

type attributesSET []attribute // encoding/asn1 recognises a set by this suffix of the type's name

// Subject returns a certificate's subject as ZooKeeper's X509AuthenticationProvider writes it into an ACL: X500Principal.getName,
// which is RFC 2253 as Java understands it. pkix.Name.String uses another order, and pkix.RDNSequence.String knows other
// attribute names and escapes fewer characters. With either, the ACL would lock the certificate's owner out.
func Subject(certificate tls.Certificate) (string, error) {
	leaf := certificate.Leaf
	if leaf == nil {
		if len(certificate.Certificate) == 0 {
			return "", errors.New("no certificate")
		}
		var err error
		if leaf, err = x509.ParseCertificate(certificate.Certificate[0]); err != nil {
			return "", err
		}
	}
	var subject []attributesSET
	if _, err := asn1.Unmarshal(leaf.RawSubject, &subject); err != nil {
		return "", fmt.Errorf("recipes: the certificate's subject is no sequence of names: %w", err)
	}
	slices.Reverse(subject) // RFC 2253 section 2.1: last encoded first
	var parts []string
	for _, set := range subject {
		var together []string
		for _, a := range set {
			together = append(together, a.String())
		}
		parts = append(parts, strings.Join(together, "+"))
	}
	return strings.Join(parts, ","), nil
}

// keywords are the attributes that have names in RFC 2253 section 2.3. Java writes all others as numbers, even serialNumber
// and emailAddress.
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET", "2.5.4.10": "O", "2.5.4.11": "OU",
	"0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.25": "DC",
}

func (a attribute) String() string {
	keyword, known := keywords[a.Type.String()]
	if !known {
		keyword = a.Type.String()
	}
	if text, ok := a.text(); ok && known {
		return keyword + "=" + escape(text)
	}
	return keyword + "=#" + hex.EncodeToString(a.Value.FullBytes) // RFC 2253 section 2.4: tag, length and value
}

// text returns the value if it has one of ASN.1's string types. All of them are read as UTF-8, as Java does.
func (a attribute) text() (string, bool) {
	if a.Value.Class != asn1.ClassUniversal {
		return "", false
	}
	switch a.Value.Tag {
	case asn1.TagUTF8String, asn1.TagPrintableString, asn1.TagIA5String, asn1.TagT61String, asn1.TagGeneralString, asn1.TagBMPString:
		return string([]rune(string(a.Value.Bytes))), true // through runes: invalid UTF-8 becomes U+FFFD
	}
	return "", false
}

// escape writes a value as RFC 2253 section 2.4 demands. As Java does, it also escapes "=" and "#" everywhere, and every space at
// either end.
func escape(value string) string {
	inner := strings.Trim(value, " \r")
	start := strings.Index(value, inner)
	if inner == "" {
		start = len(value)
	}
	var out strings.Builder
	for i, r := range value {
		switch {
		case r == 0:
			out.WriteString(`\00`)
			continue
		case strings.ContainsRune(`,=+<>#;"\`, r), i < start, i >= start+len(inner):
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	return out.String()
}

// Digest is user:base64(sha1(user:password)), as DigestAuthenticationProvider.generateDigest makes it: the hash includes the
// user, and a password may contain colons.
func Digest(credentials string) string {
	user, _, _ := strings.Cut(credentials, ":")
	sum := sha1.Sum([]byte(credentials))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}
