package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
)

// instance is one znode of a node block.
type instance struct {
	decl     *nodeDecl
	parent   *instance // nil at the top
	key      string    // of for_each
	each     *element  // of the nearest for_each around; nil when there is none
	inside   siblings  // nil until there is one
	addr     plan.Addr
	name     string
	path     string // "" when it is not known
	policy   *policy
	ensemble *Ensemble
	params   kind.Params
	protect  bool
	nameless bool     // its argument name was wrong, or is not known
	unknown  []string // parameters that are not known
	any      bool     // it stands for several, because the keys of a for_each around it, or its own, are not known
	failed   bool     // something about its block was wrong
	broken   bool     // its for_each was wrong: a stand-in, so that other errors inside are found
}

// evaluateNode expands and evaluates a node block for every instance of the
// namespace it is in.
func (s scope) evaluateNode() {
	n := s.d.node
	if n.parent == nil {
		s.expand(nil, s.ensembleOf(n))
		return
	}
	// It is evaluated all the same, for its own errors: the stand-in of a wrong for_each has an instance for
	// that. But references to it must not be reported as missing.
	if s.of(n.parent.decl).failed {
		s.fail()
	}
	for _, at := range s.top.of(n.parent, nil) {
		s.expand(at, at.ensemble)
	}
}

// ensembleOf returns the ensemble of a node at the top; nil when it is not known.
func (s scope) ensembleOf(n *nodeDecl) *Ensemble {
	if a := n.attr("ensemble"); a != nil {
		return s.ensemble(a)
	}
	if s.home == nil {
		s.fail()
	}
	if s.home == nil && s.outer != nil && len(s.root.names["ensemble"]) > 1 {
		s.errorf(n.head, "Which ensemble?", "There are several ensembles, and %s%s does not name one. Set ensemble = ensemble.NAME on the module block, or here from a variable.", s.prefix, n.addr)
	}
	return s.home
}

// expand makes the instances of a block inside one instance of its parent.
func (s scope) expand(at *instance, e *Ensemble) {
	n := s.d.node
	proto := instance{decl: n, parent: at, ensemble: e, addr: plan.Addr(s.prefix + n.kind.Name + "." + n.label)}
	if at != nil {
		proto.addr = at.addr.Child(n.kind.Name, n.label)
		proto.each, proto.broken = at.each, at.broken
	}
	if n.attr("for_each") == nil {
		s.instantiate(proto)
		return
	}
	elements, ok := s.ofInstance(&proto).forEach(n.attr("for_each"))
	if !ok {
		// proto has no element, or that of the namespace around. Arguments that refer to each wait (scope.waits).
		s.fail()
		proto.broken = true
		s.instantiate(proto)
		return
	}
	if len(elements) == 0 {
		s.barren = append(s.barren, proto.addr)
	}
	for e := range elements {
		i := proto
		i.each = &elements[e]
		i.key = i.each.key
		i.addr = proto.addr.Instance(i.key)
		if i.each.any {
			i.addr = proto.addr + "[*]"
		}
		if !s.instantiate(i) {
			return
		}
	}
}

func (s scope) ofInstance(i *instance) scope {
	s.broken = i.broken
	if i.each != nil {
		return s.each(*i.each, string(i.addr))
	}
	return s
}

type element struct {
	key   string
	value cty.Value
	any   bool // it stands for all elements, because they are not known
}

// forEach evaluates an argument for_each, in the order of its keys.
func (s scope) forEach(a *attribute) ([]element, bool) {
	v, ok := s.value(a)
	if !ok {
		return nil, false
	}
	if v.IsMarked() {
		_, ok := s.wrong(a, "Sensitive value", "The keys of for_each become addresses and znode names, so they cannot be sensitive. "+
			"If they are not secret, wrap them in nonsensitive(...).")
		return nil, ok
	}
	if s.code != nil && hasUnknownKeys(v) {
		return []element{anyElement}, true
	}
	ty := v.Type()
	isMap, isSet := ty.IsMapType() || ty.IsObjectType(), ty.IsSetType()
	if v.IsNull() || !isMap && !isSet || isSet && v.LengthInt() > 0 && ty.ElementType() != cty.String {
		next := "Give it a map, whose keys become the keys, or a set of strings."
		if ty.IsTupleType() || ty.IsListType() {
			next = "A list has no keys: use toset(...) around it."
		}
		_, ok := s.wrong(a, "Wrong type", "for_each must be a map or a set of strings. "+next)
		return nil, ok
	}
	out := make([]element, 0, v.LengthInt())
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		if isSet {
			k = e
		}
		if k.IsNull() {
			_, ok := s.wrong(a, "Wrong type", "A key of for_each is null. Leave it out: [for k in ... : k if k != null].")
			return nil, ok
		}
		out = append(out, element{key: k.AsString(), value: e})
	}
	if s.code != nil && len(out) == 0 {
		out = append(out, anyElement)
	}
	return out, true
}

