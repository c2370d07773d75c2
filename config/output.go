package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/locktree/locktree/config/internal/functions"
	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/plan"
)

func (s scope) evaluateLocal() {
	if v, ok := s.value(s.d.Attrs[0]); ok {
		s.r.value = v
	}
}

// evaluateOutput leaves the value in the declaration; encodeOutputs turns it
// into what a plan stores.
func (s scope) evaluateOutput() {
	d := s.d
	hidden := s.yes(d.Block.Arg("sensitive")) || s.unknown(d.Block.Arg("sensitive"))
	s.text(d.Block.Arg("description"))
	a := d.Block.Arg("value")
	v, ok := s.value(a)
	if !ok {
		s.fail()
		return
	}
	if v.ContainsMarked() && !hidden {
		s.wrong(a, "Sensitive value", fmt.Sprintf(
			"The value contains something sensitive, and outputs are shown and stored. Set sensitive = true in output %q, or remove the sensitive part.", d.Block.Name()))
		return
	}
	if s.outer == nil && containsCapsule(v.Type()) {
		s.wrong(a, "Wrong type", "An acl or an ensemble cannot be an output. Output its name instead.")
		return
	}
	if hidden {
		v = v.Mark(functions.Sensitive)
	}
	s.r.value = v
}

func containsCapsule(ty cty.Type) bool {
	switch {
	case ty.IsCapsuleType():
		return true
	case ty.IsCollectionType():
		return containsCapsule(ty.ElementType())
	case ty.IsTupleType():
		return slices.ContainsFunc(ty.TupleElementTypes(), containsCapsule)
	case ty.IsObjectType():
		for _, t := range ty.AttributeTypes() {
			if containsCapsule(t) {
				return true
			}
		}
	}
	return false
}

func (e *evaluation) encodeOutputs() []plan.Output {
	out := make([]plan.Output, 0, len(e.Outputs))
	for _, d := range e.Outputs {
		v := e.of(d).value
		o := plan.Output{Name: d.Block.Name(), Sensitive: v.IsMarked(), From: nodesOf(e.Declarations, d)}
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
