package plan

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

// A namespace may be lent to another team, which has its root there. Whatever that team does in it, it must not stop the stack
// that declares the namespace. So a read does not walk into it: what is this stack's there is declared, or the record names it.

// Insiders are those who apply, or did before: the administrators whom the stack names, and those of the tree that was read.
func (t *Tree) Insiders(named *Access) kind.List {
	who := slices.Clone(named.administrators())
	for _, f := range t.Frame {
		if f.Path == ScaffoldPath(t.Root) {
			who = append(who, withAdmin(f.ACL)...)
		}
	}
	if named == nil && len(who) > 0 { // a stack that names nobody may be applied by anybody
		who = append(who, kind.ACL{Scheme: "world", ID: "anyone"})
	}
	if x := t.Index; x != nil {
		who = slices.Concat(who, withAdmin(x.Access), withAdmin(x.Next))
	}
	return who
}

// Lends reports whether a list lets somebody create nodes who surely is none of the insiders.
func Lends(insiders, list kind.List) bool { return grants(insiders, list, kind.PermCreate) }

// grants reports whether a list gives a right, or that of setting it, to somebody who surely is none of the insiders.
func grants(insiders, list kind.List, right kind.Perm) bool {
	return len(insiders) > 0 && slices.ContainsFunc(list, func(a kind.ACL) bool {
		_, anybody := kind.List{a}.Rights() // by an entry that only servers can match
		return a.Perms&(right|kind.PermAdmin) != 0 && anybody == 0 && stranger(insiders, a)
	})
}

// disown takes out of the tree the undeclared nodes with this stack's mark that others may have written, and that no apply of the
// stack has left so: they are at a path that the record names, or in a root of a configuration with the same stack.
func (d *sides) disown() {
	nested, known, gone := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, path := range d.current.Nested {
		nested[path] = true
	}
	for _, imp := range d.intent.Imports {
		known[imp.Path] = true
	}
	var told []string
	for _, n := range d.current.Nodes { // what is around a node comes first
		at := kind.ParentPath(n.Path)
		_, lent := d.current.Lent[at]
		foreign := nested[at] || gone[at]
		suspect := foreign || d.p.prior.Key != "" && (lent || grants(d.insiders, n.ACL, kind.PermWrite))
		if !suspect || !d.ours(n) || d.want[n.Path] != nil || known[n.Path] || d.left(n) {
			continue
		}
		if gone[n.Path] = true; !foreign {
			told = append(told, n.Path)
		}
	}
	if len(gone) == 0 {
		return
	}
	tree := *d.current
	tree.Nodes = slices.DeleteFunc(slices.Clone(tree.Nodes), func(n *Node) bool { return gone[n.Path] })
	tree.Unmanaged = slices.Clone(tree.Unmanaged)
	for path := range gone {
		if delete(d.have, path); !gone[kind.ParentPath(path)] {
			tree.Unmanaged = append(tree.Unmanaged, path)
		}
	}
	slices.Sort(tree.Unmanaged)
	d.current = &tree
	if len(told) > 0 {
		d.problem(Warning, ProblemForeign, &Node{Path: told[0]}, "Others may have written a node",
			fmt.Sprintf("%s (and %d more) has this stack's mark and is not declared. Others may write there, and no apply of this stack has left it so. "+
				"It counts as another program's and is left alone. If it is this stack's, declare it.", told[0], len(told)-1))
	}
}

// left reports whether an apply of this stack has left a node so, as far as the node's list is shown to us. An administrator is
// shown every list of the stack's own nodes: where one is hidden from us, somebody else has set it, and the sum, which cannot be
// checked without it, may be copied from another node.
func (d *sides) left(n *Node) bool {
	administers := slices.ContainsFunc(d.us(), func(a kind.ACL) bool { return granted(d.intent.Access.administrators(), a) })
	return n.sealed(d.p.prior.Key) && !d.drifted(n) && !(administers && n.ACL.Masked())
}

// administrators are those who are declared, nil if nobody says.
func (a *Access) administrators() kind.List {
	if a == nil {
		return nil
	}
	return a.Admins
}

// overwritten reports whether somebody made a lock of a namespace of ours, and used it since.
func (d *decisions) overwritten(want, have *Node) bool {
	return want != nil && want.Kind().Container && !have.Kind().Container && have.Live != nil && have.Live.Children > 0 && !d.left(have)
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
