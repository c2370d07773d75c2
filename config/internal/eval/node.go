package eval

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/config/internal/forms"
	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
)

// Instance is one znode of a node block.
type Instance struct {
	Node     *static.Node
	parent   *Instance // nil at the top
	Key      string    // of for_each
	Each     *Element  // of the nearest for_each around; nil when there is none
	Inside   Siblings  // nil until there is one
	Addr     plan.Addr
	Name     string
	Path     string // "" when it is not known
	Policy   *policy
	Ensemble *Ensemble
	Params   kind.Params
	Protect  bool
	Nameless bool     // its argument name was wrong, or is not known
	Unknown  []string // parameters that are not known
	Any      bool     // the instance stands for several, because the keys of a for_each around it, or its own, are not known
	Failed   bool     // something about its block was wrong
	broken   bool     // its for_each was wrong: a stand-in, so that other errors inside are found
}

// evaluateNode expands and evaluates a node block for every instance of the
// namespace it is in.
func evaluateNode(s scope) {
	n := s.d.Node
	if n.Parent == nil {
		expand(s, nil, ensembleOf(s, n))
		return
	}
	// A node in a failed namespace is still evaluated, to find its own errors. A wrong for_each has one stand-in instance for this.
	// But references to the node must not be reported as missing.
	if s.in.Of(n.Parent.Decl).Failed {
		s.fail()
	}
	for _, at := range s.in.Top.instances(n.Parent, nil) {
		expand(s, at, at.Ensemble)
	}
}

// ensembleOf returns the ensemble of a node at the top; nil when it is not known.
func ensembleOf(s scope, n *static.Node) *Ensemble {
	if a := n.Attr("ensemble"); a != nil {
		return ensembleIn(s, a)
	}
	if s.in.home == nil {
		s.fail()
	}
	if s.in.home == nil && s.in.outer != nil && len(s.in.All.root.Declared.Names["ensemble"]) > 1 {
		s.in.Errorf(n.Head, "Which ensemble?", "There are several ensembles, and %s%s does not name one. Set ensemble = ensemble.NAME on the module block, or here from a variable.", s.in.Prefix, n.Addr)
	}
	return s.in.home
}

// expand makes the instances of a block inside one instance of its parent.
func expand(s scope, at *Instance, e *Ensemble) {
	n := s.d.Node
	proto := Instance{Node: n, parent: at, Ensemble: e, Addr: plan.Addr(s.in.Prefix + n.Kind.Name + "." + n.Label)}
	if at != nil {
		proto.Addr = at.Addr.Child(n.Kind.Name, n.Label)
		proto.Each, proto.broken = at.Each, at.broken
	}
	if n.Attr("for_each") == nil {
		instantiate(s, proto)
		return
	}
	elements, ok := elementsOf(scopeOf(s, &proto), n.Attr("for_each"))
	if !ok {
		// proto has no element of its own, so arguments that refer to each.key or each.value are not evaluated (scope.isWaiting).
		s.fail()
		proto.broken = true
		instantiate(s, proto)
		return
	}
	if len(elements) == 0 {
		s.in.All.Barren = append(s.in.All.Barren, proto.Addr)
	}
	for e := range elements {
		i := proto
		i.Each = &elements[e]
		i.Key = i.Each.Key
		i.Addr = proto.Addr.Instance(i.Key)
		if i.Each.Any {
			i.Addr = proto.Addr + "[*]"
		}
		if !instantiate(s, i) {
			return
		}
	}
}

func scopeOf(s scope, i *Instance) scope {
	s.broken = i.broken
	if i.Each != nil {
		return s.forElement(*i.Each, string(i.Addr))
	}
	return s
}

// Element is one element of a for_each.
type Element struct {
	Key   string
	value cty.Value
	Any   bool // it stands for all elements, because they are not known
}

