package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

func outerctx(p *pkg) {
	for _, t := range p.takings {
		if t.work == nil {
			continue
		}
		for _, u := range p.outer(t.work.Body, t.call) {
			p.report(u.ctx, "%s is the context from outside of %s: it is not cancelled when the lock is lost. Use the one that the function gets",
				types.ExprString(u.ctx), t.method)
		}
	}
}

func unwatched(p *pkg) {
	for _, h := range p.leases {
		if h.by == nil || len(h.by.call.Args) == 0 || h.watched() || p.sets(h.in.body, p.variable(h.by.call.Args[0])) {
			continue
		}
		var all []use
		for _, n := range h.during {
			all = append(all, p.outer(n, h.by.call)...)
		}
		if i := slices.IndexFunc(all, func(u use) bool { return !isFrom(u.by, library) }); i >= 0 {
			p.report(all[i].ctx, "this goes on when the lock taken on line %d is lost, and nothing here notices: give it %s.Context()", p.line(h.at), h.lease.Name())
		}
	}
}

// watched reports whether the function does anything with the lease but to release it.
func (h *held) watched() bool {
	releases := map[ast.Expr]bool{h.at.Lhs[0]: true}
	for n := range ast.Preorder(h.in.body) {
		if h.releasedBy(n) {
			releases[receiver(n.(*ast.CallExpr))] = true
		}
		if id, ok := n.(*ast.Ident); ok && h.is(id, h.lease) && !releases[id] && h.TypesInfo.Defs[id] == nil {
			return true
		}
	}
	return false
}

// use is a context that is given to a function.
type use struct {
	ctx ast.Expr
	by  *types.Func
}

// outer are the uses in a node of the context that a call takes a lock with. Calls that do no work under the lock may be given any: a
// goroutine may outlive the lock on purpose, a log entry does not change anything, and a release has to happen in any case.
func (p *pkg) outer(n ast.Node, take *ast.CallExpr) (all []use) {
	ctx := p.source(take.Args[0])
	if ctx == nil || p.sets(n, ctx) { // perhaps to the right one
		return nil
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt, *ast.DeferStmt:
			return false
		case *ast.CallExpr:
			for _, arg := range n.Args {
				if p.source(arg) == ctx && !p.unguarded(n) {
					all = append(all, use{arg, p.callee(n)})
				}
			}
		}
		return true
	})
	return all
}

// source is the variable that a context is, or the request that it is of; nil if it is from elsewhere.
func (p *pkg) source(e ast.Expr) *types.Var {
	if !isType(p.TypesInfo.TypeOf(e), "context", "Context") {
		return nil
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return p.variable(e)
	case *ast.CallExpr:
		if isMethod(p.callee(e), "net/http", "Request", "Context") {
			return p.variable(receiver(e))
		}
	}
	return nil
}

// unguarded reports whether a call may be given any context.
func (p *pkg) unguarded(call *ast.CallExpr) bool {
	f := p.callee(call)
	switch {
	case f == nil: // a conversion, or a function value: what returns an error does work
		s, ok := p.TypesInfo.TypeOf(call.Fun).(*types.Signature)
		return !ok || s.Results().Len() == 0 || s.Results().At(s.Results().Len()-1).Type() != types.Universe.Lookup("error").Type()
	case isFrom(f, "context"):
		return !isFrom(f, "context", "WithTimeout", "WithDeadline", "WithCancel", "WithTimeoutCause", "WithDeadlineCause", "WithCancelCause")
	}
	return f.Pkg() == nil || isFrom(f, "log/slog") || isMethod(f, library, "Lease", "Unlock") ||
		isFrom(f, library, "Detach") || strings.HasPrefix(f.Pkg().Path(), "go.opentelemetry.io/")
}
