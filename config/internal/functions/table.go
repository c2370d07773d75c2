package functions

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/recipes/kind"
)

// pureFunctions are the functions that need nothing but their arguments: those of go-cty's standard library that Terraform has
// too, and ours. No function knows the time or makes something random: two plans of one configuration have to be the same plan.
var pureFunctions = map[string]function.Function{
	"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "floor": stdlib.FloorFunc, "log": stdlib.LogFunc, "max": stdlib.MaxFunc,
	"min": stdlib.MinFunc, "parseint": stdlib.ParseIntFunc, "pow": stdlib.PowFunc, "signum": stdlib.SignumFunc, "sum": sum,

	"chomp": stdlib.ChompFunc, "endswith": textTest("suffix", strings.HasSuffix), "format": withGuard(stdlib.FormatFunc, checkFormat(false)),
	"formatdate": stdlib.FormatDateFunc, "formatlist": withGuard(stdlib.FormatListFunc, checkFormat(true)), "indent": withGuard(stdlib.IndentFunc, indented),
	"join": withGuard(stdlib.JoinFunc, joined), "lower": stdlib.LowerFunc, "regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc,
	"replace": replace, "split": stdlib.SplitFunc, "startswith": textTest("prefix", strings.HasPrefix), "strcontains": textTest("substr", strings.Contains),
	"strrev": stdlib.ReverseFunc, "substr": stdlib.SubstrFunc, "timeadd": stdlib.TimeAddFunc, "title": stdlib.TitleFunc, "trim": stdlib.TrimFunc,
	"trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc, "upper": stdlib.UpperFunc,

	"alltrue": boolFold(true), "anytrue": boolFold(false), "chunklist": stdlib.ChunklistFunc, "coalesce": coalesce, "coalescelist": stdlib.CoalesceListFunc,
	"compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc, "distinct": stdlib.DistinctFunc,
	"element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc, "keys": stdlib.KeysFunc, "length": length, "lookup": lookup,
	"merge": stdlib.MergeFunc, "range": stdlib.RangeFunc, "reverse": stdlib.ReverseListFunc, "setintersection": stdlib.SetIntersectionFunc,
	"setproduct": withGuard(stdlib.SetProductFunc, checkSetproduct), "setsubtract": stdlib.SetSubtractFunc, "setunion": stdlib.SetUnionFunc,
	"slice": stdlib.SliceFunc, "sort": stdlib.SortFunc, "values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc,

	"tobool": stdlib.MakeToFunc(cty.Bool), "tolist": makeCollection(cty.List), "tomap": makeCollection(cty.Map),
	"tonumber": stdlib.MakeToFunc(cty.Number), "toset": makeCollection(cty.Set), "tostring": toString,

	"csvdecode": stdlib.CSVDecodeFunc, "jsondecode": withGuard(stdlib.JSONDecodeFunc, decodable), "jsonencode": stdlib.JSONEncodeFunc,
	"can": tryfunc.CanFunc, "try": tryfunc.TryFunc,
	"digest": digest, "issensitive": isSensitive, "nonsensitive": makeNonsensitive, "sensitive": makeSensitive, "znodepath": znodePath,
}

// Module is the module whose expressions call functions.
type Module struct {
	FS   fs.FS  // its directory
	Dir  string // what messages call the directory
	Path string // its path from the configuration's directory, like path.module
}

// Table is every function that an expression in a module can call; environ is what env reads, as [os.Environ] gives it.
func Table(in Module, environ []string) map[string]function.Function {
	table := maps.Clone(pureFunctions)
	table["env"], table["file"] = env(environ), in.file()
	return table
}

// env reads the environment given to Load. Most such values are secrets, so they are marked unless nonsensitive() takes the
// mark off.
func env(environ []string) function.Function {
	values := map[string]string{}
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok {
			values[name] = value
		}
	}
	return ofType(cty.String, func(args []cty.Value) (cty.Value, error) {
		given, marks := args[0].Unmark()
		name := given.AsString()
		value, ok := values[name]
		if len(marks) > 0 {
			name = "with a sensitive name"
		}
		switch {
		case !ok:
			return cty.NilVal, plain{fmt.Errorf("the environment variable %s is not set: export it, or give another value with try(env(...), ...)", name)}
		case syntax.TextError(value) != nil:
			return cty.NilVal, plain{fmt.Errorf("the environment variable %s %w: convert it, or use another text", name, syntax.TextError(value))}
		}
		return cty.StringVal(value).Mark(Sensitive), nil
	}, function.Parameter{Name: "name", Type: cty.String, AllowMarked: true})
}