// count counts what a block expands to, and returns false when that is too much.
func (s scope) count(n int) bool {
	if s.expanded += n; s.expanded > maxNodes {
		s.refuse(s.d.head, "Too many nodes", "The configuration expands to more than %d nodes and modules. Split it into several stacks.", maxNodes)
	}
	return s.expanded <= maxNodes
}

// instantiate evaluates one instance. It returns false when there are too many.
func (s scope) instantiate(i instance) bool {
	if !s.count(1) {
		return false
	}
	n, inst := s.d.node, &i
	inst.name = n.label
	if n.attr("for_each") != nil {
		inst.name += "-" + inst.key
	}
	inst.any = s.at.any || i.each != nil && i.each.any || i.parent != nil && i.parent.any
	inst.params = n.kind.New()
	inst.inherit()
	s.ofInstance(inst).evaluateInstance(inst)
	s.place(inst)
	in := s.top
	if i.parent != nil {
		if i.parent.inside == nil {
			i.parent.inside = siblings{}
		}
		in = i.parent.inside
	}
	in[n] = append(in[n], inst)
	return true
}

// inherit takes over what the namespace around passes on.
func (i *instance) inherit() {
	if i.parent == nil {
		return
	}
	i.policy = i.parent.policy
	for _, from := range i.parent.params.Fields() {
		if !from.Inherit || from.Get() == from.Default {
			continue
		}
		for _, f := range i.params.Fields() {
			if f.Name == from.Name {
				_ = f.Set(from.Get()) // it kept to the same rule there
			}
		}
	}
}

func (s scope) evaluateInstance(i *instance) {
	b := i.decl.block
	if a := b.arg("name"); a != nil {
		name, ok := s.text(a)
		if ok {
			i.name = name
		}
		i.nameless = !ok && (s.isBad(a) || s.r.failed || s.unknown(a))
	} else {
		i.nameless = i.each != nil && i.each.any && i.decl.attr("for_each") != nil
	}
	if a := b.arg("acl"); a != nil && s.code == nil {
		if v, ok := s.value(a); ok && !isNull(v) {
			if i.policy = policyValue(v); i.policy == nil {
				next := "."
				if v.Type().IsObjectType() {
					next = ", or acl.NAME[\"KEY\"] where that has for_each."
				}
				s.wrong(a, "Wrong type", "acl must name an acl block: acl.NAME"+next)
			} else {
				s.visibleChoice(a, v.IsMarked())
			}
		}
	}
	for _, l := range b.nested("lifecycle") {
		i.protect = s.yes(l.arg("prevent_destroy"))
	}
	for _, f := range i.params.Fields() {
		a := b.arg(f.Name)
		if s.setField(a, f); s.unknown(a) {
			i.unknown = append(i.unknown, f.Name)
		}
	}
	s.checkTogether(i)
}

// checkTogether finds what no parameter can say alone. It is silent while one of them is not known, or wrong or missing, which has been reported.
func (s scope) checkTogether(i *instance) {
	missing := slices.ContainsFunc(i.params.Fields(), func(f kind.Field) bool { return f.Required && i.decl.attr(f.Name) == nil })
	var wrong *kind.ParamError
	if s.r.failed || missing || len(i.unknown) > 0 || !errors.As(kind.Validate(i.params), &wrong) {
		return
	}
	summary, detail := "Invalid value for "+wrong.Name, wrong.Name+": "+strings.TrimSuffix(wrong.Err.Error(), ".")+"."
	if a := i.decl.attr(wrong.Name); a != nil {
		s.wrong(a, summary, detail)
		return
	}
	s.refuse(i.decl.head, "Missing argument", "%s", detail)
}

