package config

import (
	"crypto"
	_ "crypto/md5" // registers the hash, as those below
	_ "crypto/sha1"
	_ "crypto/sha256"
	_ "crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"maps"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

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

func textToText(f func(string) string) function.Function {
	return text([]string{"str"}, cty.String, func(args []string) (cty.Value, error) { return cty.StringVal(f(args[0])), nil })
}

func textTest(second string, f func(s, x string) bool) function.Function {
	return text([]string{"str", second}, cty.Bool, func(args []string) (cty.Value, error) { return cty.BoolVal(f(args[0], args[1])), nil })
}

func hashed(with crypto.Hash, encode func([]byte) string) function.Function {
	return textToText(func(s string) string {
		h := with.New()
		h.Write([]byte(s))
		return encode(h.Sum(nil))
	})
}

var base64Text = base64.StdEncoding.EncodeToString

var textFunctions = map[string]function.Function{
	"startswith": textTest("prefix", strings.HasPrefix), "endswith": textTest("suffix", strings.HasSuffix), "strcontains": textTest("substr", strings.Contains),
	"basename": textToText(path.Base), "dirname": textToText(path.Dir), "urlencode": textToText(url.QueryEscape),
	"md5": hashed(crypto.MD5, hex.EncodeToString), "sha1": hashed(crypto.SHA1, hex.EncodeToString),
	"sha256": hashed(crypto.SHA256, hex.EncodeToString), "sha512": hashed(crypto.SHA512, hex.EncodeToString),
	"base64sha1": hashed(crypto.SHA1, base64Text), "base64sha256": hashed(crypto.SHA256, base64Text), "base64sha512": hashed(crypto.SHA512, base64Text),
	"base64encode": textToText(func(s string) string { return base64Text([]byte(s)) }),
	"base64decode": text([]string{"str"}, cty.String, func(args []string) (cty.Value, error) {
		raw, err := base64.StdEncoding.DecodeString(args[0])
		switch {
		case err != nil:
			return cty.NilVal, errors.New("the string is not base64")
		case !utf8.Valid(raw):
			return cty.NilVal, errors.New("the decoded bytes are not valid UTF-8, which a string must be")
		}
		return cty.StringVal(string(raw)), nil
	}),

	// replace replaces every occurrence of a text, or of a regular expression between slashes, as Terraform's does.
	"replace": text([]string{"str", "substr", "replace"}, cty.String, func(args []string) (cty.Value, error) {
		s, old, replacement := args[0], args[1], args[2]
		if len(old) < 2 || old[0] != '/' || old[len(old)-1] != '/' {
			return cty.StringVal(strings.ReplaceAll(s, old, replacement)), nil
		}
		re, err := regexp.Compile(old[1 : len(old)-1])
		if err != nil {
			return cty.NilVal, function.NewArgErrorf(1, "not a regular expression: %s", err)
		}
		return cty.StringVal(re.ReplaceAllString(s, replacement)), nil
	}),
}
