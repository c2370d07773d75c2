package static

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/recipes/kind"
)

// resolve is the static pass: it checks and records every reference of every expression before anything is evaluated.
func resolve(in *Declarations, report *syntax.Report) {
	for _, d := range in.All {
		for _, a := range d.Attrs {
			in.Resolve(report, d, a)
		}
	}
	for _, name := range in.Names["var"] {
		for _, rule := range in.Variables[name].Rules {
			rule.Broken = !resolveRule(in, report, rule, name)
		}
	}
}

// Resolve checks every reference in an argument of a declaration, and reports those that name nothing.
func (d *Declarations) Resolve(r *syntax.Report, of *Decl, a *syntax.Attribute) (sound bool) {
	in := resolver{d, r, of, a}
	sound = true
	for _, t := range a.Expr.Variables() {
		if !in.traversal(t) {
			in.refs().Unresolved, of.Broken, sound = true, true, false
		}
	}
	return sound
}

// References are what the static pass found in an argument. Results of an evaluation are not here.
type References struct {
	Deps []*Decl // what the expression refers to
	Each bool    // it refers to each.key or each.value
	// Unresolved: it refers to something that does not exist, which has been reported.
	Unresolved bool
}

// RefersTo returns what the static pass found in an argument.
func (d *Declarations) RefersTo(a *syntax.Attribute) References {
	if refs := d.refs[a]; refs != nil {
		return *refs
	}
	return References{}
}

// resolver resolves the references of one argument.
type resolver struct {
	in *Declarations
	*syntax.Report
	d *Decl
	a *syntax.Attribute
}

// refs returns what was found in the argument.
func (r resolver) refs() *References {
	found := r.in.refs[r.a]
	if found == nil {
		found = &References{}
		r.in.refs[r.a] = found
	}
	return found
}

// reportUnknown reports a name that does not exist, unless its declaration may be among those that could not be read.
func (r resolver) reportUnknown(t hcl.Traversal, format string, args ...any) bool {
	if !r.in.Incomplete {
		r.Errorf(t.SourceRange(), "Unknown reference", format, args...)
	}
	return false
}

var typeWords = []string{"string", "number", "bool", "any"}

// traversal reports whether the reference names something that exists.
func (r resolver) traversal(t hcl.Traversal) bool {
	root := t.RootName()
	switch {
	case len(t) == 1 && slices.Contains(typeWords, root):
		return true // a type, as in convert(x, list(string)); elsewhere evaluation refuses it
	case root == "path":
		return r.member(t, "path", []string{"module", "root"})
	case root == "each":
		return r.eachReference(t)
	case slices.Contains(namedRoots, root):
		return r.namedReference(t)
	case kind.Lookup(root) != nil:
		return r.nodeReference(t)
	}
	r.Errorf(t.SourceRange(), "Unknown reference", "There is nothing called %q.%s", root, r.rootHint(root))
	return false
}

func (r resolver) rootHint(given string) string {
	for _, root := range namedRoots {
		if r.in.Named[root][given] != nil {
			return fmt.Sprintf(" Did you mean %s.%s?", root, given)
		}
	}
	for _, n := range r.in.Nodes {
		if n.Label == given {
			return fmt.Sprintf(" Did you mean %s?", n.Addr)
		}
	}
	roots := append([]string{"path", "each"}, namedRoots...)
	if s := explain.DidYouMean(given, append(roots, kindNames()...)); s != "" {
		return s
	}
	return ` References start with var, local, principal, acl, ensemble, module, each, path or the type of a block; a string needs quotes.`
}

func (r resolver) member(t hcl.Traversal, root string, names []string) bool {
	name, ok := syntax.StepName(t, 1)
	switch {
	case !ok:
		r.Errorf(t.SourceRange(), "Incomplete reference", "%s is followed by a name: %s.%s.", root, root, syntax.OrList(names))
	case !slices.Contains(names, name):
		r.Errorf(t.SourceRange(), "Unknown reference", "There is no %s.%s.%s", root, name, syntax.HintIn(root, name, names, ""))
	default:
		return true
	}
	return false
}