// setField stores an argument as the parameter of that name.
func (s scope) setField(a *attribute, f kind.Field) {
	if f.Inherit {
		if v, ok := s.value(a); ok && isNull(v) {
			_ = f.Set(f.Default) // nothing, whatever the namespace says; a default keeps to its rule
			return
		} else if !ok {
			return
		}
	}
	v, ok := s.shown(a, fieldType(f))
	if !ok {
		return
	}
	var err error
	if f.Number {
		number, _ := v.AsBigFloat().Float64()
		err = f.Set(number)
	} else {
		err = setText(f, v.AsString())
	}
	if err == nil {
		return
	}
	var wrong *kind.ParamError
	if errors.As(err, &wrong) {
		err = wrong.Err
	}
	detail := a.name + ": " + strings.TrimSuffix(err.Error(), ".") + "."
	if !f.Number {
		detail += plan.DidYouMean(v.AsString(), f.OneOf)
	}
	s.wrong(a, "Invalid value for "+a.name, detail)
}

// setText sets a parameter that is a text, which may have another form in a configuration than in a node.
func setText(f kind.Field, text string) (err error) {
	switch {
	case text == "":
	case f.Cron:
		if text, err = canonicalSchedule(text); err != nil {
			return err
		}
	case f.Zone:
		if _, err = slots.Zone(text); err != nil {
			return err
		}
	}
	return f.Set(text)
}

// reserved is where the tool keeps its own records, below every root.
const reserved = ".locktree"

// place gives the instance its path.
func (s scope) place(i *instance) {
	parent := ""
	switch {
	case i.broken || i.nameless, s.code != nil && i.parent != nil && i.parent.path == "":
		return // no path: what is inside has none either, and nothing is reported
	case i.parent != nil:
		parent = i.parent.path
	case i.ensemble != nil:
		parent = i.ensemble.Root
	}
	// The name is worth looking at even when the namespace around has no path, or the ensemble is not known.
	summary, err := "Illegal znode name", kind.ValidateName(i.name)
	if err == nil && parent != "" {
		i.path = kind.JoinPath(parent, i.name)
		summary, err = "Illegal path", kind.ValidatePath(i.path)
		switch {
		case err != nil:
		case i.parent == nil && i.name == reserved:
			summary, err = "Reserved name", fmt.Errorf("%s is where locktree keeps its own records", i.path)
		case len(i.path) > maxPathBytes:
			summary, err = "Path too long", fmt.Errorf("the path has %d bytes; at most %d are allowed", len(i.path), maxPathBytes)
		}
	}
	if err != nil {
		next := "Change its name."
		if i.decl.attr("name") == nil {
			next = "Set name = ... to call the znode differently."
		}
		s.errorf(i.decl.nameAt(), summary, "%s It would be the znode of %s. %s", plan.Sentence(err.Error()), i.addr, next)
	}
	if err != nil || parent == "" {
		i.path = ""
		s.fail()
	}
}

// nameAt is where the name of the node's znodes comes from.
func (n *nodeDecl) nameAt() hcl.Range {
	switch {
	case n.attr("name") != nil:
		return n.attr("name").expr.Range()
	case n.attr("for_each") != nil:
		return n.attr("for_each").expr.Range()
	}
	return n.block.labelAt()
}

// maxPathBytes bounds what every contender's path starts with; see kind.ValidateName
// for what long ephemeral paths do to a server.
const maxPathBytes = 1024

// planNode is what the declaration of the instance says besides its parameters. own is the access list of what
// has none. Nodes of one policy share their lists, which nobody changes: clipped, so that
// an append of the planner makes a list of its own instead of writing behind the end of all.
func (i *instance) planNode(origin string, own kind.List) plan.Node {
	n := plan.Node{Path: i.path, Origin: origin, Payload: &kind.Payload{Protect: i.protect}}
	p := i.policy
	if p == nil {
		n.ACL = slices.Clip(own)
		if i.ensemble.access != nil && !i.decl.kind.Container {
			n.Payload.ChildACL = n.ACL // without it, the next apply would give contenders to its own identity
		}
		return n
	}
	n.AllowWorld, n.AllowLockout = p.allowWorld, p.allowLockout
	if i.decl.kind.Container {
		n.ACL = slices.Clip(p.namespace)
		return n
	}
	n.ACL = slices.Clip(p.lock)
	n.Payload.ChildACL = slices.Clip(p.contender)
	return n
}
