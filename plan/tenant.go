package plan

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

// A namespace may be lent to another team, which has its root there. Whatever that team does in it, it must not stop the stack
// that declares the namespace: what it makes there is not this stack's, whatever it says, and what it does to the namespace
// concerns nothing else.

// withoutClaims takes out of the tree what others made in this stack's name: nodes with its mark, in a namespace where
// others may create nodes, that neither the configuration nor the index knows. They are left alone.
func (d *sides) withoutClaims(desired *Tree) {
	x := d.current.Index
	if x == nil || slices.ContainsFunc(x.Shards, func(s Shard) bool { return s.Absent || s.Lost }) {
		return // marks are all there is to go by
	}
	claims, lent := map[string]bool{}, map[string]bool{}
	var named map[string]bool
	var first *Node
	for _, n := range d.current.Nodes {
		if at := kind.ParentPath(n.Path); d.ours(n) && (claims[at] || lent[at]) {
			if named == nil { // few stacks have lent anything
				named = namedBy(x, desired)
			}
			if !named[n.Path] {
				if claims[n.Path] = true; first == nil {
					first = n
				}
				continue
			}
		}
		if d.ours(n) && n.Kind().Container && slices.ContainsFunc(n.ACL, d.another) {
			lent[n.Path] = true
		}
	}
	if first == nil {
		return
	}
	tree := *d.current
	tree.Nodes = slices.DeleteFunc(slices.Clone(tree.Nodes), func(n *Node) bool { return claims[n.Path] })
	tree.Unmanaged = slices.Clone(tree.Unmanaged)
	for path := range claims {
		if !claims[kind.ParentPath(path)] {
			tree.Unmanaged = append(tree.Unmanaged, path)
		}
	}
	slices.Sort(tree.Unmanaged)
	d.current = &tree
	d.problem(Warning, ProblemForeign, &Node{Path: first.Path}, "Nodes in the name of this stack",
		fmt.Sprintf("%d node%s (%s first) carr%s this stack's mark, in a namespace where others may create nodes, and neither the configuration nor the "+
			"index knows %s. They count as somebody else's and are left alone. If they are this stack's, declare them.",
			len(claims), plural(len(claims)), first.Path, map[bool]string{true: "ies", false: "y"}[len(claims) == 1], map[bool]string{true: "it", false: "them"}[len(claims) == 1]))
}

// namedBy are the paths that an index or a configuration names.
func namedBy(x *Index, desired *Tree) map[string]bool {
	named := make(map[string]bool, len(x.Resources))
	for _, e := range x.Resources {
		named[e.Path] = true
	}
	for _, n := range desired.Nodes {
		named[n.Path] = true
	}
	for _, imp := range desired.Intent.Imports {
		named[imp.Path] = true
	}
	return named
}

// another reports whether an entry lets somebody create nodes who is surely none of those who apply.
func (d *sides) another(a kind.ACL) bool {
	who := d.intent.Access.administrators()
	if who == nil {
		for _, id := range d.opts.Identities {
			who = append(who, id.entry())
		}
	}
	return a.Perms&(kind.PermCreate|kind.PermAdmin) != 0 && Exact(a) && len(who) > 0 && !granted(who, a) && !hides(a, who)
}

// administrators are those who are declared, nil if nobody says.
func (a *Access) administrators() []kind.ACL {
	if a == nil {
		return nil
	}
	return a.Admins
}

// spare turns errors about the node at a path, those from the first one on, into warnings if nothing else depends on it: by the
// index it is a namespace of ours, and nothing in it is declared. The index goes on listing it.
func (d *decisions) spare(path string, first int) {
	key, e, known := d.entry(path)
	if k := kind.Lookup(e.Type); !known || k == nil || !k.Container || slices.ContainsFunc(d.desired, func(n *Node) bool { return under(n.Path, path) }) {
		return
	}
	for i := range d.p.Problems[first:] {
		if q := &d.p.Problems[first+i]; q.Severity == Error {
			q.Severity = Warning
			q.Detail += " Nothing else that is declared depends on it, so the plan goes on without it."
			if d.p.prior.Kept == nil {
				d.p.prior.Kept = map[string]IndexEntry{}
			}
			d.p.prior.Kept[key] = e
		}
	}
}

// seized reports whether somebody made a lock of a namespace of ours, and used it since.
func (d *decisions) seized(want, have *Node) bool {
	_, e, known := d.entry(have.Path)
	was := kind.Lookup(e.Type)
	return known && was != nil && was.Container && !have.Kind().Container && have.Live != nil && have.Live.Children > 0 && (want == nil || want.Kind() == was)
}

// nested warns of namespaces that are roots of a configuration with the name of this stack.
func (d *sides) nested() {
	for _, path := range d.current.Nested {
		n := &Node{Path: path}
		if have := d.have[path]; have != nil {
			n.Addr = have.Addr
		}
		d.problem(Warning, ProblemForeign, n, "Root of another configuration with the same stack",
			fmt.Sprintf("A configuration with the root %s has the same stack, %q, so what is there and neither declared nor in this stack's index is left alone, whatever it says. "+
				"Give one of the two another stack or another root.", path, d.p.Stack))
	}
}

// Administers reports whether one of those who apply, or did before, can set a list, by the plan.
func (p *Plan) Administers(list []kind.ACL) bool {
	if p.Declared == nil {
		return true // whoever that is
	}
	return slices.ContainsFunc(slices.Concat(p.Declared.Admins, p.prior.Leaving), func(a kind.ACL) bool { return mayAdminister(a, list) })
}
