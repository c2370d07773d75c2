package diff

import (
	"slices"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// chooseActions decides about every path of either tree.
func chooseActions(p *plan.Plan, s *access.Sides, m *pairing) {
	paths := allPaths(s)
	p.Changes = make([]plan.Change, 0, len(paths))
	for _, path := range paths {
		want, have := s.Want[path], s.Have[path]
		mine := access.IsOurs(p, have) && !overwrittenAsLock(p, s, want, have)
		if s.Opts.Destroy {
			want = nil
		}
		switch {
		case want == nil && have == nil, m.refused[path]: // nothing to do: a destroy finds no node, or an import was refused
		case want == nil && !mine:
			remains(p, s, s.Want[path], have)
		case want == nil:
			addChange(p, departure(p, s, m, have))
		case have == nil:
			addChange(p, creation(s, want))
		case !mine:
			if c, ok := adoption(p, s, m, want, have); ok {
				addChange(p, c)
			} else {
				obstacle(p, s, want, have)
			}
		default:
			addChange(p, comparison(p, s, m, want, have))
		}
	}
}

func addChange(p *plan.Plan, c plan.Change) { p.Changes = append(p.Changes, c) }

func deletion(p *plan.Plan, s *access.Sides, m *pairing, have *plan.Node) plan.Change {
	c := plan.Change{
		Action: plan.Delete, Addr: have.Owned(), Path: have.Path, Kind: have.Kind(),
		Before: have, Usage: usage(have), Drift: drifted(p, s, have),
	}
	if !s.Opts.Destroy {
		c.Reason, c.Missing = reasonOf(s, m, c.Addr)
	}
	// A namespace has no contenders, and naming it in -force-break must not break the locks inside it.
	c.Break = breaks(s, c.Addr) && !c.Kind.Container
	want := s.Want[have.Path]
	if to := successor(p, s, m, have); to != nil {
		want, c.NextPath, c.Break = to, to.Path, c.Break || breaks(s, to.Addr) && !c.Kind.Container
	}
	checkRemoval(p, &c, want)
	return c
}

func creation(s *access.Sides, want *plan.Node) plan.Change {
	after := want.WithPayload()
	after.Payload.Gen = 1
	return plan.Change{Action: plan.Create, Addr: want.Addr, Path: want.Path, Kind: want.Kind(), After: after, Drift: s.Gone[want.Path]}
}

// comparison is the change of a node of ours that is also declared.
//
// The order of the cases matters. A difference that forces a replacement comes first, so that it is the reason even if a
// replacement was requested too. If the lock of this node is now declared at another path, the node is replaced: the lock that is
// declared here needs a queue of its own. A namespace is not replaced by request, because everything in it would have to be
// deleted. onlyRenamed must be asked before Rewrites, because Rewrites is also true if only the address changes.
func comparison(p *plan.Plan, s *access.Sides, m *pairing, want, have *plan.Node) plan.Change {
	c := plan.Change{Addr: want.Addr, Path: want.Path, Kind: want.Kind(), Before: have, After: want, Usage: usage(have)}
	c.Compare()
	planKeys(s, &c)
	switch {
	case len(c.ForcesReplace) > 0:
		remake(p, s, m, &c, want, plan.ReasonReplaceCannotUpdate)
	case c.PreviousAddr != "" && !c.Kind.Container && successor(p, s, m, have) != nil:
		remake(p, s, m, &c, want, plan.ReasonReplaceCannotUpdate)
	case covers(s.Opts.Replace, c.Addr) && !c.Kind.Container:
		remake(p, s, m, &c, want, plan.ReasonReplaceByRequest)
	case have.Payload.Made == kind.MadeElsewhere && isEmpty(have, c.Kind):
		c.Action, c.Reason, c.MissingParts, c.FormerLists = plan.Replace, plan.ReasonReplaceContainer, nil, nil
	case onlyRenamed(&c):
		// As in Terraform, the address is not a property of the node: there is nothing to change.
		c.Action = plan.NoOp
	case c.Rewrites() || c.ACL != nil || c.MissingParts != nil || c.FormerLists != nil:
		c.Action = plan.Update
		checkShrink(p, &c)
	default:
		c.Action = plan.NoOp
	}
	c.Drift = c.Action != plan.NoOp && drifted(p, s, have)
	stays := c.Action == plan.NoOp && !c.Renamed()
	// The node keeps its data, to the byte. In most plans this is true of nearly all nodes, and a copy for each is a quarter of the
	// plan's memory.
	if stays && want.Addr == have.Addr && slices.Equal(want.ACL, have.ACL) {
		c.After = have
		return c
	}
	c.After = want.WithPayload()
	if c.Action != plan.Replace {
		c.After.Payload.Carry(have.Payload)
	} else {
		c.After.Payload.CarrySince(have.Payload)
	}
	// The generation counts writes of the node's data. It stays if only an access list or a missing part changes: a new generation
	// would force a write of the data.
	c.After.Payload.Gen = have.Payload.Gen
	if c.Action == plan.Replace || c.Rewrites() {
		c.After.Payload.Gen++
	}
	if stays {
		c.After.Payload = have.Payload
	}
	return c
}

// breaks reports whether the contenders of a lock are deleted with it.
func breaks(s *access.Sides, addr plan.Addr) bool {
	return slices.Contains(s.Opts.ForceBreak, string(addr))
}

// remake replaces a node, with all of its parts.
func remake(p *plan.Plan, s *access.Sides, m *pairing, c *plan.Change, want *plan.Node, reason plan.Reason) {
	c.Action, c.Reason, c.Break, c.MissingParts, c.FormerLists = plan.Replace, reason, breaks(s, c.Addr), nil, nil
	c.Leaves, c.Missing = reasonOf(s, m, c.Before.Owned())
	if to := successor(p, s, m, c.Before); to != nil {
		c.NextPath, c.Break = to.Path, c.Break || breaks(s, to.Addr)
	}
	checkRemoval(p, c, want)
}

// onlyRenamed reports whether the address is all that differs. Such a change is
// NoOp and writes the node's marker nevertheless.
func onlyRenamed(c *plan.Change) bool {
	return c.PreviousAddr != "" && c.ACL == nil && c.FormerLists == nil && c.MissingParts == nil && len(c.ForcesReplace) == 0 &&
		len(c.Params) == 0 && c.ChildACL == nil && !c.Protect && !c.Revive && c.Importing == ""
}

// drifted reports whether a node of ours is not as the last apply left it. Servers mask access lists for readers without ADMIN on
// the node (FinalRequestProcessor, getACL). A comparison entry by entry can allow for that, as kind.List.Equal does; a sum cannot
// allow for it. So a node with a masked list counts as drifted only if its path or data does not fit the sum. A node without a sum
// of the stack's key does not count as drifted.
func drifted(p *plan.Plan, s *access.Sides, n *plan.Node) bool {
	if !record.Sealed(p.Before.Key, n.Payload) || n.Live != nil && n.Live.AsLeft {
		return false
	}
	if n.ACL.Masked() {
		return !record.Proven(p.Before.Key, n.Path, n.Payload)
	}
	if record.Fits(p.Before.Key, n.Path, n.Payload, n.ACL) {
		return false
	}
	// The sum was computed with the new list. If an interrupted apply has not set that list yet, this is no drift: awaited returns
	// the new list, and the sum fits it.
	return !slices.ContainsFunc(awaited(s, n), func(acl kind.List) bool {
		return record.Fits(p.Before.Key, n.Path, n.Payload, acl)
	})
}

// awaited are the access lists that an interrupted apply has not set on a node yet. The node still has the old list, or the union
// of both.
func awaited(s *access.Sides, n *plan.Node) (lists []kind.List) {
	for _, p := range s.Pending {
		if n.ACL.Equal(p.From) || n.ACL.Equal(slices.Concat(p.From, p.To).Normalize()) {
			lists = append(lists, p.To)
		}
	}
	return lists
}

func usage(n *plan.Node) *kind.Usage {
	if n.Live == nil || !n.Live.Usage.Busy() {
		return nil
	}
	return n.Live.Usage
}

// formerLists are the lists that key nodes may still have: those before the plan and before an interrupted apply, and the union of
// old and new that an apply sets in between.
func formerLists(s *access.Sides, c *plan.Change) (lists []kind.List) {
	if c.ChildACL != nil && len(c.ChildACL.Before) > 0 {
		lists = append(lists, c.ChildACL.Before)
	}
	want := c.After.Payload.ChildACL
	for _, p := range s.Pending {
		if p.To.Equal(want) {
			lists = append(lists, p.From)
		}
	}
	for _, l := range slices.Clone(lists) {
		lists = append(lists, slices.Concat(l, want).Normalize())
	}
	return slices.DeleteFunc(lists, func(l kind.List) bool { return l.Equal(want) })
}

// planKeys plans the list of a family's key nodes. If none is declared, each client gives a key node its own list.
func planKeys(s *access.Sides, c *plan.Change) {
	if c.Kind.Key == nil || c.Before.Kind() != c.Kind || c.Before.Live == nil || len(c.After.Payload.ChildACL) == 0 {
		return
	}
	c.FormerLists = formerLists(s, c)
	left, seen := c.FormerKeys()
	if c.ChildACL == nil && left == 0 && seen { // nothing is left to be finished
		c.FormerLists = nil
	}
}

// knownAddrs are the addresses of the configuration, on all ensembles.
type knownAddrs struct {
	nodes map[plan.Addr]bool // of nodes, and of modules and namespaces around one
	keyed map[plan.Addr]bool // of blocks with for_each: whether it has elements does not matter
}

// collectKnown collects these addresses.
func collectKnown(s *access.Sides) *knownAddrs {
	k := &knownAddrs{map[plan.Addr]bool{}, map[plan.Addr]bool{}}
	see := func(a plan.Addr) {
		for !k.nodes[a] && a != "" {
			if k.nodes[a] = true; a.Base() != a {
				k.keyed[a.Base()] = true
			}
			a = a.Parent()
		}
	}
	for _, tree := range slices.Concat([]*plan.Tree{{Nodes: s.Given}}, s.Intent.Elsewhere) {
		for _, n := range tree.Nodes {
			see(n.Addr)
		}
	}
	for a, barren := range s.Intent.Nodeless {
		if barren {
			k.keyed[a] = true
			a = a.Parent()
		}
		see(a)
	}
	return k
}

// reasonOf says why an address is no longer declared here, and returns the outermost part of it that is not declared. The reason
// is "" if it is declared.
func reasonOf(s *access.Sides, m *pairing, addr plan.Addr) (code plan.Reason, missing plan.Addr) {
	if addr = s.Intent.Rename(addr); m.byAddr[addr] != nil {
		return "", ""
	}
	known := m.known()
	for part := addr; part != ""; part = part.Parent() {
		if !known.nodes[part] {
			missing = part // the last one found is the outermost
		}
	}
	if missing != "" {
		block := missing.Base()
		_, keyed := missing.Key()
		switch {
		case known.keyed[block] && keyed:
			code = plan.ReasonDeleteEachKey
		case known.keyed[block] || known.nodes[block]:
			code = plan.ReasonDeleteWrongRepetition
		case missing.Type() == "module":
			code = plan.ReasonDeleteNoModule
		default:
			code = plan.ReasonDeleteNoConfig
		}
	}
	if missing == "" && !slices.ContainsFunc(s.Given, func(n *plan.Node) bool { return n.Addr == addr }) { // a wrong declaration may be the reason
		code = plan.ReasonDeleteOtherEnsemble
	}
	return code, missing
}
