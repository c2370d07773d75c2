package vet

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/cfg"
)

var unreleased = analyzer("unreleased", `a lease is not released on some path through the function

Others wait until the client is closed or its session ends.

Bad:

	lease, err := ledger.Lock(ctx)
	if err != nil {
		return err
	}
	if err := work(lease.Context()); err != nil {
		return err // still locked
	}
	return lease.Unlock(ctx)

Good:

	lease, err := ledger.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx)
	return work(lease.Context())
`, func(p *pkg, f *function) {
	for _, h := range f.leases {
		if len(h.leaks) > 0 && !h.closes {
			p.Reportf(h.at.Pos(), "%s is not released on all paths: the function may end on line %d without Unlock. Write: defer %[1]s.Unlock(ctx)",
				h.lease.Name(), p.line(h.leaks[0]))
		}
	}
})

var overwritten = analyzer("overwritten", `a variable gets another value while its lease is held

Nobody can release the first lease any more.

Bad:

	lease, err := client.Mutex("/locks/payments/audit").Lock(ctx)
	if err != nil {
		return err
	}
	lease, err = ledger.Lock(ctx) // nobody can release audit now
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx)
	return work(lease.Context())

Good:

	return client.MultiLock(client.Mutex("/locks/payments/audit"), ledger).Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
		return work(ctx)
	})
`, func(p *pkg, f *function) {
	for _, h := range f.leases {
		if len(h.leaks) > 0 && !h.closes {
			continue // one finding is enough
		}
		for _, n := range h.overwrite {
			p.Reportf(n.Pos(), "the lease in %s, taken on line %d, may still be held here: release it first", h.lease.Name(), p.line(h.at))
		}
	}
})

var discarded = analyzer("discarded", `a lease is thrown away

Nothing can release it, and nothing notices when the lock is lost.

Bad:

	if _, err := ledger.Lock(ctx); err != nil {
		return err
	}
	return work(ctx)

Good:

	return ledger.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
		return work(ctx)
	})
`, func(p *pkg, f *function) {
	within(f.body, func(n ast.Node) {
		var e ast.Expr
		switch n := n.(type) {
		case *ast.AssignStmt:
			if id, ok := n.Lhs[0].(*ast.Ident); ok && id.Name == "_" && len(n.Rhs) == 1 && len(n.Lhs) == 2 {
				e = n.Rhs[0]
			}
		case *ast.ExprStmt:
			e = n.X
		case *ast.GoStmt:
			e = n.Call
		case *ast.DeferStmt:
			e = n.Call
		}
		if call, ok := e.(*ast.CallExpr); ok {
			if t, ok := p.take(call); ok && t.lease {
				p.Reportf(call.Pos(), "the lease of %s is thrown away: nothing can release it, or notice that it is lost", t.method)
			}
		}
	})
})

var afterunlock = analyzer("afterunlock", `a lease is used after Unlock

Multi and Verify fail then, and the lease's context is cancelled.

Bad:

	lease.Unlock(ctx)
	_, err := lease.Multi(ctx, &zk.SetDataRequest{Path: "/totals", Data: sum, Version: -1})
	return err

Good:

	defer lease.Unlock(ctx)
	_, err := lease.Multi(ctx, &zk.SetDataRequest{Path: "/totals", Data: sum, Version: -1})
	return err
`, func(p *pkg, f *function) {
	said := map[ast.Node]bool{}
	within(f.body, func(n ast.Node) {
		if lease := p.unlocked(n); lease != nil {
			p.afterUnlock(f.flow, lease, n, said)
		}
	})
})

// unlocked is the variable whose lease a call releases, else nil.
func (p *pkg) unlocked(n ast.Node) *ast.Ident {
	call, ok := n.(*ast.CallExpr)
	if !ok || !isMethod(p.callee(call), library, "Lease", "Unlock", "Release") {
		return nil
	}
	if id, ok := ast.Unparen(receiver(call)).(*ast.Ident); ok && p.variable(id) != nil {
		return id
	}
	return nil
}