func (r resolver) eachReference(t hcl.Traversal) bool {
	n := r.d.Node
	allowed := n != nil && n.isRepeated() || r.d.ForEach != nil && r.a != r.d.ForEach
	if n != nil && r.a == n.Attr("for_each") {
		// The argument is evaluated once for each instance of the namespace around.
		allowed = n.Parent != nil && n.Parent.isRepeated()
	}
	switch {
	case r.d.Block.StrayForEach():
		return false // the for_each that does not belong here has been reported
	case !allowed:
		next := "This block has none: name a value directly."
		if r.d.Block != nil && slices.Contains(r.d.Block.Type.ArgNames(), "for_each") {
			next = "Set for_each here, or name a value directly."
		}
		r.Errorf(t.SourceRange(), `Reference to "each" without for_each`, "each.key and each.value exist in blocks with for_each, and inside them. %s", next)
		return false
	}
	r.refs().Each = true
	return r.member(t, "each", []string{"key", "value"})
}

func (r resolver) namedReference(t hcl.Traversal) bool {
	root := t.RootName()
	name, ok := syntax.StepName(t, 1)
	if !ok {
		r.Errorf(t.SourceRange(), "Incomplete reference", "%s is followed by a name: %s.NAME.", root, root)
		return false
	}
	d := r.in.Named[root][name]
	if d == nil {
		return r.reportUnknown(t, "There is no %s.%s.%s", root, name, syntax.HintIn(root, name, r.in.Names[root], "None is declared."))
	}
	r.depend(d)
	if d.ForEach != nil && len(t) > 2 && !r.hasKey(t, 2, d) {
		return false
	}
	return root != "module" || r.moduleReference(t, d)
}

// hasKey reports whether a reference names an instance of a block with for_each.
func (r resolver) hasKey(t hcl.Traversal, i int, d *Decl) bool {
	_, ok := t[i].(hcl.TraverseIndex)
	if !ok {
		r.Errorf(t.SourceRange(), "Missing key", "%s has for_each, so there is one for each key: write %s[\"KEY\"], or a for expression over all of them.", d.Addr, d.Addr)
	}
	return ok
}

func (r resolver) depend(d *Decl) {
	if refs := r.refs(); !slices.Contains(refs.Deps, d) {
		refs.Deps = append(refs.Deps, d)
	}
}

// nodeReference follows namespace.a.mutex.b.path as far as it is written out. A reference to a whole namespace is one to
// everything in it. A longer reference waits for less: two namespaces may refer to each other if their locks form no cycle. At
// [*] or a computed key the reference covers everything below.
//
// Each round takes one TYPE.LABEL and, where there is for_each, one ["KEY"]. The evaluation finds out whether the key exists,
// since nothing has a value yet.
func (r resolver) nodeReference(t hcl.Traversal) bool {
	var at *Node
	for i := 0; ; {
		k, ok := syntax.StepName(t, i)
		if i == 0 {
			k, ok = t.RootName(), true
		}
		if !ok {
			r.dependAll(at)
			return true
		}
		label, ok := syntax.StepName(t, i+1)
		if !ok {
			r.dependKind(at, k)
			return true
		}
		n := r.in.index[nodeKey{at, k, label}]
		if n == nil {
			return r.noSuchNode(t, at, k, label)
		}
		at, i = n, i+2
		if at.Attr("for_each") != nil && i < len(t) {
			if !r.hasKey(t, i, at.Decl) {
				return false
			}
			i++
		}
		if i >= len(t) {
			r.dependAll(at)
			return true
		}
		if next, ok := syntax.StepName(t, i); ok && !(at.Kind.Container && kind.Lookup(next) != nil) {
			return r.nodeAttribute(t, at, next)
		}
	}
}

func (r resolver) nodeAttribute(t hcl.Traversal, n *Node, name string) bool {
	r.depend(n.Decl)
	names := slices.Sorted(maps.Keys(syntax.ObjectType(n.Kind)))
	if slices.Contains(names, name) {
		return true
	}
	if n.Kind.Container {
		names = append(names, kindNames()...)
	}
	r.Errorf(t.SourceRange(), "Unknown attribute", "%s has no attribute %q.%s", n.Addr, name, syntax.Hint(name, names, ""))
	return false
}

