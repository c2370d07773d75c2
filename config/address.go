package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/locktree/locktree/recipes/kind"
)

// step is one TYPE.LABEL or TYPE.LABEL["KEY"] of an address.
type step struct {
	typ, label string
	key        string
	keyed      bool
	// computed is the key's expression where it is not a constant.
	computed *attribute
}

// address is a written address of modules, namespaces and nodes. It names what a
// plan works on, and is no reference: nothing has to be declared there.
type address []step

func (a address) String() string {
	var b strings.Builder
	for i, s := range a {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(s.typ + "." + s.label)
		if s.keyed {
			b.WriteString("[" + strconv.Quote(s.key) + "]")
		}
	}
	return b.String()
}

// last is the type of what the address names.
func (a address) last() string { return a[len(a)-1].typ }

// parseAddress reads an address without evaluating it. Keys must be constants,
// or, where computed is true, may be expressions.
func (m *module) parseAddress(a *attribute, computed bool) (address, bool) {
	expr := written(a.expr)
	if _, native := expr.(hclsyntax.Expression); !native {
		if v, _ := expr.Value(nil); v.Type() == cty.String {
			return m.notAddress(a, "") // a text that does not parse
		}
		return m.notAddress(a, "It must be a string.")
	}
	parts, why := flatten(expr)
	if why != "" || len(parts) == 0 {
		return m.notAddress(a, why)
	}
	return m.readSteps(a, parts, computed)
}

// written is the native form of an address: in a JSON file it is a string. What is no string, or does not parse, is
// returned as it is, for the caller to refuse.
func written(expr hcl.Expression) hcl.Expression {
	if !json.IsJSONExpression(expr) {
		return expr
	}
	v, diags := expr.Value(nil) // without a context strings come as they are
	if diags.HasErrors() || v.IsNull() || v.Type() != cty.String {
		return expr
	}
	parsed, diags := hclsyntax.ParseExpression([]byte(v.AsString()), expr.Range().Filename, expr.Range().Start)
	if diags.HasErrors() {
		return expr
	}
	return parsed
}

// part is a name or a key of an address.
type part struct {
	name string
	key  hcl.Expression // set for a key
	text string         // of a constant key
	has  bool           // the key is a constant
}

// flatten takes a.b["k"].c apart. HCL has one node for it when all keys are
// constants, and one for each computed key otherwise.
func flatten(expr hcl.Expression) ([]part, string) {
	switch e := expr.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		return traversalParts(e.Traversal)
	case *hclsyntax.RelativeTraversalExpr:
		head, why := flatten(e.Source)
		tail, more := traversalParts(e.Traversal)
		return append(head, tail...), why + more
	case *hclsyntax.IndexExpr:
		head, why := flatten(e.Collection)
		return append(head, part{key: e.Key}), why
	}
	return nil, "It must be a name and not a computation."
}

func traversalParts(t hcl.Traversal) ([]part, string) {
	var out []part
	for _, s := range t {
		switch s := s.(type) {
		case hcl.TraverseRoot:
			out = append(out, part{name: s.Name})
		case hcl.TraverseAttr:
			out = append(out, part{name: s.Name})
		case hcl.TraverseIndex:
			k, err := convert.Convert(s.Key, cty.String)
			if err != nil || k.IsNull() || s.Key.Type() != cty.String {
				return nil, `A key is a string, such as mutex.a["key"].`
			}
			out = append(out, part{key: hcl.StaticExpr(s.Key, s.SrcRange), text: k.AsString(), has: true})
		default:
			return nil, "It names one thing, so it cannot contain [*]."
		}
	}
	return out, ""
}

func (m *module) notAddress(a *attribute, why string) (address, bool) {
	if why != "" {
		why = " " + why
	}
	m.errorf(a.expr.Range(), "Invalid address", `%s must be an address, such as namespace.payments.mutex.ledger or module.team["search"].mutex.m.%s`, a.name, why)
	return nil, false
}

// readSteps groups the parts and checks that each type can be where it does.
func (m *module) readSteps(a *attribute, parts []part, computed bool) (address, bool) {
	var out address
	for i := 0; i < len(parts); {
		if parts[i].key != nil || i+1 >= len(parts) || parts[i+1].key != nil {
			return m.notAddress(a, "Each part is a type and a name.")
		}
		s := step{typ: parts[i].name, label: parts[i+1].name}
		if why := misplaced(out, s.typ); why != "" {
			return m.notAddress(a, why)
		}
		if i += 2; i < len(parts) && parts[i].key != nil {
			s.key, s.keyed = parts[i].text, true
			if !parts[i].has {
				if !computed {
					return m.notAddress(a, "Its keys must be constants.")
				}
				s.computed = &attribute{name: a.name, expr: parts[i].key, rng: a.rng, nameRange: a.nameRange}
			}
			i++
		}
		out = append(out, s)
	}
	return out, true
}

// misplaced reports why a step of this type cannot follow those before.
func misplaced(before address, typ string) string {
	k := kind.Lookup(typ)
	if k == nil && typ != "module" {
		names := append(kind.Names(), "module")
		return fmt.Sprintf("%q is not a type of block that declares nodes.%s", typ, hint(typ, names, ""))
	}
	if len(before) == 0 || before.last() == "module" {
		return ""
	}
	switch outer := kind.Lookup(before.last()); {
	case k == nil:
		return "A module cannot be inside a namespace."
	case !outer.Container:
		return fmt.Sprintf("A block of type %s holds no other blocks.", outer.Name)
	}
	return ""
}

// place is what is at an address: a node block or a module block.
type place struct {
	node *nodeDecl
	call *decl
	in   *module
}

func (p place) decl() *decl {
	if p.node != nil {
		return p.node.decl
	}
	return p.call
}

// repeated reports whether the block itself has for_each.
func (p place) repeated() bool {
	if p.node != nil {
		return p.node.attr("for_each") != nil
	}
	return p.call.forEach != nil
}

// lookup finds the block an address names. Where there is none, it reports how
// far it came and what the next step is called nearby.
func (m *module) lookup(a address) (place, string, bool) {
	at := place{in: m}
	for i, s := range a {
		where := "at the top"
		if i > 0 {
			where = "in " + a[:i].String()
		}
		if s.typ == "module" {
			d := at.in.named["module"][s.label]
			if d == nil {
				return at, fmt.Sprintf("There is no %s.%s", a[:i+1], hint(s.label, at.in.names["module"], "No module is called "+where+".")), false
			}
			if d.child == nil {
				return at, "", false
			}
			at = place{call: d, in: d.child}
			continue
		}
		n := at.in.index[nodeKey{at.node, s.typ, s.label}]
		if n == nil {
			var same []string
			for _, o := range at.siblings() {
				if o.kind.Name == s.typ {
					same = append(same, o.label)
				}
			}
			if at.in.incomplete {
				return at, "", false
			}
			return at, fmt.Sprintf("There is no %s.%s", a[:i+1], hint(s.label, same, fmt.Sprintf("No %s is declared %s.", s.typ, where))), false
		}
		at.node, at.call = n, nil
	}
	return at, "", true
}

func (p place) siblings() []*nodeDecl {
	if p.node != nil {
		return p.node.children
	}
	return p.in.nodes
}
