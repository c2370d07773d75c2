package vet

import (
	"go/ast"
	"go/types"
	"regexp"
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
		if h.by == nil || len(h.by.call.Args) == 0 || h.watched() {
			continue
		}
		if ctx := p.variable(h.by.call.Args[0]); slices.ContainsFunc(h.during, func(n ast.Node) bool { return p.replaces(n, ctx) }) {
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
func (h *held) watched() bool { return h.used(h.in.body, h.at.Lhs[0]) }

// used reports whether anything is done with the lease in a node but to release it. Not counted are the places given.
func (h *held) used(in ast.Node, but ...ast.Expr) bool {
	for n := range ast.Preorder(in) {
		if h.releasedBy(n) {
			but = append(but, receiver(n.(*ast.CallExpr)))
		}
		if arg := h.lent(n); arg != nil {
			but = append(but, arg)
		}
		if id, ok := n.(*ast.Ident); ok && h.is(id, h.lease) && !slices.Contains(but, ast.Expr(id)) && h.TypesInfo.Defs[id] == nil {
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
	if ctx == nil || p.replaces(n, ctx) { // perhaps by the right one
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

// source is the variable that a context is, or is derived from, or the request that it is of; nil if it is from elsewhere. Variables that
// it came through lead no further: two may be made of each other.
func (p *pkg) source(e ast.Expr, through ...*types.Var) *types.Var {
	if !isType(p.TypesInfo.TypeOf(e), "context", "Context") {
		return nil
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		v := p.variable(e)
		if from := p.origins[v]; len(from) == 1 && from[0] != nil && !p.mentions(from[0], v) && !slices.Contains(through, v) {
			if made, ok := ast.Unparen(from[0]).(*ast.CallExpr); ok && derives(p.callee(made)) {
				for _, arg := range made.Args {
					if of := p.source(arg, append(through, v)...); of != nil {
						return of
					}
				}
			}
		}
		return v
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
	return f.Pkg() == nil || logs(f) || derives(f) || isMethod(f, library, "Lease", "Unlock") ||
		isFrom(f, library, "Detach") || strings.HasPrefix(f.Pkg().Path(), "go.opentelemetry.io/")
}

// level is what functions are called that write to a log, in the log packages and in what programs wrap around them.
var level = regexp.MustCompile(`^(Trace|Debug|Info|Notice|Warn|Warning|Error|Log|LogAttrs|Print)(f|w|ln|Context|Ctx)?$`)

// logs reports whether a function only writes to a log.
func logs(f *types.Func) bool {
	return isFrom(f, "log/slog") || level.MatchString(f.Name()) && f.Signature().Results().Len() == 0
}

// derives reports whether a function makes a context that ends with the one it is given.
func derives(f *types.Func) bool {
	return f != nil && f.Signature().Results().Len() == 1 && isType(f.Signature().Results().At(0).Type(), "context", "Context") &&
		!isFrom(f, "context", "WithoutCancel") && !isFrom(f, library)
}