// elementsOf evaluates an argument for_each, in the order of its keys.
func elementsOf(s scope, a *syntax.Attribute) ([]Element, bool) {
	v, ok := s.value(a)
	if !ok {
		return nil, false
	}
	if v.IsMarked() {
		_, ok := s.reportWrong(a, "Sensitive value", "The keys of for_each become addresses and znode names, so they cannot be sensitive. "+
			"If they are not secret, wrap them in nonsensitive(...).")
		return nil, ok
	}
	if s.in.All.opts.NoValues && hasUnknownKeys(v) {
		return []Element{anyElement}, true
	}
	ty := v.Type()
	isMap, isSet := ty.IsMapType() || ty.IsObjectType(), ty.IsSetType()
	if v.IsNull() || !isMap && !isSet || isSet && v.LengthInt() > 0 && ty.ElementType() != cty.String {
		next := "Give it a map, whose keys become the keys, or a set of strings."
		if ty.IsTupleType() || ty.IsListType() {
			next = "A list has no keys: use toset(...) around it."
		}
		_, ok := s.reportWrong(a, "Wrong type", "for_each must be a map or a set of strings. "+next)
		return nil, ok
	}
	out := make([]Element, 0, v.LengthInt())
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		if isSet {
			k = e
		}
		if k.IsNull() {
			_, ok := s.reportWrong(a, "Wrong type", "A key of for_each is null. Leave it out: [for k in ... : k if k != null].")
			return nil, ok
		}
		out = append(out, Element{Key: k.AsString(), value: e})
	}
	if s.in.All.opts.NoValues && len(out) == 0 {
		out = append(out, anyElement)
	}
	return out, true
}

// countNodes counts what a block expands to, and returns false when that is too much.
func countNodes(s scope, n int) bool {
	if s.in.All.expanded += n; s.in.All.expanded > syntax.MaxNodes {
		s.refuse(s.d.Head, "Too many nodes", "The configuration expands to more than %d nodes and modules. Split it into several stacks.", syntax.MaxNodes)
	}
	return s.in.All.expanded <= syntax.MaxNodes
}

// instantiate evaluates one instance. It returns false when there are too many.
func instantiate(s scope, i Instance) bool {
	if !countNodes(s, 1) {
		return false
	}
	n, inst := s.d.Node, &i
	inst.Name = n.Label
	if n.Attr("for_each") != nil {
		inst.Name += "-" + inst.Key
	}
	inst.Any = s.in.At.Any || i.Each != nil && i.Each.Any || i.parent != nil && i.parent.Any
	inst.Params = n.Kind.New()
	inst.inherit()
	evaluateInstance(scopeOf(s, inst), inst)
	placeNode(s, inst)
	in := s.in.Top
	if i.parent != nil {
		if i.parent.Inside == nil {
			i.parent.Inside = Siblings{}
		}
		in = i.parent.Inside
	}
	in[n] = append(in[n], inst)
	return true
}

// inherit takes over what the namespace around passes on.
func (i *Instance) inherit() {
	if i.parent == nil {
		return
	}
	i.Policy = i.parent.Policy
	for _, from := range i.parent.Params.Fields() {
		if !from.Inherit || from.Get() == from.Default {
			continue
		}
		for _, f := range i.Params.Fields() {
			if f.Name == from.Name {
				_ = f.Set(from.Get()) // the namespace has checked the value already
			}
		}
	}
}

func evaluateInstance(s scope, i *Instance) {
	b := i.Node.Block
	if a := b.Arg("name"); a != nil {
		name, ok := s.text(a)
		if ok {
			i.Name = name
		}
		i.Nameless = !ok && (s.in.isBad(a) || s.r.Failed || s.isUnknown(a))
	} else {
		i.Nameless = i.Each != nil && i.Each.Any && i.Node.Attr("for_each") != nil
	}
	if a := b.Arg("acl"); a != nil && !s.in.All.opts.NoValues {
		if v, ok := s.value(a); ok && !isNull(v) {
			if i.Policy = encapsulated[policy](v, policyType); i.Policy == nil {
				next := "."
				if v.Type().IsObjectType() {
					next = ", or acl.NAME[\"KEY\"] where that has for_each."
				}
				s.reportWrong(a, "Wrong type", "acl must name an acl block: acl.NAME"+next)
			} else {
				s.visibleChoice(a, v.IsMarked())
			}
		}
	}
	for _, l := range b.Nested("lifecycle") {
		i.Protect = s.yes(l.Arg("prevent_destroy"))
	}
	for _, f := range i.Params.Fields() {
		a := b.Arg(f.Name)
		if setField(s, a, f); s.isUnknown(a) {
			i.Unknown = append(i.Unknown, f.Name)
		}
	}
	checkTogether(s, i)
}

// checkTogether checks the rules between several parameters. It reports nothing while a parameter is unknown. A wrong or missing
// one has been reported already.
func checkTogether(s scope, i *Instance) {
	missing := slices.ContainsFunc(i.Params.Fields(), func(f kind.Field) bool { return f.Required && i.Node.Attr(f.Name) == nil })
	var wrong *kind.ParamError
	if s.r.Failed || missing || len(i.Unknown) > 0 || !errors.As(kind.Validate(i.Params), &wrong) {
		return
	}
	summary, detail := "Invalid value for "+wrong.Name, wrong.Name+": "+strings.TrimSuffix(wrong.Err.Error(), ".")+"."
	if a := i.Node.Attr(wrong.Name); a != nil {
		s.reportWrong(a, summary, detail)
		return
	}
	s.refuse(i.Node.Head, "Missing argument", "%s", detail)
}