// resolve turns a path, which is relative to the configuration's directory as path.module is, into one below the module's
// directory. It refuses a path that leads out of there, and the file system refuses such symbolic links (syntax.Directories). A
// configuration must neither depend on its surroundings nor leak them.
func (in Module) resolve(name string) (string, error) {
	base := filepath.FromSlash(in.Path)
	if filepath.IsAbs(name) {
		var err error
		if base, err = filepath.Abs(in.Dir); err != nil {
			return "", err
		}
	}
	name, err := filepath.Rel(base, name)
	if err != nil {
		return "", errOutside
	}
	name = filepath.ToSlash(name)
	if !fs.ValidPath(name) {
		return "", errOutside
	}
	return name, nil
}

var errOutside = errors.New("only files in the directory of the module can be read: copy it there, and write \"${path.module}/NAME\"")

func (in Module) read(name string) (string, error) {
	inside, err := in.resolve(name)
	if err != nil {
		return "", err
	}
	src, err := syntax.ReadText(in.FS, inside)
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %s", inside, syntax.PlainError(err))
	}
	if err := syntax.TextError(string(src)); err != nil {
		return "", fmt.Errorf("%s %w: convert it, or use another text", inside, err)
	}
	return string(src), nil
}

func (in Module) file() function.Function {
	return text([]string{"path"}, cty.String, func(args []string) (cty.Value, error) {
		src, err := in.read(args[0])
		return cty.StringVal(src), err
	})
}

// WithoutValues adapts the functions for an evaluation without values: the result of env is unknown, and arguments may be unknown.
// Our functions cannot handle unknown list elements.
func WithoutValues(table map[string]function.Function) map[string]function.Function {
	table = maps.Clone(table)
	for _, name := range []string{"alltrue", "anytrue", "coalesce", "issensitive", "length", "lookup", "nonsensitive", "sensitive", "sum", "tolist", "tomap", "toset", "tostring"} {
		known := table[name]
		params := slices.Clone(known.Params())
		for i := range params {
			params[i].AllowUnknown, params[i].AllowDynamicType = true, true
		}
		rest := known.VarParam()
		if rest != nil {
			rest.AllowUnknown, rest.AllowDynamicType = true, true
		}
		table[name] = function.New(&function.Spec{
			Params: params, VarParam: rest,
			Type: func(args []cty.Value) (cty.Type, error) {
				if slices.ContainsFunc(args, func(v cty.Value) bool { return !v.IsWhollyKnown() }) {
					return cty.DynamicPseudoType, nil
				}
				return known.ReturnTypeForValues(args)
			},
			Impl: func(args []cty.Value, ty cty.Type) (cty.Value, error) {
				if ty == cty.DynamicPseudoType {
					return cty.DynamicVal, nil
				}
				return known.Call(args)
			},
		})
	}
	table["env"] = function.New(&function.Spec{
		Params: []function.Parameter{{Name: "name", Type: cty.String, AllowMarked: true}}, Type: function.StaticReturnType(cty.String),
		Impl: func([]cty.Value, cty.Type) (cty.Value, error) { return cty.UnknownVal(cty.String), nil },
	})
	return table
}

// text makes a function of strings.
func text(names []string, ty cty.Type, f func(args []string) (cty.Value, error)) function.Function {
	var params []function.Parameter
	for _, name := range names {
		params = append(params, param(name, cty.String))
	}
	return ofType(ty, func(args []cty.Value) (cty.Value, error) {
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
		if err := checkTextSize(len(s) + strings.Count(s, old)*len(replacement)); err != nil {
			return cty.NilVal, err
		}
		return cty.StringVal(strings.ReplaceAll(s, old, replacement)), nil
	}
	re, err := regexp.Compile(old[1 : len(old)-1])
	if err != nil {
		return cty.NilVal, function.NewArgErrorf(1, "not a regular expression: %s", err)
	}
	// Each $ may stand for all that was found.
	if err := checkTextSize(len(s) + len(re.FindAllStringIndex(s, -1))*len(replacement) + strings.Count(replacement, "$")*len(s)); err != nil {
		return cty.NilVal, err
	}
	return cty.StringVal(re.ReplaceAllString(s, replacement)), nil
})

// znodePath joins names and paths to one absolute path that ZooKeeper accepts.
var znodePath = function.New(&function.Spec{
	VarParam: &function.Parameter{Name: "parts", Type: cty.String},
	Type:     function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		joined := "/"
		for _, a := range args {
			for name := range strings.SplitSeq(a.AsString(), "/") {
				if name != "" {
					joined = kind.JoinPath(joined, name)
				}
			}
		}
		if len(joined) > syntax.MaxPathBytes {
			return cty.NilVal, fmt.Errorf("the path has more than %d bytes", syntax.MaxPathBytes)
		}
		return cty.StringVal(joined), kind.ValidatePath(joined)
	},
})

