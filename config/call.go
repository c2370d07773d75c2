package config

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/locktree/locktree/plan"
)

// reservedInputs cannot be variables of a module that is called: they are
// arguments of every module block, or may become some.
var reservedInputs = []string{"source", "version", "for_each", "count", "ensemble", "depends_on", "lifecycle", "providers"}

// A module block is one vertex of the graph: it waits for all of its arguments, and what refers to one of its outputs
// waits for all of it. The module behind it is prepared for this block alone.

// collectCall declares a module block and reads what it calls.
func (m *module) collectCall(b *block) {
	d := m.name("module", b, m.evaluateCall)
	d.forEach = b.attrs["for_each"]
	for _, a := range b.sorted() {
		if a.name != "source" { // read now, so that what the module offers is known
			d.attrs = append(d.attrs, a)
		}
	}
	child := m.openModule(b.attrs["source"])
	if child == nil || !child.prepare() {
		d.failed = true
		return
	}
	d.child = child
	m.checkCall(d)
}

// openModule finds the directory a source names.
func (m *module) openModule(a *attribute) *module {
	if a == nil {
		return nil // complete reports it
	}
	source, ok := m.sourceText(a)
	if !ok {
		return nil
	}
	dir := path.Join(m.path, source)
	depth := 0
	// By the path alone: a module may call the configuration once more under another name for its directory, such as
	// "../" and its name, which then calls itself by that name.
	for at := m; at != nil; at = at.parent {
		if at.path == dir {
			m.errorf(a.expr.Range(), "Module calls itself", "The module in %s would call itself: %s. Remove this block, or call another module.", dir, m.chain(dir))
			return nil
		}
		depth++
	}
	// Two bounds, because each alone is too weak: 16 levels of which each calls the next one twice are 65,536 calls, and
	// 2,000 calls could be as many levels.
	if m.calls++; m.calls > maxCalls+1 {
		return nil // reported once
	}
	if depth > maxCallDepth || m.calls > maxCalls {
		m.errorf(a.expr.Range(), "Too many modules", "Modules may call each other at most %d levels deep, by at most %d module blocks in all.", maxCallDepth, maxCalls)
		return nil
	}
	fsys, err := m.directory(dir)
	if err != nil {
		m.errorf(a.expr.Range(), "Cannot read the module", "The directory %s cannot be read: %s.", dir, strings.TrimSuffix(plainError(err), "."))
		return nil
	}
	return m.module(m.files.in(fsys, dir), m, dir)
}

func (m *module) directory(dir string) (fs.FS, error) {
	if fsys := m.opened[dir]; fsys != nil {
		return fsys, nil
	}
	fsys, err := m.open(dir)
	if err == nil {
		_, err = fs.Stat(fsys, ".")
	}
	if err == nil {
		m.opened[dir] = fsys
	}
	return fsys, err
}

// sourceText reads the argument source. It is a constant: which declarations
// there are must not depend on a value.
func (m *module) sourceText(a *attribute) (string, bool) {
	v, diags := a.expr.Value(nil)
	if !diags.HasErrors() {
		v, _ = convert.Convert(v, cty.String)
	}
	if diags.HasErrors() || v == cty.NilVal || v.IsNull() {
		m.errorf(a.expr.Range(), "Not a constant", `source must be a literal string, such as "./modules/team", because it is read before anything is evaluated.`)
		return "", false
	}
	source := v.AsString()
	if source != "." && source != ".." && !strings.HasPrefix(source, "./") && !strings.HasPrefix(source, "../") {
		m.errorf(a.expr.Range(), "Not a local module", `%q is not a path that starts with "./" or "../". Only local directories can be modules: copy the module below this directory.`, source)
		return "", false
	}
	return source, true
}

// chain is how this module came to be called, from the given directory on.
func (m *module) chain(from string) string {
	text := m.path
	for at := m; at.path != from && at.parent != nil; at = at.parent {
		text = at.parent.path + " calls " + text
		if at.parent.path == from {
			break
		}
	}
	return text + " calls " + from
}

