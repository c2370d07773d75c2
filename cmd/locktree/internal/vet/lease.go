package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"sync"

	"golang.org/x/tools/go/cfg"
)

// held is a variable in which a function has a lease, and what becomes of it there.
type held struct {
	*pkg
	in         *function
	by         *taking         // nil if the lease is from elsewhere, or may get elsewhere at any time
	at         *ast.AssignStmt // nil for a parameter
	lease, err *types.Var      // err is nil if the function does not look at it

	leaks    []ast.Node            // where the function ends without a release
	lost     []ast.Node            // where the variable gets another lease, or nil, without a release
	deferred ast.Node              // the release that is deferred once more in each round of a loop
	during   []ast.Node            // what is executed while the lease is held
	after    map[ast.Node]ast.Node // what is executed where it was released, on all ways, and the release; nil where it may not be
}

// grasp is what is known of a lease at a point of the function.
type grasp int

const (
	gone     grasp = iota // there is none, or it cannot be said
	maybe                 // the error was not looked at
	have                  // it is held
	until                 // it is held, and a deferred call releases it
	released              // the function released it
)

// state is one at a point.
type state struct {
	grasp
	release ast.Node // the statement that released the lease, or will
	fresh   bool     // the error is the one that came with the lease: nil where there is one
}

// follow follows the leases that a function is given, or takes.
func (p *pkg) follow(f *function) {
	flow := sync.OnceValue(func() *cfg.CFG {
		return cfg.New(f.body, func(call *ast.CallExpr) bool {
			id, _ := call.Fun.(*ast.Ident)
			c := p.callee(call)
			return p.TypesInfo.Uses[id] != types.Universe.Lookup("panic") && !isFrom(c, "os", "Exit") && !isFrom(c, "runtime", "Goexit") &&
				!isFrom(c, "log", "Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln")
		})
	})
	follow := func(e ast.Expr, at *ast.AssignStmt) {
		if v := p.variable(e); v != nil && v.Name() != "_" && !v.IsField() && isLease(v.Type()) {
			h := &held{pkg: p, in: f, at: at, lease: v, after: map[ast.Node]ast.Node{}}
			h.walk(flow(), h.taken())
			p.leases = append(p.leases, h)
		}
	}
	for _, field := range f.kind.Params.List {
		for _, name := range field.Names {
			follow(name, nil)
		}
	}
	for _, n := range f.nodes {
		if a, ok := n.(*ast.AssignStmt); ok {
			follow(a.Lhs[0], a)
		}
	}
}

// taken finds the call that takes the lease, and says what is known behind it. Variables that are given to something that runs
// later, or are not the function's own, are not followed.
func (h *held) taken() grasp {
	own := func(v *types.Var, from ast.Node) bool { return from.Pos() <= v.Pos() && v.Pos() < h.in.body.End() }
	if h.at == nil || !own(h.lease, h.in.body) {
		return gone
	}
	later := func(f *ast.FuncLit) bool { return f.Pos() < h.at.Pos() && h.mentions(f, h.lease) }
	address := func(u *ast.UnaryExpr) bool { return u.Op == token.AND && h.is(u.X, h.lease) }
	t := h.taking(h.at.Rhs[0])
	if t == nil || !t.lease || has(h.in.body, later) || has(h.in.body, address) {
		return gone
	}
	id, ok := h.at.Lhs[1].(*ast.Ident)
	switch {
	case ok && id.Name == "_":
		h.by = t
		return have
	case ok && own(h.variable(id), h.in.kind):
		h.by, h.err = t, h.variable(id)
		return maybe
	}
	return gone
}

