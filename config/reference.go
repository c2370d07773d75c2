package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// resolve is the static pass: it checks every reference of every expression
// before anything is evaluated, and records what refers to what.
func (r *reading) resolve() {
	for _, d := range r.all {
		for _, a := range d.attrs {
			in := resolver{r.declarations, r.report, d, a}
			for _, t := range a.expr.Variables() {
				if !in.traversal(t) {
					a.unresolved, d.broken = true, true
				}
			}
		}
	}
	for _, name := range r.names["var"] {
		for _, rule := range r.variables[name].rules {
			rule.broken = !r.resolveRule(rule, name)
		}
	}
}

// resolver resolves the references of one argument.
type resolver struct {
	*declarations
	*report
	d *decl
	a *attribute
}

// unknown reports a name that does not exist, unless its declaration may be among
// those that could not be read.
func (r resolver) unknown(t hcl.Traversal, format string, args ...any) bool {
	if !r.declarations.incomplete {
		r.errorf(t.SourceRange(), "Unknown reference", format, args...)
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
	r.errorf(t.SourceRange(), "Unknown reference", "There is nothing called %q.%s", root, r.rootHint(root))
	return false
}

func (r resolver) rootHint(given string) string {
	for _, root := range namedRoots {
		if r.named[root][given] != nil {
			return fmt.Sprintf(" Did you mean %s.%s?", root, given)
		}
	}
	for _, n := range r.nodes {
		if n.label == given {
			return fmt.Sprintf(" Did you mean %s?", n.addr)
		}
	}
	roots := append([]string{"path", "each"}, namedRoots...)
	if s := plan.DidYouMean(given, append(roots, kindNames()...)); s != "" {
		return s
	}
	return ` References start with var, local, principal, acl, ensemble, module, each, path or the type of a block; a string needs quotes.`
}

// word returns the name that step i of a traversal selects: .name or ["name"].
func word(t hcl.Traversal, i int) (string, bool) {
	if i >= len(t) {
		return "", false
	}
	switch s := t[i].(type) {
	case hcl.TraverseAttr:
		return s.Name, true
	case hcl.TraverseIndex:
		if s.Key.Type() == cty.String && s.Key.IsKnown() && !s.Key.IsNull() {
			return s.Key.AsString(), true
		}
	}
	return "", false
}

func (r resolver) member(t hcl.Traversal, root string, names []string) bool {
	name, ok := word(t, 1)
	switch {
	case !ok:
		r.errorf(t.SourceRange(), "Incomplete reference", "%s is followed by a name: %s.%s.", root, root, orList(names))
	case !slices.Contains(names, name):
		r.errorf(t.SourceRange(), "Unknown reference", "There is no %s.%s.%s", root, name, hintIn(root, name, names, ""))
	default:
		return true
	}
	return false
}

func (r resolver) eachReference(t hcl.Traversal) bool {
	n := r.d.node
	allowed := n != nil && n.repeated() || r.d.forEach != nil && r.a != r.d.forEach
	if n != nil && r.a == n.attr("for_each") {
		// The argument is evaluated once for each instance of the namespace around.
		allowed = n.parent != nil && n.parent.repeated()
	}
	switch {
	case r.d.block.strayForEach():
		return false // which each was meant: that one has been reported
	case !allowed:
		next := "This block has none: name a value directly."
		if r.d.block != nil && slices.Contains(r.d.block.typ.argNames(), "for_each") {
			next = "Set for_each here, or name a value directly."
		}
		r.errorf(t.SourceRange(), `Reference to "each" without for_each`, "each.key and each.value exist in blocks with for_each, and inside them. %s", next)
		return false
	}
	r.a.each = true
	return r.member(t, "each", []string{"key", "value"})
}

func (r resolver) namedReference(t hcl.Traversal) bool {
	root := t.RootName()
	name, ok := word(t, 1)
	if !ok {
		r.errorf(t.SourceRange(), "Incomplete reference", "%s is followed by a name: %s.NAME.", root, root)
		return false
	}
	d := r.named[root][name]
	if d == nil {
		return r.unknown(t, "There is no %s.%s.%s", root, name, hintIn(root, name, r.names[root], "None is declared."))
	}
	r.depend(d)
	if d.forEach != nil && len(t) > 2 && !r.hasKey(t, 2, d) {
		return false
	}
	return root != "module" || r.moduleReference(t, d)
}

// hasKey reports whether a reference names an instance of a block with for_each.
func (r resolver) hasKey(t hcl.Traversal, i int, d *decl) bool {
	_, ok := t[i].(hcl.TraverseIndex)
	if !ok {
		r.errorf(t.SourceRange(), "Missing key", "%s has for_each, so there is one for each key: write %s[\"KEY\"], or a for expression over all of them.", d.addr, d.addr)
	}
	return ok
}

func (r resolver) depend(d *decl) {
	if !slices.Contains(r.a.deps, d) {
		r.a.deps = append(r.a.deps, d)
	}
}

// nodeReference follows namespace.a.mutex.b.path as far as it is written out. A
// reference to a whole namespace is one to everything in it. How far it is written out is how
// little has to be waited for: what would be a cycle between two namespaces is none between
// two locks in them. Where it cannot be read on, as at [*] or a computed key, all below is meant.
//
// Each round takes one TYPE.LABEL and, where there is for_each, one ["KEY"]. Whether the key exists is
// left to the evaluation, since nothing has a value yet.
func (r resolver) nodeReference(t hcl.Traversal) bool {
	var at *nodeDecl
	for i := 0; ; {
		k, ok := word(t, i)
		if i == 0 {
			k, ok = t.RootName(), true
		}
		if !ok {
			r.dependAll(at)
			return true
		}
		label, ok := word(t, i+1)
		if !ok {
			r.dependKind(at, k)
			return true
		}
		n := r.index[nodeKey{at, k, label}]
		if n == nil {
			return r.noSuchNode(t, at, k, label)
		}
		at, i = n, i+2
		if at.attr("for_each") != nil && i < len(t) {
			if !r.hasKey(t, i, at.decl) {
				return false
			}
			i++
		}
		if i >= len(t) {
			r.dependAll(at)
			return true
		}
		if next, ok := word(t, i); ok && !(at.kind.Container && kind.Lookup(next) != nil) {
			return r.nodeAttribute(t, at, next)
		}
	}
}

func (r resolver) nodeAttribute(t hcl.Traversal, n *nodeDecl, name string) bool {
	r.depend(n.decl)
	names := slices.Sorted(maps.Keys(objectType(n.kind)))
	if slices.Contains(names, name) {
		return true
	}
	if n.kind.Container {
		names = append(names, kindNames()...)
	}
	r.errorf(t.SourceRange(), "Unknown attribute", "%s has no attribute %q.%s", n.addr, name, hint(name, names, ""))
	return false
}

func (r resolver) noSuchNode(t hcl.Traversal, in *nodeDecl, k, label string) bool {
	outer := ""
	if in != nil {
		outer = in.addr
	}
	if why := (place{node: in, in: r.declarations}).noNode(k, label, outer); why != "" {
		r.errorf(t.SourceRange(), "Unknown reference", "%s", why)
	}
	return false
}

func (r resolver) dependAll(n *nodeDecl) {
	r.depend(n.decl)
	for _, c := range n.children {
		r.dependAll(c)
	}
}

func (r resolver) dependKind(in *nodeDecl, k string) {
	if in != nil {
		r.depend(in.decl)
	}
	for _, n := range (place{node: in, in: r.declarations}).siblings() {
		if n.kind.Name == k {
			r.dependAll(n)
		}
	}
}