// checkCall compares the arguments with the variables of the module.
func (m *module) checkCall(d *decl) {
	child := d.child
	for _, a := range d.attrs {
		if a.name != "for_each" && a.name != "ensemble" && child.named["var"][a.name] == nil {
			next := terraformArguments[a.name]
			if next == "" {
				next = hint(a.name, child.names["var"], "It declares none.")
			}
			m.errorf(a.nameRange, "Unsupported argument", "The module %s has no variable %q.%s", child.path, a.name, next)
		}
	}
	for _, name := range child.names["var"] {
		v := child.named["var"][name]
		switch {
		case slices.Contains(reservedInputs, name):
			m.errorf(v.head, "Reserved name", "A variable of a module cannot be called %q: module blocks have, or may get, an argument of that name. Rename it.", name)
		case d.block.attrs[name] == nil && v.block.attrs["default"] == nil:
			m.errorf(d.head, "Missing required argument", "The module %s needs a value for its variable %q, which has no default. Add %s = ... here.", child.path, name, name)
			d.failed = true
		}
	}
}

// evaluateCall evaluates the module once, or once for each element of for_each. A module with a wrong argument is evaluated
// too, so that its own errors are reported.
func (m *module) evaluateCall(d *decl) {
	if d.child == nil {
		return
	}
	s, addr, elements := m.scope(d), m.prefix+d.addr, []element{{}}
	if d.forEach != nil {
		var ok bool
		if elements, ok = m.forEach(d.forEach, s); !ok {
			d.failed = true
			return
		}
	}
	if !m.count(len(elements), d) {
		return
	}
	byKey := make(map[string]cty.Value, len(elements))
	for _, el := range elements {
		in, at := s, addr
		if d.forEach != nil {
			at += "[" + strconv.Quote(el.key) + "]"
			in = s.each(el, at)
		}
		m.moduleAddrs = append(m.moduleAddrs, struct{ instance, block plan.Addr }{plan.Addr(at), plan.Addr(addr)})
		byKey[el.key] = m.evaluateModule(d.child, d, in, at)
	}
	if d.value = byKey[""]; d.forEach != nil {
		d.value = cty.ObjectVal(byKey)
	}
}

// evaluateModule evaluates one instance of a module and returns its outputs.
func (m *module) evaluateModule(child *module, d *decl, s scope, addr string) cty.Value {
	child.renew()
	child.prefix = addr + "."
	child.ensemble = m.ensemble
	if a := d.block.attrs["ensemble"]; a != nil {
		if child.ensemble = s.ensemble(a); child.ensemble == nil {
			return cty.DynamicVal
		}
	}
	child.inputs = map[string]input{}
	for _, name := range child.names["var"] {
		a := d.block.attrs[name]
		switch {
		case a != nil:
			value, ok := s.value(a)
			r := a.expr.Range()
			child.inputs[name] = input{value: value, failed: !ok, rng: &r, from: fmt.Sprintf("the argument %s of %s", name, addr)}
		case child.named["var"][name].block.attrs["default"] == nil:
			child.inputs[name] = input{failed: true} // checkCall has said that it is missing
		}
	}
	child.run()
	outputs := make(map[string]cty.Value, len(child.outputs))
	for _, o := range child.outputs {
		outputs[o.block.name()] = o.value
		d.failed = d.failed || o.failed
	}
	return cty.ObjectVal(outputs)
}

// each is the scope of one element of for_each.
func (s scope) each(el element, addr string) scope {
	s = s.element("each", cty.StringVal(el.key), el.value)
	s.where = addr
	return s
}

// element is the scope in which a name has the attributes key and value.
func (s scope) element(name string, key, value cty.Value) scope {
	s.ctx = s.ctx.NewChild()
	s.ctx.Variables = map[string]cty.Value{name: cty.ObjectVal(map[string]cty.Value{"key": key, "value": value})}
	return s
}

// moduleReference checks what follows module.NAME: one of its outputs.
func (r resolver) moduleReference(t hcl.Traversal, d *decl) bool {
	i := 2
	if d.forEach != nil && i < len(t) {
		if _, ok := t[i].(hcl.TraverseIndex); !ok {
			r.errorf(t.SourceRange(), "Missing key", "%s has for_each, so there is one for each key: write %s[\"KEY\"], or a for expression over all of them.", d.addr, d.addr)
			return false
		}
		i++
	}
	name, ok := word(t, i)
	switch {
	case d.child == nil:
		return true
	case !ok || d.child.named["output"][name] != nil:
		return true
	case d.child.incomplete:
		return false // the output may be among what could not be read
	}
	return r.unknown(t, "%s has no output %q; what is in a module is seen through its outputs.%s", d.addr, name,
		hint(name, d.child.names["output"], "It declares none."))
}
