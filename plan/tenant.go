package plan

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

// A namespace may be lent to another team, which has its root there. Whatever that team does in it, it must not stop the stack
// that declares the namespace: what it makes there is not this stack's, whatever it says, and what it does to the namespace
// concerns nothing else.

// withoutClaims takes out of the tree what others may have made in this stack's name, or made of its namespaces: nodes with its mark
// that nobody declares and no apply of this stack has left, where others may create nodes or write to them. They are left alone.
func (d *sides) withoutClaims() {
	claims, lent := map[string]bool{}, map[string]bool{}
	nested := map[string]bool{} // another root: marks there are those of a stack with our name
	for _, path := range d.current.Nested {
		nested[path] = true
	}
	known := map[string]bool{}
	for _, imp := range d.intent.Imports {
		known[imp.Path] = true
	}
	var told []string
	for _, n := range d.current.Nodes { // what is around a node comes first
		if !d.ours(n) {
			continue
		}
		at := kind.ParentPath(n.Path)
		foreign := claims[at] || nested[at]
		switch suspect := foreign || d.p.prior.Key != "" && (lent[at] || d.writable(n)); {
		case suspect && d.want[n.Path] == nil && !known[n.Path] && !d.left(n):
			if claims[n.Path] = true; !foreign {
				told = append(told, n.Path)
			}
		case n.Kind().Container && slices.ContainsFunc(n.ACL, d.another):
			lent[n.Path] = true
		}
	}
	if len(claims) == 0 {
		return
	}
	tree := *d.current
	tree.Nodes = slices.DeleteFunc(slices.Clone(tree.Nodes), func(n *Node) bool { return claims[n.Path] })
	tree.Unmanaged = slices.Clone(tree.Unmanaged)
	for path := range claims {
		if delete(d.have, path); !claims[kind.ParentPath(path)] {
			tree.Unmanaged = append(tree.Unmanaged, path)
		}
	}
	slices.Sort(tree.Unmanaged)
	d.current = &tree
	if len(told) > 0 {
		d.problem(Warning, ProblemForeign, &Node{Path: told[0]}, "Nodes in the name of this stack",
			fmt.Sprintf("%d node%s (%s first) carr%s this stack's mark, where others may create nodes or write to them, and no apply of this stack has left %s so. "+
				"They count as somebody else's and are left alone. If they are this stack's, declare them.",
				len(told), plural(len(told)), told[0], map[bool]string{true: "ies", false: "y"}[len(told) == 1], map[bool]string{true: "it", false: "them"}[len(told) == 1]))
	}
}

// left reports whether an apply of this stack has left a node so, as far as the node's list is shown to us. An administrator is
// shown every list of the stack's own nodes: where one is hidden from us, somebody else has set it, and the sum, which cannot be
// checked without it, may be copied from another node.
func (d *sides) left(n *Node) bool {
	administers := slices.ContainsFunc(d.us(), func(a kind.ACL) bool { return granted(d.intent.Access.administrators(), a) })
	return n.sealed(d.p.prior.Key) && !d.drifted(n) && !(administers && n.ACL.Masked())
}

// writable reports whether somebody may change a node who is surely none of those who apply.
func (d *sides) writable(n *Node) bool {
	return slices.ContainsFunc(n.ACL, func(a kind.ACL) bool { return a.Perms&(kind.PermWrite|kind.PermAdmin) != 0 && d.outsider(a) })
}

// another reports whether an entry lets somebody create nodes who is surely none of those who apply.
func (d *sides) another(a kind.ACL) bool {
	return a.Perms&(kind.PermCreate|kind.PermAdmin) != 0 && d.outsider(a)
}

// outsider reports whether an entry is of somebody who surely is none of those who apply, or did before.
func (d *sides) outsider(a kind.ACL) bool {
	who := slices.Concat(d.appliers(), withAdmin(d.p.prior.between()))
	if d.p.Set == nil {
		who = append(who, d.us()...)
	}
	_, anybody := kind.List{a}.Rights() // by an entry that only servers can match
	return anybody == 0 && len(who) > 0 && stranger(who, a)
}

// administrators are those who are declared, nil if nobody says.
func (a *Access) administrators() kind.List {
	if a == nil {
		return nil
	}
	return a.Admins
}

// spare turns errors about what stands at the path of a namespace, those from the first one on, into warnings if the namespace is
// lent and nothing else that is declared depends on it.
func (d *decisions) spare(want *Node, first int) {
	if !want.Kind().Container || !slices.ContainsFunc(want.ACL, d.another) || slices.ContainsFunc(d.desired, func(n *Node) bool { return under(n.Path, want.Path) }) {
		return
	}
	for i := range d.p.Problems[first:] {
		if q := &d.p.Problems[first+i]; q.Severity == Error {
			q.Severity = Warning
			q.Detail += " Nothing else that is declared depends on it, so the plan goes on without it."
		}
	}
}

// seized reports whether somebody made a lock of a namespace of ours, and used it since.
func (d *decisions) seized(want, have *Node) bool {
	return want.Kind().Container && !have.Kind().Container && have.Live != nil && have.Live.Children > 0 && !d.left(have)
}

// nested warns of namespaces that are roots of a configuration with the name of this stack.
func (d *sides) nested() {
	for _, path := range d.current.Nested {
		n := &Node{Path: path}
		if have := d.have[path]; have != nil {
			n.Addr = have.Addr
		}
		d.problem(Warning, ProblemForeign, n, "Root of another configuration with the same stack",
			fmt.Sprintf("A configuration with the root %s has the same stack, %q, so what is there and neither declared nor left by an apply of this stack is left alone, whatever it says. "+
				"Give one of the two another stack or another root.", path, d.p.Stack))
	}
}

// Administers reports whether one of those who apply, or did before, can set a list, by the plan.
func (p *Plan) Administers(list kind.List) bool {
	if p.Set == nil {
		return true // whoever that is
	}
	return slices.ContainsFunc(slices.Concat(p.Set.Admins, p.prior.Named, p.prior.Leaving), func(a kind.ACL) bool { return mayAdminister(a, list) })
}
