package config

import (
	"errors"
	"slices"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
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

	"chomp": stdlib.ChompFunc, "endswith": endsWith, "format": stdlib.FormatFunc, "formatlist": stdlib.FormatListFunc,
	"indent": stdlib.IndentFunc, "join": stdlib.JoinFunc, "lower": stdlib.LowerFunc,
	"regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc, "replace": replace, "split": stdlib.SplitFunc,
	"startswith": startsWith, "strcontains": contains, "strrev": stdlib.ReverseFunc, "substr": stdlib.SubstrFunc,
	"title": stdlib.TitleFunc, "trim": stdlib.TrimFunc, "trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc,
	"trimsuffix": stdlib.TrimSuffixFunc, "upper": stdlib.UpperFunc,

	"alltrue": allTrue, "anytrue": anyTrue, "chunklist": stdlib.ChunklistFunc, "coalesce": coalesce,
	"coalescelist": stdlib.CoalesceListFunc, "compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc,
	"distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc, "index": index,
	"keys": stdlib.KeysFunc, "length": length, "lookup": lookup, "matchkeys": matchKeys, "merge": stdlib.MergeFunc,
	"one": one, "range": stdlib.RangeFunc, "reverse": stdlib.ReverseListFunc, "setintersection": stdlib.SetIntersectionFunc,
	"setproduct": stdlib.SetProductFunc, "setsubtract": stdlib.SetSubtractFunc, "setunion": stdlib.SetUnionFunc,
	"slice": stdlib.SliceFunc, "sort": stdlib.SortFunc, "sum": sum, "transpose": transpose, "values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc,

	"base64decode": base64Decode, "base64encode": base64Encode, "base64sha1": base64SHA1, "base64sha256": base64SHA256, "base64sha512": base64SHA512,
	"csvdecode": stdlib.CSVDecodeFunc, "jsondecode": stdlib.JSONDecodeFunc, "jsonencode": stdlib.JSONEncodeFunc, "urlencode": urlEncode,
	"md5": hexMD5, "sha1": hexSHA1, "sha256": hexSHA256, "sha512": hexSHA512,

	"formatdate": stdlib.FormatDateFunc, "timeadd": stdlib.TimeAddFunc,

	"tobool": stdlib.MakeToFunc(cty.Bool), "tolist": makeCollection(cty.List(cty.DynamicPseudoType)),
	"tomap": makeCollection(cty.Map(cty.DynamicPseudoType)), "tonumber": stdlib.MakeToFunc(cty.Number),
	"toset": makeCollection(cty.Set(cty.DynamicPseudoType)), "tostring": stdlib.MakeToFunc(cty.String),

	"basename": baseName, "convert": typeexpr.ConvertFunc, "dirname": dirName, "znodepath": znodePath,
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
		"env": guard(m.env()), "file": guard(m.file()), "fileexists": guard(m.fileExists()),
	}
	for name, f := range pure {
		table[name] = guard(f)
	}
	for name, f := range marking {
		table[name] = f
	}
	// A template cannot render templates: nothing would bound the recursion.
	table["templatefile"] = guard(m.templateFile(table))
	return table
}

var errNoResult = errors.New("there is no result for these arguments")

var errWithheld = errors.New("the reason is not shown because an argument is sensitive")

// guard wraps a function so that its error cannot quote a sensitive argument: cty takes the marks off before the
// implementation sees its arguments, and many implementations name what they could not read.
//
// The wrapper takes marked values where f does not, and calls f through cty, which takes the marks off and
// puts them on the result: marks are seen here and lost nowhere.
func guard(f function.Function) function.Function {
	params := slices.Clone(f.Params())
	for i := range params {
		params[i].AllowMarked = true
	}
	rest := f.VarParam()
	if rest != nil {
		c := *rest
		c.AllowMarked = true
		rest = &c
	}
	return function.New(&function.Spec{
		Description: f.Description(), Params: params, VarParam: rest,
		Type: func(args []cty.Value) (cty.Type, error) {
			ty, err := f.ReturnTypeForValues(args)
			return ty, withhold(err, args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v, err := f.Call(args)
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
