package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// pure are the functions that need nothing but their arguments. There is none
// that knows the time or makes something random: two plans of one configuration
// have to be the same plan.
var pure = map[string]function.Function{
	"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "floor": stdlib.FloorFunc, "log": stdlib.LogFunc,
	"max": stdlib.MaxFunc, "min": stdlib.MinFunc, "parseint": stdlib.ParseIntFunc, "pow": stdlib.PowFunc, "signum": stdlib.SignumFunc,

	"chomp": stdlib.ChompFunc, "endswith": endsWith, "format": limited(stdlib.FormatFunc, maxTextBytes, formatSize), "formatlist": limited(stdlib.FormatListFunc, maxValueBytes, formatListSize),
	"indent": limited(stdlib.IndentFunc, maxTextBytes, indentSize), "join": limited(stdlib.JoinFunc, maxTextBytes, joinSize), "lower": stdlib.LowerFunc,
	"regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc, "replace": replace, "split": stdlib.SplitFunc,
	"startswith": startsWith, "strcontains": contains, "strrev": stdlib.ReverseFunc, "substr": stdlib.SubstrFunc,
	"title": stdlib.TitleFunc, "trim": stdlib.TrimFunc, "trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc,
	"trimsuffix": stdlib.TrimSuffixFunc, "upper": stdlib.UpperFunc,

	"alltrue": allTrue, "anytrue": anyTrue, "chunklist": stdlib.ChunklistFunc, "coalesce": coalesce,
	"coalescelist": stdlib.CoalesceListFunc, "compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc,
	"distinct": distinct, "element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc, "index": index,
	"keys": stdlib.KeysFunc, "length": length, "lookup": lookup, "matchkeys": matchKeys, "merge": stdlib.MergeFunc,
	"one": one, "range": stdlib.RangeFunc, "reverse": stdlib.ReverseListFunc, "setintersection": stdlib.SetIntersectionFunc,
	"setproduct": limited(listsOf(stdlib.SetProductFunc), maxTextBytes, productSize), "setsubtract": stdlib.SetSubtractFunc, "setunion": stdlib.SetUnionFunc,
	"slice": stdlib.SliceFunc, "sort": stdlib.SortFunc, "sum": sum, "transpose": transpose, "values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc,

	"base64decode": base64Decode, "base64encode": base64Encode, "base64sha1": base64SHA1, "base64sha256": base64SHA256, "base64sha512": base64SHA512,
	"csvdecode": stdlib.CSVDecodeFunc, "jsondecode": stdlib.JSONDecodeFunc, "jsonencode": stdlib.JSONEncodeFunc, "urlencode": urlEncode,
	"md5": hexMD5, "sha1": hexSHA1, "sha256": hexSHA256, "sha512": hexSHA512,

	"formatdate": stdlib.FormatDateFunc, "timeadd": stdlib.TimeAddFunc,

	"tobool": stdlib.MakeToFunc(cty.Bool), "tolist": makeCollection(cty.List(cty.DynamicPseudoType)),
	"tomap": makeCollection(cty.Map(cty.DynamicPseudoType)), "tonumber": stdlib.MakeToFunc(cty.Number),
	"toset": makeCollection(cty.Set(cty.DynamicPseudoType)), "tostring": stdlib.MakeToFunc(cty.String),

	"basename": baseName, "dirname": dirName, "znodepath": znodePath,
}

// marking are the functions whose result differs in marks from what HCL would
// give it. They look at marks themselves and must not be guarded.
var marking = map[string]function.Function{
	"sensitive": makeSensitive, "nonsensitive": makeNonsensitive, "issensitive": isSensitive, "digest": digest,
	// These take expressions and not values.
	"try": try, "can": tryfunc.CanFunc,
}

