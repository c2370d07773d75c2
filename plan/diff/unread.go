package diff

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/kind"
)

// warnLost reports that the record is damaged, or missing although there are nodes of the stack. Their marks say all that a plan
// needs.
func warnLost(p *plan.Plan, s *access.Sides) {
	summary, why := "Record is damaged", "cannot be understood ("+s.Current.IndexTrouble+")"
	if s.Current.IndexTrouble == "" {
		if s.Current.Index != nil || !slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return access.IsOurs(p, c.Before) }) {
			return
		}
		summary, why = "Record is missing", "does not exist, although there are nodes of this stack"
	}
	then := "Apply writes it again, and new sums into the nodes; no lock changes. The outputs are not known until then. " +
		"Changes by hand since the last apply stay unknown, and so do nodes of this stack outside of its namespaces, or where others may create nodes."
	if s.Opts.Destroy {
		then = "Nodes of this stack outside of its namespaces, or where others may create nodes, are not known, so they stay where they are."
	}
	p.Before.Lost = true
	access.Tell(p, plan.Warning, plan.ProblemIndex, &plan.Node{}, summary, fmt.Sprintf("%s %s. %s", p.Index.Path, why, then))
}

// warnUnseen warns of nodes that we may not read, or cannot understand, and nobody declares: they may be this stack's.
func warnUnseen(p *plan.Plan, s *access.Sides) {
	if p.Targeted {
		return
	}
	for _, path := range s.Current.Unreadable {
		if s.Want[path] == nil {
			access.Tell(p, plan.Warning, plan.ProblemUnreadable, &plan.Node{Path: path}, "Node cannot be read",
				fmt.Sprintf("We may not read %s, so it is not known whether it is this stack's. If it is, connect with an identity that has READ there and try again.", path))
		}
	}
	for _, n := range s.Current.Illegible {
		whose := "It may be this stack's"
		if n.Addr != "" {
			whose = fmt.Sprintf("It says that it is this stack's %s", n.Addr)
		}
		code, summary, next := plan.ProblemDamaged, "Node is damaged", " Restore its data, or delete the node by hand."
		if n.Live.Trouble == plan.TroubleNewer {
			code, summary, next = plan.ProblemNewer, "Node written by a newer version", ""
		}
		access.Tell(p, plan.Warning, code, n, summary, fmt.Sprintf("%s is not declared, and its mark cannot be understood: %s. %s, but nothing is planned for it.%s",
			n.Path, n.Live.Detail, whose, next))
	}
}

// unreadablePaths are those of the paths at which something stands that cannot be understood.
func unreadablePaths(s *access.Sides, paths []string) (out []string) {
	for _, path := range paths {
		if n := s.Have[path]; n != nil && n.Payload == nil && n.Live != nil && n.Live.Trouble != plan.TroubleForeign {
			out = append(out, path)
		}
	}
	return out
}

// maxUntracked bounds the paths that the record names, in bytes: every transaction writes the record.
const maxUntracked = 400_000

// checkUntracked finds more nodes where others may create nodes than the record can name.
func checkUntracked(p *plan.Plan) {
	size, paths := 0, tx.Untracked(p, false)
	for _, path := range paths {
		size += len(path) + len(`"",`)
	}
	if size > maxUntracked {
		access.Tell(p, plan.Error, plan.ProblemListing, &plan.Node{Path: kind.ParentPath(paths[len(paths)-1])}, "Too many nodes where others may create nodes",
			fmt.Sprintf("The record would name %d nodes of this stack in %d bytes, and it has room for %d. It names those in namespaces in which others may create nodes. "+
				"Declare an acl there by which only administrators create nodes, or give the others a namespace of their own.", len(paths), size, maxUntracked))
	}
}

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
