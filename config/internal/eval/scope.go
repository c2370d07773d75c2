package eval

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/gocty"

	"github.com/locktree/locktree/config/internal/functions"
	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/config/internal/syntax"
)

// secretID is the mark of a principal's id, used instead of Sensitive. Access lists may contain such an id; they show it without
// its hash.
const secretID functions.Mark = "id of a principal"

// visibleChoice refuses a reference that a sensitive value has chosen: access lists and paths would tell the choice.
func (s scope) visibleChoice(a *syntax.Attribute, hidden bool) bool {
	if hidden {
		s.reportWrong(a, "Sensitive value", a.Name+" appears in plans and znodes, so nothing sensitive can choose it. If the choice is not secret, wrap the condition in nonsensitive(...).")
	}
	return !hidden
}

// scope evaluates one declaration, or one instance of it.
type scope struct {
	in     *Evaluation // of the module that declares it
	d      *static.Decl
	r      *Result
	ctx    *hcl.EvalContext
	broken bool   // each.key and each.value are not known, because for_each was wrong
	which  string // how diagnostics name the instance; "" if they do not name it
}

// scope is the scope of a declaration. Its context has exactly the values that its expressions refer to, so that nothing that is
// not evaluated yet can be seen.
func (e *Evaluation) scope(d *static.Decl) scope {
	return scope{in: e, d: d, r: e.Of(d), ctx: e.contextOf(d.Attrs)}
}

// outsideGraph is the scope of an expression outside of the graph. Its errors do not break the declaration.
func (e *Evaluation) outsideGraph(d *static.Decl) scope {
	return scope{in: e, d: d, r: &Result{cty.DynamicVal, d.Broken}, ctx: e.contextOf(d.Attrs)}
}

// Value evaluates an argument that no declaration has, as if d had it.
func (e *Evaluation) Value(d *static.Decl, a *syntax.Attribute) (cty.Value, bool) {
	return e.outsideGraph(d).value(a)
}

func (s scope) fail() { s.r.Failed = true }

// refuse reports an error of the declaration, which has no value then.
func (s scope) refuse(at hcl.Range, summary, format string, args ...any) {
	s.in.Errorf(at, summary, format, args...)
	s.fail()
}

// contextOf holds the values that the expressions refer to. path.module and path.root are relative to the directory of the
// configuration, so that a plan does not depend on the working directory.
func (e *Evaluation) contextOf(attrs []*syntax.Attribute) *hcl.EvalContext {
	values := map[string]map[string]cty.Value{}
	seen := map[*static.Decl]bool{}
	var nodes []*static.Node
	for _, a := range attrs {
		for _, dep := range e.Declared.RefersTo(a).Deps {
			switch {
			case e.Of(dep).Failed || seen[dep]:
				// An argument that refers to a failed declaration is not evaluated (isWaiting), so the name is not needed. The
				// other arguments of the declaration are evaluated, so that their errors are found.
			case dep.Node != nil:
				nodes = append(nodes, dep.Node)
			default:
				root, name, _ := strings.Cut(dep.Addr, ".")
				if values[root] == nil {
					values[root] = map[string]cty.Value{}
				}
				values[root][name] = e.Of(dep).Value
			}
			seen[dep] = true
		}
	}
	variables := e.nodeValues(nodes)
	variables["path"] = cty.ObjectVal(map[string]cty.Value{"module": cty.StringVal(e.Declared.Path), "root": cty.StringVal(".")})
	for root, names := range values {
		variables[root] = cty.ObjectVal(names)
	}
	return &hcl.EvalContext{Variables: variables, Functions: e.All.functions[e.Declared]}
}

// value evaluates an argument. It returns false if there is none, or if it or something that it refers to is wrong. A wrong one
// marks the declaration as failed, and the reason has been reported once.
func (s scope) value(a *syntax.Attribute) (cty.Value, bool) {
	if a == nil {
		return cty.NilVal, false
	}
	if s.isWaiting(a) {
		s.fail()
		return cty.NilVal, false
	}
	v, diags := s.result(a)
	for _, d := range diags {
		d.Detail += s.instanceNote(a)
	}
	s.in.Add(diags...)
	if diags.HasErrors() {
		s.spoil(a)
		return cty.NilVal, false
	}
	return v, true
}

