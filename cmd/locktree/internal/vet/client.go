package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

func errequal(p *pkg) {
	compared := func(at ast.Node, e ast.Expr) {
		v := p.variable(e)
		if p.global(e) && v.Pkg().Path() == library && strings.HasPrefix(v.Name(), "Err") {
			p.report(at, "errors wrap recipes.%s: use errors.Is", v.Name())
		}
	}
	for n, f := range each[ast.Node](p) {
		if f.name == "Is" { // errors.Is calls it with each error by itself
			continue
		}
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				compared(n, n.X)
				compared(n, n.Y)
			}
		case *ast.CaseClause:
			for _, e := range n.List {
				compared(e, e)
			}
		case *ast.TypeAssertExpr:
			if n.Type != nil && types.Identical(p.TypesInfo.TypeOf(n.X), types.Universe.Lookup("error").Type()) && isType(p.TypesInfo.TypeOf(n.Type), library, "HeldError") {
				p.report(n, "errors wrap *recipes.HeldError: use errors.As")
			}
		}
	}
}

func retryall(p *pkg) {
	for body := range p.loops {
		for _, s := range body.List {
			if i, ok := s.(*ast.IfStmt); ok && i.Init != nil {
				s = i.Init
			}
			a, ok := s.(*ast.AssignStmt)
			if !ok || len(a.Lhs) != 1 {
				continue
			}
			t, err := p.taking(a.Rhs[0]), p.variable(a.Lhs[0])
			if t != nil && err != nil && (t.method == "Do" || t.method == "RDo") && p.retries(body, err) {
				p.report(t.call, "this loop repeats the work after any error, also after one that came when the work was done: repeat only if recipes.Retryable(%s)", err.Name())
			}
		}
	}
}

// retries reports whether a loop leaves when there is no error and goes on when there is one, whichever it is.
func (p *pkg) retries(loop *ast.BlockStmt, err *types.Var) bool {
	leaves, examined := false, false
	for n := range ast.Preorder(loop) {
		switch n := n.(type) {
		case *ast.IfStmt:
			b, ok := ast.Unparen(n.Cond).(*ast.BinaryExpr)
			if !ok || !p.is(b.X, err) || !p.isNil(b.Y) {
				examined = examined || p.mentions(n.Cond, err)
			} else if b.Op == token.EQL {
				leaves = leaves || leavesLoop(n.Body)
				examined = examined || n.Else != nil
			} else { // if err != nil { return }
				examined = examined || leavesLoop(n.Body)
			}
		case *ast.SwitchStmt: // it may tell errors from each other
			examined = examined || p.mentions(n, err)
		case *ast.CallExpr: // so may a function, unless it only prints
			f := p.callee(n)
			given := slices.ContainsFunc(n.Args, func(arg ast.Expr) bool { return p.is(arg, err) })
			examined = examined || given && !isFrom(f, "log") && !isFrom(f, "log/slog") && !isFrom(f, "fmt")
		}
	}
	return leaves && !examined
}

// leavesLoop reports whether a block ends with return or break.
func leavesLoop(b *ast.BlockStmt) bool {
	if len(b.List) == 0 {
		return false
	}
	last := b.List[len(b.List)-1]
	_, returns := last.(*ast.ReturnStmt)
	branch, ok := last.(*ast.BranchStmt)
	return returns || ok && branch.Tok == token.BREAK
}

func dial(p *pkg) {
	for call, f := range each[*ast.CallExpr](p) {
		if isFrom(p.callee(call), library, "Dial") && p.request(f) {
			p.report(call, "this makes a client, which is a session of ZooKeeper, for each request: make one when the program starts")
		}
	}
}

// request reports whether a function handles requests of HTTP.
func (p *pkg) request(f *function) bool {
	has := func(name string) bool {
		return slices.ContainsFunc(f.kind.Params.List, func(field *ast.Field) bool { return isType(p.TypesInfo.TypeOf(field.Type), "net/http", name) })
	}
	return has("ResponseWriter") && has("Request")
}

func background(p *pkg) {
	for _, t := range p.takings {
		ctx, ok := ast.Unparen(t.call.Args[0]).(*ast.CallExpr)
		if ok && p.request(t.in) && isFrom(p.callee(ctx), "context", "Background", "TODO") && t.waits() && t.bounded == no {
			p.report(t.call, "this request may wait for ever: give %s the request's context, or make the handle WithMaxWait", t.method)
		}
	}
}

func unfenced(p *pkg) {
	for _, t := range p.takings {
		if t.work == nil || p.usesLease(t.work) {
			continue
		}
		within(t.work.Body, func(n ast.Node) {
			if call, ok := n.(*ast.CallExpr); ok && isFrom(p.callee(call), "database/sql", "Exec", "ExecContext") {
				p.report(call, "this write does not carry the lease's Token: after a long pause it may come behind one of the next holder")
			}
		})
	}
}

// usesLease reports whether the work of Do looks at its lease.
func (p *pkg) usesLease(work *ast.FuncLit) bool {
	params := work.Type.Params.List
	return slices.ContainsFunc(params[len(params)-1].Names, func(name *ast.Ident) bool { return p.mentions(work.Body, p.variable(name)) })
}
