package vet

import (
	"go/ast"
	"slices"
)

// leaky reports whether the lease is not released on all paths: neither by the function nor with its client, which it closes.
func (h *held) leaky() bool {
	closes := func(call *ast.CallExpr) bool { return isMethod(h.callee(call), library, "Client", "Close") }
	return len(h.leaks) > 0 && !has(h.in.body, closes)
}

func unreleased(p *pkg) {
	for _, h := range p.leases {
		if h.leaky() {
			p.report(h.at, "%s is not released on all paths: the function may end on %s without Unlock. Write: defer %[1]s.Unlock(ctx)",
				h.lease.Name(), p.lines(h.leaks))
		}
	}
}

func overwritten(p *pkg) {
	for _, h := range p.leases {
		for _, n := range h.lost {
			if !h.leaky() { // one finding is enough
				p.report(n, "the lease in %s, taken on line %d, may still be held here: release it first", h.lease.Name(), p.line(h.at))
			}
		}
	}
}

func discarded(p *pkg) {
	for n := range each[ast.Node](p) {
		var e ast.Expr
		switch n := n.(type) {
		case *ast.AssignStmt:
			if id, ok := n.Lhs[0].(*ast.Ident); ok && id.Name == "_" && len(n.Lhs) == 2 {
				e = n.Rhs[0]
			}
		case *ast.ExprStmt:
			e = n.X
		case *ast.GoStmt:
			e = n.Call
		case *ast.DeferStmt:
			e = n.Call
		}
		if t := p.taking(e); t != nil && t.lease {
			p.report(e, "the lease of %s is thrown away: nothing can release it, or notice that it is lost", t.method)
		}
	}
}

func unchecked(p *pkg) {
	for _, h := range p.leases {
		looks := func(b *ast.BinaryExpr) bool {
			x, ok := h.withNil(b)
			return ok && h.is(x, h.lease)
		}
		if h.by != nil && h.err == nil && !has(h.in.body, looks) {
			p.report(h.at, "the error of %s is thrown away: if there is one, %s is nil, and this goes on without the lock", h.by.method, h.lease.Name())
		}
	}
}

func afterunlock(p *pkg) {
	for _, h := range p.leases {
		for n, release := range h.after {
			if release == nil {
				continue
			}
			within(n, func(n ast.Node) {
				if call, ok := n.(*ast.CallExpr); ok && h.uses(call) {
					p.report(call, "the lease was released on line %d: it guards nothing here", p.line(release))
				}
			})
		}
	}
}

// uses reports whether a call does something under the lease.
func (h *held) uses(call *ast.CallExpr) bool {
	return h.calls(call, "Multi", "Verify") || !isFrom(h.callee(call), "context") &&
		slices.ContainsFunc(call.Args, func(arg ast.Expr) bool { return h.calls(ast.Unparen(arg), "Context") })
}

func deferloop(p *pkg) {
	for _, h := range p.leases {
		if h.deferred != nil {
			p.report(h.deferred, "a deferred release in a loop runs when the function returns, not at the end of the round: use Do, or a function for each round")
		}
	}
}
