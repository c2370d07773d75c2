package diff

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/recipes/kind"
)

// covers reports whether one of the given addresses covers one of addrs.
func covers(given []string, addrs ...plan.Addr) bool {
	for _, g := range given {
		if slices.ContainsFunc(addrs, plan.Addr(g).Covers) {
			return true
		}
	}
	return false
}

// checkUnused refuses addresses that cover none of addrs. addrs also has declarations with a problem instead of a change: they are
// wrong, or a foreign node has their path.
func checkUnused(p *plan.Plan, what string, given []string, addrs []plan.Addr) {
	for _, g := range given {
		if !slices.ContainsFunc(addrs, plan.Addr(g).Covers) {
			tellUnmatched(p, problem.Error, what, g, "address", addrs)
		}
	}
}

// tellUnmatched tells of an address that matches nothing, most often a typing mistake.
func tellUnmatched(p *plan.Plan, severity problem.Severity, what, given, kind string, addrs []plan.Addr) {
	access.Tell(p, severity, problem.Target, &plan.Node{Addr: plan.Addr(given)}, "Nothing matches "+what,
		fmt.Sprintf("%s %q matches no %s of the configuration or of the ensemble: correct it, or leave it out.%s",
			explain.Sentence(what)[:len(what)], given, kind, explain.NearestAddr(given, addrs)))
}

// checkForced warns of addresses to break that are not locks: an apply that is run again after it was interrupted may have deleted
// them.
func checkForced(p *plan.Plan, s *access.Sides) {
	addrs := addrs(p, s, false)
	for _, given := range s.Opts.ForceBreak {
		if !slices.Contains(addrs, plan.Addr(given)) {
			tellUnmatched(p, problem.Warning, "lock to break", given, "lock", addrs)
		}
	}
}

// addrs returns the addresses of declared and existing locks, on this and other ensembles, and on request those of namespaces.
func addrs(p *plan.Plan, s *access.Sides, containers bool) (out []plan.Addr) {
	see := func(n *plan.Node, addr plan.Addr) {
		if k := n.Kind(); k != nil && (containers || !k.Container) {
			out = append(out, addr)
		}
	}
	for _, tree := range slices.Concat([]*plan.Tree{{Nodes: s.Given}}, s.Intent.Elsewhere, s.Opts.Elsewhere) {
		for _, n := range tree.Nodes {
			see(n, n.Addr)
		}
	}
	for _, n := range s.Current.Nodes {
		if access.IsOurs(p, n) {
			see(n, n.Owned())
		}
	}
	return out
}

// limitToTargets drops the changes that were not asked for, see [plan.Options]. It returns the addresses of the blocks that still
// have changes, or that a target covers.
//
// A target matches a node by its present and by its former address: people may use either for a lock whose new address is not
// applied yet.
func limitToTargets(p *plan.Plan, s *access.Sides, m *pairing) map[plan.Addr]bool {
	p.Targeted = true
	planned := limitChanges(p, s, m)
	// One ensemble stores the outputs, which depend on blocks of all ensembles. So its plan also needs the covered blocks of the others.
	addrs := addrs(p, s, true)
	for _, o := range s.Intent.Outputs {
		addrs = append(addrs, o.From...) // blocks, which may have no instances
	}
	for _, a := range addrs {
		if covers(s.Opts.Targets, a) {
			planned[a.Block()] = true
		}
	}
	checkUnused(p, "target", s.Opts.Targets, addrs)
	access.Tell(p, problem.Warning, problem.Targeted, &plan.Node{}, "Resource targeting is in effect",
		"The plan was limited with -target, so it may not represent everything the configuration asks for. "+
			"This option is for exceptional situations, such as recovering from mistakes: plan again without it afterwards.")
	return planned
}

// asksFor reports whether an output is planned, see [plan.Options].
func asksFor(p *plan.Plan, o plan.Output, planned map[plan.Addr]bool) bool {
	if !p.Targeted {
		return true
	}
	return len(o.From) > 0 && !slices.ContainsFunc(o.From, func(block plan.Addr) bool { return !planned[block] })
}

