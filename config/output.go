package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/locktree/locktree/plan"
)

func (m *module) evaluateLocal(d *decl) {
	if v, ok := m.scope(d).value(d.attrs[0]); ok {
		d.value = v
	}
}

// evaluateOutput leaves the value in the declaration; encodeOutputs turns it
// into what a plan stores.
func (m *module) evaluateOutput(d *decl) {
	s := m.scope(d)
	hidden := s.yes(d.block.attrs["sensitive"])
	s.text(d.block.attrs["description"])
	a := d.block.attrs["value"]
	v, ok := s.value(a)
	if !ok {
		d.failed = true
		return
	}
	if v.ContainsMarked() && !hidden {
		s.wrong(a, "Sensitive value", fmt.Sprintf(
			"The value contains something sensitive, and outputs are shown and stored. Set sensitive = true in output %q, or remove the sensitive part.", d.block.name()))
		return
	}
	if m.parent == nil && containsCapsule(v.Type()) {
		s.wrong(a, "Wrong type", "An acl or an ensemble cannot be an output. Output its name instead.")
		return
	}
	if hidden {
		v = v.Mark(sensitive)
	}
	d.value = v
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

func (m *module) encodeOutputs() []plan.Output {
	out := make([]plan.Output, 0, len(m.outputs))
	for _, d := range m.outputs {
		o := plan.Output{Name: d.block.name(), Sensitive: d.value.IsMarked(), From: nodesOf(d)}
		if !o.Sensitive {
			var err error
			if o.Type, err = ctyjson.MarshalType(d.value.Type()); err == nil {
				o.Value, err = ctyjson.Marshal(d.value, d.value.Type())
			}
			if err != nil {
				m.errorf(d.head, "Wrong type", "The value of output %q cannot be written as JSON: %s.", d.block.name(), err)
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
func nodesOf(output *decl) []plan.Addr {
	found, seen := map[plan.Addr]bool{}, map[*decl]bool{}
	var visit func(d *decl, prefix string)
	visit = func(d *decl, prefix string) {
		switch {
		case seen[d]:
			return
		case d.node != nil:
			found[plan.Addr(prefix+d.addr)] = true
			return
		case d.child != nil:
			for _, inner := range d.child.all {
				if inner.node != nil || inner.isModule() {
					visit(inner, prefix+d.addr+".")
				}
			}
		}
		seen[d] = true
		for _, e := range d.edges() {
			visit(e.to, prefix)
		}
	}
	visit(output, "")
	return slices.Sorted(maps.Keys(found))
}
