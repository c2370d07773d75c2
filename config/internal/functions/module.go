package functions

import (
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/locktree/locktree/config/internal/syntax"
	"github.com/locktree/locktree/recipes/kind"
)

var makeSensitive = computing(func(args []cty.Value) (cty.Value, error) { return args[0].Mark(Sensitive), nil }, nil, *markParam("value"))

// makeNonsensitive takes every mark off: for a value that was computed from a secret and is none.
var makeNonsensitive = computing(func(args []cty.Value) (cty.Value, error) {
	v, _ := args[0].UnmarkDeep()
	return v, nil
}, nil, *markParam("value"))

var isSensitive = returning(cty.Bool, func(args []cty.Value) (cty.Value, error) { return cty.BoolVal(args[0].IsMarked()), nil }, *markParam("value"))

// digest is ZooKeeper's digest id of a user: "user:base64(sha1(user:password))". It
// is sensitive: a weak password can be guessed from it.
var digest = text([]string{"user", "password"}, cty.String, func(args []string) (cty.Value, error) {
	if args[0] == "" || strings.Contains(args[0], ":") {
		return cty.NilVal, plain{errors.New("the user name must not be empty and cannot contain a colon")}
	}
	return cty.StringVal(DigestID(args[0], args[1])).Mark(Sensitive), nil
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

// env reads the environment given to Load. Most such values are secrets, so they are marked unless nonsensitive() takes the
// mark off.
func env(environ []string) function.Function {
	values := map[string]string{}
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok {
			values[name] = value
		}
	}
	return returning(cty.String, func(args []cty.Value) (cty.Value, error) {
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

// inside turns a path, which is relative to the configuration's directory as path.module is, into one below the module's
// directory. It refuses what leads out of there, and the file system refuses symbolic links that do (config.directories): a
// configuration must not depend on, or leak, what lies around it.
func (in Module) inside(name string) (string, error) {
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
	inside, err := in.inside(name)
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

// WithoutValues returns the functions as they are where values may be unknown, and the environment is. Ours take for granted that what is in a list
// is known; hcl's and cty's do not.
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

// plain is an error of a function that quotes no argument that is marked as sensitive.
type plain struct{ error }

// Mark is the type of our marks on values.
type Mark string

// Sensitive marks a value that must not be shown.
const Sensitive Mark = "sensitive"

// DigestID is what DigestAuthenticationProvider.generateDigest computes.
func DigestID(user, password string) string {
	sum := sha1.Sum([]byte(user + ":" + password))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}
