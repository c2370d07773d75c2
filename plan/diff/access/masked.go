package access

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// WarnUncompared says whose passwords the plan could not compare. Servers show the hashes of digests in an access list only to its
// administrators (FinalRequestProcessor, getACL). Without them, kind.List.Equal compares schemes, names and permissions.
func WarnUncompared(p *plan.Plan, s *Sides) {
	if s.Opts.Destroy {
		return
	}
	var first *plan.Node
	n := 0
	var who kind.List
	note := func(addr plan.Addr, path string, list kind.List) {
		if !list.Masked() {
			return
		}
		if n++; first == nil {
			first = &plan.Node{Addr: addr, Path: path}
		}
		who = append(who, slices.DeleteFunc(slices.Clone(list), func(a kind.ACL) bool { return !masked(a) })...)
	}
	for i := range s.Current.Frame {
		f := &s.Current.Frame[i]
		note(plan.EnsembleAddr(p.Ensemble), f.Path, f.ACL)
	}
	for _, have := range s.Current.Nodes {
		if want := s.Want[have.Path]; want != nil && IsOurs(p, have) {
			note(want.Addr, have.Path, have.ACL)
		}
	}
	if n == 0 {
		return
	}
	names := plan.Names(who)
	slices.Sort(names)
	Tell(p, plan.Warning, plan.ProblemAccess, first, "Passwords were not compared",
		fmt.Sprintf("ZooKeeper hides the password hashes of %s from this connection, in %d access list%s (%s first). This plan compared these entries by scheme and name, "+
			"so it does not show a password that has changed. Run the plan with the credentials of an administrator to compare them.",
			plan.Few(slices.Compact(names), 10), n, plan.Plural(n), first.Path))
}
