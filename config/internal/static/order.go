package static

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/locktree/locktree/plan"
)

// orderOf reads the order of a namespace: the addresses of locks inside, as seen from there. Each stands for all of its for_each.
func (r *reading) orderOf(n *Node) (all []*Node) {
	a := n.Attr("order")
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
			typ, label := StepNameOf(steps[0]), StepNameOf(steps[1])
			at = at.Child(typ, label)
			lock = r.index[nodeKey{lock, typ, label}]
		}
		switch {
		case lock == nil:
			r.Errorf(expr.Range(), "Invalid order", "There is no %s in %s. The addresses in an order begin there.", at, n.Addr)
		case at == "" || len(steps) > 0:
			r.Errorf(expr.Range(), "Invalid order", "Each part of an order is the address of a lock inside %s, without keys, such as mutex.a.", n.Addr)
		case lock.Kind.Container:
			r.Errorf(expr.Range(), "Invalid order", "%s is a namespace, which nobody takes. Name the locks in it.", at)
		case slices.Contains(all, lock):
			r.Errorf(expr.Range(), "Invalid order", "%s is in the order twice. Name it once.", at)
		case lock.orderedIn(n) != nil:
			r.Errorf(expr.Range(), "Invalid order", "%s is in the order of %s already, and a lock has one place. Name it in one of the two.", at, lock.orderedIn(n).Addr)
		default:
			all = append(all, lock)
		}
	}
	return all
}

// orderedIn is the namespace inside another one that has the lock in its order.
func (n *Node) orderedIn(outer *Node) *Node {
	in := n.Parent
	for in != outer && !slices.Contains(in.Order, n) {
		in = in.Parent
	}
	if in == outer {
		return nil
	}
	return in
}
