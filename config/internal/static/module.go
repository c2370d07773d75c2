package static

import (
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/locktree/locktree/config/internal/syntax"
)

// reservedInputs cannot be variables of a module that is called: they are
// arguments of every module block, or may become some.
var reservedInputs = []string{"source", "version", "for_each", "count", "ensemble", "depends_on", "lifecycle", "providers"}

// A module block is one vertex of the graph: it waits for all of its arguments, and what refers to one of its outputs
// waits for all of it.

// collectCall declares a module block and reads what it calls.
func (r *reading) collectCall(b *syntax.Block) {
	d := r.name("module", b)
	d.ForEach = b.Arg("for_each")
	for _, a := range b.Args {
		if a.Name != "source" { // read now, so that what the module offers is known
			d.Attrs = append(d.Attrs, a)
		}
	}
	if source := b.Arg("source"); source != nil { // Complete reports that it is missing
		if dir, ok := r.sourceText(source); ok {
			d.Child = r.calledDecls(path.Join(r.out.Path, dir), source.Expr)
		}
	}
	if d.Child == nil {
		d.Broken = true
		return
	}
	r.checkCall(d)
}

// sourceText reads the argument source. It is a constant: which declarations
// there are must not depend on a value.
func (r *reading) sourceText(a *syntax.Attribute) (string, bool) {
	v, diags := a.Expr.Value(nil)
	if !diags.HasErrors() {
		v, _ = convert.Convert(v, cty.String)
	}
	if diags.HasErrors() || v == cty.NilVal || v.IsNull() {
		r.Errorf(a.Expr.Range(), "Not a constant", `source must be a literal string, such as "./modules/team", because it is read before anything is evaluated.`)
		return "", false
	}
	source := v.AsString()
	if source != "." && source != ".." && !strings.HasPrefix(source, "./") && !strings.HasPrefix(source, "../") {
		r.Errorf(a.Expr.Range(), "Not a local module", `%q is not a path that starts with "./" or "../". Only local directories can be modules: copy the module below this directory.`, source)
		return "", false
	}
	return source, true
}

// checkCall compares the arguments with the variables of the module.
func (r *reading) checkCall(d *Decl) {
	child := d.Child
	for _, a := range d.Attrs {
		if a.Name != "for_each" && a.Name != "ensemble" && child.Named["var"][a.Name] == nil {
			next := syntax.TerraformArguments[a.Name]
			if next == "" {
				next = syntax.Hint(a.Name, child.Names["var"], "It declares none.")
			}
			r.Errorf(a.NameRange, "Unsupported argument", "The module %s has no variable %q.%s", child.Path, a.Name, next)
		}
	}
	for _, name := range child.Names["var"] {
		v := child.Named["var"][name]
		switch {
		case slices.Contains(reservedInputs, name):
			r.Errorf(v.Head, "Reserved name", "A variable of a module cannot be called %q: module blocks have, or may get, an argument of that name. Rename it.", name)
		case d.Block.Arg(name) == nil && v.Block.Arg("default") == nil:
			r.Errorf(d.Head, "Missing required argument", "The module %s needs a value for its variable %q, which has no default. Add %s = ... here.", child.Path, name, name)
			d.Broken = true
		}
	}
}

// moduleReference checks what follows module.NAME: one of its outputs.
func (r resolver) moduleReference(t hcl.Traversal, d *Decl) bool {
	i := 2
	if d.ForEach != nil {
		i++
	}
	name, ok := syntax.StepName(t, i)
	switch {
	case d.Child == nil:
		return true
	case !ok || d.Child.Named["output"][name] != nil:
		return true
	case d.Child.Incomplete:
		return false // the output may be among what could not be read
	}
	return r.reportUnknown(t, "%s has no output %q; what is in a module is seen through its outputs.%s", d.Addr, name,
		syntax.Hint(name, d.Child.Names["output"], "It declares none."))
}
