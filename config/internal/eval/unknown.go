package eval

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/config/internal/syntax"
)

// anyElement stands for the elements of a for_each that are not known.
var anyElement = Element{value: cty.DynamicVal, Any: true}

func hasUnknownKeys(v cty.Value) bool {
	return !v.IsKnown() || v.Type().IsSetType() && !v.IsWhollyKnown()
}

// isUnseen reports whether generated code never shows this type of declaration: principals, access lists, checks, imports and
// removals.
func isUnseen(d *static.Decl) bool {
	return d.Block != nil && slices.Contains([]string{"principal", "acl", "check", "import", "removed"}, d.Block.Type.Name)
}

// hide makes those attributes of a node unknown that have no value yet. References to the node then see unknown values.
func (i *Instance) hide(attrs map[string]cty.Value) {
	attrs["path"] = cty.UnknownVal(cty.String)
	if i.Nameless {
		attrs["name"] = cty.UnknownVal(cty.String)
	}
	for _, name := range i.Unknown {
		attrs[name] = cty.UnknownVal(attrs[name].Type())
	}
}

// evaluateCodeEnsemble evaluates nothing of an ensemble but its root. Paths begin there.
func evaluateCodeEnsemble(s scope, e *Ensemble) {
	if !s.isUnknown(s.d.Block.Arg("root")) {
		evaluateRoot(s, e)
		e.DefaultRoot = e.Root
	}
	e.Root = "/"
	if len(s.in.Declared.Names["ensemble"]) == 1 {
		s.in.home = e
	}
	s.r.Value = cty.CapsuleVal(ensembleType, e)
}

// Reasons names the things without a value that the arguments refer to, in this module or where the module is called.
func Reasons(e *Evaluation, all ...*syntax.Attribute) string {
	r := reasons{map[string]bool{}, map[*Result]bool{}, false}
	for _, a := range all {
		r.attribute(e, a)
	}
	for in := e; in.call != nil && len(r.found) == 0; in = in.outer {
		r.attribute(in.outer, in.call.ForEach)
	}
	switch names := slices.Sorted(maps.Keys(r.found)); {
	case len(names) > 1:
		return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
	case len(names) == 1:
		return names[0]
	case r.nodes:
		return "the root"
	}
	return "what is known only when it is applied"
}

var environment = regexp.MustCompile(`\benv\s*\(`)

type reasons struct {
	found map[string]bool
	seen  map[*Result]bool
	nodes bool // one of those seen is a node, whose path begins with the root
}

func (r *reasons) attribute(e *Evaluation, a *syntax.Attribute) {
	if a == nil {
		return
	}
	if environment.Match(e.Declared.Files.Text(a.Expr.Range())) {
		r.found["the environment"] = true
	}
	for _, d := range e.Declared.RefersTo(a).Deps {
		r.declaration(e, d)
	}
}

func (r *reasons) declaration(e *Evaluation, d *static.Decl) {
	if r.seen[e.Of(d)] || isUnseen(d) || strings.HasPrefix(d.Addr, "ensemble.") {
		return // no name depends on access lists and servers
	}
	r.seen[e.Of(d)] = true
	r.nodes = r.nodes || d.Node != nil || d.IsModule()
	v := e.Declared.Variables[strings.TrimPrefix(d.Addr, "var.")]
	if v == nil || v.Decl != d {
		for _, a := range d.Attrs {
			r.attribute(e, a)
		}
		return
	}
	if e.outer == nil && v.Fallback == nil {
		r.found[d.Addr] = true
	}
	if e.outer != nil {
		r.attribute(e.outer, e.call.Block.Arg(v.Block.Name()))
	}
}
