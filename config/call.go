package config

import (
	"fmt"
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
// waits for all of it.

// collectCall declares a module block and reads what it calls.
func (r *reading) collectCall(b *block) {
	d := r.name("module", b, scope.evaluateCall)
	d.forEach = b.arg("for_each")
	for _, a := range b.args {
		if a.name != "source" { // read now, so that what the module offers is known
			d.attrs = append(d.attrs, a)
		}
	}
	if source := b.arg("source"); source != nil { // complete reports that it is missing
		if dir, ok := r.sourceText(source); ok {
			d.child = r.called(path.Join(r.path, dir), source.expr)
		}
	}
	if d.child == nil {
		d.broken = true
		return
	}
	r.checkCall(d)
}

// sourceText reads the argument source. It is a constant: which declarations
// there are must not depend on a value.
func (r *reading) sourceText(a *attribute) (string, bool) {
	v, diags := a.expr.Value(nil)
	if !diags.HasErrors() {
		v, _ = convert.Convert(v, cty.String)
	}
	if diags.HasErrors() || v == cty.NilVal || v.IsNull() {
		r.errorf(a.expr.Range(), "Not a constant", `source must be a literal string, such as "./modules/team", because it is read before anything is evaluated.`)
		return "", false
	}
	source := v.AsString()
	if source != "." && source != ".." && !strings.HasPrefix(source, "./") && !strings.HasPrefix(source, "../") {
		r.errorf(a.expr.Range(), "Not a local module", `%q is not a path that starts with "./" or "../". Only local directories can be modules: copy the module below this directory.`, source)
		return "", false
	}
	return source, true
}

// checkCall compares the arguments with the variables of the module.
func (r *reading) checkCall(d *decl) {
	child := d.child
	for _, a := range d.attrs {
		if a.name != "for_each" && a.name != "ensemble" && child.named["var"][a.name] == nil {
			next := terraformArguments[a.name]
			if next == "" {
				next = hint(a.name, child.names["var"], "It declares none.")
			}
			r.errorf(a.nameRange, "Unsupported argument", "The module %s has no variable %q.%s", child.path, a.name, next)
		}
	}
	for _, name := range child.names["var"] {
		v := child.named["var"][name]
		switch {
		case slices.Contains(reservedInputs, name):
			r.errorf(v.head, "Reserved name", "A variable of a module cannot be called %q: module blocks have, or may get, an argument of that name. Rename it.", name)
		case d.block.arg(name) == nil && v.block.arg("default") == nil:
			r.errorf(d.head, "Missing required argument", "The module %s needs a value for its variable %q, which has no default. Add %s = ... here.", child.path, name, name)
			d.broken = true
		}
	}
}

// evaluateCall evaluates the module once, or once for each element of for_each. A module with a wrong argument is evaluated
// too, so that its own errors are reported.
func (s scope) evaluateCall() {
	d := s.d
	if d.child == nil {
		return
	}
	addr, elements := s.prefix+d.addr, []element{{}}
	if d.forEach != nil {
		var ok bool
		if elements, ok = s.forEach(d.forEach); !ok {
			s.fail()
			return
		}
	}
	if !s.count(len(elements)) {
		return
	}
	if len(elements) == 0 {
		s.barren = append(s.barren, plan.Addr(addr))
	}
	byKey := make(map[string]cty.Value, len(elements))
	for _, el := range elements {
		in, at := s, addr
		if d.forEach != nil {
			at += "[" + strconv.Quote(el.key) + "]"
			if el.any {
				at = addr + "[*]"
			}
			in = s.each(el, at)
		}
		s.moduleAddrs = append(s.moduleAddrs, struct{ instance, block plan.Addr }{plan.Addr(at), plan.Addr(addr)})
		byKey[el.key] = in.evaluateModule(at, el)
	}
	switch s.r.value = byKey[""]; {
	case d.forEach != nil && len(elements) == 1 && elements[0].any:
		s.r.value = cty.DynamicVal
	case d.forEach != nil:
		s.r.value = cty.ObjectVal(byKey)
	}
}

// evaluateModule evaluates one instance of a module and returns its outputs.
func (s scope) evaluateModule(addr string, el element) cty.Value {
	child := newEvaluation(s.d.child, s.loading, s.evaluation, addr+".")
	child.call, child.at = s.d, el
	child.at.any = el.any || s.at.any
	s.calls[s.d] = append(s.calls[s.d], child)
	child.home = s.home
	if a := s.d.block.arg("ensemble"); a != nil {
		if child.home = s.ensemble(a); child.home == nil {
			return cty.DynamicVal
		}
	}
	for _, name := range child.names["var"] {
		a := s.d.block.arg(name)
		switch {
		case a != nil:
			value, ok := s.value(a)
			r := a.expr.Range()
			child.inputs[name] = input{value: value, failed: !ok, rng: &r, from: fmt.Sprintf("the argument %s of %s", name, addr)}
		case child.named["var"][name].block.arg("default") == nil:
			child.inputs[name] = input{failed: true} // checkCall has said that it is missing
		}
	}
	child.run()
	outputs := make(map[string]cty.Value, len(child.outputs))
	for _, o := range child.outputs {
		outputs[o.block.name()] = child.of(o).value
		if child.of(o).failed {
			s.fail()
		}
	}
	return cty.ObjectVal(outputs)
}

// each is the scope of one element of for_each.
func (s scope) each(el element, addr string) scope {
	key := cty.StringVal(el.key)
	if el.any {
		key = cty.UnknownVal(cty.String).RefineNotNull()
	}
	s = s.element("each", key, el.value)
	s.which = addr
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
	if d.forEach != nil {
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
