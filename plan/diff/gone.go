package diff

import (
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/record"
)

// findGone finds the declared nodes that the last apply left and that are gone. Nodes that may or may not be among those that it left
// are sought with them: a mark may be lost, hidden, changed or copied.
func findGone(p *plan.Plan, s *access.Sides) {
	s.Gone = map[string]bool{}
	if s.Current.Index == nil {
		return
	}
	left := record.RollOf(s.Current.Index.Nodes)
	if left == nil {
		return
	}
	var sought []string
	for _, n := range s.Current.Nodes {
		if access.IsOurs(p, n) && !drifted(p, s, n) {
			left.Toggle(n.Path)
		} else {
			sought = append(sought, n.Path)
		}
	}
	for _, path := range s.Current.Unreadable {
		if s.Have[path] == nil {
			sought = append(sought, path)
		}
	}
	for _, n := range s.Desired {
		if s.Have[n.Path] == nil {
			sought = append(sought, n.Path)
		}
	}
	for _, path := range left.Chosen(sought) {
		s.Gone[path] = s.Have[path] == nil && s.Want[path] != nil
	}
}

// noteLeft is the roll before the first transaction: what is there, and what is missing and may stay so.
func noteLeft(p *plan.Plan, s *access.Sides) {
	p.Before.Left = record.NewRoll()
	for _, n := range s.Current.Nodes {
		if access.IsOurs(p, n) {
			p.Before.Left.Toggle(n.Path)
		}
	}
	for path, gone := range s.Gone {
		if gone {
			p.Before.Left.Toggle(path)
		}
	}
}
