package plan

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

// covers reports whether one of the given addresses covers one of the others.
func covers(given []string, addrs ...Addr) bool {
	for _, g := range given {
		if slices.ContainsFunc(addrs, Addr(g).Covers) {
			return true
		}
	}
	return false
}

// unused refuses addresses that cover none of addrs. These include nodes without a change: a node that is in
// the way of its declaration, or declared wrongly, has a problem instead.
func (d *sides) unused(what string, given []string, addrs []Addr) {
	for _, g := range given {
		if !slices.ContainsFunc(addrs, Addr(g).Covers) {
			d.unmatched(Error, what, g, "address", addrs)
		}
	}
}

// unmatched tells of an address that matches nothing, most often a typing mistake.
func (d *sides) unmatched(severity Severity, what, given, kind string, addrs []Addr) {
	d.problem(severity, ProblemTarget, &Node{Addr: Addr(given)}, "Nothing matches "+what,
		fmt.Sprintf("%s %q matches no %s of the configuration or of the ensemble: correct it, or leave it out.%s",
			Sentence(what)[:len(what)], given, kind, NearestAddr(given, addrs)))
}

// forced warns of addresses to break that are not locks: an apply that is run again after it was interrupted may have deleted them.
func (d *sides) forced() {
	if len(d.opts.ForceBreak) == 0 {
		return
	}
	addrs := d.addrs(false)
	for _, given := range d.opts.ForceBreak {
		if !slices.Contains(addrs, Addr(given)) {
			d.unmatched(Warning, "lock to break", given, "lock", addrs)
		}
	}
}

// addrs returns the addresses of what is declared, here or elsewhere, and of what exists: of locks, and
// if wanted of containers.
func (d *sides) addrs(containers bool) (out []Addr) {
	see := func(n *Node, addr Addr) {
		if k := n.Kind(); k != nil && (containers || !k.Container) {
			out = append(out, addr)
		}
	}
	for _, tree := range slices.Concat([]*Tree{{Nodes: d.given}}, d.intent.Elsewhere, d.opts.Elsewhere) {
		for _, n := range tree.Nodes {
			see(n, n.Addr)
		}
	}
	for _, n := range d.current.Nodes {
		if d.ours(n) {
			see(n, n.owned())
		}
	}
	return out
}

// limit drops the changes that were not asked for, see [Options].
//
// Addresses are compared with the present one and with the former one: people may use either for a
// lock whose new address is not applied yet.
func (d *selection) limit() {
	if len(d.opts.Targets) == 0 {
		return
	}
	d.p.Targeted = true
	d.limitChanges()
	// The plan of the ensemble that stores the outputs decides about blocks of all ensembles.
	addrs := d.addrs(true)
	for _, o := range d.intent.Outputs {
		addrs = append(addrs, o.From...) // blocks, which may have no instances
	}
	for _, a := range addrs {
		if covers(d.opts.Targets, a) {
			d.planned[a.Block()] = true
		}
	}
	d.unused("target", d.opts.Targets, addrs)
	d.problem(Warning, ProblemTargeted, &Node{}, "Resource targeting is in effect",
		"The plan was limited with -target, so it may not represent everything the configuration asks for. "+
			"This option is for exceptional situations, such as recovering from mistakes: plan again without it afterwards.")
}

// asksFor reports whether an output is planned, see [Options].
func (d *selection) asksFor(o Output) bool {
	if !d.p.Targeted {
		return true
	}
	return len(o.From) > 0 && !slices.ContainsFunc(o.From, func(block Addr) bool { return !d.planned[block] })
}

// limitChanges selects what was asked for, adds what that needs, and changes nothing else.
//
// A node that is left out and exists stays in the plan as a NoOp; one that does not exist, or is not ours yet, leaves the plan. Problems are kept or dropped with
// their nodes. A problem without a path concerns the whole plan and stays, as does one of an address
// that is planned. If its node has no change, because it is in the way of one or was declared wrongly,
// its address decides.
func (d *selection) limitChanges() {
	in := map[string]bool{} // by path
	for c := range d.p.Each() {
		in[c.Path] = covers(d.opts.Targets, d.names(c)...)
	}
	spread(in, d.requirements())
	var kept []Change
	dropped := map[string]bool{}
	wanted := map[Addr]bool{} // addresses of what is planned, and of what that is created in
	for _, c := range d.p.Changes {
		if in[c.Path] {
			at := kind.ParentPath(c.Path)
			if _, planned := in[at]; !planned && c.Before == nil && d.want[at] != nil {
				wanted[d.want[at].Addr] = true // its problem is the reason why nothing is planned for it
			}
			for _, name := range d.names(&c) {
				wanted[name] = true
			}
			d.planned[c.Addr.Block()] = true
			kept = append(kept, c)
			continue
		}
		dropped[c.Path] = true
		if c.Before == nil {
			continue
		}
		// A node that would have been imported is not this stack's, and does not belong in its plan.
		if c.Importing == "" || c.Before.Payload.Owner.Stack == d.p.Stack {
			c.leave()
			kept = append(kept, c)
		}
	}
	d.p.Changes = kept
	unplanned := func(q Problem) bool {
		if q.Path == "" || wanted[q.Addr] {
			return false
		}
		if _, planned := in[q.Path]; planned {
			return dropped[q.Path]
		}
		return !covers(d.opts.Targets, q.Addr)
	}
	d.p.Problems = slices.DeleteFunc(d.p.Problems, unplanned)
}

// names are the addresses under which a change may be asked for. What goes has that of the declaration that continues it, too.
func (d *selection) names(c *Change) []Addr {
	names := []Addr{c.Addr}
	if c.PreviousAddr != "" {
		names = append(names, c.PreviousAddr)
	}
	if c.Action == Delete {
		if to := d.elsewhere(c.Before); to != nil {
			names = append(names, to.Addr)
		}
	}
	return names
}

// requirements are pairs of paths: the change of the first cannot be made without that of the second. A namespace is
// deleted only with its contents.
func (d *selection) requirements() (out [][2]string) {
	byPath := d.byPath()
	for c := range d.p.Each() {
		for _, p := range d.needs(c, byPath) {
			out = append(out, [2]string{c.Path, p})
		}
		for p := kind.ParentPath(c.Path); p != "/" && c.Before != nil; p = kind.ParentPath(p) {
			if o := byPath[p]; o != nil && (o.Action == Delete || o.Action == Replace) {
				out = append(out, [2]string{p, c.Path})
			}
		}
	}
	return out
}

// spread adds the second of each pair whose first is in the set, until nothing is added: a namespace may be inside
// another, and a lock that is deleted with it may be created at another path. Each round adds at least one path, or is the last.
func spread(set map[string]bool, pairs [][2]string) {
	for changed := true; changed; {
		changed = false
		for _, pair := range pairs {
			if set[pair[0]] && !set[pair[1]] {
				set[pair[1]], changed = true, true
			}
		}
	}
}

// needs returns the paths of the changes without which c cannot be made.
func (d *selection) needs(c *Change, byPath map[string]*Change) (out []string) {
	// What is created or taken over needs a namespace of ours around it.
	arrives := c.Before == nil || c.Importing != ""
	if p := byPath[kind.ParentPath(c.Path)]; p != nil && arrives && (p.Action == Create || p.Action == Replace || p.Importing != "") {
		out = append(out, p.Path)
	}
	return append(out, c.tied()...)
}

func (d *decisions) byPath() map[string]*Change {
	m := make(map[string]*Change, len(d.p.Changes))
	for c := range d.p.Each() {
		m[c.Path] = c
	}
	return m
}
