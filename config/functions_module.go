package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/locktree/locktree/recipes/kind"
)

var makeSensitive = computing(func(args []cty.Value) (cty.Value, error) { return args[0].Mark(sensitive), nil }, nil, *markParam("value"))

// makeNonsensitive takes every mark off: for what was computed from a secret and is none.
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
	return cty.StringVal(digestID(args[0], args[1])).Mark(sensitive), nil
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
		if len(joined) > maxPathBytes {
			return cty.NilVal, fmt.Errorf("the path has more than %d bytes", maxPathBytes)
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
		case TextError(value) != nil:
			return cty.NilVal, plain{fmt.Errorf("the environment variable %s %w: convert it, or use another text", name, TextError(value))}
		}
		return cty.StringVal(value).Mark(sensitive), nil
	}, function.Parameter{Name: "name", Type: cty.String, AllowMarked: true})
}

// inside turns a path, which is relative to the configuration's directory as path.module is, into one below the module's
// directory. It refuses what leads out of there, and the file system refuses symbolic links that do (see directories): a
// configuration must not depend on, or leak, what lies around it.
func (d *declarations) inside(name string) (string, error) {
	base := filepath.FromSlash(d.path)
	if filepath.IsAbs(name) {
		var err error
		if base, err = filepath.Abs(d.files.dir); err != nil {
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

func (d *declarations) read(name string) (string, error) {
	inside, err := d.inside(name)
	if err != nil {
		return "", err
	}
	src, err := readText(d.files.fsys, inside)
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %s", inside, plainError(err))
	}
	if err := TextError(string(src)); err != nil {
		return "", fmt.Errorf("%s %w: convert it, or use another text", inside, err)
	}
	return string(src), nil
}

func (d *declarations) file() function.Function {
	return text([]string{"path"}, cty.String, func(args []string) (cty.Value, error) {
		src, err := d.read(args[0])
		return cty.StringVal(src), err
	})
}
