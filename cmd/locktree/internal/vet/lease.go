package vet

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/cfg"
)

// held is a lease that a function takes into a variable of its own, and what becomes of it there.
type held struct {
	*pkg
	taking
	at         *ast.AssignStmt
	lease, err types.Object // err is nil if the function does not look at it
	contexts   []types.Object

	closes    bool       // the function closes a client, which releases its leases
	leaks     []ast.Node // where the function ends without a release
	overwrite []ast.Node // where the variable gets another lease, or nil, without a release
	during    []ast.Node // what is executed while the lease is held
}

// grasp is what is known of a lease at a point of the function.
type grasp int

const (
	maybe   grasp = iota // the error was not looked at
	have                 // it is held
	until                // it is held, and a deferred call releases it
	nothing              // there is none
	lost                 // it cannot be said
)

// flow is the control flow of a body.
func (p *pkg) flow(f *function) *cfg.CFG {
	return cfg.New(f.body, func(call *ast.CallExpr) bool {
		if id, ok := call.Fun.(*ast.Ident); ok && p.TypesInfo.Uses[id] == types.Universe.Lookup("panic") {
			return false
		}
		c := p.callee(call)
		return !isFrom(c, "os", "Exit") && !isFrom(c, "runtime", "Goexit") &&
			!isFrom(c, "log", "Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln")
	})
}

// follow follows the leases that a function takes.
func (p *pkg) follow(f *function) {
	within(f.body, func(n ast.Node) {
		if h := p.leaseOf(f, n); h != nil {
			h.follow(f.flow)
			f.leases = append(f.leases, h)
		}
	})
}

func (p *pkg) leaseOf(f *function, n ast.Node) *held {
	a, ok := n.(*ast.AssignStmt)
	if !ok || len(a.Lhs) != 2 || len(a.Rhs) != 1 {
		return nil
	}
	call, ok := ast.Unparen(a.Rhs[0]).(*ast.CallExpr)
	if !ok {
		return nil
	}
	t, ok := p.take(call)
	if !ok || !t.lease {
		return nil
	}
	own := func(e ast.Expr) types.Object {
		id, ok := e.(*ast.Ident)
		if !ok || id.Name == "_" {
			return nil
		}
		v := p.TypesInfo.ObjectOf(id)
		if v.Pos() < f.body.Pos() || v.Pos() >= f.body.End() { // a result or a variable from outside
			return nil
		}
		return v
	}
	h := &held{pkg: p, taking: t, at: a, lease: own(a.Lhs[0]), err: own(a.Lhs[1])}
	if id, ok := a.Lhs[1].(*ast.Ident); h.lease == nil || h.err == nil && !(ok && (id.Name == "_" || p.isResult(f, id))) {
		return nil
	}
	if id, ok := a.Lhs[1].(*ast.Ident); ok && id.Name != "_" {
		h.err = p.TypesInfo.ObjectOf(id)
	}
	if h.caughtBefore(f) {
		return nil
	}
	within(f.body, func(n ast.Node) { // lctx := l.Context()
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == 1 && len(a.Rhs) == 1 && h.isContext(a.Rhs[0]) {
			if v := p.variable(a.Lhs[0]); v != nil {
				h.contexts = append(h.contexts, v)
			}
		}
	})
	return h
}

func (p *pkg) isResult(f *function, id *ast.Ident) bool {
	v := p.TypesInfo.ObjectOf(id)
	return v != nil && f.kind.Pos() <= v.Pos() && v.Pos() < f.kind.End()
}

// caughtBefore reports whether something that runs later was given the variable before the lease is in it, as by a defer at the
// beginning.
func (h *held) caughtBefore(f *function) (caught bool) {
	ast.Inspect(f.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			caught = caught || n.Pos() < h.at.Pos() && h.mentions(n, h.lease)
		case *ast.UnaryExpr:
			caught = caught || n.Op == token.AND && h.is(n.X, h.lease)
		case *ast.CallExpr:
			h.closes = h.closes || isMethod(h.callee(n), library, "Client", "Close")
		}
		return true
	})
	return caught
}

// follow goes through all paths from where the lease is taken.
func (h *held) follow(g *cfg.CFG) {
	type point struct {
		block *cfg.Block
		grasp grasp
	}
	var open []point
	seen := map[point]bool{}
	at := func(b *cfg.Block, have grasp) {
		if p := (point{b, have}); have < nothing && !seen[p] {
			seen[p] = true
			open = append(open, p)
		}
	}
	walk := func(b *cfg.Block, nodes []ast.Node, now grasp) {
		for i, n := range nodes {
			cond, ok := n.(ast.Expr)
			if ok && i == len(nodes)-1 && len(b.Succs) == 2 && h.isBool(cond) {
				h.note(n, now)
				at(b.Succs[0], h.after(cond, true, now))
				at(b.Succs[1], h.after(cond, false, now))
				return
			}
			if now = h.step(n, now); now >= nothing {
				return
			}
		}
		for _, next := range b.Succs {
			at(next, now)
		}
	}
	first := maybe
	if h.err == nil {
		first = have
	}
	for _, b := range g.Blocks {
		for i, n := range b.Nodes {
			if n == h.at && b.Live {
				walk(b, b.Nodes[i+1:], first)
			}
		}
	}
	for len(open) > 0 {
		p := open[len(open)-1]
		open = open[:len(open)-1]
		walk(p.block, p.block.Nodes, p.grasp)
	}
}

