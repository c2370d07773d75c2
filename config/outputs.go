package config

import (
	"maps"
	"slices"
	"strings"

	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/locktree/locktree/config/internal/eval"
	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/plan"
)

// encodeOutputs is what a plan stores of the outputs.
func encodeOutputs(e *eval.Evaluation) []plan.Output {
	out := make([]plan.Output, 0, len(e.Declared.Outputs))
	for _, d := range e.Declared.Outputs {
		v := e.Of(d).Value
		o := plan.Output{Name: d.Block.Name(), Sensitive: v.IsMarked(), From: nodesOf(e.Declared, d)}
		if !o.Sensitive {
			var err error
			if o.Type, err = ctyjson.MarshalType(v.Type()); err == nil {
				o.Value, err = ctyjson.Marshal(v, v.Type())
			}
			if err != nil {
				e.Errorf(d.Head, "Wrong type", "The value of output %q cannot be written as JSON: %s.", d.Block.Name(), err)
				continue
			}
		}
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b plan.Output) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// nodesOf are the blocks of nodes that an output comes from, the addresses sorted. What these refer to is theirs. A module
// is one vertex: what uses one of its outputs comes from all nodes in it and from all of its arguments.
func nodesOf(in *static.Declarations, output *static.Decl) []plan.Addr {
	type at struct {
		d      *static.Decl
		prefix string // a directory may be called more than once
	}
	found, seen := map[plan.Addr]bool{}, map[at]bool{}
	var visit func(in *static.Declarations, d *static.Decl, prefix string)
	visit = func(in *static.Declarations, d *static.Decl, prefix string) {
		switch {
		case seen[at{d, prefix}]:
			return
		case d.Node != nil:
			found[plan.Addr(prefix+d.Addr)] = true
			return
		case d.Child != nil:
			for _, inner := range d.Child.All {
				if inner.Node != nil || inner.IsModule() {
					visit(d.Child, inner, prefix+d.Addr+".")
				}
			}
		}
		seen[at{d, prefix}] = true
		for _, e := range in.Edges(d) {
			visit(in, e.To, prefix)
		}
	}
	visit(in, output, "")
	return slices.Sorted(maps.Keys(found))
}
