package static

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// ParseAddress reads an address of modules, namespaces and nodes without evaluating it. It names what a plan works on, and is no
// reference: nothing has to be declared there. Keys must be constants.
func ParseAddress(r *syntax.Report, a *syntax.Attribute) (out plan.Addr, ok bool) {
	var steps hcl.Traversal
	if e, ok := nativeForm(a.Expr).(*hclsyntax.ScopeTraversalExpr); ok { // all keys are constants
		steps = e.Traversal
	}
	for len(steps) > 1 && StepNameOf(steps[0]) != "" && StepNameOf(steps[1]) != "" {
		if why := whyMisplaced(out, StepNameOf(steps[0])); why != "" {
			return notAddress(r, a, why)
		}
		out = out.Child(StepNameOf(steps[0]), StepNameOf(steps[1]))
		if steps = steps[2:]; len(steps) > 0 {
			if key, ok := steps[0].(hcl.TraverseIndex); ok && key.Key.Type() == cty.String {
				out, steps = out.Instance(key.Key.AsString()), steps[1:]
			}
		}
	}
	if text, ok := constantText(a.Expr); ok && strings.HasPrefix(text, "/") {
		return notAddress(r, a, "This is a path. A changed path needs no moved block: the next apply replaces the node.")
	}
	if len(steps) > 0 || out == "" {
		return notAddress(r, a, `Each part is a type and a name; a key behind them is a constant string.`)
	}
	return out, true
}

// StepNameOf is the name that a step of a reference selects, "" for a key.
func StepNameOf(s hcl.Traverser) string {
	switch s := s.(type) {
	case hcl.TraverseRoot:
		return s.Name
	case hcl.TraverseAttr:
		return s.Name
	}
	return ""
}

// nativeForm is the native form of an address: in a JSON file it is a string. A text that does not parse is returned as it is, and
// is no address.
func nativeForm(expr hcl.Expression) hcl.Expression {
	text, ok := constantText(expr)
	if !json.IsJSONExpression(expr) || !ok {
		return expr
	}
	parsed, diags := syntax.ParseExpression(text, expr.Range().Filename, expr.Range().Start)
	if diags.HasErrors() { // after an error, parsed has only the text before it, and that text could be another address
		return expr
	}
	return parsed
}

func notAddress(r *syntax.Report, a *syntax.Attribute, why string) (plan.Addr, bool) {
	r.Errorf(a.Expr.Range(), "Invalid address", `%s must be an address, such as namespace.payments.mutex.ledger or module.team["search"].mutex.m. %s`, a.Name, why)
	return "", false
}

// kindNames are the names of all kinds, for "did you mean".
func kindNames() []string {
	var names []string
	for _, k := range kind.All() {
		names = append(names, k.Name)
	}
	return names
}

// whyMisplaced reports why a step of this type cannot follow those before.
func whyMisplaced(before plan.Addr, typ string) string {
	k := kind.Lookup(typ)
	if k == nil && typ != "module" {
		names := append(kindNames(), "module")
		return fmt.Sprintf("%q is not a type of block that declares nodes.%s", typ, syntax.Hint(typ, names, ""))
	}
	if before == "" || before.Type() == "module" {
		return ""
	}
	switch outer := kind.Lookup(before.Type()); {
	case k == nil:
		return "A module cannot be inside a namespace."
	case !outer.Container:
		return fmt.Sprintf("A block of type %s holds no other blocks.", outer.Name)
	}
	return ""
}

// Place is what is at an address: a node block, a module block, or the top of a module.
type Place struct {
	node *Node
	call *Decl
	in   *Declarations
}

// Decl is the declaration there; nil at the top of a module.
func (p Place) Decl() *Decl {
	if p.node != nil {
		return p.node.Decl
	}
	return p.call
}

// Repeated reports whether the block itself has for_each.
func (p Place) Repeated() bool {
	if p.node != nil {
		return p.node.Attr("for_each") != nil
	}
	return p.call.ForEach != nil
}