func (h *held) isBool(e ast.Expr) bool {
	b, ok := h.TypesInfo.TypeOf(e).(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0
}

// note keeps what is executed under the lease.
func (h *held) note(n ast.Node, now grasp) {
	if now == have || now == until {
		h.during = append(h.during, n)
	}
}

// step is what one statement does to the lease.
func (h *held) step(n ast.Node, now grasp) grasp {
	if a, ok := n.(*ast.AssignStmt); ok {
		for _, left := range a.Lhs {
			if h.is(left, h.lease) {
				if now == have && !h.ends(a, left) {
					h.overwrite = append(h.overwrite, n)
				}
				return nothing
			}
		}
	}
	h.note(n, now)
	if h.ends(n, nil) {
		if d, ok := n.(*ast.DeferStmt); ok && now == have && h.releasesIn(d) {
			return until
		}
		return nothing
	}
	if now == maybe && h.err != nil && h.mentions(n, h.err) {
		return lost
	}
	if _, ok := n.(*ast.ReturnStmt); ok && now == have {
		h.leaks = append(h.leaks, n)
	}
	return now
}

// after is what is known of the lease behind a condition that was true, or false.
func (h *held) after(cond ast.Expr, truth bool, now grasp) grasp {
	switch c := ast.Unparen(cond).(type) {
	case *ast.UnaryExpr:
		if c.Op == token.NOT {
			return h.after(c.X, !truth, now)
		}
	case *ast.BinaryExpr:
		if c.Op == token.LAND || c.Op == token.LOR {
			return h.both(c, truth, now)
		}
		for _, pair := range [][2]ast.Expr{{c.X, c.Y}, {c.Y, c.X}} {
			if (c.Op == token.EQL || c.Op == token.NEQ) && h.TypesInfo.Types[pair[1]].IsNil() {
				isNil := truth == (c.Op == token.EQL)
				switch {
				case now == maybe && h.is(pair[0], h.err) && isNil, now == maybe && h.is(pair[0], h.lease) && !isNil:
					return have
				case now == maybe && h.is(pair[0], h.err), h.is(pair[0], h.lease) && isNil:
					return nothing
				case h.is(pair[0], h.lease):
					return now
				}
			}
		}
	case *ast.CallExpr:
		if isFrom(h.callee(c), "errors", "Is", "As", "AsType") && len(c.Args) > 0 && h.is(c.Args[0], h.err) && now == maybe {
			if truth {
				return nothing
			}
			return now
		}
	}
	switch {
	case h.ends(cond, nil):
		return nothing
	case now == maybe && h.err != nil && h.mentions(cond, h.err):
		return lost
	}
	return now
}

// both is after for && and ||.
func (h *held) both(c *ast.BinaryExpr, truth bool, now grasp) grasp {
	if truth == (c.Op == token.LAND) { // both sides had this outcome
		if x := h.after(c.X, truth, now); x >= nothing {
			return x
		} else {
			return h.after(c.Y, truth, x)
		}
	}
	x := h.after(c.X, truth, now) // one of them had, the second behind the other outcome of the first
	y := h.after(c.X, !truth, now)
	if y < nothing {
		y = h.after(c.Y, truth, y)
	}
	switch {
	case x == y:
		return x
	case x == lost || y == lost:
		return lost
	case x == nothing:
		return y
	case y == nothing:
		return x
	}
	return maybe
}

// quiet are the methods of a lease that leave it as it is.
var quiet = map[string]bool{"Token": true, "Context": true, "Node": true, "Path": true, "Deadline": true, "Verify": true, "Multi": true}

// ends reports whether a node releases the lease, waits for its end, or hands it to somebody else, after which it is not
// followed any more. Assignments to but are no use of it.
func (h *held) ends(n ast.Node, but ast.Expr) bool {
	harmless := map[ast.Node]bool{but: true}
	for n := range ast.Preorder(n) {
		switch n := n.(type) {
		case *ast.CallExpr:
			if s, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr); ok {
				if h.is(s.X, h.lease) && quiet[s.Sel.Name] {
					harmless[s.X] = true
				}
				if (s.Sel.Name == "Done" || s.Sel.Name == "Err") && h.isContext(s.X) { // who sees it cancelled has no lease
					return true
				}
			}
		case *ast.BinaryExpr:
			for _, pair := range [][2]ast.Expr{{n.X, n.Y}, {n.Y, n.X}} {
				if h.is(pair[0], h.lease) && h.TypesInfo.Types[pair[1]].IsNil() {
					harmless[pair[0]] = true
				}
			}
		case *ast.Ident:
			if h.is(n, h.lease) && !harmless[n] {
				return true
			}
		}
	}
	return false
}

// releasesIn reports whether the lease is released in a node, or in a literal there.
func (h *held) releasesIn(n ast.Node) bool {
	for n := range ast.Preorder(n) {
		if id := h.unlocked(n); id != nil && h.is(id, h.lease) {
			return true
		}
	}
	return false
}

// isContext reports whether an expression is the lease's context.
func (h *held) isContext(e ast.Expr) bool {
	if call, ok := ast.Unparen(e).(*ast.CallExpr); ok {
		return isMethod(h.callee(call), library, "Lease", "Context") && h.is(receiver(call), h.lease)
	}
	for _, v := range h.contexts {
		if h.is(e, v) {
			return true
		}
	}
	return false
}
