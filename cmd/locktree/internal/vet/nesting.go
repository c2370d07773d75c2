package vet

import (
	"go/ast"
	"path/filepath"
)

// nesting is a lock that is taken while another one is held.
type nesting struct{ outer, inner *taking }

// nestings are those in the functions of a package whose locks are known and whose inner call waits.
func (p *pkg) nestings() (all []nesting) {
	seen := map[nesting]bool{}
	look := func(outer *taking, n ast.Node) {
		for _, inner := range p.nested(n) {
			n := nesting{outer, inner}
			if outer.id != "" && inner.id != "" && inner.waits() && outer != inner && !seen[n] {
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
		if same && n.outer.reentrant == no && n.inner.reentrant == no && n.inner.single {
			p.report(n.inner.call, "%s is held here since line %d, and is not reentrant: this fails, or waits for itself", n.inner.text(), p.line(n.outer.call))
		}
	}
}

func lockorder(p *pkg) {
	type edge struct{ outer, inner string }
	first := map[edge]nesting{}
	gates := map[*taking]map[string]bool{} // what is held where a lock is taken
	all := p.nestings()
	for _, n := range all {
		if gates[n.inner] == nil {
			gates[n.inner] = map[string]bool{}
		}
		gates[n.inner][n.outer.id] = true
	}
	gated := func(a, b nesting) bool { // a third lock is held at both places
		for id := range gates[a.inner] {
			if gates[b.inner][id] && id != a.outer.id && id != a.inner.id {
				return true
			}
		}
		return false
	}
	for _, n := range all {
		if !n.outer.global || !n.inner.global || n.outer.id == n.inner.id || !n.outer.single || !n.inner.single {
			continue
		}
		if _, known := first[edge{n.outer.id, n.inner.id}]; !known {
			first[edge{n.outer.id, n.inner.id}] = n
		}
		there, ok := first[edge{n.inner.id, n.outer.id}]
		readers := ok && n.inner.shared() && there.outer.shared() && n.outer.shared() && there.inner.shared()
		if ok && !readers && !gated(n, there) {
			at := p.Fset.Position(there.inner.call.Pos())
			p.report(n.inner.call, "%s is taken while %s is held, and in %s:%d it is the other way round: two programs there can wait for each other",
				n.inner.text(), n.outer.text(), filepath.Base(at.Filename), at.Line)
		}
	}
}
