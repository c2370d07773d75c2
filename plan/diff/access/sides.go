package access

import (
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// Sides are what exists and what is declared, without declarations that make no sense.
type Sides struct {
	Current *plan.Tree
	Desired []*plan.Node          // sorted, legal, each path once
	Given   []*plan.Node          // all that is declared, even wrongly
	Want    map[string]*plan.Node // desired, by path
	Have    map[string]*plan.Node // current, by path
	Pending []record.Pending      // lists that an interrupted apply had yet to set
	Intent  plan.Intent
	Opts    plan.Options
	Gone    map[string]bool // declared nodes that the last apply left, and that are not there
}

// Tell adds a problem to a plan. A problem has one line, and quotes what others wrote.
func Tell(p *plan.Plan, s plan.Severity, code plan.ProblemCode, n *plan.Node, summary, detail string) {
	p.Problems = append(p.Problems, plan.Problem{
		Severity: s, Code: code, Addr: n.Addr, Path: n.Path, Origin: n.Origin, Summary: kind.Visible(summary), Detail: kind.Visible(detail),
	})
}

// Under reports whether path is a proper descendant of root.
func Under(path, root string) bool { return path != root && kind.Below(path, root) }

// Us are our identities as in access lists, without rights.
func Us(s *Sides) (list kind.List) {
	for _, id := range s.Opts.Identities {
		list = append(list, id.Entry())
	}
	return list
}

// IsOurs reports whether the node carries this stack's marker.
//
// An ephemeral node is never ours, whatever its data says: an apply creates none, so somebody has
// copied the marker, and the node will end with its session (TestEphemeralNodeIsNeverOurs).
func IsOurs(p *plan.Plan, n *plan.Node) bool {
	return n != nil && n.Payload != nil && n.Payload.Owner.Stack == p.Stack && (n.Live == nil || !n.Live.Ephemeral)
}

// FrameAt returns a node of the frame; one without a path if it was not read.
func FrameAt(s *Sides, path string) *plan.Framed {
	for i := range s.Current.Frame {
		if f := &s.Current.Frame[i]; f.Path == path {
			return f
		}
	}
	return &plan.Framed{Pin: plan.Pin{Czxid: -1}}
}

// insidersOf are those who apply after the plan.
func insidersOf(p *plan.Plan, s *Sides) kind.List {
	who := p.Set.Administrators()
	if who == nil {
		who = withAdmin(p.RootSet.There)
	}
	if who == nil {
		who = Us(s)
	}
	return insiders(who, p.Set == nil && p.Before.Noted == nil)
}
