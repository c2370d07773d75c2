package config

import (
	"errors"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
)

// What cty does to find one type for several grows with the square of their number: it compares each
// with each other one (convert.sortTypes), all of which are the same in the worst case. 16,000 elements take
// seconds, 100,000 minutes. So whatever makes it do that pays for it first, in pairs.

// pairsOf is how many pairs cty compares to find one type for all of types, from above, a type of many
// parts counted as often as it has parts. It follows convert.unify: tuples of one length, and objects
// with the same attributes, are unified place by place; all others become lists and maps, for
// which all of their parts are put together. So it looks into them, too: {a = LIST} and
// {a = LONGER} are as dear as the lists ("conditions between parts" in TestFindingOneTypeIsPaidFor).
func pairsOf(types []cty.Type) (n int) {
	types = slices.DeleteFunc(slices.Clone(types), func(ty cty.Type) bool { return ty == cty.DynamicPseudoType }) // null fits everything
	if len(types) < 2 {
		return 0
	}
	parts, total := make([][]cty.Type, len(types)), 0
	for i, ty := range types {
		parts[i] = partTypes(ty)
		total += typeSize(ty)
	}
	n = len(types) * total
	if !alike(types) {
		return n + pairsOf(slices.Concat(parts...))
	}
	place := make([]cty.Type, len(types))
	for j := range parts[0] {
		for i := range parts {
			place[i] = parts[i][j]
		}
		n += pairsOf(place)
	}
	return n
}

// partTypes are the types of the elements of a value, attributes in the order of their names.
func partTypes(ty cty.Type) (out []cty.Type) {
	switch {
	case ty.IsTupleType():
		return ty.TupleElementTypes()
	case ty.IsCollectionType():
		return []cty.Type{ty.ElementType()}
	case ty.IsObjectType():
		attrs := ty.AttributeTypes()
		for _, name := range names(attrs) {
			out = append(out, attrs[name])
		}
	}
	return out
}

// alike reports whether types have their parts at the same places.
func alike(types []cty.Type) bool {
	first := types[0]
	return !slices.ContainsFunc(types, func(ty cty.Type) bool {
		switch {
		case first.IsTupleType():
			return !ty.IsTupleType() || ty.Length() != first.Length()
		case first.IsObjectType():
			return !ty.IsObjectType() || !slices.Equal(names(ty.AttributeTypes()), names(first.AttributeTypes()))
		}
		return ty.IsCollectionType() != first.IsCollectionType() || ty.IsTupleType() || ty.IsObjectType()
	})
}

func names(attrs map[string]cty.Type) []string { return slices.Sorted(maps.Keys(attrs)) }

func typeSize(ty cty.Type) int {
	n := 1
	for _, part := range partTypes(ty) {
		n += typeSize(part)
	}
	return n
}

// pairsToFit is what it costs to convert a value to a type with any in it: the elements of each such
// collection get one type.
func pairsToFit(have, want cty.Type) (n int) {
	parts := partTypes(have)
	switch {
	case want == cty.DynamicPseudoType || !want.HasDynamicTypes():
	case want.IsCollectionType():
		for _, part := range parts {
			n += pairsToFit(part, want.ElementType())
		}
		if !have.IsCollectionType() {
			n += pairsOf(parts)
		}
	case want.IsTupleType() && have.IsTupleType() && have.Length() == want.Length():
		for i, part := range parts {
			n += pairsToFit(part, want.TupleElementType(i))
		}
	case want.IsObjectType() && have.IsObjectType():
		for name, ty := range want.AttributeTypes() {
			if have.HasAttribute(name) {
				n += pairsToFit(have.AttributeType(name), ty)
			}
		}
	}
	return n
}

// uniting are the functions for which cty finds one type for all arguments, or for the elements of all.
var uniting = map[string]bool{
	"coalesce": true, "concat": true, "setunion": true, "setintersection": true, "setsubtract": true,
}

// gathering are the functions that make a collection of whatever they are given, if only for the type of their result.
var gathering = map[string]cty.Type{
	"tolist": cty.List(cty.DynamicPseudoType), "toset": cty.Set(cty.DynamicPseudoType), "tomap": cty.Map(cty.DynamicPseudoType),
	"setproduct": cty.List(cty.DynamicPseudoType),
}

// pairsToCall is what a call makes cty compare. What is of one type to begin with is gathered in linear time.
func pairsToCall(name string, args []cty.Value, wants []cty.Type) (n int) {
	var types []cty.Type
	for i, a := range args {
		want, collects := gathering[name]
		if !collects && len(wants) > 0 {
			want = wants[min(i, len(wants)-1)]
		}
		if isLoose(want) && !(a.CanIterateElements() && sameTypes(a)) {
			n += pairsToFit(a.Type(), want)
		}
		types = append(types, a.Type())
	}
	if uniting[name] {
		n += pairsOf(types)
	}
	return n
}

var errManyTypes = errors.New("finding one type for so many values takes minutes; give it fewer of them, or values of one type")

// unify pays for pairs that a function or a conversion makes cty compare: one takes a visit.
func (e *effort) unify(pairs int) error {
	if pairs == 0 || e.spend(pairs) {
		return nil
	}
	e.why = sentence(errManyTypes.Error())
	return errManyTypes
}

// makeConvert is HCL's convert(VALUE, TYPE), paid for.
func makeConvert(e *effort) function.Function {
	f := typeexpr.ConvertFunc
	return function.New(&function.Spec{
		Description: f.Description(), Params: f.Params(),
		Type: func(args []cty.Value) (cty.Type, error) {
			if want := args[1]; want.IsKnown() && !want.IsNull() {
				if err := e.unify(pairsToFit(args[0].Type(), typeexpr.TypeConstraintFromVal(want))); err != nil {
					return cty.NilType, err
				}
			}
			ty, err := f.ReturnTypeForValues(args)
			return ty, withhold(err, args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v, err := f.Call(args)
			return v, withhold(err, args)
		},
	})
}

// fit converts a value to the type of a variable.
func (e *effort) fit(v cty.Value, want cty.Type) (cty.Value, error) {
	if v.CanIterateElements() && (isPlain(want) || isLoose(want) && sameTypes(v)) {
		return gather(v, want)
	}
	if err := e.unify(pairsToFit(v.Type(), want) / 8); err != nil {
		return cty.NilVal, err
	}
	return convert.Convert(v, want)
}
