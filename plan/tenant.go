package plan

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// A stack may let another team create nodes in a namespace. Nothing that the team does there may stop the stack. So a read does not walk
// into such a namespace: it reads the nodes that are declared or that the record names, and counts the others.

// OthersCanCreate reports whether a list of the tree that was read lets others create nodes: those who surely do not apply, and did
// not before.
func (t *Tree) OthersCanCreate(named *Access, list kind.List) bool {
	who, open := slices.Clone(named.administrators()), named == nil
	for _, f := range t.Frame {
		if f.Path == record.ScaffoldPath(t.Root) {
			who = append(who, withAdmin(f.ACL)...)
		}
	}
	if x := t.Index; x != nil {
		who, open = slices.Concat(who, withAdmin(x.Access), withAdmin(x.Next)), x.Access == nil
	}
	return grants(insiders(who, open), list, kind.PermCreate)
}

// othersCanCreate is the same of a list after the plan. It is true wherever the next read finds it true.
func (p *Plan) othersCanCreate(list kind.List) bool {
	return grants(p.prior.Insiders, list, kind.PermCreate)
}

// insiders are those who apply after the plan.
func (d *sides) insiders() kind.List {
	who := d.p.Set.administrators()
	if who == nil {
		who = withAdmin(d.p.set.there)
	}
	if who == nil {
		who = d.us()
	}
	return insiders(who, d.p.Set == nil && d.p.prior.Noted == nil)
}

// insiders adds everybody to those who apply if the stack is open: it has never named administrators, so anybody may apply it.
func insiders(who kind.List, open bool) kind.List {
	if open && len(who) > 0 {
		return append(slices.Clip(who), kind.ACL{Scheme: "world", ID: "anyone"})
	}
	return who
}

// grants reports whether a list gives a right, or that of setting it, to somebody who surely is none of the insiders.
func grants(insiders, list kind.List, right kind.Perm) bool {
	return len(insiders) > 0 && slices.ContainsFunc(list, func(a kind.ACL) bool {
		_, anybody := kind.List{a}.Rights() // by an entry that only servers can match
		return a.Perms&(right|kind.PermAdmin) != 0 && anybody == 0 && stranger(insiders, a)
	})
}

// dropUntrusted takes undeclared nodes with this stack's mark out of the tree if others may have written them, unless an apply of
// this stack left them so.
func (d *sides) dropUntrusted() {
	var paths []string
	for _, n := range d.current.Nodes {
		if d.p.prior.Key == "" || d.want[n.Path] != nil || !d.ours(n) {
			continue
		}
		_, unread := d.current.Unread[kind.ParentPath(n.Path)]
		if (unread || grants(d.p.prior.Insiders, n.ACL, kind.PermWrite)) && !d.left(n) {
			paths = append(paths, n.Path)
			delete(d.have, n.Path)
		}
	}
	if len(paths) == 0 {
		return
	}
	tree := *d.current
	tree.Nodes = slices.DeleteFunc(slices.Clone(tree.Nodes), func(n *Node) bool { return d.have[n.Path] == nil })
	tree.Unmanaged = slices.Sorted(slices.Values(slices.Concat(tree.Unmanaged, paths)))
	d.current = &tree
	first := paths[0]
	if len(paths) > 1 {
		first += fmt.Sprintf(" (and %d more)", len(paths)-1)
	}
	d.problem(Warning, ProblemForeign, &Node{Path: paths[0]}, "Others may have written a node",
		first+" has this stack's mark and is not declared. Others may write there, and no apply of this stack has left it so. "+
			"It counts as another program's and is left alone. If it is this stack's, declare it.")
}

// left reports whether an apply of this stack has left a node so, as far as the node's list is shown to us. An administrator is
// shown every list of the stack's own nodes: where one is hidden from us, somebody else has set it, and the sum, which cannot be
// checked without it, may be copied from another node.
func (d *sides) left(n *Node) bool {
	administers := slices.ContainsFunc(d.us(), func(a kind.ACL) bool { return granted(d.intent.Access.administrators(), a) })
	return record.Sealed(d.p.prior.Key, n.Payload) && !d.drifted(n) && !(administers && n.ACL.Masked())
}

// administrators are those who are declared, nil if nobody says.
func (a *Access) administrators() kind.List {
	if a == nil {
		return nil
	}
	return a.Admins
}

// overwrittenAsLock reports whether somebody made a lock of a namespace of ours, and used it since.
func (d *decisions) overwrittenAsLock(want, have *Node) bool {
	return want != nil && want.Kind().Container && !have.Kind().Container && have.Live != nil && have.Live.Children > 0 && !d.left(have)
}

// Administers reports whether one of those who apply, or did before, can set a list, by the plan.
func (p *Plan) Administers(list kind.List) bool {
	if p.Set == nil {
		return true // whoever that is
	}
	return slices.ContainsFunc(slices.Concat(p.Set.Admins, p.prior.Named, p.prior.Leaving), func(a kind.ACL) bool { return mayAdminister(a, list) })
}
