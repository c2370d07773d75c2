package config

import (
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// maxUnified is how many elements of different types are turned into a
// collection of one type. cty compares each pair of them (convert.sortTypes),
// also when all are the same: for 100,000 strings that takes minutes.
const maxUnified = 2000

// isLoose reports whether a collection of this type takes its element type from
// the value, which is when cty compares.
func isLoose(ty cty.Type) bool {
	return ty.IsCollectionType() && ty.ElementType() == cty.DynamicPseudoType
}

// isPlain reports whether this is a list or a map of texts, numbers or truth values, or of such lists and maps. To
// make one of a tuple or an object takes cty the square of its length, too: 9 s for 40,000 texts.
func isPlain(ty cty.Type) bool {
	return (ty.IsListType() || ty.IsMapType()) && (ty.ElementType().IsPrimitiveType() || isPlain(ty.ElementType()))
}

// plainly is convert.Convert to a plain type in linear time. ok is false when it does not fit.
func plainly(v cty.Value, want cty.Type) (out cty.Value, ok bool) {
	ty := v.Type()
	switch {
	case !isPlain(want) || v.IsMarked() || !v.IsKnown() || v.IsNull():
	case want.IsListType() && ty.IsTupleType() && ty.Length() > 0:
		elements := v.AsValueSlice()
		for i, e := range elements {
			if elements[i], ok = plainly(e, want.ElementType()); !ok {
				return cty.NilVal, false
			}
		}
		return cty.ListVal(elements), true
	case want.IsMapType() && ty.IsObjectType() && len(ty.AttributeTypes()) > 0:
		elements := v.AsValueMap()
		for name, e := range elements {
			if elements[name], ok = plainly(e, want.ElementType()); !ok {
				return cty.NilVal, false
			}
		}
		return cty.MapVal(elements), true
	}
	out, err := convert.Convert(v, want)
	return out, err == nil
}

// gatherAll converts arguments to the loose types among wants; the last of
// wants is for all further arguments.
func gatherAll(args []cty.Value, wants []cty.Type) ([]cty.Value, error) {
	out := make([]cty.Value, len(args))
	for i, a := range args {
		want := wants[min(i, len(wants)-1)]
		if out[i] = a; !isLoose(want) && !isPlain(want) || a.IsNull() || !a.IsKnown() {
			continue
		}
		v, err := gather(a, want)
		if err != nil {
			return nil, function.NewArgError(i, err)
		}
		out[i] = v
	}
	return out, nil
}

// gather is convert.Convert to a loose type, in linear time when all elements
// are of one type, or to a plain list.
func gather(v cty.Value, want cty.Type) (cty.Value, error) {
	plain, marks := v.Unmark()
	ty := plain.Type()
	switch {
	case isPlain(want):
		if c, ok := plainly(plain, want); ok {
			return c.WithMarks(marks), nil
		}
		return convert.Convert(v, want) // which says where
	case ty.IsTupleType() && !want.IsMapType() && sameTypes(plain):
		elements := plain.AsValueSlice()
		if want.IsSetType() {
			return cty.SetVal(elements).WithMarks(marks), nil
		}
		return cty.ListVal(elements).WithMarks(marks), nil
	case ty.IsObjectType() && want.IsMapType() && sameTypes(plain):
		return cty.MapVal(plain.AsValueMap()).WithMarks(marks), nil
	case (ty.IsTupleType() || ty.IsObjectType()) && plain.LengthInt() > maxUnified:
		return cty.NilVal, fmt.Errorf("more than %d elements must all be of one type", maxUnified)
	default:
		return convert.Convert(v, want)
	}
}

// sameTypes reports whether there are elements and all are of one type.
func sameTypes(v cty.Value) bool {
	var first cty.Type
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		switch {
		case e.Type() == cty.DynamicPseudoType: // a null of no type
			return false
		case first == cty.NilType:
			first = e.Type()
		case !e.Type().Equals(first):
			return false
		}
	}
	return first != cty.NilType
}

// isGathered reports whether a type is a case of the loose one.
func isGathered(ty, want cty.Type) bool {
	same := ty.IsListType() && want.IsListType() || ty.IsSetType() && want.IsSetType() || ty.IsMapType() && want.IsMapType()
	return same && !ty.ElementType().HasDynamicTypes()
}

// makeCollection is tolist, toset or tomap.
func makeCollection(want cty.Type) function.Function {
	f := stdlib.MakeToFunc(want)
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "v", Type: cty.DynamicPseudoType, AllowNull: true, AllowMarked: true, AllowDynamicType: true}},
		Type: func(args []cty.Value) (cty.Type, error) {
			args, err := gatherAll(args, []cty.Type{want})
			if err != nil {
				return cty.NilType, err
			}
			if ty := args[0].Type(); isGathered(ty, want) {
				return ty, nil // cty would convert each element to find that out
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, ty cty.Type) (cty.Value, error) {
			args, err := gatherAll(args, []cty.Type{want})
			if err != nil {
				return cty.NilVal, err
			}
			if args[0].Type().Equals(ty) {
				return args[0], nil
			}
			return f.Call(args)
		},
	})
}

// listsOf wraps a function to which a tuple is the list of its elements, for which cty would look for their type.
func listsOf(f function.Function) function.Function {
	lists := func(args []cty.Value) []cty.Value {
		out := slices.Clone(args)
		for i, a := range args {
			if plain, _ := a.Unmark(); plain.Type().IsTupleType() && plain.IsKnown() && !plain.IsNull() && sameTypes(plain) {
				out[i], _ = gather(a, cty.List(cty.DynamicPseudoType)) // which fails for different types alone
			}
		}
		return out
	}
	return function.New(&function.Spec{
		Description: f.Description(), Params: f.Params(), VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) { return f.ReturnTypeForValues(lists(args)) },
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return f.Call(lists(args)) },
	})
}
