package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

func anyParam(name string) function.Parameter {
	return function.Parameter{Name: name, Type: cty.DynamicPseudoType}
}

// allTrue and anyTrue take null for false, as Terraform's do.
var (
	allTrue = boolFold(true)
	anyTrue = boolFold(false)
)

func boolFold(start bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Bool)}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			for it := args[0].ElementIterator(); it.Next(); {
				_, v := it.Element()
				if yes := !v.IsNull() && v.True(); yes != start {
					return cty.BoolVal(!start), nil
				}
			}
			return cty.BoolVal(start), nil
		},
	})
}

// length counts characters of a string and elements of everything else. How many there are says nothing of what a
// sensitive element is.
var length = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowMarked: true}},
	Type:   function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		switch v, marks := args[0].Unmark(); {
		case v.Type() == cty.String:
			n, err := stdlib.Strlen(v)
			return n.WithMarks(marks), err
		case v.CanIterateElements():
			return cty.NumberIntVal(int64(v.LengthInt())).WithMarks(marks), nil
		default:
			return cty.NilVal, errors.New("must be a string, a list, a set, a map or an object")
		}
	},
})

// one turns a list of no or one element into null or the element.
var one = function.New(&function.Spec{
	Params: []function.Parameter{anyParam("list")},
	Type: func(args []cty.Value) (cty.Type, error) {
		switch ty := args[0].Type(); {
		case ty.IsListType() || ty.IsSetType():
			return ty.ElementType(), nil
		case ty.IsTupleType() && len(ty.TupleElementTypes()) == 0:
			return cty.DynamicPseudoType, nil
		case ty.IsTupleType() && len(ty.TupleElementTypes()) == 1:
			return ty.TupleElementType(0), nil
		default:
			return cty.NilType, errOne
		}
	},
	Impl: func(args []cty.Value, ty cty.Type) (cty.Value, error) {
		switch args[0].LengthInt() {
		case 0:
			return cty.NullVal(ty), nil
		case 1:
			it := args[0].ElementIterator()
			it.Next()
			_, v := it.Element()
			return v, nil
		default:
			return cty.NilVal, errOne
		}
	},
})

var errOne = errors.New("must be a list, set or tuple with no or one element")

// coalesce is the first of its arguments that is neither null nor the empty string, of the type that all of them have.
var coalesce = function.New(&function.Spec{
	Description: stdlib.CoalesceFunc.Description(), VarParam: stdlib.CoalesceFunc.VarParam(),
	Type: func(args []cty.Value) (cty.Type, error) { return stdlib.CoalesceFunc.ReturnTypeForValues(args) },
	Impl: func(args []cty.Value, ty cty.Type) (cty.Value, error) {
		for _, a := range args {
			v, err := convert.Convert(a, ty)
			if err != nil {
				return cty.NilVal, err
			}
			if !v.IsNull() && !(v.Type() == cty.String && v.AsString() == "") {
				return v, nil
			}
		}
		return cty.NilVal, errors.New("every argument is null or an empty string")
	},
})

// lookup is an element of a map, or an attribute of an object, or else the default. stdlib's takes no null for it.
// Marks of other elements stay where they are.
var lookup = function.New(&function.Spec{
	Params: []function.Parameter{
		{Name: "map", Type: cty.DynamicPseudoType, AllowMarked: true}, {Name: "key", Type: cty.String},
	},
	VarParam: &function.Parameter{Name: "default", Type: cty.DynamicPseudoType, AllowNull: true, AllowDynamicType: true, AllowMarked: true},
	Type: func(args []cty.Value) (cty.Type, error) {
		v, err := lookUp(args)
		if err != nil {
			return cty.NilType, err
		}
		return v.Type(), nil
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return lookUp(args) },
})

func lookUp(args []cty.Value) (cty.Value, error) {
	in, marks := args[0].Unmark()
	key, ty := args[1].AsString(), in.Type()
	switch {
	case len(args) > 3:
		return cty.NilVal, function.NewArgErrorf(3, "there is one default at most")
	case !ty.IsObjectType() && !ty.IsMapType():
		return cty.NilVal, function.NewArgErrorf(0, "must be a map or an object")
	}
	var or cty.Value
	if len(args) == 3 {
		or = args[2]
		if ty.IsMapType() {
			var err error
			if or, err = convert.Convert(or, ty.ElementType()); err != nil {
				return cty.NilVal, function.NewArgErrorf(2, "must be of the type of the elements: %s", err)
			}
		}
	}
	switch {
	case ty.IsObjectType() && ty.HasAttribute(key):
		return in.GetAttr(key).WithMarks(marks), nil
	case ty.IsMapType() && in.HasIndex(args[1]).True():
		return in.Index(args[1]).WithMarks(marks), nil
	case or == cty.NilVal:
		return cty.NilVal, function.NewArgErrorf(1, "there is no %q, and no default: write lookup(MAP, KEY, DEFAULT)", key)
	}
	return or.WithMarks(marks), nil
}

// index finds a value in a list.
var index = function.New(&function.Spec{
	Params: []function.Parameter{anyParam("list"), anyParam("value")},
	Type:   function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if ty := args[0].Type(); !ty.IsListType() && !ty.IsTupleType() {
			return cty.NilVal, function.NewArgErrorf(0, "must be a list")
		}
		for it := args[0].ElementIterator(); it.Next(); {
			i, v := it.Element()
			if v.Type().Equals(args[1].Type()) && v.RawEquals(args[1]) {
				return i, nil
			}
		}
		return cty.NilVal, errors.New("the list does not contain the value")
	},
})