// withGuard returns f with a check: if the check refuses the arguments, f is not called.
func withGuard(f function.Function, check func(args []cty.Value) error) function.Function {
	return function.New(&function.Spec{
		Params: f.Params(), VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			if !slices.ContainsFunc(args, func(v cty.Value) bool { return !v.IsWhollyKnown() || v.IsNull() }) {
				plain := make([]cty.Value, len(args))
				for i, a := range args {
					plain[i], _ = a.Unmark()
				}
				if err := check(plain); err != nil {
					return cty.NilType, err
				}
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return f.Call(args) },
	})
}

// checkTextSize refuses to make a text of more bytes than allowed.
func checkTextSize(n int) error {
	if n > syntax.MaxFileBytes {
		return plain{fmt.Errorf("the result could have more than %d MiB: make shorter texts", syntax.MaxFileBytes>>20)}
	}
	return nil
}

// checkSetproduct bounds setproduct: each list multiplies the result.
func checkSetproduct(args []cty.Value) error {
	n := 1
	for _, a := range args {
		if a.CanIterateElements() {
			n *= a.LengthInt()
		}
		if n > syntax.MaxNodes {
			return plain{fmt.Errorf("the product has more than %d elements: filter the lists before, or declare less in one stack", syntax.MaxNodes)}
		}
	}
	return nil
}

func joined(args []cty.Value) error {
	n := 0
	for _, list := range args[1:] {
		for _, e := range list.AsValueSlice() {
			if n += len(args[0].AsString()); e.Type() == cty.String && !e.IsNull() {
				n += len(e.AsString())
			}
		}
	}
	return checkTextSize(n)
}

func indented(args []cty.Value) error {
	spaces, _ := args[0].AsBigFloat().Int64()
	if spaces > syntax.MaxFileBytes {
		return checkTextSize(syntax.MaxFileBytes + 1)
	}
	return checkTextSize(len(args[1].AsString()) + int(spaces)*strings.Count(args[1].AsString(), "\n"))
}

// checkFormat bounds what format and formatlist make: each verb writes one argument, padded to a width. formatlist formats each
// element of a list.
func checkFormat(apart bool) func(args []cty.Value) error {
	return func(args []cty.Value) error {
		longest, times, text := 0, 1, args[0].AsString()
		for _, a := range args[1:] {
			if apart && a.CanIterateElements() && !a.Type().IsObjectType() && !a.Type().IsMapType() {
				times = max(times, a.LengthInt())
				for _, e := range a.AsValueSlice() {
					longest = max(longest, textSize(e))
				}
				continue
			}
			longest = max(longest, textSize(a))
		}
		for _, digits := range widths.FindAllString(text, -1) {
			n, err := strconv.Atoi(digits)
			if err != nil {
				n = syntax.MaxFileBytes + 1
			}
			longest = max(longest, n)
		}
		one := len(text) + strings.Count(text, "%")*longest
		return cmp.Or(checkTextSize(one), checkTextSize(one/16*times)) // the texts of a list may together be 16 times as long as a single text
	}
}

var widths = regexp.MustCompile(`[0-9]+`)

// textSize is about how many bytes a value has as text.
func textSize(v cty.Value) (n int) {
	v, _ = v.Unmark()
	switch {
	case v.IsNull() || !v.CanIterateElements() && v.Type() != cty.String:
		return 32
	case v.Type() == cty.String:
		return len(v.AsString())
	}
	for it := v.ElementIterator(); it.Next(); {
		key, e := it.Element()
		n += textSize(e)
		if key.Type() == cty.String && !v.Type().IsSetType() {
			n += textSize(key)
		}
	}
	return n
}

// decodable refuses JSON that decoding would change, or that is nested too deep.
func decodable(args []cty.Value) error {
	if at, _, detail := syntax.CheckJSON([]byte(args[0].AsString()), false); at >= 0 {
		return plain{fmt.Errorf("at byte %d: %s", at, syntax.LowerFirst(strings.TrimSuffix(detail, ".")))}
	}
	return nil
}

// Compute is expr.Value with diagnostics that say what to type next and quote nothing sensitive. src is the text of
// the expression.
func Compute(expr hcl.Expression, ctx *hcl.EvalContext, src []byte) (v cty.Value, diags hcl.Diagnostics) {
	if json.IsJSONExpression(expr) {
		defer func() {
			if recover() != nil { // hcl/json takes the text of a key without looking at its marks
				v, diags = cty.DynamicVal, hcl.Diagnostics{syntax.ErrorAt(expr.Range(), "Sensitive value",
					"A key of an object in JSON syntax cannot be sensitive. If it is not secret, wrap it in nonsensitive(...).")}
			}
		}()
	}
	v, diags = expr.Value(ctx)
	secret := len(diags) > 0 && mentionsSecret(expr, ctx, src)
	for i, d := range diags {
		diags[i] = advise(d, ctx, secret)
	}
	return v, diags
}
