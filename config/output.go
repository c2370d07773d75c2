package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/locktree/locktree/config/internal/functions"
	"github.com/locktree/locktree/plan"
)

func (s scope) evaluateLocal() {
	if v, ok := s.value(s.d.attrs[0]); ok {
		s.r.value = v
	}
}

// evaluateOutput leaves the value in the declaration; encodeOutputs turns it
// into what a plan stores.
func (s scope) evaluateOutput() {
	d := s.d
	hidden := s.yes(d.block.Arg("sensitive")) || s.unknown(d.block.Arg("sensitive"))
	s.text(d.block.Arg("description"))
	a := d.block.Arg("value")
	v, ok := s.value(a)
	if !ok {
		s.fail()
		return
	}
	if v.ContainsMarked() && !hidden {
		s.wrong(a, "Sensitive value", fmt.Sprintf(
			"The value contains something sensitive, and outputs are shown and stored. Set sensitive = true in output %q, or remove the sensitive part.", d.block.Name()))
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
	out := make([]plan.Output, 0, len(e.outputs))
	for _, d := range e.outputs {
		v := e.of(d).value
		o := plan.Output{Name: d.block.Name(), Sensitive: v.IsMarked(), From: nodesOf(e.declarations, d)}
		if !o.Sensitive {
			var err error
			if o.Type, err = ctyjson.MarshalType(v.Type()); err == nil {
				o.Value, err = ctyjson.Marshal(v, v.Type())
			}
			if err != nil {
				e.Errorf(d.head, "Wrong type", "The value of output %q cannot be written as JSON: %s.", d.block.Name(), err)
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
func nodesOf(in *declarations, output *decl) []plan.Addr {
	type at struct {
		d      *decl
		prefix string // a directory may be called more than once
	}
	found, seen := map[plan.Addr]bool{}, map[at]bool{}
	var visit func(in *declarations, d *decl, prefix string)
	visit = func(in *declarations, d *decl, prefix string) {
		switch {
		case seen[at{d, prefix}]:
			return
		case d.node != nil:
			found[plan.Addr(prefix+d.addr)] = true
			return
		case d.child != nil:
			for _, inner := range d.child.all {
				if inner.node != nil || inner.isModule() {
					visit(d.child, inner, prefix+d.addr+".")
				}
			}
		}
		seen[at{d, prefix}] = true
		for _, e := range in.edges(d) {
			visit(in, e.to, prefix)
		}
	}
	visit(in, output, "")
	return slices.Sorted(maps.Keys(found))
}
