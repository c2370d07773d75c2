package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/gocty"

	"github.com/locktree/locktree/recipes/kind"
)

// mark is the type of our marks on values.
type mark string

// sensitive marks a value that must not be shown.
const sensitive mark = "sensitive"

// secretID marks the id of a principal in place of sensitive: access lists are what it is for, and name it without its secret.
const secretID mark = "id of a principal"

// visibleChoice refuses a reference that a sensitive value has chosen: access lists and paths would tell the choice.
func (s scope) visibleChoice(a *attribute, hidden bool) bool {
	if hidden {
		s.wrong(a, "Sensitive value", a.name+" appears in plans and znodes, so nothing sensitive can choose it. If the choice is not secret, wrap the condition in nonsensitive(...).")
	}
	return !hidden
}

// scope evaluates one declaration, or one instance of it.
type scope struct {
	*evaluation
	d      *decl
	r      *result
	ctx    *hcl.EvalContext
	broken bool   // each is not known, because for_each was wrong
	which  string // which instance, for diagnostics; ""
}

// scope is that of a declaration. Its context has exactly the values that its expressions refer to, so that nothing that is
// not evaluated yet can be seen.
func (e *evaluation) scope(d *decl) scope {
	return scope{evaluation: e, d: d, r: e.of(d), ctx: e.contextOf(d.attrs)}
}

// apart is the scope of expressions that no declaration in the graph has; their result is their own.
func (e *evaluation) apart(d *decl) scope {
	return scope{evaluation: e, d: d, r: &result{cty.DynamicVal, d.broken}, ctx: e.contextOf(d.attrs)}
}

func (s scope) fail() { s.r.failed = true }

// refuse reports an error of the declaration, which has no value then.
func (s scope) refuse(at hcl.Range, summary, format string, args ...any) {
	s.errorf(at, summary, format, args...)
	s.fail()
}

// contextOf holds what the expressions refer to. path.module, as path.root, is relative to the directory of the configuration
// and not to the working directory, so that a plan does not depend on where it is made.
func (e *evaluation) contextOf(attrs []*attribute) *hcl.EvalContext {
	values := map[string]map[string]cty.Value{}
	seen := map[*decl]bool{}
	var nodes []*nodeDecl
	for _, a := range attrs {
		for _, dep := range a.deps {
			switch {
			case e.of(dep).failed || seen[dep]:
				// An argument that refers to what failed is not evaluated (waits), so the name is not needed.
				// The other arguments of the declaration are, and their errors found.
			case dep.node != nil:
				nodes = append(nodes, dep.node)
			default:
				root, name, _ := strings.Cut(dep.addr, ".")
				if values[root] == nil {
					values[root] = map[string]cty.Value{}
				}
				values[root][name] = e.of(dep).value
			}
			seen[dep] = true
		}
	}
	variables := e.nodeValues(nodes)
	variables["path"] = cty.ObjectVal(map[string]cty.Value{"module": cty.StringVal(e.path), "root": cty.StringVal(".")})
	for root, names := range values {
		variables[root] = cty.ObjectVal(names)
	}
	return &hcl.EvalContext{Variables: variables, Functions: e.functions}
}

// value evaluates an argument. It returns false when there is none, or when it
// or something it refers to is wrong; then the declaration is marked failed, and
// the reason has been reported once.
func (s scope) value(a *attribute) (cty.Value, bool) {
	if a == nil {
		return cty.NilVal, false
	}
	if s.waits(a) {
		s.fail()
		return cty.NilVal, false
	}
	v, diags := s.result(a)
	for _, d := range diags {
		d.Detail += s.about(a)
	}
	s.add(diags...)
	if diags.HasErrors() {
		s.spoil(a)
		return cty.NilVal, false
	}
	return v, true
}

func (s scope) result(a *attribute) (cty.Value, hcl.Diagnostics) {
	return compute(a.expr, s.ctx, s.files.text(a.expr.Range()))
}

// spoil notes that an argument is wrong. What does not depend on the element is wrong for all of them, and said once.
func (s scope) spoil(a *attribute) {
	s.fail()
	if !a.each {
		s.bad[a] = true
	}
}

// waits reports whether something the argument refers to has no value, which has
// been reported.
func (s scope) waits(a *attribute) bool {
	return s.isBad(a) || a.each && s.broken || slices.ContainsFunc(a.deps, func(d *decl) bool { return s.of(d).failed })
}

// about says which instance an error was found in, where there are several.
func (s scope) about(a *attribute) string {
	switch {
	case s.which != "" && a.each:
		return " This is about " + s.which + "."
	case s.outer != nil:
		return " This is about " + strings.TrimSuffix(s.prefix, ".") + "."
	}
	return ""
}

// wrong reports an error in an argument's value. The context makes the view
// show the values that went into it, marked ones left out.
func (s scope) wrong(a *attribute, summary, detail string) (cty.Value, bool) {
	s.spoil(a)
	r := a.expr.Range()
	detail += s.about(a)
	s.add(&hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &r,
		Expression: a.expr, EvalContext: s.ctx,
	})
	return cty.NilVal, false
}

