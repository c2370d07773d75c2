package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// checkSubject accepts the subject of a certificate only as the servers write it. They compare it with the entry
// character by character (X509AuthenticationProvider), and accept most other forms without an error: the owner of the
// certificate would be locked out.
func checkSubject(id string) error {
	exact, err := exactSubject(id)
	switch {
	case err != nil:
		return fmt.Errorf("the id of the scheme x509 must be %s: %w", idForms["x509"], err)
	case exact != id:
		return fmt.Errorf("the servers write this subject as %q and compare it character by character. Write it the same way", exact)
	}
	return nil
}

// fromTheTop tells an order that is most often the wrong one: certificates have the common name last, so that it comes
// first in RFC 2253.
func fromTheTop(parts []string) bool {
	name, _, _ := strings.Cut(parts[0], "=")
	return slices.Contains([]string{"C", "ST", "L", "O", "OU", "DC"}, name) && strings.HasPrefix(parts[len(parts)-1], "CN=")
}

// subjectNames are the attributes that have names in RFC 2253, the only ones Java writes by name.
var subjectNames = []string{"CN", "C", "L", "ST", "STREET", "O", "OU", "UID", "DC"}

// exactSubject writes a subject as X500Principal.getName() of Java does: RFC 2253, in the order of that RFC, which
// begins with what the certificate has last. OpenSSL prints the order of the certificate, in one of three forms:
// "/C=DE/CN=sre", "C = DE, CN = sre" and, since version 3.2, "C=DE, CN=sre".
func exactSubject(id string) (string, error) {
	parts := splitSubject(id, ",;")
	reversed := strings.Contains(id, " = ")
	if strings.HasPrefix(id, "/") {
		parts, reversed = splitSubject(id[1:], "/"), true
	}
	for i, part := range parts {
		together := splitSubject(part, "+")
		for j, attribute := range together {
			var err error
			if together[j], err = exactAttribute(attribute); err != nil {
				return "", err
			}
		}
		parts[i] = strings.Join(together, "+")
	}
	if reversed || strings.Contains(id, ", ") && fromTheTop(parts) {
		slices.Reverse(parts)
	}
	return strings.Join(parts, ","), nil
}

// splitSubject cuts at the separators that are neither escaped nor quoted.
func splitSubject(text, separators string) (out []string) {
	start, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && strings.IndexByte(separators, c) >= 0:
			out, start = append(out, text[start:i]), i+1
		}
	}
	return append(out, text[start:])
}

func exactAttribute(text string) (string, error) {
	name, value, ok := strings.Cut(text, "=")
	name, value = strings.TrimSpace(name), trimValue(value)
	if !ok || name == "" {
		return "", errors.New("it has a part without a name")
	}
	name = strings.TrimPrefix(strings.ToUpper(name), "OID.")
	number := strings.Trim(name, "0123456789.") == ""
	switch {
	case number && strings.HasPrefix(value, "#"):
		return name + "=" + strings.ToLower(value), nil
	case name == "EMAILADDRESS": // always an IA5String
		return derAttribute("1.2.840.113549.1.9.1", 0x16, value)
	case name == "SERIALNUMBER": // always a PrintableString
		return derAttribute("2.5.4.5", 0x13, value)
	case !slices.Contains(subjectNames, name):
		return "", fmt.Errorf("the servers write %s as a number and the bytes of the certificate in hexadecimal (1.2.3=#0c03...), as Java's X500Principal.getName() does", name)
	}
	plain, err := plainValue(value)
	return name + "=" + escapeValue(plain), err
}

// trimValue takes away the blanks around a value that are not escaped.
func trimValue(v string) string {
	v = strings.TrimLeft(v, " ")
	cut := strings.TrimRight(v, " ")
	if strings.HasSuffix(cut, `\`) && len(cut) < len(v) {
		cut += " "
	}
	return cut
}

func derAttribute(number string, tag byte, value string) (string, error) {
	plain, err := plainValue(value)
	if err == nil && len(plain) > 127 {
		err = errors.New("a value is too long")
	}
	return fmt.Sprintf("%s=#%x", number, append([]byte{tag, byte(len(plain))}, plain...)), err
}

// plainValue is a value without its quotes and escapes.
func plainValue(v string) (string, error) {
	if len(v) > 1 && v[0] == '"' && v[len(v)-1] == '"' {
		v = v[1 : len(v)-1]
	} else if strings.Contains(v, `"`) && !strings.Contains(v, `\"`) || strings.HasPrefix(v, "#") {
		return "", errors.New("a value has a quotation mark or # that is not escaped")
	}
	var out strings.Builder
	for i := 0; i < len(v); i++ {
		if v[i] != '\\' {
			out.WriteByte(v[i])
			continue
		}
		if raw, err := hex.DecodeString(v[i+1 : min(i+3, len(v))]); err == nil && len(raw) == 1 {
			out.Write(raw)
			i += 2
		} else if i++; i < len(v) {
			out.WriteByte(v[i])
		}
	}
	return out.String(), nil
}

// escapeValue escapes what Java does.
func escapeValue(v string) string {
	inner := strings.Trim(v, " ")
	start := strings.Index(v, inner)
	var out strings.Builder
	for i, r := range v {
		if strings.ContainsRune(`,=+<>#;"\`, r) || i < start || i >= start+len(inner) {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	return out.String()
}
