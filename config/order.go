package config

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// orderOf reads the order of a namespace: the addresses of locks inside, as seen from there. Each stands for all of its for_each.
func (r *reading) orderOf(n *nodeDecl) (all []*nodeDecl) {
	a := n.attr("order")
	if a == nil {
		return nil
	}
	exprs, diags := hcl.ExprList(a.Expr)
	if diags.HasErrors() {
		r.Errorf(a.Expr.Range(), "Invalid order", "order must be a list of addresses of locks inside, such as [mutex.a, mutex.b].")
		return nil
	}
	for _, expr := range exprs {
		var steps hcl.Traversal
		if e, ok := written(expr).(*hclsyntax.ScopeTraversalExpr); ok {
			steps = e.Traversal
		}
		var at plan.Addr
		lock := n
		for ; lock != nil && len(steps) >= 2; steps = steps[2:] {
			typ, label := nameOf(steps[0]), nameOf(steps[1])
			at = at.Child(typ, label)
			lock = r.index[nodeKey{lock, typ, label}]
		}
		switch {
		case lock == nil:
			r.Errorf(expr.Range(), "Invalid order", "There is no %s in %s. The addresses in an order begin there.", at, n.addr)
		case at == "" || len(steps) > 0:
			r.Errorf(expr.Range(), "Invalid order", "Each part of an order is the address of a lock inside %s, without keys, such as mutex.a.", n.addr)
		case lock.kind.Container:
			r.Errorf(expr.Range(), "Invalid order", "%s is a namespace, which nobody takes. Name the locks in it.", at)
		case slices.Contains(all, lock):
			r.Errorf(expr.Range(), "Invalid order", "%s is in the order twice. Name it once.", at)
		case lock.orderedIn(n) != nil:
			r.Errorf(expr.Range(), "Invalid order", "%s is in the order of %s already, and a lock has one place. Name it in one of the two.", at, lock.orderedIn(n).addr)
		default:
			all = append(all, lock)
		}
	}
	return all
}

// orderedIn is the namespace inside another one that has the lock in its order.
func (n *nodeDecl) orderedIn(outer *nodeDecl) *nodeDecl {
	in := n.parent
	for in != outer && !slices.Contains(in.order, n) {
		in = in.parent
	}
	if in == outer {
		return nil
	}
	return in
}

// orders gives the locks inside their places in the order that the namespace declares.
func (i *instance) orders() {
	for rank, n := range i.decl.order {
		for _, in := range i.inside.of(n, i.decl) {
			for _, f := range in.params.Fields() {
				if f.Derived && i.path != "" {
					_ = f.Set(kind.Place{Of: i.path, Rank: rank + 1}.String())
				}
			}
		}
	}
}
