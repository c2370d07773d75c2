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
	client string      // which client made it, or which field it is in; "" if that is not known
	by     *types.Func // the function of another package that returned it; nil for one that the library did
	single bool        // the lock has one holder, readers apart, so that whoever holds it waits for itself

	reentrant, bounded known // it was made with WithReentrancy, and with WithMaxWait
}

// opened is a call of the library that names a lock.
type opened struct {
	call *ast.CallExpr
	path ast.Expr
	kind string // as the configuration calls it; "" if that is not known
	opts []ast.Expr
}

// kinds are the methods of Client that open a lock.
var kinds = map[string]string{"Mutex": "mutex", "RWMutex": "rwlock", "Semaphore": "semaphore", "Election": "election", "Keyed": "keyed", "Once": "once"}

func (p *pkg) opens(call *ast.CallExpr) (o opened, ok bool) {
	f, args := p.callee(call), call.Args
	switch {
	case !isMethod(f, library, "Client") || len(args) == 0:
		return o, false
	case kinds[f.Name()] != "":
		return opened{call, args[0], kinds[f.Name()], args[1:]}, true
	case f.Name() != "Take" || len(args) < 4:
		return o, false
	}
	if k := p.variable(args[1]); k != nil && k.Pkg() != nil && k.Pkg().Path() == library+"/kind" {
		o.kind = strings.ToLower(k.Name())
	}
	return opened{call, args[2], o.kind, args[4:]}, true
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

// constant is the value of a constant string, "" if it is none.
func (p *pkg) constant(e ast.Expr) string {
	if v := p.TypesInfo.Types[e].Value; v != nil {
		return constant.StringVal(v)
	}
	return ""
}

// handle says what is known of the handle that an expression is: a call that makes it, or a variable with one value.
func (p *pkg) handle(e ast.Expr) (h handle) {
	h.single = isType(p.TypesInfo.TypeOf(e), library, "Mutex", "RWMutex", "Election")
	v, from := p.variable(e), e
	if v != nil {
		if len(p.origins[v]) != 1 || p.origins[v][0] == nil {
			return h
		}
		from = p.origins[v][0]
	}
	if call, ok := ast.Unparen(from).(*ast.CallExpr); ok {
		p.made(&h, call)
	}
	if s, ok := ast.Unparen(e).(*ast.SelectorExpr); ok && h.global { // the one in another value may be of another client
		h.client = p.which(s)
	}
	if h.id == "" && v != nil && !p.repeats(v) {
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
	if s, ok := ast.Unparen(e).(*ast.SelectorExpr); ok && v.IsField() {
		of := p.which(s.X)
		if of == "" {
			return ""
		}
		id = of + "." + id
	}
	return id
}

// repeats reports whether a variable is another one in each round of a loop.
func (p *pkg) repeats(v *types.Var) bool {
	for _, l := range p.loops {
		if l.Pos() <= v.Pos() && v.Pos() < l.End() {
			return true
		}
	}
	return false
}

// made completes what is known from the call that makes a handle.
func (p *pkg) made(h *handle, call *ast.CallExpr) {
	if o, ok := p.opens(call); ok {
		h.reentrant, h.bounded = p.option(o, "WithReentrancy"), p.option(o, "WithMaxWait")
		h.client = p.which(receiver(call))
		h.id = p.constant(o.path)
		h.global = h.id != ""
		return
	}
	// A function of another package, as those that "locktree generate go" writes: the same function is the same lock, if
	// nothing but constants is given to it.
	f := p.callee(call)
	if f == nil || f.Pkg() == nil || f.Pkg().Path() == library || f.Pkg() == p.Pkg {
		return
	}
	id := f.FullName()
	for _, arg := range call.Args {
		v := p.TypesInfo.Types[arg].Value
		if v == nil {
			return
		}
		id += " " + v.ExactString()
	}
	h.id, h.global, h.by = id, true, f
}

// taking is a call of the library that takes a lock.
type taking struct {
	handle // unknown for Take
	in     *function
	call   *ast.CallExpr
	method string
	work   *ast.FuncLit // of Do, RDo and Lead, if it stands there
	lease  bool         // it returns one
}

// take looks at a call; nil if it takes no lock.
func (p *pkg) take(call *ast.CallExpr, in *function) *taking {
	f := p.callee(call)
	if !isFrom(f, library) || f.Signature().Recv() == nil || !f.Exported() {
		return nil
	}
	t := &taking{in: in, call: call, method: f.Name()}
	if t.method != "Take" {
		t.handle = p.handle(receiver(call))
	}
	if r := f.Signature().Results(); r.Len() == 2 && isLease(r.At(0).Type()) {
		t.lease = true
		return t
	}
	for i := range min(f.Signature().Params().Len(), len(call.Args)) {
		s, ok := f.Signature().Params().At(i).Type().(*types.Signature)
		if ok && s.Params().Len() == 2 && isLease(s.Params().At(1).Type()) {
			t.work, _ = ast.Unparen(call.Args[i]).(*ast.FuncLit)
			return t
		}
	}
	return nil
}

// waits reports whether the call waits for other holders.
func (t *taking) waits() bool {
	return slices.Contains([]string{"Lock", "RLock", "Acquire", "Campaign", "Do", "RDo", "Lead"}, t.method)
}

// tries reports whether the call gives up at once if there are other holders.
func (t *taking) tries() bool { return strings.HasPrefix(t.method, "Try") }

func (t *taking) shared() bool {
	return slices.Contains([]string{"RLock", "RDo", "TryRLock"}, t.method)
}

// text is the handle as in the source, for people.
func (t *taking) text() string { return types.ExprString(receiver(t.call)) }

// nested are the calls in a node that take a lock while another one is held: also in the work of Do, not in goroutines.
func (p *pkg) nested(n ast.Node) (all []*taking) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt, *ast.FuncLit, *ast.DeferStmt:
			return false
		case *ast.CallExpr:
			if t := p.taking(n); t != nil {
				all = append(all, t)
				if t.work != nil {
					all = append(all, p.nested(t.work.Body)...)
				}
			}
		}
		return true
	})
	return all
}