// walk goes through all paths from where the lease is taken.
func (h *held) walk(flow *cfg.CFG, first grasp) {
	type point struct {
		*cfg.Block
		state
	}
	seen := map[point]bool{}
	var walk func(b *cfg.Block, nodes []ast.Node, s state)
	enter := func(b *cfg.Block, s state) {
		at, nodes := point{b, s}, b.Nodes
		if seen[at] || b.Kind == cfg.KindSelectAfterCase && h.waits[b.Stmt] { // one of the cases happens
			return
		}
		seen[at] = true
		if clause, ok := b.Stmt.(*ast.CommClause); ok && b.Kind == cfg.KindSelectCaseBody {
			nodes = slices.Insert(slices.Clone(nodes), 0, ast.Node(clause.Comm))
		}
		walk(b, nodes, s)
	}
	walk = func(b *cfg.Block, nodes []ast.Node, s state) {
		for i, n := range nodes {
			if clause := h.comms[n]; clause != nil && (clause != b.Stmt || b.Kind != cfg.KindSelectCaseBody) {
				continue // the graph has those of all cases in front of them
			}
			h.reached(n, s)
			if a, ok := n.(*ast.AssignStmt); ok && slices.ContainsFunc(a.Lhs, func(e ast.Expr) bool { return h.is(e, h.lease) }) {
				h.replaced(a, s)
				return
			}
			if cond, ok := n.(ast.Expr); ok && i == len(nodes)-1 && len(b.Succs) == 2 {
				if tag := h.cases[cond]; tag != nil {
					cond = &ast.BinaryExpr{X: tag, Op: token.EQL, Y: cond}
				}
				for j, next := range b.Succs {
					for _, s := range h.behind(cond, j == 0, s) {
						enter(next, s)
					}
				}
				return
			}
			if tag, ok := n.(ast.Expr); !ok || !h.is(tag, h.err) { // that of a switch, which the cases look at
				s = h.step(n, s)
			}
		}
		for _, next := range b.Succs {
			enter(next, s)
		}
	}
	start := state{grasp: first, fresh: !has(h.in.body, func(f *ast.FuncLit) bool { return h.assigns(f, h.err) })}
	for i, b := range flow.Blocks {
		if h.at == nil && i == 0 {
			enter(b, start)
		}
		if i := slices.Index(b.Nodes, ast.Node(h.at)); i >= 0 && b.Live {
			walk(b, b.Nodes[i+1:], start)
		}
	}
}

// reached notes in which state a node is executed.
func (h *held) reached(n ast.Node, s state) {
	if before, ok := h.after[n]; s.grasp != released {
		h.after[n] = nil
	} else if !ok || before != nil {
		h.after[n] = s.release
	}
}

// replaced is what an assignment to the variable does to the lease.
func (h *held) replaced(a *ast.AssignStmt, s state) {
	if s.grasp == have && !h.ends(a) {
		h.lost = append(h.lost, a)
	}
	if _, ok := s.release.(*ast.DeferStmt); ok && a == h.at {
		h.deferred = s.release
	}
}

// step is what one statement does to the lease.
func (h *held) step(n ast.Node, s state) state {
	if s.grasp == have || s.grasp == until {
		h.during = append(h.during, n)
	}
	s.fresh = s.fresh && !h.assigns(n, h.err)
	_, deferred := n.(*ast.DeferStmt)
	_, returns := n.(*ast.ReturnStmt)
	switch releases := h.releases(n, deferred); {
	case releases && !deferred:
		return state{released, n, s.fresh}
	case s.grasp == released:
	case releases && s.grasp == have:
		return state{until, n, s.fresh}
	case releases:
		return state{gone, n, s.fresh}
	case h.ends(n), s.grasp == maybe && h.mentions(n, h.err):
		s.grasp = gone
	case returns && s.grasp == have:
		h.leaks = append(h.leaks, n)
	}
	return s
}

// behind is what is known of the lease behind a condition that was true, or false.
func (h *held) behind(cond ast.Expr, truth bool, s state) (all []state) {
	none := []state{{gone, s.release, s.fresh}}
	taken := s.fresh && s.grasp != maybe && s.grasp != gone // so the error is nil
	switch c := ast.Unparen(cond).(type) {
	case *ast.UnaryExpr:
		if c.Op == token.NOT {
			return h.behind(c.X, !truth, s)
		}
	case *ast.BinaryExpr:
		if c.Op == token.LAND || c.Op == token.LOR {
			if truth == (c.Op == token.LOR) { // the first side was enough
				all = h.behind(c.X, truth, s)
			}
			for _, s := range h.behind(c.X, c.Op == token.LAND, s) {
				all = append(all, h.behind(c.Y, truth, s)...)
			}
			return all
		}
		x, compared := h.withNil(c)
		isNil, isErr := truth == (c.Op == token.EQL), h.is(x, h.err)
		switch {
		case taken && isErr && !isNil && compared, taken && isErr && isNil && h.global(c.Y):
			return nil
		case !compared && isErr && s.grasp == maybe && h.global(c.Y): // one of those that are no nil
			if isNil {
				return none
			}
			return []state{s}
		case !compared || !isErr && !h.is(x, h.lease):
		case s.grasp == maybe && isErr == isNil:
			return []state{{have, s.release, s.fresh}}
		case s.grasp == maybe, !isErr && isNil:
			return none
		default:
			return []state{s}
		}
	case *ast.CallExpr:
		isErr := len(c.Args) > 0 && h.is(c.Args[0], h.err)
		switch {
		case !h.errorsIs(c):
		case truth && taken && isErr:
			return nil
		case truth && (isErr && s.grasp == maybe || len(c.Args) == 2 && h.loss(c.Args[1])):
			return none
		case isErr && s.grasp == maybe:
			return []state{s}
		}
	}
	return []state{h.step(cond, s)}
}