// functionsOf is every function an expression in this module can call.
func (m *module) functionsOf() map[string]function.Function {
	table := map[string]function.Function{
		"env": guard("env", m.env(), &m.effort), "file": guard("file", m.file(), &m.effort), "fileexists": guard("fileexists", m.fileExists(), &m.effort),
		"convert": makeConvert(&m.effort),
	}
	for name, f := range pure {
		table[name] = guard(name, f, &m.effort)
	}
	for name, f := range marking {
		table[name] = f
	}
	// A template cannot render templates: nothing would bound the recursion.
	table["templatefile"] = guard("templatefile", m.templateFile(table), &m.effort)
	return table
}

var errNoResult = errors.New("there is no result for these arguments")

var errWithheld = errors.New("the reason is not shown because an argument is sensitive")

// guard wraps a function so that its error cannot quote a sensitive argument:
// cty takes the marks off before the implementation sees its arguments, and many
// implementations name what they could not read. And it counts what is gone through.
//
// The wrapper takes marked values where f does not, and calls f through cty, which takes the marks off and
// puts them on the result: marks are seen here and lost nowhere. cty calls Type before each Impl, so
// that the arguments are charged once, in Type; Impl charges the result.
func guard(name string, f function.Function, e *effort) function.Function {
	params := slices.Clone(f.Params())
	wants := make([]cty.Type, len(params))
	for i := range params {
		params[i].AllowMarked = true
		wants[i] = params[i].Type
		if isLoose(wants[i]) || isPlain(wants[i]) {
			params[i].Type = cty.DynamicPseudoType // gather converts it instead of hcl
		}
	}
	var rest *function.Parameter
	if v := f.VarParam(); v != nil {
		c := *v
		c.AllowMarked = true
		if isLoose(v.Type) || isPlain(v.Type) {
			c.Type = cty.DynamicPseudoType
		}
		rest = &c
		wants = append(wants, v.Type)
	}
	return function.New(&function.Spec{
		Description: f.Description(), Params: params, VarParam: rest,
		Type: func(args []cty.Value) (cty.Type, error) {
			if err := e.charge(&weigher{loose: true}, args...); err != nil {
				return cty.NilType, err
			}
			if err := e.unify(pairsToCall(name, args, wants)); err != nil {
				return cty.NilType, err
			}
			gathered, err := gatherAll(args, wants)
			if err != nil {
				return cty.NilType, withhold(err, args)
			}
			ty, err := f.ReturnTypeForValues(gathered)
			return ty, withhold(err, args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			gathered, err := gatherAll(args, wants)
			if err != nil {
				return cty.NilVal, withhold(err, args)
			}
			v, err := f.Call(gathered)
			if err == nil {
				err = e.charge(&weigher{loose: true}, v)
			}
			return v, withhold(err, args)
		},
	})
}

// withhold is the error of a function as a person may see it. cty recovers the panics of functions, as of
// log(-1, 2), into an error with a stack trace, which tells nobody what to write.
func withhold(err error, args []cty.Value) error {
	var panicked function.PanicError
	if errors.As(err, &panicked) {
		return errNoResult
	}
	if err != nil && slices.ContainsFunc(args, cty.Value.ContainsMarked) {
		return errWithheld
	}
	return err
}

// limited wraps a function whose result can be much larger than its arguments.
// size must not be smaller than the result, in bytes or elements, of which most are allowed.
func limited(f function.Function, most int, size func(args []cty.Value) int) function.Function {
	check := func(args []cty.Value) error {
		plain := make([]cty.Value, len(args))
		for i, a := range args {
			plain[i], _ = a.UnmarkDeep()
			if !plain[i].IsWhollyKnown() || plain[i].IsNull() {
				return nil // f refuses or passes these on by itself
			}
		}
		if size(plain) > most {
			return fmt.Errorf("the result would have more than %d bytes or elements", most)
		}
		return nil
	}
	return function.New(&function.Spec{
		Description: f.Description(), Params: f.Params(), VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			if err := check(args); err != nil {
				return cty.NilType, err
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return f.Call(args) },
	})
}
