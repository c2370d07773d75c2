package config

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// reservedInputs cannot be variables of a module that is called: they are
// arguments of every module block, or may become some.
var reservedInputs = []string{"source", "version", "for_each", "count", "ensemble", "depends_on", "lifecycle", "providers"}

// collectCall declares a module block and reads what it calls.
func (m *module) collectCall(b *block) {
	c := &call{inputs: map[*decl]*decl{}, outputs: map[string]*decl{}, apart: map[*decl]bool{}, needed: map[*decl][]edge{}}
	d := m.name("module", b, m.evaluateCall)
	d.call, d.forEach, c.block = c, b.attrs["for_each"], d
	for _, a := range b.sorted() {
		switch a.name {
		case "source": // read now, so that what the module offers is known
		case "for_each", "ensemble":
			d.attrs = append(d.attrs, a)
		default:
			c.args = append(c.args, a)
		}
	}
	c.child = m.openModule(b.attrs["source"])
	if c.child != nil && !c.child.prepare() {
		c.child = nil
	}
	m.declareParts(c)
	if c.child == nil {
		d.failed = true
		return
	}
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
	// By the path alone: the configuration may be called once more under another name for its own directory, as
	// "../" and its name, which then calls itself by that name.
	for at := m; at != nil; at = at.parent {
		if at.path == dir {
			m.errorf(a.expr.Range(), "Module calls itself", "The directory %s is the module this block stands in, or one that calls it: %s. Call another one, or none.", dir, m.chain(dir))
			return nil
		}
		depth++
	}
	// Two bounds, since each alone lets through what the other one stops: 16 levels of which each calls the next
	// one twice are 65,536 calls, and 2,000 levels are recursion as deep.
	if m.calls++; m.calls > maxCalls+1 {
		return nil // said once
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
		m.errorf(a.expr.Range(), "Not a constant", `source must be written as a text, as "./modules/team": it says what is declared, so it is read before anything is evaluated.`)
		return "", false
	}
	source := v.AsString()
	if source != "." && source != ".." && !strings.HasPrefix(source, "./") && !strings.HasPrefix(source, "../") {
		m.errorf(a.expr.Range(), "Not a local module", `%q is no path that starts with "./" or "../", and only local directories can be modules: copy the module below this directory.`, source)
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
	child := d.call.child
	for _, a := range d.call.args {
		if child.named["var"][a.name] == nil {
			m.errorf(a.nameRange, "Unsupported argument", "The module %s has no variable %q.%s", child.path, a.name,
				hint(a.name, child.names["var"], "It declares none."))
		}
	}
	for _, name := range child.names["var"] {
		v := child.named["var"][name]
		switch {
		case slices.Contains(reservedInputs, name):
			m.errorf(v.head, "Reserved name", "A variable of a module that is called cannot be named %q: module blocks have, or may get, an argument of that name. Rename it.", name)
		case d.block.attrs[name] == nil && v.block.attrs["default"] == nil:
			m.errorf(d.head, "Missing required argument", "The module %s needs a value for its variable %q, which has no default. Add %s = ... here.", child.path, name, name)
			d.failed = true
		}
	}
}

// callEnsemble is where the top of the module stands: on the ensemble it is
// given, else on that of the caller; nil when each node has to say for itself.
func (m *module) callEnsemble(d *decl, s scope) *Ensemble {
	a := d.block.attrs["ensemble"]
	if a == nil {
		return m.defaultEnsemble()
	}
	v, ok := s.value(a)
	if !ok {
		return nil
	}
	e := ensembleValue(v)
	if e == nil {
		s.wrong(a, "Wrong type", "ensemble must name an ensemble block: ensemble.NAME.")
	}
	return e
}

// defaultEnsemble is the ensemble of a node at the top that does not name one.
func (m *module) defaultEnsemble() *Ensemble {
	if m.parent != nil {
		return m.ensemble
	}
	if names := m.names["ensemble"]; len(names) == 1 {
		return ensembleValue(m.named["ensemble"][names[0]].value)
	}
	return nil
}

// moduleReference checks what follows module.NAME, one of its outputs, and waits for
// that: a module is no whole, see [call].
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
	if d.call.child == nil {
		return true
	}
	if !ok {
		r.wait(d.call.whole)
		return true
	}
	if o := d.call.outputs[name]; o != nil {
		r.wait(o)
		return true
	}
	if d.call.child.incomplete {
		return false // the output may be among what could not be read
	}
	return r.unknown(t, "%s has no output %q; what stands in a module is seen through its outputs.%s", d.addr, name,
		hint(name, slices.Collect(maps.Keys(d.call.outputs)), "It declares none."))
}

// wait orders the declaration behind a part of a module block, of which the block
// itself holds the value.
func (r resolver) wait(part *decl) {
	if e := (edge{part, "refers to"}); !slices.Contains(r.d.after, e) {
		r.d.after = append(r.d.after, e)
	}
}
