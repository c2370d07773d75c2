package plan

import "slices"

// DiffAll compares the ensembles of one stack, each as [Diff] does. Elements of the lists with the same index belong to the
// same ensemble. identities replace those in opts.
func DiffAll(live, desired []*Tree, identities [][]Identity, opts Options) []*Plan {
	out := make([]*Plan, len(live))
	for i := range live {
		one := opts
		one.Identities, one.Elsewhere = identities[i], owned(live, desired, i)
		out[i] = Diff(live[i], desired[i], one)
	}
	onlyUnmatched(out)
	return out
}

// owned is what the stack has on all ensembles but one. A lock that is no longer declared can only be named there, for
// example to break it by force.
func owned(live, desired []*Tree, but int) []*Tree {
	var out []*Tree
	for i, tree := range live {
		if i == but {
			continue
		}
		mine := &Tree{}
		for _, n := range tree.Nodes {
			if n.Payload != nil && n.Payload.Owner.Stack == desired[i].Stack {
				mine.Nodes = append(mine.Nodes, &Node{Addr: n.owned(), Payload: n.Payload})
			}
		}
		out = append(out, mine)
	}
	return out
}

// onlyUnmatched reports an address that matches nothing only if it matches on no ensemble, and only once. That targets are in
// effect is also said once.
func onlyUnmatched(plans []*Plan) {
	matched := func(like Problem) bool {
		return slices.ContainsFunc(plans, func(p *Plan) bool {
			return !slices.ContainsFunc(p.Problems, func(q Problem) bool {
				return q.Code == like.Code && q.Addr == like.Addr && q.Summary == like.Summary
			})
		})
	}
	for i, p := range plans { // the first is compared with the others as they are
		p.Problems = slices.DeleteFunc(slices.Clone(p.Problems), func(q Problem) bool {
			return q.Code == ProblemTarget && (i > 0 || matched(q)) || q.Code == ProblemTargeted && i > 0
		})
	}
}
