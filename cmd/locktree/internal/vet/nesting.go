package vet

import (
	"go/ast"
	"path/filepath"
	"slices"
)

// nesting is a lock that is taken while another one is held.
type nesting struct{ outer, inner *taking }

// nestings are those in the functions of a package whose locks are known.
func (p *pkg) nestings() (all []nesting) {
	seen := map[nesting]bool{}
	look := func(outer *taking, n ast.Node) {
		for _, inner := range p.nested(n) {
			n := nesting{outer, inner}
			if outer.id != "" && inner.id != "" && outer != inner && !seen[n] {
				seen[n] = true
				all = append(all, n)
			}
		}
	}
	for _, t := range p.takings {
		if t.work != nil {
			look(t, t.work.Body)
		}
	}
	for _, h := range p.leases {
		for _, n := range h.during {
			look(h.by, n)
		}
	}
	return all
}

func relock(p *pkg) {
	for _, n := range p.nestings() {
		same := n.outer.id == n.inner.id && n.outer.client == n.inner.client && (n.outer.client != "" || !n.outer.global)
		if same && n.inner.waits() && n.outer.reentrant == no && n.inner.reentrant == no && n.inner.single {
			p.report(n.inner.call, "%s is held here since line %d, and is not reentrant: this fails, or waits for itself", n.inner.text(), p.line(n.outer.call))
		}
	}
}

func lockorder(p *pkg) {
	all := slices.DeleteFunc(p.nestings(), func(n nesting) bool { return !n.inner.waits() })
	reversed := func(a, b nesting) bool {
		readers := a.outer.shared() && a.inner.shared() && b.outer.shared() && b.inner.shared()
		return a.outer.id == b.inner.id && a.inner.id == b.outer.id && a.orders() && b.orders() && !readers
	}
	gated := func(a, b nesting) bool { // a third lock is held at both places
		return slices.ContainsFunc(all, func(x nesting) bool {
			return x.inner == a.inner && x.outer.id != a.outer.id && x.outer.id != a.inner.id &&
				slices.ContainsFunc(all, func(y nesting) bool { return y.inner == b.inner && y.outer.id == x.outer.id })
		})
	}
	for i, n := range all {
		there := slices.IndexFunc(all[:i], func(m nesting) bool { return reversed(n, m) && !gated(n, m) })
		if there >= 0 {
			at := p.Fset.Position(all[there].inner.call.Pos())
			p.report(n.inner.call, "%s is taken while %s is held, and in %s:%d it is the other way round: two programs there can wait for each other",
				n.inner.text(), n.outer.text(), filepath.Base(at.Filename), at.Line)
		}
	}
}

// orders reports whether two programs in it and in its reverse would wait for each other.
func (n nesting) orders() bool {
	return n.outer.global && n.inner.global && n.outer.id != n.inner.id && n.outer.single && n.inner.single
}