// setField stores an argument as the parameter of that name.
func setField(s scope, a *syntax.Attribute, f kind.Field) {
	if f.Inherit {
		if v, ok := s.value(a); ok && isNull(v) {
			_ = f.Set(f.Default) // null means the default, not the namespace's value; a default is always valid
			return
		} else if !ok {
			return
		}
	}
	v, ok := s.publicValue(a, syntax.FieldType(f))
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
	detail := a.Name + ": " + strings.TrimSuffix(err.Error(), ".") + "."
	if !f.Number {
		detail += explain.DidYouMean(v.AsString(), f.OneOf)
	}
	s.reportWrong(a, "Invalid value for "+a.Name, detail)
}

// setText sets a parameter that is a text, which may have another form in a configuration than in a node.
func setText(f kind.Field, text string) (err error) {
	switch {
	case text == "":
	case f.Cron:
		if text, err = forms.Schedule(text); err != nil {
			return err
		}
	case f.Zone:
		if _, err = slots.Zone(text); err != nil {
			return err
		}
	}
	return f.Set(text)
}

// Reserved is where the tool keeps its own records, below every root.
const Reserved = ".locktree"

// placeNode gives the instance its path.
func placeNode(s scope, i *Instance) {
	parent := ""
	switch {
	case i.broken || i.Nameless, s.in.All.opts.NoValues && i.parent != nil && i.parent.Path == "":
		return // no path: what is inside has none either, and nothing is reported
	case i.parent != nil:
		parent = i.parent.Path
	case i.Ensemble != nil:
		parent = i.Ensemble.Root
	}
	// The name is worth looking at even when the namespace around has no path, or the ensemble is not known.
	summary, err := "Illegal znode name", kind.ValidateName(i.Name)
	if err == nil && parent != "" {
		i.Path = kind.JoinPath(parent, i.Name)
		summary, err = "Illegal path", kind.ValidatePath(i.Path)
		switch {
		case err != nil:
		case i.parent == nil && i.Name == Reserved:
			summary, err = "Reserved name", fmt.Errorf("%s is where locktree keeps its own records", i.Path)
		case len(i.Path) > syntax.MaxPathBytes:
			summary, err = "Path too long", fmt.Errorf("the path has %d bytes; at most %d are allowed", len(i.Path), syntax.MaxPathBytes)
		}
	}
	if err != nil {
		next := "Change its name."
		if i.Node.Attr("name") == nil {
			next = "Set name = ... to call the znode differently."
		}
		s.in.Errorf(i.Node.NameAt(), summary, "%s It would be the znode of %s. %s", explain.Sentence(err.Error()), i.Addr, next)
	}
	if err != nil || parent == "" {
		i.Path = ""
		s.fail()
	}
}

// PlanNode is what the declaration of the instance says besides its parameters. fallback is the access list for nodes without an
// acl. Nodes of one policy share their lists, which never change. The lists are clipped, so that an append of the planner makes a
// list of its own.
func (i *Instance) PlanNode(origin string, fallback kind.List) plan.Node {
	n := plan.Node{Path: i.Path, Origin: origin, Payload: &kind.Payload{Protect: i.Protect}}
	p := i.Policy
	if p == nil {
		n.ACL = slices.Clip(fallback)
		if i.Ensemble.Access != nil && !i.Node.Kind.Container {
			n.Payload.ChildACL = n.ACL // without it, each client would derive the contenders' list from the node's list and its own identities
		}
		return n
	}
	n.AllowWorld, n.AllowLockout = p.allowWorld, p.allowLockout
	if i.Node.Kind.Container {
		n.ACL = slices.Clip(p.namespace)
		return n
	}
	n.ACL = slices.Clip(p.lock)
	n.Payload.ChildACL = slices.Clip(p.contender)
	return n
}

// orders gives each lock in the namespace its place in the declared order.
func (i *Instance) orders() {
	for rank, n := range i.Node.Order {
		for _, in := range i.Inside.instances(n, i.Node) {
			for _, f := range in.Params.Fields() {
				if f.Derived && i.Path != "" {
					_ = f.Set(kind.Place{Of: i.Path, Rank: rank + 1}.String())
				}
			}
		}
	}
}
