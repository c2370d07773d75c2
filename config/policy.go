package config

import (
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// policy is an acl block evaluated: what it means on each sort of node. The lists
// are never nil, and shared between all nodes it applies to.
type policy struct {
	name                       string
	namespace, lock, contender kind.List
	allowWorld, allowLockout   bool
}

// The values of acl.NAME and ensemble.NAME are opaque: nothing but the argument
// that wants one can look inside, and nothing else can be passed for one.
var (
	policyType   = cty.Capsule("acl", reflect.TypeFor[policy]())
	ensembleType = cty.Capsule("ensemble", reflect.TypeFor[Ensemble]())
)

func policyValue(v cty.Value) *policy { return encapsulated[policy](v, policyType) }

func ensembleValue(v cty.Value) *Ensemble { return encapsulated[Ensemble](v, ensembleType) }

func encapsulated[T any](v cty.Value, ty cty.Type) *T {
	v, _ = v.Unmark()
	if !v.Type().Equals(ty) || v.IsNull() || !v.IsKnown() {
		return nil
	}
	return v.EncapsulatedValue().(*T)
}

// ensemble evaluates an argument that names an ensemble; nil when it does not, which is reported.
func (s scope) ensemble(a *attribute) *Ensemble {
	v, ok := s.value(a)
	if !ok {
		return nil
	}
	e := ensembleValue(v)
	if e == nil && !v.IsKnown() {
		s.wrong(a, "Not known to programs", "It depends on "+s.reasons(a)+" which ensemble this is, so no program could be compiled with it. Declare it for each ensemble.")
		return nil
	}
	if e == nil {
		s.wrong(a, "Wrong type", "ensemble must name an ensemble block: ensemble.NAME.")
	} else if !s.visibleChoice(a, v.IsMarked()) {
		return nil
	}
	return e
}

// principalType is what principal.NAME is.
var principalType = cty.Object(map[string]cty.Type{"name": cty.String, "scheme": cty.String, "id": cty.String})

func (s scope) evaluatePrincipals() { s.forElements(scope.evaluatePrincipal) }

func (s scope) evaluateACLs() { s.forElements(scope.evaluateACL) }

// forElements evaluates a block that declares no node, once for each element of its for_each. The value is an object by key then.
func (s scope) forElements(evaluate func(scope)) {
	if s.d.forEach == nil {
		evaluate(s)
		return
	}
	elements, ok := s.forEach(s.d.forEach)
	if !ok {
		s.fail()
		return
	}
	if !s.count(len(elements)) {
		return
	}
	byKey := make(map[string]cty.Value, len(elements))
	for _, el := range elements {
		evaluate(s.each(el, s.prefix+s.d.addr+"["+strconv.Quote(el.key)+"]"))
		byKey[el.key] = s.r.value
	}
	s.r.value = cty.ObjectVal(byKey)
}

func (s scope) evaluatePrincipal() {
	d := s.d
	schemeAttr, idAttr := d.block.arg("scheme"), d.block.arg("id")
	scheme, ok := s.text(schemeAttr)
	if !ok {
		s.fail()
		return
	}
	// The mark stays on: an id made by digest() must not get into an output.
	id, ok := s.as(idAttr, cty.String)
	switch {
	case ok:
	case s.r.failed:
		return
	case scheme == "world":
		id = cty.StringVal("anyone")
	default:
		id = cty.StringVal("") // absent or null, which checkPrincipal refuses
	}
	plain, marks := id.Unmark()
	if err := checkPrincipal(scheme, plain.AsString()); err != nil {
		at, summary := idAttr, "Invalid principal"
		if !slices.Contains(schemes, scheme) {
			at = schemeAttr
		}
		// The line of a digest may hold a password where its hash belongs.
		if at == nil || at == idAttr && scheme == "digest" {
			s.refuse(d.head, summary, "%s", plan.Sentence(err.Error()))
			return
		}
		s.wrong(at, summary, plan.Sentence(err.Error()))
		return
	}
	// A file usually ends in a newline, which is no part of an id.
	plain = cty.StringVal(strings.TrimSpace(plain.AsString()))
	id = plain
	if len(marks) > 0 {
		id = plain.Mark(secretID)
	}
	if scheme == "x509" && fromTheTop.MatchString(plain.AsString()) {
		s.add(warningAt(d.head, "Subject may be written backwards", "The servers begin a subject with what the certificate has last, which is most often its common name (CN). "+
			"If this certificate is no exception, reverse the parts. Otherwise the servers will not recognise its owner."))
	}
	s.r.value = cty.ObjectVal(map[string]cty.Value{
		"name": cty.StringVal(d.block.name()), "scheme": cty.StringVal(scheme), "id": id,
	})
}

// errWithheld takes the place of an error that would repeat a sensitive id.
var errWithheld = errors.New("the reason is not shown because an argument is sensitive")

var schemes = []string{"digest", "ip", "sasl", "world", "x509"}

// checkPrincipal reports why no session could ever be this principal. The server
// accepts any "a:b" as a digest, and a node granted to such an id is lost. The
// error does not repeat the id.
func checkPrincipal(scheme, id string) error {
	id = strings.TrimSpace(id)
	if scheme == "auth" {
		return errors.New("the scheme auth means the identities of the session that writes the access list, so the list would depend on who applies first. " +
			"Name the identity itself, for example with the scheme digest and digest(user, password)")
	}
	if !slices.Contains(schemes, scheme) {
		return fmt.Errorf("%q is not a scheme.%s", scheme, strings.TrimSuffix(hint(scheme, schemes, ""), "."))
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
		return checkDigest(id)
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

func checkDigest(id string) error {
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

// maxEntries bounds an access list, which is written to each node and compared entry by entry: the cost grows with the
// square, and 40,000 entries took 18 s.
const maxEntries = 1000

func (s scope) evaluateACL() {
	d := s.d
	p := &policy{
		name:       d.block.name(),
		allowWorld: s.yes(d.block.arg("allow_world")), allowLockout: s.yes(d.block.arg("allow_lockout")),
		namespace: kind.List{}, lock: kind.List{}, contender: kind.List{},
	}
	grants := d.block.nested("grant")
	if len(grants) == 0 && !s.r.failed {
		s.refuse(d.head, "No grants", "An acl without a grant gives access to nobody, not even to locktree: add grant { to = [principal.NAME], allow = \"admin\" }.")
	}
	for _, g := range grants {
		s.evaluateGrant(g, p)
	}
	if n := max(len(p.namespace), len(p.lock), len(p.contender)); n > maxEntries {
		s.refuse(d.head, "Access list too long", "It grants to %d principals; at most %d are allowed. Let programs share an identity, or grant to a network with an ip principal.", n, maxEntries)
		return
	}
	// One form for one meaning: the order of grants must be no change, neither to a plan nor to the hash.
	p.namespace, p.lock, p.contender = p.namespace.Normalize(), p.lock.Normalize(), p.contender.Normalize()
	if !s.r.failed && len(p.namespace) == 0 {
		s.refuse(d.head, "Nobody may read namespaces", "This acl grants only c and d. Namespaces never grant those, so nobody could read a namespace that uses it. Grant \"lock\" or \"admin\".")
	}
	s.r.value = cty.CapsuleVal(policyType, p)
}

func (s scope) evaluateGrant(g *block, p *policy) {
	to, allow := g.arg("to"), g.arg("allow")
	word, okAllow := s.text(allow)
	var perms plan.RolePerms
	if okAllow {
		var err error
		if perms, err = grantPerms(word); err != nil {
			s.wrong(allow, "Invalid permissions", plan.Sentence(err.Error()))
			okAllow = false
		}
	}
	v, ok := s.value(to)
	var who kind.List
	if ok {
		who, ok = s.principals(to, v)
	}
	if ok && len(who) == 0 {
		_, ok = s.wrong(to, "Empty grant", "This grants to nobody. Name a principal, or delete the grant.")
	}
	if !ok || !okAllow {
		s.fail()
		return
	}
	for _, a := range who {
		if a.Scheme == "world" && !p.allowWorld && (perms.Namespace|perms.Lock|perms.Contender)&^kind.PermRead != 0 {
			s.wrong(allow, "Everybody could write", fmt.Sprintf(
				"This grants %q to everybody who can reach the servers. Grant \"observe\", or name principals. If you mean everybody, set allow_world = true in acl %q.", word, p.name))
			return
		}
		p.namespace = appendGrant(p.namespace, a, perms.Namespace)
		p.lock = appendGrant(p.lock, a, perms.Lock)
		p.contender = appendGrant(p.contender, a, perms.Contender)
	}
}

func appendGrant(list kind.List, to kind.ACL, perms kind.Perm) kind.List {
	if perms == 0 {
		return list
	}
	to.Perms = perms
	return append(list, to)
}

// grantPerms expands a role, or letters. Letters mean what they say on locks and
// contenders. On namespaces c and d are left out of them, because d there deletes
// any lock; unless a is granted as well, which gives everything
// else anyway.
func grantPerms(word string) (plan.RolePerms, error) {
	if perms, ok := plan.Role(word).Perms(); ok {
		return perms, nil
	}
	p, err := kind.ParsePerm(word)
	if err != nil {
		return plan.RolePerms{}, fmt.Errorf("the argument allow must be a role (%s) or letters of cdrwa: %w.%s", orList(plan.Roles), err, plan.DidYouMean(word, plan.Roles))
	}
	ns := p
	if p&kind.PermAdmin == 0 {
		ns &^= kind.PermCreate | kind.PermDelete
	}
	return plan.RolePerms{Namespace: ns, Lock: p, Contender: p}, nil
}

// principals reads a list of principals. The marks of their ids come off here: an
// access list is what the id is for, and it is never printed with the hash.
func (s scope) principals(a *attribute, v cty.Value) (kind.List, bool) {
	secret := v.ContainsMarked()
	v, chosen := v.UnmarkDeepWithPaths()
	for _, at := range chosen {
		_, hidden := at.Marks[sensitive]
		if n := len(at.Path); n > 0 {
			step, ok := at.Path[n-1].(cty.GetAttrStep)
			hidden = hidden && !(ok && step.Name == "id")
		}
		if hidden {
			return nil, s.visibleChoice(a, true)
		}
	}
	ty := v.Type()
	if v.IsNull() || !ty.IsTupleType() && !ty.IsListType() && !ty.IsSetType() {
		s.wrong(a, "Wrong type", a.name+" must be a list of principals: [principal.NAME].")
		return nil, false
	}
	out := kind.List{}
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		if !e.Type().Equals(principalType) || e.IsNull() {
			s.wrong(a, "Wrong type", a.name+" must be a list of principals, such as [principal.NAME]. Declare each in a block principal \"NAME\" { scheme = ..., id = ... }.")
			return nil, false
		}
		p := kind.ACL{Scheme: e.GetAttr("scheme").AsString(), ID: e.GetAttr("id").AsString()}
		if err := checkPrincipal(p.Scheme, p.ID); err != nil {
			if secret { // it may have been written here as an object, with any scheme
				err = errWithheld
			}
			s.wrong(a, "Invalid principal", plan.Sentence(err.Error()))
			return nil, false
		}
		out = append(out, p)
	}
	return out, true
}

// ownACL is the access list of nodes without any acl above them: that of the tool's own nodes, if it is
// declared, else everything for the identities of the ensemble's own auth blocks.
func (e *Ensemble) ownACL() kind.List {
	if e.access != nil {
		return e.access.List()
	}
	var list kind.List
	for _, a := range e.Auth {
		user, password, _ := strings.Cut(string(a.Credentials), ":")
		list = append(list, kind.ACL{Scheme: a.Scheme, ID: digestID(user, password), Perms: kind.PermAll})
	}
	return append(list, e.Login.own()...).Normalize()
}

// digestID is what DigestAuthenticationProvider.generateDigest computes.
func digestID(user, password string) string {
	sum := sha1.Sum([]byte(user + ":" + password))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// evaluateAccess reads who may apply here (admins) and who may plan and look (readers). It returns nil when the block has
// neither argument.
func (s scope) evaluateAccess(b *block) *plan.Access {
	admins := s.declaredTo(b.arg("admins"), plan.RoleAdmin)
	readers := s.declaredTo(b.arg("readers"), plan.RoleObserve)
	if s.r.failed || admins == nil && readers == nil {
		return nil
	}
	if len(admins) == 0 {
		at := b.arg("admins")
		if at == nil || admins == nil {
			at = b.arg("readers")
		}
		s.wrong(at, "No administrators", "Nobody could apply this stack any more. List its administrators: admins = [principal.NAME].")
		return nil
	}
	for _, a := range admins {
		if plan.Everybody(a) {
			s.wrong(b.arg("admins"), "Everybody would be an administrator", fmt.Sprintf(
				"%s matches everybody who can reach the servers: they could delete this stack's records and take its apply lock. List the identities that apply. To leave the tool's own nodes open, omit admins and readers.", plan.Identity{Scheme: a.Scheme, ID: a.ID}))
			return nil
		}
	}
	// An identity in both lists is an administrator.
	readers = slices.DeleteFunc(readers, func(r kind.ACL) bool {
		return slices.ContainsFunc(admins, func(a kind.ACL) bool { return a.Scheme == r.Scheme && a.ID == r.ID })
	})
	if n := max(len(admins), len(readers)); n > maxEntries/2 {
		s.refuse(b.head, "Access list too long", "admins or readers names %d principals; at most %d are allowed. Let people share an identity.", n, maxEntries/2)
		return nil
	}
	return &plan.Access{Admins: admins, Readers: readers}
}

// declaredTo is a list of principals with the rights of a role; nil when the argument is not set.
func (s scope) declaredTo(a *attribute, as plan.Role) kind.List {
	if a == nil {
		return nil
	}
	v, ok := s.value(a)
	if !ok || isNull(v) {
		return nil
	}
	who, ok := s.principals(a, v)
	if !ok {
		return nil
	}
	perms, _ := as.Perms()
	for i := range who {
		who[i].Perms = perms.Namespace
	}
	return who.Normalize()
}
