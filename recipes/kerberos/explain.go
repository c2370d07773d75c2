package kerberos

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jcmturner/gokrb5/v8/config"
)

// explain turns an error of gokrb5 into one that says what to do. It compares texts, because gokrb5 wraps the KDC's error without
// its code.
func (l *Login) explain(err error, realm string, to spn) error {
	f, text := l.tickets.files, err.Error()
	has := func(codes ...string) bool {
		return slices.ContainsFunc(codes, func(code string) bool { return strings.Contains(text, code) })
	}
	switch {
	case has("KDC_ERR_C_PRINCIPAL_UNKNOWN"):
		return setupError("the KDC of %s does not know %s: check the principal, or create it with kadmin (addprinc)", realm, f.client)
	case has("KDC_ERR_S_PRINCIPAL_UNKNOWN") && to.name != "":
		return setupError("the KDC of %s does not know the server's principal %s: set its name (server_principal; or service, realm, and canonicalize = false to take the host as it is in servers), or create it with kadmin (addprinc)", realm, to)
	case has("KDC_ERR_PREAUTH_FAILED", "KRB_AP_ERR_BAD_INTEGRITY", "matching key not found in keytab", "integrity verification failed", "keytab incorrect") && f.keytab != nil && !has("clock skew"):
		return setupError("the keytab %s has no current key of %s: its password was changed, or the file is of another realm; export it again with kadmin (ktadd -k %s %s)", l.cfg.Keytab, f.client, l.cfg.Keytab, f.client)
	case has("KRB_AP_ERR_SKEW", "clock skew"):
		return setupError("the clocks of this machine and of the KDC of %s differ by more than %v: set them (NTP)", realm, f.conf.LibDefaults.Clockskew)
	case has("KRB_AP_ERR_TKT_EXPIRED", "KDC_ERR_NEVER_VALID"):
		return setupError("the KDC of %s says that the ticket of %s has expired: run kinit again, and check the clocks", realm, f.client)
	case has("KDC_ERR_KEY_EXPIRED", "KDC_ERR_NAME_EXP"):
		return setupError("%s has expired: have it prolonged, or its password changed, and export the keytab again", f.client)
	case has("KDC_ERR_CLIENT_REVOKED"):
		return setupError("%s is locked at the KDC of %s: have it unlocked (kadmin: modprinc -unlock)", f.client, realm)
	case has("KDC_ERR_ETYPE_NOSUPP"):
		return setupError("the KDC of %s and this program have no type of encryption in common: give %s, and the server, keys of type aes256-cts-hmac-sha1-96", realm, f.client)
	case has("Networking_Error", "no KDC", "communication error"):
		return fmt.Errorf("no KDC of %s answers (%s): %s; check that one runs, and that it can be reached from here", realm, kdcs(f.conf, realm), shorten(text))
	}
	return fmt.Errorf("the KDC of %s: %s", realm, shorten(text))
}

// kdcs are the key distribution centers of a realm, as configured.
func kdcs(conf *config.Config, realm string) string {
	var found []string
	for _, r := range conf.Realms {
		if r.Realm == realm {
			found = append(found, r.KDC...)
		}
	}
	switch {
	case len(found) > 0:
		return strings.Join(found, ", ")
	case conf.LibDefaults.DNSLookupKDC:
		return "looked for in DNS"
	}
	return "krb5.conf names none in [realms]"
}

// shorten leaves out the text that gokrb5 puts around the cause.
func shorten(text string) string {
	if i := strings.LastIndex(text, " < "); i >= 0 {
		text = text[i+3:]
	}
	return strings.TrimSpace(text)
}

// list names principals, the first ten.
func list(names map[string]bool) string {
	sorted := slices.Sorted(maps.Keys(names))
	if len(sorted) == 0 {
		return "nobody"
	}
	more := ""
	if len(sorted) > 10 {
		sorted, more = sorted[:10], ", ..."
	}
	return strings.Join(sorted, ", ") + more
}