func (s scope) result(a *syntax.Attribute) (cty.Value, hcl.Diagnostics) {
	return functions.Compute(a.Expr, s.ctx, s.in.Declared.Files.Text(a.Expr.Range()))
}

// spoil notes that an argument is wrong. An error that does not depend on the element is the same for all of them, and is
// reported once.
func (s scope) spoil(a *syntax.Attribute) {
	s.fail()
	if !s.in.Declared.RefersTo(a).Each {
		s.in.bad[a] = true
	}
}

// isWaiting reports whether something the argument refers to has no value, which has been reported.
func (s scope) isWaiting(a *syntax.Attribute) bool {
	refs := s.in.Declared.RefersTo(a)
	return refs.Unresolved || s.in.bad[a] || refs.Each && s.broken || slices.ContainsFunc(refs.Deps, func(d *static.Decl) bool { return s.in.Of(d).Failed })
}

// instanceNote says which instance an error was found in, where there are several.
func (s scope) instanceNote(a *syntax.Attribute) string {
	switch {
	case s.which != "" && s.in.Declared.RefersTo(a).Each:
		return " This is about " + s.which + "."
	case s.in.outer != nil:
		return " This is about " + strings.TrimSuffix(s.in.Prefix, ".") + "."
	}
	return ""
}

// reportWrong reports an error in an argument's value. The diagnostic contains the EvalContext, so the view can show the values in
// the expression, except marked ones.
func (s scope) reportWrong(a *syntax.Attribute, summary, detail string) (cty.Value, bool) {
	s.spoil(a)
	r := a.Expr.Range()
	detail += s.instanceNote(a)
	s.in.Add(&hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &r,
		Expression: a.Expr, EvalContext: s.ctx,
	})
	return cty.NilVal, false
}

// valueAs evaluates an argument and converts it. Marks stay. Null means not set, as in Terraform, so it returns false without a
// word, and the caller takes the default. A required argument has no default, and Complete has only checked that something is
// written there. If null were not reported here, the declaration would be left out in silence. So would an access list that
// refers to it, and a lock would then be without its list (testdata/config/null-mistakes.txtar).
func (s scope) valueAs(a *syntax.Attribute, want cty.Type) (cty.Value, bool) {
	v, ok := s.value(a)
	if !ok {
		return cty.NilVal, false
	}
	if isNull(v) {
		if a.Required {
			s.reportWrong(a, "Missing required argument", a.Name+" is null, which means not set, and it has no default. Give it a value.")
		}
		return cty.NilVal, false
	}
	c, err := convert.Convert(v, want)
	switch {
	case err == nil && !c.IsWhollyKnown(): // only for generate.Load
		return cty.NilVal, false
	case err == nil:
		return c, true
	case want.IsPrimitiveType():
		return s.reportWrong(a, "Wrong type", fmt.Sprintf("%s must be %s; this is %s.", a.Name, typeName(want), syntax.Article(v.Type().FriendlyName())))
	default:
		return s.reportWrong(a, "Wrong type", fmt.Sprintf("%s must be %s: %s.", a.Name, typeName(want), static.ConversionError(err, v.ContainsMarked())))
	}
}

