package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

var outerctx = analyzer("outerctx", `work inside Do or Lead uses the context from outside

Only the context that the function gets is cancelled when the lock is lost, so this work goes on beside that of the next holder.
A lock that is taken with the outer context does not know that this one is held, and can wait for itself for ever.

Bad:

	return ledger.Do(ctx, func(_ context.Context, lease *recipes.Lease) error {
		return work(ctx)
	})

Good:

	return ledger.Do(ctx, func(ctx context.Context, lease *recipes.Lease) error {
		return work(ctx)
	})
`, func(p *pkg, f *function) {
	p.takes(f, func(t taking) {
		if t.work == nil || len(t.call.Args) == 0 {
			return
		}
		p.outer(t.work.Body, t.call.Args[0], func(n ast.Expr, call *ast.CallExpr) {
			p.Reportf(n.Pos(), "%s is the context from outside of %s: it is not cancelled when the lock is lost. Use the one that the function gets",
				types.ExprString(n), t.method)
		})
	})
})

// takes visits the calls that take a lock.
func (p *pkg) takes(f *function, visit func(taking)) {
	within(f.body, func(n ast.Node) {
		if call, ok := n.(*ast.CallExpr); ok {
			if t, ok := p.take(call); ok {
				visit(t)
			}
		}
	})
}

// outer visits the calls in a node that are given a context. Calls that do no work under the lock may be given any: a goroutine
// may outlive the lock on purpose, a log entry does not change anything, and a release has to happen in any case.
func (p *pkg) outer(n ast.Node, ctx ast.Expr, visit func(ast.Expr, *ast.CallExpr)) {
	var same func(e ast.Expr) bool
	switch c := ast.Unparen(ctx).(type) {
	case *ast.Ident:
		v := p.variable(c)
		if v == nil || p.sets(n, v) { // perhaps to the right one
			return
		}
		same = func(e ast.Expr) bool { return p.is(e, v) }
	case *ast.CallExpr: // r.Context()
		if !isMethod(p.callee(c), "net/http", "Request", "Context") {
			return
		}
		v := p.variable(receiver(c))
		same = func(e ast.Expr) bool {
			call, ok := ast.Unparen(e).(*ast.CallExpr)
			return ok && p.callee(call) == p.callee(c) && p.is(receiver(call), v)
		}
	default:
		return
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt, *ast.DeferStmt:
			return false
		case *ast.CallExpr:
			if p.unguarded(n) {
				return true
			}
			for _, arg := range n.Args {
				if same(arg) && isType(p.TypesInfo.TypeOf(arg), "context", "Context") {
					visit(arg, n)
				}
			}
		}
		return true
	})
}

// sets reports whether a variable is assigned to in a node.
func (p *pkg) sets(n ast.Node, v types.Object) bool {
	for n := range ast.Preorder(n) {
		if a, ok := n.(*ast.AssignStmt); ok && slices.ContainsFunc(a.Lhs, func(e ast.Expr) bool { return p.is(e, v) }) {
			return true
		}
	}
	return false
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

var unwatched = analyzer("unwatched", `work under a lease never notices that the lock is lost

The lease's context, its token, Multi and Verify are the ways to notice. A program that uses none of them and goes on with the
context that it gave to Lock works beside the next holder.

Bad:

	lease, err := ledger.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx)
	return work(ctx)

Good:

	lease, err := ledger.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx)
	return work(lease.Context())
`, func(p *pkg, f *function) {
	for _, h := range f.leases {
		if len(h.call.Args) == 0 || h.watched(f) || p.sets(f.body, p.variable(h.call.Args[0])) {
			continue
		}
		for _, n := range h.during {
			said := false
			p.outer(n, h.call.Args[0], func(e ast.Expr, call *ast.CallExpr) {
				if said || isFrom(p.callee(call), library) {
					return
				}
				said = true
				p.Reportf(e.Pos(), "this goes on when the lock taken on line %d is lost, and nothing here notices: give it %s.Context()", p.line(h.at), h.lease.Name())
			})
			if said {
				break
			}
		}
	}
})

// watched reports whether the function does anything with the lease but to release it.
func (h *held) watched(f *function) bool {
	releases := map[ast.Node]bool{}
	for n := range ast.Preorder(f.body) {
		if id, ok := n.(*ast.Ident); ok && h.is(id, h.lease) && !releases[id] && h.TypesInfo.Defs[id] == nil && id != h.at.Lhs[0] {
			return true
		}
		if id := h.unlocked(n); id != nil {
			releases[id] = true
		}
	}
	return false
}
