package eval

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/config/internal/forms"
	"github.com/locktree/locktree/config/internal/functions"
	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/recipes/kind"
)

// policy is an acl block evaluated: what it means on each sort of node. The lists
// are never nil, and shared between all nodes it applies to.
type policy struct {
	name                       string
	namespace, lock, contender kind.List
	allowWorld, allowLockout   bool
}

// The values of acl.NAME and ensemble.NAME are opaque. Only arguments that expect such a value can read it, and they take no
// other value.
var (
	policyType   = cty.Capsule("acl", reflect.TypeFor[policy]())
	ensembleType = cty.Capsule("ensemble", reflect.TypeFor[Ensemble]())
)

// EnsembleValue is the ensemble that a value of ensemble.NAME holds; nil if it is none.
func EnsembleValue(v cty.Value) *Ensemble { return encapsulated[Ensemble](v, ensembleType) }

func encapsulated[T any](v cty.Value, ty cty.Type) *T {
	v, _ = v.Unmark()
	if !v.Type().Equals(ty) || v.IsNull() || !v.IsKnown() {
		return nil
	}
	return v.EncapsulatedValue().(*T)
}

// ensembleIn evaluates an argument that names an ensemble; nil when it does not, which is reported.
func ensembleIn(s scope, a *syntax.Attribute) *Ensemble {
	v, ok := s.value(a)
	if !ok {
		return nil
	}
	e := EnsembleValue(v)
	if e == nil && !v.IsKnown() {
		s.reportWrong(a, "Not known to programs", "It depends on "+Reasons(s.in, a)+" which ensemble this is, so no program could be compiled with it. Declare it for each ensemble.")
		return nil
	}
	if e == nil {
		s.reportWrong(a, "Wrong type", "ensemble must name an ensemble block: ensemble.NAME.")
	} else if !s.visibleChoice(a, v.IsMarked()) {
		return nil
	}
	return e
}

// principalType is the type of principal.NAME.
var principalType = cty.Object(map[string]cty.Type{"name": cty.String, "scheme": cty.String, "id": cty.String})

// forElements evaluates a block that declares no node, once for each element of its for_each. The value is an object by key then.
func forElements(s scope, evaluate func(scope)) {
	if s.d.ForEach == nil {
		evaluate(s)
		return
	}
	elements, ok := elementsOf(s, s.d.ForEach)
	if !ok {
		s.fail()
		return
	}
	if !countNodes(s, len(elements)) {
		return
	}
	byKey := make(map[string]cty.Value, len(elements))
	for _, el := range elements {
		evaluate(s.forElement(el, s.in.Prefix+s.d.Addr+"["+strconv.Quote(el.Key)+"]"))
		byKey[el.Key] = s.r.Value
	}
	s.r.Value = cty.ObjectVal(byKey)
}

func evaluatePrincipal(s scope) {
	d := s.d
	schemeAttr, idAttr := d.Block.Arg("scheme"), d.Block.Arg("id")
	scheme, ok := s.text(schemeAttr)
	if !ok {
		s.fail()
		return
	}
	// The mark stays on: an id made by digest() must not get into an output.
	id, ok := s.valueAs(idAttr, cty.String)
	switch {
	case ok:
	case s.r.Failed:
		return
	case scheme == "world":
		id = cty.StringVal("anyone")
	default:
		id = cty.StringVal("") // absent or null, which forms.CheckPrincipal refuses
	}
	plain, marks := id.Unmark()
	if err := forms.CheckPrincipal(scheme, plain.AsString()); err != nil {
		at, summary := idAttr, "Invalid principal"
		if !slices.Contains(forms.Schemes, scheme) {
			at = schemeAttr
		}
		// The id of a digest may be a password by mistake, so the error does not show its line.
		if at == nil || at == idAttr && scheme == "digest" {
			s.refuse(d.Head, summary, "%s", explain.Sentence(err.Error()))
			return
		}
		s.reportWrong(at, summary, explain.Sentence(err.Error()))
		return
	}
	// A file usually ends in a newline, which is no part of an id.
	plain = cty.StringVal(strings.TrimSpace(plain.AsString()))
	id = plain
	if len(marks) > 0 {
		id = plain.Mark(secretID)
	}
	if scheme == "x509" && forms.FromTheTop.MatchString(plain.AsString()) {
		s.in.Add(syntax.WarningAt(d.Head, "Subject may be written backwards", "The servers write a subject in reverse order: first the certificate's last part, most often its common name (CN). "+
			"If the certificate itself ends with its common name, write the parts of this id the other way round: the common name first. The servers recognise the certificate's owner only if the parts are in the order that the servers write."))
	}
	s.r.Value = cty.ObjectVal(map[string]cty.Value{
		"name": cty.StringVal(d.Block.Name()), "scheme": cty.StringVal(scheme), "id": id,
	})
}

// errWithheld takes the place of an error that would repeat a sensitive id.
var errWithheld = errors.New("the reason is not shown because an argument is sensitive")

// maxEntries bounds an access list, which is written to each node and compared entry by entry: the cost grows with the
// square, and 40,000 entries took 18 s.
const maxEntries = 1000