// afterUnlock reports uses of a lease that come after its release on every way to them.
func (p *pkg) afterUnlock(g *cfg.CFG, id *ast.Ident, unlock ast.Node, said map[ast.Node]bool) {
	lease := p.variable(id)
	released := func(n ast.Node) (yes bool) {
		if _, later := n.(*ast.DeferStmt); !later {
			within(n, func(n ast.Node) {
				id := p.unlocked(n)
				yes = yes || id != nil && p.variable(id) == lease
			})
		}
		return yes
	}
	set := func(n ast.Node) bool {
		_, ok := n.(*ast.AssignStmt)
		return ok && p.sets(n, lease)
	}
	from := func(starts func(ast.Node) bool, stop func(ast.Node) bool, entry bool) map[ast.Node]bool {
		reached, seen := map[ast.Node]bool{}, map[*cfg.Block]bool{}
		var walk func(b *cfg.Block, nodes []ast.Node)
		walk = func(b *cfg.Block, nodes []ast.Node) {
			for _, n := range nodes {
				reached[n] = true
				if stop(n) {
					return
				}
			}
			for _, next := range b.Succs {
				if !seen[next] {
					seen[next] = true
					walk(next, next.Nodes)
				}
			}
		}
		for i, b := range g.Blocks {
			if i == 0 && entry {
				walk(b, b.Nodes)
			}
			for j, n := range b.Nodes {
				if b.Live && starts(n) {
					walk(b, b.Nodes[j+1:])
				}
			}
		}
		return reached
	}
	here := func(n ast.Node) bool { return n.Pos() <= unlock.Pos() && unlock.End() <= n.End() && released(n) }
	after := from(here, set, false)
	unreleased := from(set, released, true)
	for n := range after {
		if !unreleased[n] {
			within(n, func(n ast.Node) {
				if call, ok := n.(*ast.CallExpr); ok && !said[n] && p.uses(call, lease) {
					said[n] = true
					p.Reportf(n.Pos(), "the lease was released on line %d: it guards nothing here", p.line(unlock))
				}
			})
		}
	}
}

// uses reports whether a call does something under a lease.
func (p *pkg) uses(call *ast.CallExpr, lease types.Object) bool {
	of := func(e ast.Expr, methods ...string) bool {
		call, ok := ast.Unparen(e).(*ast.CallExpr)
		return ok && isMethod(p.callee(call), library, "Lease", methods...) && p.is(receiver(call), lease)
	}
	return of(call, "Multi", "Verify") || !isFrom(p.callee(call), "context") &&
		slices.ContainsFunc(call.Args, func(arg ast.Expr) bool { return of(arg, "Context") })
}

var deferloop = analyzer("deferloop", `a release is deferred in a loop

It runs when the function returns: until then, each round adds a lease.

Bad:

	for _, id := range ids {
		lease, err := client.Mutex("/locks/orders/" + id).Lock(ctx)
		if err != nil {
			return err
		}
		defer lease.Unlock(ctx)
		fmt.Println(id, lease.Token())
	}
	return nil

Good:

	for _, id := range ids {
		err := client.Mutex("/locks/orders/"+id).Do(ctx, func(ctx context.Context, lease *recipes.Lease) error {
			fmt.Println(id, lease.Token())
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
`, func(p *pkg, f *function) {
	for _, b := range f.flow.Blocks {
		for _, n := range b.Nodes {
			d, ok := n.(*ast.DeferStmt)
			if !ok || !b.Live || !comesBack(b) {
				continue
			}
			for n := range ast.Preorder(d) {
				if p.unlocked(n) != nil {
					p.Reportf(d.Pos(), "a deferred release in a loop runs when the function returns, not at the end of the round: use Do, or a function for each round")
					break
				}
			}
		}
	}
})

// comesBack reports whether control can reach a block again after it.
func comesBack(to *cfg.Block) bool {
	seen := map[*cfg.Block]bool{}
	var reach func(b *cfg.Block) bool
	reach = func(b *cfg.Block) bool {
		for _, next := range b.Succs {
			if next == to {
				return true
			}
			if !seen[next] {
				seen[next] = true
				if reach(next) {
					return true
				}
			}
		}
		return false
	}
	return reach(to)
}

func (p *pkg) line(n ast.Node) int { return p.Fset.Position(n.Pos()).Line }
