package vet

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"slices"
	"strings"
)

// known is what can be said of a property of a handle.
type known int

const (
	unknown known = iota
	no
	yes
)

// handle is what a recipe's method is called on.
type handle struct {
	// id is equal for two handles of one lock; "" if nothing is known. Those of global handles mean the same in all functions.
	id     string
	global bool
	client string // which client made it, or which field it is in; "" if that is not known
	text   string // as in the source, for people
	kind   string // as the library calls the type: Mutex

	reentrant, bounded known // it was made with WithReentrancy, and with WithMaxWait
}

// opened is a call of the library that names a lock.
type opened struct {
	call *ast.CallExpr
	path ast.Expr
	kind string // as the configuration calls it
	opts []ast.Expr
}

// kinds are the methods of Client that open a lock.
var kinds = map[string]string{"Mutex": "mutex", "RWMutex": "rwlock", "Semaphore": "semaphore", "Election": "election", "Keyed": "keyed"}

func (p *pkg) opens(call *ast.CallExpr) (opened, bool) {
	f := p.callee(call)
	if f == nil || !isMethod(f, library, "Client") || len(call.Args) == 0 {
		return opened{}, false
	}
	if kind := kinds[f.Name()]; kind != "" {
		return opened{call, call.Args[0], kind, call.Args[1:]}, true
	}
	if f.Name() != "Take" || len(call.Args) < 4 {
		return opened{}, false
	}
	o := opened{call, call.Args[2], "", call.Args[4:]}
	if k := p.variable(call.Args[1]); k != nil && k.Pkg() != nil && k.Pkg().Path() == library+"/kind" {
		o.kind = strings.ToLower(k.Name())
	}
	return o, true
}

// option reports whether the lock is opened with an option; unknown if not all of them can be read.
func (p *pkg) option(o opened, name string) known {
	answer := no
	for _, e := range o.opts {
		call, ok := ast.Unparen(e).(*ast.CallExpr)
		switch {
		case !ok || o.call.Ellipsis.IsValid() || !isFrom(p.callee(call), library):
			answer = unknown
		case p.callee(call).Name() == name:
			return yes
		}
	}
	return answer
}

// text is the value of a constant string.
func (p *pkg) constant(e ast.Expr) (string, bool) {
	v := p.TypesInfo.Types[e].Value
	if v == nil || v.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(v), true
}

// handle says what is known of the handle that an expression is.
func (p *pkg) handle(f *function, e ast.Expr) (h handle) {
	e = ast.Unparen(e)
	if t, ok := p.TypesInfo.TypeOf(e).(*types.Pointer); ok {
		if n, ok := t.Elem().(*types.Named); ok {
			h.kind = n.Obj().Name()
		}
	}
	h.text = types.ExprString(e)
	if call, ok := e.(*ast.CallExpr); ok {
		return p.made(h, call)
	}
	obj := p.variable(e)
	if obj == nil || len(p.origins[obj]) != 1 || p.origins[obj][0] == nil {
		return h
	}
	if call, ok := ast.Unparen(p.origins[obj][0]).(*ast.CallExpr); ok {
		h = p.made(h, call)
	}
	if s, ok := e.(*ast.SelectorExpr); ok && h.global { // the one in another value may be of another client
		h.client = p.which(s)
	}
	if h.id == "" && !f.repeats(obj) {
		h.id = p.which(e)
	}
	return h
}

// which tells variables, and their fields, from each other; "" if an expression is none, or has several values.
func (p *pkg) which(e ast.Expr) string {
	v := p.variable(e)
	if v == nil || len(p.origins[v]) > 1 {
		return ""
	}
	id := fmt.Sprintf("%p", v)
	if s, ok := ast.Unparen(e).(*ast.SelectorExpr); ok && v.(*types.Var).IsField() {
		of := p.which(s.X)
		if of == "" {
			return ""
		}
		id = of + "." + id
	}
	return id
}

// single reports whether the lock has one holder, readers apart, so that whoever holds it waits for itself.
func (h handle) single() bool {
	return h.kind == "Mutex" || h.kind == "RWMutex" || h.kind == "Election"
}

// repeats reports whether a variable is another one in each round of a loop.
func (f *function) repeats(v types.Object) bool {
	return slices.ContainsFunc(f.loops, func(l ast.Node) bool { return l.Pos() <= v.Pos() && v.Pos() < l.End() })
}

// made completes what is known from the call that makes a handle.
func (p *pkg) made(h handle, call *ast.CallExpr) handle {
	if o, ok := p.opens(call); ok {
		h.reentrant, h.bounded = p.option(o, "WithReentrancy"), p.option(o, "WithMaxWait")
		h.client = p.which(receiver(call))
		if path, ok := p.constant(o.path); ok {
			h.id, h.global = path, true
		}
		return h
	}
	// A function of another package, as those that "locktree generate go" writes: the same function is the same lock, if
	// nothing but constants is given to it.
	f := p.callee(call)
	if f == nil || f.Pkg() == nil || f.Pkg().Path() == library || f.Pkg() == p.Pkg {
		return h
	}
	id := f.FullName()
	for _, arg := range call.Args {
		v := p.TypesInfo.Types[arg].Value
		if v == nil {
			return h
		}
		id += " " + v.ExactString()
	}
	h.id, h.global = id, true
	return h
}

// taking is a call of the library that takes a lock.
type taking struct {
	call   *ast.CallExpr
	on     ast.Expr // the handle; nil for Take
	method string
	work   *ast.FuncLit // of Do, RDo and Lead, if it stands there
	lease  bool         // it returns one
}

// take looks at a call; ok if it takes a lock.
func (p *pkg) take(call *ast.CallExpr) (t taking, ok bool) {
	f := p.callee(call)
	if !isFrom(f, library) || f.Signature().Recv() == nil || !ast.IsExported(f.Name()) {
		return t, false
	}
	t = taking{call: call, method: f.Name()}
	if f.Name() != "Take" {
		t.on = receiver(call)
	}
	if r := f.Signature().Results(); r.Len() == 2 && isLease(r.At(0).Type()) {
		t.lease = true
		return t, true
	}
	for i := range f.Signature().Params().Len() {
		if s, ok := f.Signature().Params().At(i).Type().(*types.Signature); ok && s.Params().Len() == 2 && isLease(s.Params().At(1).Type()) && i < len(call.Args) {
			t.work, _ = ast.Unparen(call.Args[i]).(*ast.FuncLit)
			return t, true
		}
	}
	return t, false
}

// waits reports whether the call waits for other holders.
func (t taking) waits() bool {
	return slices.Contains([]string{"Lock", "RLock", "Acquire", "Campaign", "Do", "RDo", "Lead"}, t.method)
}

func (t taking) shared() bool {
	return t.method == "RLock" || t.method == "RDo" || t.method == "TryRLock"
}

// nested visits the calls in a node that take a lock while another one is held: also in the work of Do, not in goroutines.
func (p *pkg) nested(n ast.Node, visit func(taking)) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt, *ast.FuncLit, *ast.DeferStmt:
			return false
		case *ast.CallExpr:
			t, ok := p.take(n)
			if !ok {
				return true
			}
			visit(t)
			if t.work != nil {
				p.nested(t.work.Body, visit)
			}
		}
		return true
	})
}
