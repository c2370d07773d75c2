package access

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// A root belongs to one stack, which has one set of administrators and readers: in ZooKeeper, to create and delete in a node is a
// right on that node. The set is the access list of <root>/.locktree, which the other nodes of the tool follow. The stack names it in
// its ensemble block.

// Stand finds the standing, and who may use the tool's own nodes after the plan.
func Stand(p *plan.Plan, s *Sides) {
	named, x := s.Intent.Access, s.Current.Index
	if x != nil {
		p.Before.Noted, p.Before.Next = x.Access, x.Next
	}
	set := &p.RootSet
	set.Limited = s.Opts.Destroy || len(s.Opts.Targets) > 0
	set.There = FrameAt(s, record.ScaffoldPath(p.Root)).ACL
	switch there := set.There; {
	case named == nil:
		set.Standing = plan.StandsOpen
	case there == nil, there.Equal(named.List()):
		set.Standing = plan.StandsInForce
	default:
		set.Standing = plan.StandsReplaces
	}
	if set.Named() {
		p.Set = named
	} else if set.Standing != plan.StandsOpen {
		p.Set = plan.AccessOf(set.There)
	}
	p.Before.Insiders = insidersOf(p, s)
}

// Appliers are those who may have to set the lists of this stack's nodes: the administrators of the root, those that the stack
// names, and those who leave.
func Appliers(p *plan.Plan, s *Sides) kind.List {
	return slices.Concat(p.Set.Administrators(), s.Intent.Access.Administrators(), p.Before.Leaving)
}

// wereIn are those who may be in the lists of the tool's nodes before this plan. The set itself is the last list that loses anybody.
// Of a set whose hashes are hidden from us, the record says whom the last apply let in.
func wereIn(p *plan.Plan, s *Sides) kind.List {
	noted := p.Before.Noted
	if !p.RootSet.There.Masked() {
		noted = nil
	}
	return slices.Concat(p.RootSet.There, noted, p.Before.Next, FrameAt(s, p.Index.Path).ACL).Normalize()
}

// leaving are the administrators whom this plan shuts out. Until that is done, whatever it creates admits them too: wherever the
// apply ends, the nodes of before are still theirs, and whoever reads a stack has to read all of it.
func leaving(p *plan.Plan, s *Sides) kind.List {
	return slices.DeleteFunc(withAdmin(wereIn(p, s)).Without(p.Set.List()), func(a kind.ACL) bool { return masked(a) || plan.Everybody(a) })
}

// tellOpen says that nobody is named who may apply. That concerns nobody's locks.
func tellOpen(p *plan.Plan, s *Sides) {
	if p.RootSet.Standing != plan.StandsOpen || s.Current.Frame == nil || p.RootSet.Limited || !hasIdentity(s) {
		return
	}
	ensemble := plan.EnsembleAddr(p.Ensemble)
	Tell(p, plan.Warning, plan.ProblemAccess, &plan.Node{Addr: ensemble, Path: p.Root}, "No administrators are declared",
		fmt.Sprintf("%s does not say who may apply, so the stack's record, its apply lock and all nodes without an acl belong to %s. "+
			"Nobody else can plan or apply, and nobody at all once that credential is replaced. Declare admins = [principal.NAME] in the ensemble block, and readers for those who only plan.",
			ensemble, cmp.Or(whoText(withAdmin(p.RootSet.There)), "whoever applies first")))
}