func (r resolver) noSuchNode(t hcl.Traversal, in *Node, k, label string) bool {
	outer := ""
	if in != nil {
		outer = in.Addr
	}
	if why := (Place{node: in, in: r.in}).noNode(k, label, outer); why != "" {
		r.Errorf(t.SourceRange(), "Unknown reference", "%s", why)
	}
	return false
}

func (r resolver) dependAll(n *Node) {
	r.depend(n.Decl)
	for _, c := range n.Children {
		r.dependAll(c)
	}
}

func (r resolver) dependKind(in *Node, k string) {
	if in != nil {
		r.depend(in.Decl)
	}
	for _, n := range (Place{node: in, in: r.in}).siblings() {
		if n.Kind.Name == k {
			r.dependAll(n)
		}
	}
}

// edge is one reason to wait for another declaration.
type edge struct {
	To  *Decl
	why string    // "refers to"
	at  hcl.Range // of the expression; of the block when there is none
}

// Edges are everything that one of the declarations waits for.
func (r *Declarations) Edges(d *Decl) []edge {
	var out []edge
	for _, a := range d.Attrs {
		verb := "refers to"
		if d.IsModule() {
			verb = fmt.Sprintf("refers in its argument %q to", a.Name)
		}
		for _, to := range r.RefersTo(a).Deps {
			out = append(out, edge{to, verb, a.Expr.Range()})
		}
	}
	for _, to := range d.inside {
		out = append(out, edge{to, "is inside", d.Head})
	}
	return out
}

// ordering sorts declarations by a depth-first search.
type ordering struct {
	in     *Declarations
	report *syntax.Report
	sorted []*Decl
	path   []edge        // the declarations under visit, each with the reason to visit the next one
	place  map[*Decl]int // its place on the path, from 1; -1 if it is sorted
	cyclic map[*Decl]bool
}

// order returns the declarations so that each comes after everything it waits for, and reports cycles. The members of a cycle are
// marked broken. If several cycles share a declaration, order reports only the first that it finds.
func order(in *Declarations, report *syntax.Report) []*Decl {
	o := &ordering{in: in, report: report, place: map[*Decl]int{}, cyclic: map[*Decl]bool{}}
	for _, d := range in.All {
		if o.place[d] == 0 {
			o.visit(d)
		}
	}
	return o.sorted
}

func (o *ordering) visit(d *Decl) {
	depth := len(o.path)
	o.path = append(o.path, edge{To: d})
	o.place[d] = depth + 1
	for _, e := range o.in.Edges(d) {
		o.path[depth] = edge{d, e.why, e.at}
		switch at := o.place[e.To]; {
		case at == 0:
			o.visit(e.To)
		case at > 0:
			o.cycle(o.path[at-1:])
		}
	}
	o.path = o.path[:depth]
	o.place[d] = -1
	o.sorted = append(o.sorted, d)
}

// A long cycle is named by this many steps at its start and at its end.
const cycleStart, cycleEnd = 5, 2

func (o *ordering) cycle(steps []edge) {
	known, module := false, false
	for _, s := range steps {
		known = known || o.cyclic[s.To]
		s.To.Broken, o.cyclic[s.To] = true, true
		module = module || s.To.IsModule()
	}
	if known {
		return
	}
	var b strings.Builder
	for i, s := range steps {
		switch left := len(steps) - cycleStart - cycleEnd; {
		case left > 1 && i == cycleStart:
			fmt.Fprintf(&b, "%d more declarations, the last of which %s ", left, steps[len(steps)-cycleEnd-1].why)
		case left > 1 && i > cycleStart && i < len(steps)-cycleEnd:
		case i == 0:
			fmt.Fprintf(&b, "%s (%s) %s ", s.To.Addr, o.report.Where(s.To.Head), s.why)
		default:
			fmt.Fprintf(&b, "%s (%s), which %s ", s.To.Addr, o.report.Where(s.To.Head), s.why)
		}
	}
	back := steps[0].To.Addr
	if len(steps) == 1 {
		back = "itself"
	}
	next := "Remove one of these references."
	if module {
		next = "A module is evaluated as a whole, when all of its arguments are known: remove one of these references, or move what it needs into a module of its own."
	}
	o.report.Errorf(steps[0].at, "Dependency cycle", "%s%s. %s", b.String(), back, next)
}