// sum adds numbers, also those of a set or a tuple.
var sum = function.New(&function.Spec{
	Params: []function.Parameter{anyParam("list")},
	Type:   function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if ty := args[0].Type(); !ty.IsListType() && !ty.IsSetType() && !ty.IsTupleType() {
			return cty.NilVal, function.NewArgErrorf(0, "must be a list, set or tuple of numbers")
		}
		if args[0].LengthInt() == 0 {
			return cty.NilVal, function.NewArgErrorf(0, "it has no elements: write sum(concat([0], ...)) where that may be")
		}
		total := cty.Zero
		for it := args[0].ElementIterator(); it.Next(); {
			_, v := it.Element()
			n, err := convert.Convert(v, cty.Number)
			if err != nil || n.IsNull() {
				return cty.NilVal, function.NewArgErrorf(0, "every element must be a number")
			}
			total = total.Add(n)
		}
		return total, nil
	},
})

// matchKeys keeps the values at the places where keys has one of the wanted.
var matchKeys = function.New(&function.Spec{
	Params: []function.Parameter{
		{Name: "values", Type: cty.List(cty.DynamicPseudoType)},
		{Name: "keys", Type: cty.List(cty.DynamicPseudoType)},
		{Name: "searchset", Type: cty.List(cty.DynamicPseudoType)},
	},
	Type: func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
	Impl: func(args []cty.Value, ty cty.Type) (cty.Value, error) {
		of, _ := convert.UnifyUnsafe([]cty.Type{args[1].Type(), args[2].Type()})
		if of == cty.NilType {
			return cty.NilVal, errors.New("keys and searchset must be of one type")
		}
		// They unify, so that only what a text says may keep one from being converted.
		keyList, err := convert.Convert(args[1], of)
		if err != nil {
			return cty.NilVal, function.NewArgError(1, err)
		}
		wantedList, err := convert.Convert(args[2], of)
		if err != nil {
			return cty.NilVal, function.NewArgError(2, err)
		}
		values, keys, wanted := args[0].AsValueSlice(), keyList.AsValueSlice(), wantedList.AsValueSlice()
		if len(values) != len(keys) {
			return cty.NilVal, fmt.Errorf("values and keys must be of one length: they have %d and %d elements", len(values), len(keys))
		}
		out := []cty.Value{}
		for i, k := range keys {
			if slices.ContainsFunc(wanted, k.RawEquals) {
				out = append(out, values[i])
			}
		}
		if len(out) == 0 {
			return cty.ListValEmpty(ty.ElementType()), nil
		}
		return cty.ListVal(out), nil
	},
})

// transpose turns a map of lists of strings around.
var transpose = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "values", Type: cty.Map(cty.List(cty.String))}},
	Type:   function.StaticReturnType(cty.Map(cty.List(cty.String))),
	Impl: func(args []cty.Value, ty cty.Type) (cty.Value, error) {
		lists := map[string][]cty.Value{}
		for it := args[0].ElementIterator(); it.Next(); {
			k, list := it.Element()
			if list.IsNull() {
				return cty.NilVal, errors.New("a list is null")
			}
			for inner := list.ElementIterator(); inner.Next(); {
				_, v := inner.Element()
				if v.IsNull() {
					return cty.NilVal, errors.New("an element is null")
				}
				lists[v.AsString()] = append(lists[v.AsString()], k)
			}
		}
		if len(lists) == 0 {
			return cty.MapValEmpty(ty.ElementType()), nil
		}
		out := map[string]cty.Value{}
		for k, list := range lists {
			out[k] = cty.ListVal(list)
		}
		return cty.MapVal(out), nil
	},
})

// makeCollection is tolist, toset or tomap. What is of one type already it gathers in linear time: cty compares the type
// of each element with that of each other one, which takes minutes for the 100,000 names that a for_each may have.
func makeCollection(want cty.Type) function.Function {
	f := stdlib.MakeToFunc(want)
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "v", Type: cty.DynamicPseudoType, AllowMarked: true, AllowNull: true, AllowDynamicType: true}},
		Type: func(args []cty.Value) (cty.Type, error) {
			if ty := gathered(args[0], want); ty != cty.NilType {
				return ty, nil
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v, marks := args[0].Unmark()
			switch ty := gathered(v, want); {
			case ty == cty.NilType:
				return f.Call(args)
			case ty.IsMapType():
				return cty.MapVal(v.AsValueMap()).WithMarks(marks), nil
			case ty.IsSetType():
				return cty.SetVal(v.AsValueSlice()).WithMarks(marks), nil
			default:
				return cty.ListVal(v.AsValueSlice()).WithMarks(marks), nil
			}
		},
	})
}

// gathered is the type of collection that a tuple or an object makes whose elements are all of one type, or NilType.
func gathered(v cty.Value, want cty.Type) (of cty.Type) {
	v, _ = v.Unmark()
	if ty := v.Type(); !v.IsKnown() || v.IsNull() || !(ty.IsObjectType() && want.IsMapType() || ty.IsTupleType() && !want.IsMapType()) {
		return cty.NilType
	}
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		if ty := e.Type(); ty == cty.DynamicPseudoType || of != cty.NilType && !ty.Equals(of) { // a null of no type
			return cty.NilType
		}
		of = e.Type()
	}
	switch {
	case of == cty.NilType:
		return of
	case want.IsMapType():
		return cty.Map(of)
	case want.IsSetType():
		return cty.Set(of)
	default:
		return cty.List(of)
	}
}
