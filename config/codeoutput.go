package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/config/internal/syntax"
)

// codeOutput is an output; without a name if it is sensitive or null.
func (e *evaluation) codeOutput(d *static.Decl) CodeOutput {
	v := e.of(d).value
	if v.ContainsMarked() || v.IsKnown() && v.IsNull() {
		return CodeOutput{}
	}
	o := CodeOutput{Name: d.Block.Name()}
	o.Description, _ = e.scope(d).text(d.Block.Arg("description"))
	if v.IsWhollyKnown() {
		o.Value = v
		return o
	}
	a := d.Block.Arg("value")
	if i := e.pathOf(a); i != nil {
		o.Ensemble, o.Path = i.ensemble.Name, i.path
		return o
	}
	o.Unknown = e.reasons(a)
	return o
}

// pathOf is the node whose path an argument is, nil if it is anything else.
func (e *evaluation) pathOf(a *syntax.Attribute) *instance {
	ref, ok := a.Expr.(*hclsyntax.ScopeTraversalExpr)
	if !ok || len(ref.Traversal) < 2 || static.StepNameOf(ref.Traversal[len(ref.Traversal)-1]) != "path" {
		return nil
	}
	node := &syntax.Attribute{Expr: &hclsyntax.ScopeTraversalExpr{Traversal: ref.Traversal[:len(ref.Traversal)-1]}}
	addr, ok := static.ParseAddress(&syntax.Report{}, node)
	if !ok { // which is no error here
		return nil
	}
	for _, i := range e.instances {
		if i.addr == addr && i.path != "" {
			return i
		}
	}
	return nil
}

// reasons says what arguments refer to that has no value here, in this module or where the module is called.
func (e *evaluation) reasons(all ...*syntax.Attribute) string {
	r := reasons{map[string]bool{}, map[*result]bool{}, false}
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
	seen  map[*result]bool
	nodes bool // one of those seen is a node, whose path begins with the root
}

func (r *reasons) attribute(e *evaluation, a *syntax.Attribute) {
	if a == nil {
		return
	}
	if environment.Match(e.Files.Text(a.Expr.Range())) {
		r.found["the environment"] = true
	}
	for _, d := range e.RefersTo(a).Deps {
		r.declaration(e, d)
	}
}

func (r *reasons) declaration(e *evaluation, d *static.Decl) {
	if r.seen[e.of(d)] || isUnseen(d) || strings.HasPrefix(d.Addr, "ensemble.") {
		return // no name depends on access lists and servers
	}
	r.seen[e.of(d)] = true
	r.nodes = r.nodes || d.Node != nil || d.IsModule()
	v := e.Variables[strings.TrimPrefix(d.Addr, "var.")]
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
