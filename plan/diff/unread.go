package diff

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
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
