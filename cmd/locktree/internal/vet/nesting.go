package vet

import (
	"go/ast"
	"maps"
	"path/filepath"
	"slices"
)

var relock = analyzer("relock", `a lock is taken again while it is held

Inside, with the lease's context, that is ErrWouldDeadlock; with another context it waits for itself. A handle that is made
WithReentrancy may be taken again with a context derived from the lease's.

Bad:

	return ledger.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
		return ledger.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return work(ctx) })
	})

Good:

	again := client.Mutex("/locks/payments/ledger", recipes.WithReentrancy())
	return again.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
		return again.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return work(ctx) })
	})
`, func(p *pkg, f *function) {
	p.nestings(f, func(n nesting) {
		same := n.outer.id == n.inner.id && n.outer.client == n.inner.client && (n.outer.client != "" || !n.outer.global)
		if !same || n.outer.reentrant != no || n.inner.reentrant != no || !n.inner.single() {
			return
		}
		p.Reportf(n.in.call.Pos(), "%s is held here since line %d, and is not reentrant: this fails, or waits for itself", n.inner.text, p.line(n.out.call))
	})
})

// nesting is a lock that is taken while another one is held.
type nesting struct {
	out, in      taking
	outer, inner handle
}

// nestings visits those in a function whose locks are known and whose inner call waits.
func (p *pkg) nestings(f *function, visit func(nesting)) {
	seen := map[[2]*ast.CallExpr]bool{}
	look := func(out taking, n ast.Node) {
		outer := p.known(f, out)
		p.nested(n, func(in taking) {
			pair := [2]*ast.CallExpr{out.call, in.call}
			inner := p.known(f, in)
			if outer.id == "" || inner.id == "" || !in.waits() || out.call == in.call || seen[pair] {
				return
			}
			seen[pair] = true
			visit(nesting{out, in, outer, inner})
		})
	}
	p.takes(f, func(t taking) {
		if t.work != nil {
			look(t, t.work.Body)
		}
	})
	for _, h := range f.leases {
		for _, n := range h.during {
			look(h.taking, n)
		}
	}
}

func (p *pkg) known(f *function, t taking) handle {
	if t.on == nil {
		return handle{}
	}
	return p.handle(f, t.on)
}

var lockorder = packageAnalyzer("lockorder", `two functions nest the same locks in opposite orders

Two programs in these functions can wait for each other until their contexts end. Take the locks in one order, or all at once
with a multi-lock. This is looked at within a package, for mutexes, read-write locks and elections whose paths are constants, or
that come from generated code. Readers do not count among themselves, and equal paths are taken for one lock: clients of two ensembles,
and what generated code has below two roots, are not told apart.

Bad:

	func debit(ctx context.Context, client *recipes.Client) error {
		ledger, audit := client.Mutex("/locks/payments/ledger"), client.Mutex("/locks/payments/audit")
		return ledger.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
			return audit.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return work(ctx) })
		})
	}

	func review(ctx context.Context, client *recipes.Client) error {
		ledger, audit := client.Mutex("/locks/payments/ledger"), client.Mutex("/locks/payments/audit")
		return audit.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
			return ledger.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return work(ctx) })
		})
	}

Good:

	func review(ctx context.Context, client *recipes.Client) error {
		ledger, audit := client.Mutex("/locks/payments/ledger"), client.Mutex("/locks/payments/audit")
		return client.MultiLock(ledger, audit).Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return work(ctx) })
	}
`, func(p *pkg) {
	type edge struct{ outer, inner string }
	first := map[edge]nesting{}
	gates := map[*ast.CallExpr]map[string]bool{} // what is held where a lock is taken
	var all []nesting
	for _, f := range p.functions {
		p.nestings(f, func(n nesting) {
			if gates[n.in.call] == nil {
				gates[n.in.call] = map[string]bool{}
			}
			gates[n.in.call][n.outer.id] = true
			if n.outer.global && n.inner.global && n.outer.id != n.inner.id && n.outer.single() && n.inner.single() {
				all = append(all, n)
			}
		})
	}
	for _, n := range all {
		there, ok := first[edge{n.inner.id, n.outer.id}]
		if _, known := first[edge{n.outer.id, n.inner.id}]; !known {
			first[edge{n.outer.id, n.inner.id}] = n
		}
		if !ok || n.in.shared() && there.out.shared() && n.out.shared() && there.in.shared() || gated(gates[n.in.call], gates[there.in.call], n) {
			continue
		}
		at := p.Fset.Position(there.in.call.Pos())
		p.Reportf(n.in.call.Pos(), "%s is taken while %s is held, and in %s:%d it is the other way round: two programs there can wait for each other",
			n.inner.text, n.outer.text, filepath.Base(at.Filename), at.Line)
	}
})

// gated reports whether a third lock is held at both places.
func gated(a, b map[string]bool, n nesting) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(a)), func(id string) bool { return b[id] && id != n.outer.id && id != n.inner.id })
}