// as evaluates an argument and converts it. Marks stay. Null means not set, as in Terraform, so it
// returns false without a word, and the caller takes the default. A required argument has none, and
// complete saw only that something is written there: unless null is reported here, the declaration
// fails in silence, and so does all that refers to it, up to a lock whose access list is left out
// (TestNullIsNoValueForARequiredArgument).
func (s scope) as(a *attribute, want cty.Type) (cty.Value, bool) {
	v, ok := s.value(a)
	if !ok {
		return cty.NilVal, false
	}
	if isNull(v) {
		if a.required {
			s.wrong(a, "Missing required argument", a.name+" is null, which means not set, and it has no default. Give it a value.")
		}
		return cty.NilVal, false
	}
	c, err := convert.Convert(v, want)
	switch {
	case err == nil && !c.IsWhollyKnown(): // only for LoadCode
		return cty.NilVal, false
	case err == nil:
		return c, true
	case want.IsPrimitiveType():
		return s.wrong(a, "Wrong type", fmt.Sprintf("%s must be %s; this is %s.", a.name, typeName(want), article(v.Type().FriendlyName())))
	default:
		return s.wrong(a, "Wrong type", fmt.Sprintf("%s must be %s: %s.", a.name, typeName(want), conversionError(err, v.ContainsMarked())))
	}
}

// isSet reports whether an argument is meant to have a value: null is none, what is wrong is.
func (s scope) isSet(a *attribute) bool {
	v, ok := s.value(a)
	return a != nil && (!ok || !isNull(v))
}

func isNull(v cty.Value) bool {
	v, _ = v.Unmark()
	return v.IsNull()
}

func typeName(ty cty.Type) string {
	switch ty {
	case cty.String:
		return "a string"
	case cty.Number:
		return "a number"
	case cty.Bool:
		return "true or false"
	default:
		return "a " + ty.FriendlyNameForConstraint()
	}
}

// shown evaluates an argument that ends up where people read it: in a plan, in
// a znode, in a message. A sensitive value is refused there.
func (s scope) shown(a *attribute, want cty.Type) (cty.Value, bool) {
	v, ok := s.as(a, want)
	if ok && v.ContainsMarked() {
		return s.wrong(a, "Sensitive value", a.name+" appears in plans, messages and znodes, so it cannot be sensitive. "+
			"If the value is not secret, wrap it in nonsensitive(...).")
	}
	return v, ok
}

func (s scope) text(a *attribute) (string, bool) {
	v, ok := s.shown(a, cty.String)
	if !ok {
		return "", false
	}
	return v.AsString(), true
}

func (s scope) yes(a *attribute) bool {
	v, ok := s.shown(a, cty.Bool)
	return ok && v.True()
}

// secret is text that may be sensitive: one of the few places where marks come off.
func (s scope) secret(a *attribute) (string, bool) {
	v, ok := s.as(a, cty.String)
	if !ok {
		return "", false
	}
	v, _ = v.Unmark()
	return v.AsString(), true
}

// objectType is the attributes that a reference to a node of this kind offers.
func objectType(k *kind.Kind) map[string]cty.Type {
	types := map[string]cty.Type{"path": cty.String, "name": cty.String}
	for _, f := range k.New().Fields() {
		if !f.Derived {
			types[f.Name] = fieldType(f)
		}
	}
	return types
}

func fieldType(f kind.Field) cty.Type {
	if f.Number {
		return cty.Number
	}
	return cty.String
}

// nodeValues are the objects namespace, mutex, ... that hold exactly the given
// declarations, and what leads to them.
func (e *evaluation) nodeValues(nodes []*nodeDecl) map[string]cty.Value {
	wanted := map[*nodeDecl]bool{}
	children := map[*nodeDecl][]*nodeDecl{}
	for _, n := range nodes {
		for ; n != nil && !wanted[n]; n = n.parent {
			wanted[n] = true
			children[n.parent] = append(children[n.parent], n)
		}
	}
	return e.childValues(children, nil, e.top)
}

func (e *evaluation) childValues(children map[*nodeDecl][]*nodeDecl, in *nodeDecl, at siblings) map[string]cty.Value {
	byKind := map[string]map[string]cty.Value{}
	for _, n := range children[in] {
		if byKind[n.kind.Name] == nil {
			byKind[n.kind.Name] = map[string]cty.Value{}
		}
		byKind[n.kind.Name][n.label] = e.nodeValue(children, n, at)
	}
	out := make(map[string]cty.Value, len(byKind)+2)
	for k, labels := range byKind {
		out[k] = cty.ObjectVal(labels)
	}
	return out
}

// nodeValue is one block as a reference sees it: an object, or with for_each an
// object of objects by key. An object and not a map, since what is inside
// may differ from key to key.
func (e *evaluation) nodeValue(children map[*nodeDecl][]*nodeDecl, n *nodeDecl, at siblings) cty.Value {
	byKey := map[string]cty.Value{}
	for _, i := range at[n] {
		if i.each != nil && i.each.any && n.attr("for_each") != nil {
			return cty.DynamicVal
		}
		attrs := e.childValues(children, n, i.inside)
		attrs["path"], attrs["name"] = cty.StringVal(i.path), cty.StringVal(i.name)
		for _, f := range i.params.Fields() {
			if !f.Derived {
				attrs[f.Name], _ = gocty.ToCtyValue(f.Get(), fieldType(f)) // an int, a bool or a string
			}
		}
		if e.code != nil {
			i.hide(attrs)
		}
		if n.attr("for_each") == nil {
			return cty.ObjectVal(attrs)
		}
		byKey[i.key] = cty.ObjectVal(attrs)
	}
	return cty.ObjectVal(byKey)
}
