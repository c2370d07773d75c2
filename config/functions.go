package config

import (
	"maps"

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

	"chomp": stdlib.ChompFunc, "format": stdlib.FormatFunc, "formatlist": stdlib.FormatListFunc,
	"indent": stdlib.IndentFunc, "join": stdlib.JoinFunc, "lower": stdlib.LowerFunc,
	"regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc, "split": stdlib.SplitFunc,
	"strrev": stdlib.ReverseFunc, "substr": stdlib.SubstrFunc,
	"title": stdlib.TitleFunc, "trim": stdlib.TrimFunc, "trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc,
	"trimsuffix": stdlib.TrimSuffixFunc, "upper": stdlib.UpperFunc,

	"alltrue": allTrue, "anytrue": anyTrue, "chunklist": stdlib.ChunklistFunc, "coalesce": coalesce,
	"coalescelist": stdlib.CoalesceListFunc, "compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc,
	"distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc, "index": index,
	"keys": stdlib.KeysFunc, "length": length, "lookup": lookup, "matchkeys": matchKeys, "merge": stdlib.MergeFunc,
	"one": one, "range": stdlib.RangeFunc, "reverse": stdlib.ReverseListFunc, "setintersection": stdlib.SetIntersectionFunc,
	"setproduct": stdlib.SetProductFunc, "setsubtract": stdlib.SetSubtractFunc, "setunion": stdlib.SetUnionFunc,
	"slice": stdlib.SliceFunc, "sort": stdlib.SortFunc, "sum": sum, "transpose": transpose, "values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc,

	"csvdecode": stdlib.CSVDecodeFunc, "jsondecode": stdlib.JSONDecodeFunc, "jsonencode": stdlib.JSONEncodeFunc,

	"formatdate": stdlib.FormatDateFunc, "timeadd": stdlib.TimeAddFunc,

	"tobool": stdlib.MakeToFunc(cty.Bool), "tolist": makeCollection(cty.List),
	"tomap": makeCollection(cty.Map), "tonumber": stdlib.MakeToFunc(cty.Number),
	"toset": makeCollection(cty.Set), "tostring": toString,

	"convert": typeexpr.ConvertFunc, "znodepath": znodePath,

	"sensitive": makeSensitive, "nonsensitive": makeNonsensitive, "issensitive": isSensitive, "digest": digest,
	"try": tryfunc.TryFunc, "can": tryfunc.CanFunc,
}

// functionsOf is every function an expression in this module can call.
func (m *module) functionsOf() map[string]function.Function {
	table := maps.Clone(pure)
	maps.Copy(table, textFunctions)
	table["env"], table["file"], table["fileexists"] = m.env(), m.file(), m.fileExists()
	// A template cannot render templates: nothing would bound the recursion.
	table["templatefile"] = m.templateFile(maps.Clone(table))
	return table
}