func evaluateACL(s scope) {
	d := s.d
	p := &policy{
		name:       d.Block.Name(),
		allowWorld: s.yes(d.Block.Arg("allow_world")), allowLockout: s.yes(d.Block.Arg("allow_lockout")),
		namespace: kind.List{}, lock: kind.List{}, contender: kind.List{},
	}
	grants := d.Block.Nested("grant")
	if len(grants) == 0 && !s.r.Failed {
		s.refuse(d.Head, "No grants", "An acl without a grant shuts out every program, and locktree too: add grant { to = [principal.NAME], allow = \"admin\" }.")
	}
	for _, g := range grants {
		evaluateGrant(s, g, p)
	}
	if n := max(len(p.namespace), len(p.lock), len(p.contender)); n > maxEntries {
		s.refuse(d.Head, "Access list too long", "It grants to %d principals; at most %d are allowed. Let programs share an identity, or grant to a network with an ip principal.", n, maxEntries)
		return
	}
	// Lists with the same meaning get the same form, so another order of the grants changes neither a plan nor a checksum.
	p.namespace, p.lock, p.contender = p.namespace.Normalize(), p.lock.Normalize(), p.contender.Normalize()
	if !s.r.Failed && len(p.namespace) == 0 {
		s.refuse(d.Head, "No right to read namespaces", "This acl grants only the permissions c and d. On a namespace, c and d are granted only together with \"a\" (ADMIN), so no program could read a namespace that uses this acl. Grant \"lock\" or \"admin\".")
	}
	s.r.Value = cty.CapsuleVal(policyType, p)
}

func evaluateGrant(s scope, g *syntax.Block, p *policy) {
	to, allow := g.Arg("to"), g.Arg("allow")
	word, okAllow := s.text(allow)
	var perms forms.RolePerms
	if okAllow {
		var err error
		if perms, err = forms.GrantPerms(word); err != nil {
			s.reportWrong(allow, "Invalid permissions", explain.Sentence(err.Error()))
			okAllow = false
		}
	}
	v, ok := s.value(to)
	var who kind.List
	if ok {
		who, ok = principalsIn(s, to, v)
	}
	if ok && len(who) == 0 {
		_, ok = s.reportWrong(to, "Empty grant", "This grant names no principal. Name one, or delete the grant.")
	}
	if !ok || !okAllow {
		s.fail()
		return
	}
	for _, a := range who {
		if a.Scheme == "world" && !p.allowWorld && (perms.Namespace|perms.Lock|perms.Contender)&^kind.PermRead != 0 {
			s.reportWrong(allow, "Everybody could write", fmt.Sprintf(
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

// principalsIn reads a list of principals. The sensitive mark of an id is removed here, because access lists need the id and are
// printed without hashes.
func principalsIn(s scope, a *syntax.Attribute, v cty.Value) (kind.List, bool) {
	secret := v.ContainsMarked()
	v, chosen := v.UnmarkDeepWithPaths()
	for _, at := range chosen {
		_, hidden := at.Marks[functions.Sensitive]
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
		s.reportWrong(a, "Wrong type", a.Name+" must be a list of principals: [principal.NAME].")
		return nil, false
	}
	out := kind.List{}
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		if !e.Type().Equals(principalType) || e.IsNull() {
			s.reportWrong(a, "Wrong type", a.Name+" must be a list of principals, such as [principal.NAME]. Declare each in a block principal \"NAME\" { scheme = ..., id = ... }.")
			return nil, false
		}
		p := kind.ACL{Scheme: e.GetAttr("scheme").AsString(), ID: e.GetAttr("id").AsString()}
		if err := forms.CheckPrincipal(p.Scheme, p.ID); err != nil {
			if secret { // the principal may be an object that is written here, with any scheme
				err = errWithheld
			}
			s.reportWrong(a, "Invalid principal", explain.Sentence(err.Error()))
			return nil, false
		}
		out = append(out, p)
	}
	return out, true
}

// evaluateAccess reads who may apply here (admins) and who may plan and look (readers). It returns nil when the block has
// neither argument.
func evaluateAccess(s scope, b *syntax.Block) *plan.Access {
	admins := declaredTo(s, b.Arg("admins"), forms.RoleAdmin)
	readers := declaredTo(s, b.Arg("readers"), forms.RoleObserve)
	if s.r.Failed || admins == nil && readers == nil {
		return nil
	}
	if len(admins) == 0 {
		at := b.Arg("admins")
		if at == nil || admins == nil {
			at = b.Arg("readers")
		}
		s.reportWrong(at, "No administrators", "No identity could apply this stack any more. List its administrators: admins = [principal.NAME].")
		return nil
	}
	for _, a := range admins {
		if plan.Everybody(a) {
			s.reportWrong(b.Arg("admins"), "Everybody would be an administrator", fmt.Sprintf(
				"%s:%s matches everybody who can reach the servers: they could delete this stack's records and take its apply lock. List the identities that apply. To leave the tool's own nodes open, omit admins and readers.", a.Scheme, a.ID))
			return nil
		}
	}
	// An identity in both lists is an administrator.
	readers = slices.DeleteFunc(readers, func(r kind.ACL) bool {
		return slices.ContainsFunc(admins, func(a kind.ACL) bool { return a.Scheme == r.Scheme && a.ID == r.ID })
	})
	if n := max(len(admins), len(readers)); n > maxEntries/2 {
		s.refuse(b.Head, "Access list too long", "admins or readers names %d principals; at most %d are allowed. Let people share an identity.", n, maxEntries/2)
		return nil
	}
	return &plan.Access{Admins: admins, Readers: readers}
}

// declaredTo is a list of principals with the rights of a role; nil when the argument is not set.
func declaredTo(s scope, a *syntax.Attribute, as forms.Role) kind.List {
	if a == nil {
		return nil
	}
	v, ok := s.value(a)
	if !ok || isNull(v) {
		return nil
	}
	who, ok := principalsIn(s, a, v)
	if !ok {
		return nil
	}
	perms, _ := as.Perms()
	for i := range who {
		who[i].Perms = perms.Namespace
	}
	return who.Normalize()
}