// isSet reports whether an argument is meant to have a value. A wrong value counts as one, null does not count.
func (s scope) isSet(a *syntax.Attribute) bool {
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

// publicValue evaluates an argument that ends up where people read it: in a plan, in
// a znode, in a message. A sensitive value is refused there.
func (s scope) publicValue(a *syntax.Attribute, want cty.Type) (cty.Value, bool) {
	v, ok := s.valueAs(a, want)
	if ok && v.ContainsMarked() {
		return s.reportWrong(a, "Sensitive value", a.Name+" appears in plans, messages and znodes, so it cannot be sensitive. "+
			"If the value is not secret, wrap it in nonsensitive(...).")
	}
	return v, ok
}

// Text is an argument of a declaration that has been evaluated.
func (e *Evaluation) Text(d *static.Decl, a *syntax.Attribute) (string, bool) {
	return e.scope(d).text(a)
}

func (s scope) text(a *syntax.Attribute) (string, bool) {
	v, ok := s.publicValue(a, cty.String)
	if !ok {
		return "", false
	}
	return v.AsString(), true
}

func (s scope) yes(a *syntax.Attribute) bool {
	v, ok := s.publicValue(a, cty.Bool)
	return ok && v.True()
}

// secret is text that may be sensitive: one of the few places where marks come off.
func (s scope) secret(a *syntax.Attribute) (string, bool) {
	v, ok := s.valueAs(a, cty.String)
	if !ok {
		return "", false
	}
	v, _ = v.Unmark()
	return v.AsString(), true
}

// nodeValues are the objects namespace, mutex and so on. They hold exactly the given declarations and the namespaces around them.
func (e *Evaluation) nodeValues(nodes []*static.Node) map[string]cty.Value {
	wanted := map[*static.Node]bool{}
	children := map[*static.Node][]*static.Node{}
	for _, n := range nodes {
		for ; n != nil && !wanted[n]; n = n.Parent {
			wanted[n] = true
			children[n.Parent] = append(children[n.Parent], n)
		}
	}
	return e.childValues(children, nil, e.Top)
}

func (e *Evaluation) childValues(children map[*static.Node][]*static.Node, in *static.Node, at Siblings) map[string]cty.Value {
	byKind := map[string]map[string]cty.Value{}
	for _, n := range children[in] {
		if byKind[n.Kind.Name] == nil {
			byKind[n.Kind.Name] = map[string]cty.Value{}
		}
		byKind[n.Kind.Name][n.Label] = e.nodeValue(children, n, at)
	}
	out := make(map[string]cty.Value, len(byKind)+2)
	for k, labels := range byKind {
		out[k] = cty.ObjectVal(labels)
	}
	return out
}

// nodeValue is one block as a reference sees it: an object, or with for_each an object of objects by key. It is an object and not
// a map, because its parts may differ from key to key.
func (e *Evaluation) nodeValue(children map[*static.Node][]*static.Node, n *static.Node, at Siblings) cty.Value {
	byKey := map[string]cty.Value{}
	for _, i := range at[n] {
		if i.Each != nil && i.Each.Any && n.Attr("for_each") != nil {
			return cty.DynamicVal
		}
		attrs := e.childValues(children, n, i.Inside)
		attrs["path"], attrs["name"] = cty.StringVal(i.Path), cty.StringVal(i.Name)
		for _, f := range i.Params.Fields() {
			if !f.Derived {
				attrs[f.Name], _ = gocty.ToCtyValue(f.Get(), syntax.FieldType(f)) // an int, a bool or a string
			}
		}
		if e.All.opts.NoValues {
			i.hide(attrs)
		}
		if n.Attr("for_each") == nil {
			return cty.ObjectVal(attrs)
		}
		byKey[i.Key] = cty.ObjectVal(attrs)
	}
	return cty.ObjectVal(byKey)
}

// forElement is the scope of one element of for_each.
func (s scope) forElement(el Element, addr string) scope {
	key := cty.StringVal(el.Key)
	if el.Any {
		key = cty.UnknownVal(cty.String).RefineNotNull()
	}
	s.ctx = s.ctx.NewChild()
	s.ctx.Variables = map[string]cty.Value{"each": cty.ObjectVal(map[string]cty.Value{"key": key, "value": el.value})}
	s.which = addr
	return s
}

// isUnknown reports whether an argument has no value here. Its errors have been reported.
func (s scope) isUnknown(a *syntax.Attribute) bool {
	if !s.in.All.opts.NoValues || a == nil || s.in.isBad(a) {
		return false
	}
	v, ok := s.value(a)
	return ok && !v.IsWhollyKnown()
}