func (p Place) siblings() []*Node {
	if p.node != nil {
		return p.node.Children
	}
	return p.in.Nodes
}

// Lookup finds the block that an address names. If there is none, reason says so. The reason is empty if the block may be in a
// part of the files that could not be read.
func (d *Declarations) Lookup(a plan.Addr) (at Place, reason string, ok bool) {
	if a == "" {
		return Place{in: d}, "", true
	}
	if at, reason, ok = d.Lookup(a.Parent()); !ok {
		return at, reason, false
	}
	if a.Type() != "module" {
		n := at.in.index[nodeKey{at.node, a.Type(), a.Name()}]
		if n == nil {
			return at, at.noNode(a.Type(), a.Name(), string(a.Parent())), false
		}
		return Place{node: n, in: at.in}, "", true
	}
	call := at.in.Named["module"][a.Name()]
	if call == nil {
		return at, fmt.Sprintf("There is no %s.%s", a, syntax.Hint(a.Name(), at.in.Names["module"], "No module is called "+inside(string(a.Parent()))+".")), false
	}
	return Place{call: call, in: call.Child}, "", call.Child != nil
}

func inside(outer string) string {
	if outer == "" {
		return "at the top"
	}
	return "in " + outer
}

// noNode says that the block at the address outer contains no such node, and names a similar one.
func (p Place) noNode(typ, label, outer string) string {
	if p.in.Incomplete {
		return ""
	}
	given := string(plan.Addr(outer).Child(typ, label))
	var same []string
	for _, n := range p.siblings() {
		if n.Kind.Name == typ {
			same = append(same, n.Label)
		} else if n.Label == label {
			return fmt.Sprintf("There is no %s. Did you mean %s?", given, plan.Addr(outer).Child(n.Kind.Name, label))
		}
	}
	return fmt.Sprintf("There is no %s.%s", given, syntax.HintIn(strings.TrimSuffix(given, "."+label), label, same, fmt.Sprintf("No %s is declared %s.", typ, inside(outer))))
}

// Intention is a moved, import or removed block as it is written.
type Intention struct {
	From, To plan.Addr
}

// intend declares a block that has no name.
func (r *reading) intend(b *syntax.Block, attrs ...*syntax.Attribute) *Decl {
	d := r.declare(&Decl{Addr: b.Type.Name, Block: b, Head: b.Head}, attrs...)
	d.Intent = &Intention{}
	return d
}

func (r *reading) collectMoved(b *syntax.Block) {
	from, to := b.Arg("from"), b.Arg("to")
	d := r.intend(b)
	if from == nil || to == nil {
		d.Broken = true // Complete reports it
		return
	}
	var ok, okTo bool
	d.Intent.From, ok = ParseAddress(r.Report, from)
	d.Intent.To, okTo = ParseAddress(r.Report, to)
	d.Broken = !ok || !okTo
}

func (r *reading) collectRemoved(b *syntax.Block) {
	d := r.intend(b)
	for _, l := range b.Nested("lifecycle") {
		d.Attrs = append(d.Attrs, l.Args...)
	}
	from := b.Arg("from")
	if from == nil {
		d.Broken = true
		return
	}
	var ok bool
	if d.Intent.From, ok = ParseAddress(r.Report, from); !ok {
		d.Broken = true
	}
}

func (r *reading) collectImport(b *syntax.Block) {
	to, path := b.Arg("to"), b.Arg("path")
	d := r.intend(b, path)
	if to == nil || path == nil {
		d.Broken = true
		return
	}
	var ok bool
	if d.Intent.To, ok = ParseAddress(r.Report, to); !ok {
		d.Broken = true
		return
	}
	if d.Intent.To.Type() == "module" {
		r.Errorf(to.Expr.Range(), "Invalid address", "A module is not a znode: name one of the nodes in it.")
		d.Broken = true
	}
}
