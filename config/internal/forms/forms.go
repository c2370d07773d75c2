package forms

import (
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/robfig/cron/v3"

	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
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

// checkIP accepts the same as IPAuthenticationProvider: an address, optionally followed by a slash and the number of leading bits
// that must match. Servers without ZOOKEEPER-4240 (fixed in 2025) know no IPv6 and answer such a list with InvalidACL, which
// undoes the whole transaction. The servers decide: their version is not known here.
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

// GrantPerms expands a role, or permission letters. Locks and contenders get the letters as they are. Namespaces do not get `c`
// and `d`, because `d` there deletes any lock. If the letters contain `a` (ADMIN), namespaces get all of them, because `a` gives
// all rights anyway.
func GrantPerms(word string) (RolePerms, error) {
	if perms, ok := Role(word).Perms(); ok {
		return perms, nil
	}
	p, err := kind.ParsePerm(word)
	if err != nil {
		return RolePerms{}, fmt.Errorf("the argument allow must be a role (%s) or letters of cdrwa: %w.%s", syntax.OrList(Roles), err, explain.DidYouMean(word, Roles))
	}
	ns := p
	if p&kind.PermAdmin == 0 {
		ns &^= kind.PermCreate | kind.PermDelete
	}
	return RolePerms{Namespace: ns, Lock: p, Contender: p}, nil
}

// Servers write the subject of a certificate as X500Principal.getName() of Java does, by RFC 2253. They compare it with the entry
// character by character (X509AuthenticationProvider), and accept most other forms without an error: the owner of the certificate
// would be locked out.
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

// CheckServer reports why a text names no server.
func CheckServer(server string) error {
	if name, ok := strings.CutPrefix(server, "dns-srv://"); ok {
		if name == "" || strings.ContainsAny(name, ",/: ") {
			return fmt.Errorf(`write the name of SRV records behind dns-srv://, as in "dns-srv://_zookeeper._tcp.example.com"`)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(server)
	switch {
	case strings.Contains(server, ",") || strings.ContainsAny(server, " /"):
		return fmt.Errorf(`write one "host:port" in each element of the list, and the path of a connect string as root`)
	case err != nil || host == "":
		return fmt.Errorf(`write a server as "host:port", for example "zk1:2181"`)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("%q is not a port: it must be a number from 1 to 65535", port)
	}
	return nil
}

var cronParser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// Schedule reads a schedule as cron writes it, and returns the form that is kept in a node.
func Schedule(text string) (string, error) {
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return "", errors.New("has a time zone in it: set timezone instead")
	}
	fields := strings.Fields(text)
	if len(fields) == 5 {
		fields[4] = sundays(fields[4])
	}
	parsed, err := cronParser.Parse(strings.Join(fields, " "))
	if err != nil {
		return "", fmt.Errorf(`%q is not a schedule (%w): write five fields as in cron (minute, hour, day of the month, month, day of the week, where 0 and 7 are Sunday), such as "0 3 * * MON-FRI", or @daily`, text, err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return "", fmt.Errorf("%q has no instants that all machines agree on, because it counts from when a program begins: write five fields, such as \"*/10 * * * *\"", text)
	}
	// In cron, if the day of the month or the weekday begins with a star, even with a step, a day must match both fields.
	sets := [5]uint64{spec.Minute, spec.Hour, spec.Dom, spec.Month, spec.Dow}
	for _, i := range []int{2, 4} {
		if len(fields) == 5 && strings.HasPrefix(fields[i], "*") {
			sets[i] |= 1 << 63
		}
	}
	canonical := slots.ScheduleText(sets)
	if days := strings.Fields(canonical); (sets[2]|sets[4])>>63 == 1 && !strings.Contains(days[2]+days[4], "*") {
		return "", fmt.Errorf("%q is ambiguous: a day field that begins with * makes cron match both day fields; otherwise one is enough. If one is enough, write that field as a list, such as 1,3,5. If both must match, write it as a single step, such as */2", text)
	}
	if times, err := slots.ParseSchedule(canonical, ""); err != nil || times.Never() {
		return "", fmt.Errorf("%q is never due: no month that it names has such a day", text)
	}
	return canonical, nil
}

// sundays writes Sunday as 0 where a field of weekdays has it as 7.
func sundays(field string) string {
	parts := strings.Split(field, ",")
	for i, part := range parts {
		span, by, stepped := strings.Cut(part, "/")
		from, to, _ := strings.Cut(span, "-")
		step, err := 1, error(nil)
		if stepped {
			step, err = strconv.Atoi(by)
		}
		first, wrong := strconv.Atoi(from)
		switch {
		case part == "7":
			parts[i] = "0"
		case to != "7" || err != nil || wrong != nil || step < 1 || first < 0 || first > 7:
		default:
			var days []string
			for day := first; day <= 7; day += step {
				days = append(days, strconv.Itoa(day%7))
			}
			parts[i] = strings.Join(days, ",")
		}
	}
	return strings.Join(parts, ",")
}

// Role is a word for a set of permissions. It means different permissions in different places, because deleting a lock needs a
// right on its namespace, and deleting a contender one on its lock.
type Role string

// The roles.
const (
	RoleLock    Role = "lock"    // use the locks: queue, hold, release
	RoleObserve Role = "observe" // see who holds and waits
	RoleAdmin   Role = "admin"   // everything
)

// Roles are the words for all roles.
var Roles = []string{string(RoleLock), string(RoleObserve), string(RoleAdmin)}

// RolePerms are a role's permissions on a namespace, on a lock node (and the children its wire format needs) and on a
// contender.
type RolePerms struct{ Namespace, Lock, Contender kind.Perm }

// Perms expands the role; ok is false for a word that is not a role.
//
// "lock" never gets c or d on a namespace: with d there, a program without any right on a lock could delete it. On the lock node
// it gets exactly crd: c to queue, r to list, d to release. On contenders it also gets w, for the confirming write and for
// revocation requests.
func (r Role) Perms() (RolePerms, bool) {
	const queue = kind.PermCreate | kind.PermRead | kind.PermDelete
	switch r {
	case RoleLock:
		return RolePerms{kind.PermRead, queue, queue | kind.PermWrite}, true
	case RoleObserve:
		return RolePerms{kind.PermRead, kind.PermRead, kind.PermRead}, true
	case RoleAdmin:
		return RolePerms{kind.PermAll, kind.PermAll, kind.PermAll}, true
	default:
		return RolePerms{}, false
	}
}
