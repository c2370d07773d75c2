package config

import (
	"maps"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// pure are the functions that need nothing but their arguments: what names, sets, maps and access lists are made of. There is none
// that knows the time or makes something random: two plans of one configuration have to be the same plan.
var pure = map[string]function.Function{
	"max": stdlib.MaxFunc, "min": stdlib.MinFunc, "sum": sum,

	"endswith": textTest("suffix", strings.HasSuffix), "format": stdlib.FormatFunc, "join": stdlib.JoinFunc, "lower": stdlib.LowerFunc,
	"regex": stdlib.RegexFunc, "replace": replace, "split": stdlib.SplitFunc, "startswith": textTest("prefix", strings.HasPrefix),
	"trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc, "upper": stdlib.UpperFunc,

	"alltrue": boolFold(true), "anytrue": boolFold(false), "coalesce": coalesce, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc,
	"distinct": stdlib.DistinctFunc, "flatten": stdlib.FlattenFunc, "keys": stdlib.KeysFunc, "length": length, "lookup": lookup,
	"merge": stdlib.MergeFunc, "range": stdlib.RangeFunc, "setintersection": stdlib.SetIntersectionFunc, "setproduct": stdlib.SetProductFunc,
	"setsubtract": stdlib.SetSubtractFunc, "setunion": stdlib.SetUnionFunc, "sort": stdlib.SortFunc, "values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc,

	"tobool": stdlib.MakeToFunc(cty.Bool), "tolist": makeCollection(cty.List), "tomap": makeCollection(cty.Map),
	"tonumber": stdlib.MakeToFunc(cty.Number), "toset": makeCollection(cty.Set), "tostring": toString,

	"can": tryfunc.CanFunc, "jsondecode": stdlib.JSONDecodeFunc, "try": tryfunc.TryFunc,
	"digest": digest, "issensitive": isSensitive, "nonsensitive": makeNonsensitive, "sensitive": makeSensitive, "znodepath": znodePath,
}

// functionsOf is every function an expression in this module can call.
func (d *declarations) functionsOf(environ []string) map[string]function.Function {
	table := maps.Clone(pure)
	table["env"], table["file"] = env(environ), d.file()
	return table
}

// text makes a function of strings.
func text(names []string, ty cty.Type, f func(args []string) (cty.Value, error)) function.Function {
	var params []function.Parameter
	for _, name := range names {
		params = append(params, param(name, cty.String))
	}
	return returning(ty, func(args []cty.Value) (cty.Value, error) {
		plain := make([]string, len(args))
		for i, a := range args {
			plain[i] = a.AsString()
		}
		return f(plain)
	}, params...)
}

func textTest(second string, f func(s, x string) bool) function.Function {
	return text([]string{"str", second}, cty.Bool, func(args []string) (cty.Value, error) { return cty.BoolVal(f(args[0], args[1])), nil })
}

// replace replaces every occurrence of a text, or of a regular expression between slashes, as Terraform's does.
var replace = text([]string{"str", "substr", "replace"}, cty.String, func(args []string) (cty.Value, error) {
	s, old, replacement := args[0], args[1], args[2]
	if len(old) < 2 || old[0] != '/' || old[len(old)-1] != '/' {
		return cty.StringVal(strings.ReplaceAll(s, old, replacement)), nil
	}
	re, err := regexp.Compile(old[1 : len(old)-1])
	if err != nil {
		return cty.NilVal, function.NewArgErrorf(1, "not a regular expression: %s", err)
	}
	return cty.StringVal(re.ReplaceAllString(s, replacement)), nil
})