// limitChanges keeps the changes that were asked for and those that they need, and drops all others.
//
// A node of ours that is left out stays in the plan as a NoOp. One that does not exist, or is not ours yet, leaves the plan.
// Problems are kept or dropped with their nodes. A problem without a path concerns the whole plan and stays. A problem of an
// address that is planned also stays. Nothing is planned for a wrong declaration, nor for one whose path belongs to a foreign
// node. Such a declaration has no change, so its problem stays only if a target
// covers its address, or if a planned node needs the declaration.
func limitChanges(p *plan.Plan, s *access.Sides, m *pairing) map[plan.Addr]bool {
	planned := map[plan.Addr]bool{} // addresses of blocks
	asked := map[string]bool{}      // by path
	for c := range p.Each() {
		asked[c.Path] = covers(s.Opts.Targets, namesOf(p, s, m, c)...)
	}
	addPartners(asked, requirements(p))
	var kept []plan.Change
	dropped := map[string]bool{}
	wanted := map[plan.Addr]bool{} // addresses of planned nodes, and of those around new ones
	for _, c := range p.Changes {
		if asked[c.Path] {
			at := kind.ParentPath(c.Path)
			if _, known := asked[at]; !known && c.Before == nil && s.Want[at] != nil {
				wanted[s.Want[at].Addr] = true // the node has a problem, so nothing is planned for it; the problem must stay in the plan
			}
			for _, name := range namesOf(p, s, m, &c) {
				wanted[name] = true
			}
			planned[c.Addr.Block()] = true
			kept = append(kept, c)
			continue
		}
		dropped[c.Path] = true
		if c.Before == nil {
			continue
		}
		// A node that would have been imported is not this stack's, and does not belong in its plan.
		if c.Importing == "" || c.Before.Payload.Owner.Stack == p.Stack {
			leave(&c)
			kept = append(kept, c)
		}
	}
	p.Changes = kept
	unplanned := func(q plan.Problem) bool {
		if q.Path == "" || wanted[q.Addr] {
			return false
		}
		if _, known := asked[q.Path]; known {
			return dropped[q.Path]
		}
		return !covers(s.Opts.Targets, q.Addr)
	}
	p.Problems = slices.DeleteFunc(p.Problems, unplanned)
	return planned
}

// namesOf are the addresses that ask for a change. If a node is deleted because its lock moves to another path, the address of the
// new declaration also asks for the change.
func namesOf(p *plan.Plan, s *access.Sides, m *pairing, c *plan.Change) []plan.Addr {
	names := []plan.Addr{c.Addr}
	if c.PreviousAddr != "" {
		names = append(names, c.PreviousAddr)
	}
	if c.Action == plan.Delete {
		if to := successor(p, s, m, c.Before); to != nil {
			names = append(names, to.Addr)
		}
	}
	return names
}

// requirements are pairs of paths: the change of the first cannot be made without that of the second. A namespace is
// deleted only with its contents.
func requirements(p *plan.Plan) (out [][2]string) {
	byPath := byPath(p)
	for c := range p.Each() {
		for _, p := range needsOf(c, byPath) {
			out = append(out, [2]string{c.Path, p})
		}
		for p := kind.ParentPath(c.Path); p != "/" && c.Before != nil; p = kind.ParentPath(p) {
			if o := byPath[p]; o != nil && (o.Action == plan.Delete || o.Action == plan.Replace) {
				out = append(out, [2]string{p, c.Path})
			}
		}
	}
	return out
}

// addPartners adds the second path of each pair whose first is in the set, until nothing is added. Pairs form chains: a namespace
// may be inside another, and a lock deleted with it may be created at another path. Each round adds at least one path, or is the
// last.
func addPartners(set map[string]bool, pairs [][2]string) {
	for changed := true; changed; {
		changed = false
		for _, pair := range pairs {
			if set[pair[0]] && !set[pair[1]] {
				set[pair[1]], changed = true, true
			}
		}
	}
}

// needsOf returns the paths of the changes without which c cannot be made.
func needsOf(c *plan.Change, byPath map[string]*plan.Change) (out []string) {
	// A node that is created or taken over needs a namespace of ours around it.
	arrives := c.Before == nil || c.Importing != ""
	if p := byPath[kind.ParentPath(c.Path)]; p != nil && arrives && (p.Action == plan.Create || p.Action == plan.Replace || p.Importing != "") {
		out = append(out, p.Path)
	}
	return append(out, c.Tied()...)
}

func byPath(p *plan.Plan) map[string]*plan.Change {
	m := make(map[string]*plan.Change, len(p.Changes))
	for c := range p.Each() {
		m[c.Path] = c
	}
	return m
}
