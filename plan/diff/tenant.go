package diff

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// A stack may let another team create nodes in a namespace. Nothing that the team does there may stop the stack. So a read does not walk
// into such a namespace: it reads the nodes that are declared or that the record names, and counts the others.

// dropUntrusted takes undeclared nodes with this stack's mark out of the tree if others may have written them, unless an apply of
// this stack left them so.
func dropUntrusted(p *plan.Plan, s *access.Sides) {
	var paths []string
	for _, n := range s.Current.Nodes {
		if p.Before.Key == "" || s.Want[n.Path] != nil || !access.IsOurs(p, n) {
			continue
		}
		_, unread := s.Current.Unread[kind.ParentPath(n.Path)]
		if (unread || access.Grants(p.Before.Insiders, n.ACL, kind.PermWrite)) && !asLeft(p, s, n) {
			paths = append(paths, n.Path)
			delete(s.Have, n.Path)
		}
	}
	if len(paths) == 0 {
		return
	}
	tree := *s.Current
	tree.Nodes = slices.DeleteFunc(slices.Clone(tree.Nodes), func(n *plan.Node) bool { return s.Have[n.Path] == nil })
	tree.Unmanaged = slices.Sorted(slices.Values(slices.Concat(tree.Unmanaged, paths)))
	s.Current = &tree
	first := paths[0]
	if len(paths) > 1 {
		first += fmt.Sprintf(" (and %d more)", len(paths)-1)
	}
	access.Tell(p, plan.Warning, plan.ProblemForeign, &plan.Node{Path: paths[0]}, "Others may have written a node",
		first+" has this stack's mark and is not declared. Others may write there, and no apply of this stack has left it so. "+
			"It counts as another program's and is left alone. If it is this stack's, declare it.")
}

// asLeft reports whether an apply of this stack has left a node so, as far as the node's list is shown to us. An administrator is
// shown every list of the stack's own nodes: where one is hidden from us, somebody else has set it, and the sum, which cannot be
// checked without it, may be copied from another node.
func asLeft(p *plan.Plan, s *access.Sides, n *plan.Node) bool {
	administers := slices.ContainsFunc(access.Us(s), func(a kind.ACL) bool { return access.Granted(s.Intent.Access.Administrators(), a) })
	return record.Sealed(p.Before.Key, n.Payload) && !drifted(p, s, n) && !(administers && n.ACL.Masked())
}

// overwrittenAsLock reports whether somebody made a lock of a namespace of ours, and used it since.
func overwrittenAsLock(p *plan.Plan, s *access.Sides, want, have *plan.Node) bool {
	return want != nil && want.Kind().Container && !have.Kind().Container && have.Live != nil && have.Live.Children > 0 && !asLeft(p, s, have)
}
