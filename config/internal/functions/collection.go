package functions

import (
	"errors"
	"maps"
	"math/big"
	"slices"
	"strconv"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

type implementation func(args []cty.Value) (cty.Value, error)

func param(name string, ty cty.Type) function.Parameter {
	return function.Parameter{Name: name, Type: ty}
}

// markParam takes a value with its marks.
func markParam(name string) *function.Parameter {
	return &function.Parameter{Name: name, Type: cty.DynamicPseudoType, AllowMarked: true, AllowNull: true, AllowDynamicType: true}
}

// ofType makes a function whose result always has the same type.
func ofType(ty cty.Type, f implementation, params ...function.Parameter) function.Function {
	return function.New(&function.Spec{
		Params: params, Type: function.StaticReturnType(ty),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return f(args) },
	})
}

// computing makes a function whose result has the type of the value that it computes.
func computing(f implementation, rest *function.Parameter, params ...function.Parameter) function.Function {
	return function.New(&function.Spec{
		Params: params, VarParam: rest,
		Type: func(args []cty.Value) (cty.Type, error) {
			// HCL tries the condition of a "for" before it has elements.
			if slices.ContainsFunc(args, func(v cty.Value) bool { return !v.IsWhollyKnown() }) {
				return cty.DynamicPseudoType, nil
			}
			v, err := f(args)
			return v.Type(), err
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return f(args) },
	})
}

// boolFold makes alltrue and anytrue. They take null for false, as Terraform's do.
func boolFold(start bool) function.Function {
	return ofType(cty.Bool, func(args []cty.Value) (cty.Value, error) {
		stop := slices.ContainsFunc(args[0].AsValueSlice(), func(v cty.Value) bool { return (!v.IsNull() && v.True()) != start })
		return cty.BoolVal(start != stop), nil
	}, param("list", cty.List(cty.Bool)))
}

// length counts the characters of a string, and the elements of any other value. Their number does not reveal a sensitive
// element.
var length = ofType(cty.Number, func(args []cty.Value) (cty.Value, error) {
	switch v, marks := args[0].Unmark(); {
	case v.Type() == cty.String:
		n, err := stdlib.Strlen(v)
		return n.WithMarks(marks), err
	case v.CanIterateElements():
		return cty.NumberIntVal(int64(v.LengthInt())).WithMarks(marks), nil
	default:
		return cty.NilVal, errors.New("must be a string, a list, a set, a map or an object")
	}
}, function.Parameter{Name: "value", Type: cty.DynamicPseudoType, AllowMarked: true})

// coalesce is the first of its arguments that is neither null nor the empty string, of the type that all of them have.
var coalesce = function.New(&function.Spec{
	VarParam: stdlib.CoalesceFunc.VarParam(),
	Type:     func(args []cty.Value) (cty.Type, error) { return stdlib.CoalesceFunc.ReturnTypeForValues(args) },
	Impl: func(args []cty.Value, ty cty.Type) (cty.Value, error) {
		for _, a := range args {
			v, err := convert.Convert(a, ty)
			if err != nil || !v.IsNull() && !(ty == cty.String && v.AsString() == "") {
				return v, err
			}
		}
		return cty.NilVal, errors.New("every argument is null or an empty string")
	},
})

// lookup is an element of a map or an attribute of an object, and the default if there is none. The lookup of cty's stdlib
// refuses null as the default. Marks of other elements stay where they are.
var lookup = computing(func(args []cty.Value) (cty.Value, error) {
	in, marks := args[0].Unmark()
	key, ty := args[1].AsString(), in.Type()
	switch {
	case len(args) > 3:
		return cty.NilVal, function.NewArgErrorf(3, "lookup takes one default at most")
	case !ty.IsObjectType() && !ty.IsMapType():
		return cty.NilVal, function.NewArgErrorf(0, "must be a map or an object")
	case len(args) == 3 && ty.IsMapType():
		var err error
		if args[2], err = convert.Convert(args[2], ty.ElementType()); err != nil {
			return cty.NilVal, function.NewArgErrorf(2, "must be of the type of the elements: %s", err)
		}
	}
	switch {
	case ty.IsObjectType() && ty.HasAttribute(key):
		return in.GetAttr(key).WithMarks(marks), nil
	case ty.IsMapType() && in.HasIndex(args[1]).True():
		return in.Index(args[1]).WithMarks(marks), nil
	case len(args) == 2:
		return cty.NilVal, function.NewArgErrorf(1, "there is no %q, and no default: write lookup(MAP, KEY, DEFAULT)", key)
	}
	return args[2].WithMarks(marks), nil
}, markParam("default"), function.Parameter{Name: "map", Type: cty.DynamicPseudoType, AllowMarked: true}, param("key", cty.String))

// sum adds numbers.
var sum = ofType(cty.Number, func(args []cty.Value) (cty.Value, error) {
	if args[0].LengthInt() == 0 {
		return cty.NilVal, function.NewArgErrorf(0, "the list is empty: write sum(concat([0], ...)) if that can happen")
	}
	total := cty.Zero
	for _, v := range args[0].AsValueSlice() {
		if v.IsNull() {
			return cty.NilVal, function.NewArgErrorf(0, "an element is null")
		}
		total = total.Add(v)
	}
	return total, nil
}, param("list", cty.List(cty.Number)))

// toString is tostring. It writes integers itself. cty looks for the shortest text that rounds to the same 512 bits, which takes 13
// µs. A for_each may have 100,000 such names.
var toString = func() function.Function {
	any := stdlib.MakeToFunc(cty.String)
	return function.New(&function.Spec{
		Params: any.Params(),
		Type:   func(args []cty.Value) (cty.Type, error) { return any.ReturnTypeForValues(args) },
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if v := args[0]; v.Type() == cty.Number && !v.IsNull() {
				// Below 2^53, the digits of an integer are already the shortest text for it, so cty need not search. 0 may have a
				// sign, so cty writes it.
				if n, exact := v.AsBigFloat().Int64(); exact == big.Exact && n != 0 && max(n, -n) < 1<<53 {
					return cty.StringVal(strconv.FormatInt(n, 10)), nil
				}
			}
			return any.Call(args)
		},
	})
}()

// makeCollection is tolist, toset or tomap. It finds out itself whether all elements are of one type. cty compares the types of
// each two elements, which takes minutes for the 100,000 names that a for_each may have.
func makeCollection(of func(cty.Type) cty.Type) function.Function {
	any := stdlib.MakeToFunc(of(cty.DynamicPseudoType))
	return function.New(&function.Spec{
		Params: []function.Parameter{*markParam("v")},
		Type: func(args []cty.Value) (cty.Type, error) {
			if of := of(elementType(args[0].Type())); !of.HasDynamicTypes() && convert.GetConversionUnsafe(args[0].Type(), of) != nil {
				return of, nil
			}
			return any.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, ty cty.Type) (cty.Value, error) {
			if ty.HasDynamicTypes() {
				return any.Call(args)
			}
			return convert.Convert(args[0], ty)
		},
	})
}

// elementType is the type of all elements of a tuple or an object, or any.
func elementType(ty cty.Type) cty.Type {
	var types []cty.Type
	switch {
	case ty.IsTupleType():
		types = ty.TupleElementTypes()
	case ty.IsObjectType():
		types = slices.Collect(maps.Values(ty.AttributeTypes()))
	}
	if len(types) == 0 || slices.ContainsFunc(types, func(t cty.Type) bool { return !t.Equals(types[0]) }) {
		return cty.DynamicPseudoType
	}
	return types[0]
}
