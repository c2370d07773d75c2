package eval

import (
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/config/internal/functions"
)

// evaluateOutput leaves the value in the declaration; encodeOutputs turns it
// into what a plan stores.
func evaluateOutput(s scope) {
	d := s.d
	hidden := s.yes(d.Block.Arg("sensitive")) || s.isUnknown(d.Block.Arg("sensitive"))
	s.text(d.Block.Arg("description"))
	a := d.Block.Arg("value")
	v, ok := s.value(a)
	if !ok {
		s.fail()
		return
	}
	if v.ContainsMarked() && !hidden {
		s.reportWrong(a, "Sensitive value", fmt.Sprintf(
			"The value contains something sensitive, and outputs are shown and stored. Set sensitive = true in output %q, or remove the sensitive part.", d.Block.Name()))
		return
	}
	if s.in.outer == nil && containsCapsule(v.Type()) {
		s.reportWrong(a, "Wrong type", "An acl or an ensemble cannot be an output. Output its name instead.")
		return
	}
	if hidden {
		v = v.Mark(functions.Sensitive)
	}
	s.r.Value = v
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