// errorsIs reports whether it is a call that asks what an error is: of package errors, or of one like it.
func (p *pkg) errorsIs(call *ast.CallExpr) bool {
	f := p.callee(call)
	return f != nil && f.Pkg() != nil && f.Pkg().Name() == "errors" && slices.Contains([]string{"Is", "As", "AsType"}, f.Name())
}

// global reports whether an expression is a variable of a package.
func (p *pkg) global(e ast.Expr) bool {
	v := p.variable(e)
	return v != nil && v.Pkg() != nil && v.Parent() == v.Pkg().Scope()
}

// loss reports whether an expression is an error that says that there is no lease any more.
func (p *pkg) loss(e ast.Expr) bool {
	return p.global(e) && p.variable(e).Pkg().Path() == library && slices.Contains([]string{"ErrLost", "ErrSessionLost"}, p.variable(e).Name())
}

// withNil is what a comparison compares with nil.
func (p *pkg) withNil(b *ast.BinaryExpr) (ast.Expr, bool) {
	if p.isNil(b.X) {
		return b.Y, true
	}
	return b.X, p.isNil(b.Y)
}

// quiet are the methods of a lease that leave it as it is.
var quiet = []string{"Token", "Context", "Node", "Path", "Deadline", "Verify", "Multi"}

// ends reports whether a node waits for the end of the lease, or hands it to somebody else, after which it is not followed any more.
func (h *held) ends(n ast.Node) bool {
	harmless := map[ast.Node]bool{}
	if a, ok := n.(*ast.AssignStmt); ok {
		for _, e := range a.Lhs {
			harmless[e] = true
		}
	}
	for n := range ast.Preorder(n) {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			harmless[n.X] = slices.Contains(quiet, n.Sel.Name)
			if (n.Sel.Name == "Done" || n.Sel.Name == "Err") && h.isContext(n.X) { // who sees it cancelled has no lease
				return true
			}
		case *ast.BinaryExpr:
			if x, ok := h.withNil(n); ok {
				harmless[x] = true
			}
		case *ast.Ident:
			if h.is(n, h.lease) && !harmless[n] {
				return true
			}
		}
	}
	return false
}

// calls reports whether a node is a call of one of the methods of the lease.
func (h *held) calls(n ast.Node, methods ...string) bool {
	call, ok := n.(*ast.CallExpr)
	return ok && isMethod(h.callee(call), library, "Lease", methods...) && h.is(receiver(call), h.lease)
}

func (h *held) releasedBy(n ast.Node) bool { return h.calls(n, "Unlock", "Release") }

// lent is the argument by which a literal that is called here gets the lease and releases it, doing nothing else with it; else nil.
func (h *held) lent(n ast.Node) ast.Expr {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil
	}
	f, ok := ast.Unparen(call.Fun).(*ast.FuncLit)
	i := slices.IndexFunc(call.Args, func(arg ast.Expr) bool { return h.is(arg, h.lease) })
	if !ok || i < 0 || f.Type.Params.NumFields() != len(call.Args) {
		return nil
	}
	var params []*ast.Ident
	for _, field := range f.Type.Params.List {
		params = append(params, field.Names...)
	}
	if len(params) != len(call.Args) {
		return nil
	}
	param := *h
	param.lease, _ = h.TypesInfo.Defs[params[i]].(*types.Var)
	if param.lease != nil && param.releases(f.Body, true) && !param.used(f.Body) {
		return call.Args[i]
	}
	return nil
}

// releases reports whether the lease is released in a node, or in the literals there.
func (h *held) releases(n ast.Node, literals bool) (yes bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		_, literal := n.(*ast.FuncLit)
		yes = yes || h.releasedBy(n) || n != nil && h.lent(n) != nil
		return literals || !literal
	})
	return yes
}

// isContext reports whether an expression is the lease's context, or a variable that it was put into.
func (h *held) isContext(e ast.Expr) bool {
	call := func(e ast.Expr) bool { return h.calls(ast.Unparen(e), "Context") }
	return call(e) || slices.ContainsFunc(h.origins[h.variable(e)], call)
}
