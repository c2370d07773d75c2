package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// changes decides about every path of either tree.
func (d *decisions) changes() {
	paths := d.paths()
	d.p.Changes = make([]Change, 0, len(paths))
	for _, path := range paths {
		want, have := d.want[path], d.have[path]
		mine := d.ours(have) && !d.overwrittenAsLock(want, have)
		if d.opts.Destroy {
			want = nil
		}
		switch {
		case want == nil && have == nil, d.refused[path]: // destroying what is not there
		case want == nil && !mine:
			d.remains(d.want[path], have)
		case want == nil:
			d.add(d.departure(have))
		case have == nil:
			d.add(d.creation(want))
		case !mine:
			if c, ok := d.adoption(want, have); ok {
				d.add(c)
			} else {
				d.obstacle(want, have)
			}
		default:
			d.add(d.comparison(want, have))
		}
	}
}

func (d *decisions) add(c Change) { d.p.Changes = append(d.p.Changes, c) }

func (d *decisions) deletion(have *Node) Change {
	c := Change{
		Action: Delete, Addr: have.owned(), Path: have.Path, Kind: have.Kind(),
		Before: have, Usage: usage(have), Drift: d.drifted(have),
	}
	if !d.opts.Destroy {
		c.Reason, c.missing = d.reason(c.Addr)
	}
	// A namespace has no contenders, and naming it must not break the locks inside it.
	c.Break = d.breaks[c.Addr] && !c.Kind.Container
	want := d.want[have.Path]
	if to := d.elsewhere(have); to != nil {
		want, c.NextPath, c.Break = to, to.Path, c.Break || d.breaks[to.Addr] && !c.Kind.Container
	}
	d.checkRemoval(&c, want)
	return c
}

func (d *decisions) creation(want *Node) Change {
	after := want.withPayload()
	after.Payload.Gen = 1
	return Change{Action: Create, Addr: want.Addr, Path: want.Path, Kind: want.Kind(), After: after, Drift: d.gone[want.Path]}
}

// comparison is the change of a node of ours that is also declared.
//
// The order of the cases matters. A difference that forces a replacement does so whether or not one
// was requested, and is then the reason. A namespace is not replaced by request,
// because everything in it would have to be deleted. A lock that is declared at another path now leaves this one to the lock that is
// declared here: the two may not have one queue. The case in which only the address differs comes before rewrites, which treats the
// address like any other difference.
func (d *decisions) comparison(want, have *Node) Change {
	c := Change{Addr: want.Addr, Path: want.Path, Kind: want.Kind(), Before: have, After: want, Usage: usage(have)}
	c.compare()
	d.keyed(&c)
	switch {
	case len(c.ForcesReplace) > 0:
		d.remake(&c, want, ReasonReplaceCannotUpdate)
	case c.PreviousAddr != "" && !c.Kind.Container && d.elsewhere(have) != nil:
		d.remake(&c, want, ReasonReplaceCannotUpdate)
	case covers(d.opts.Replace, c.Addr) && !c.Kind.Container:
		d.remake(&c, want, ReasonReplaceByRequest)
	case have.Payload.Made == kind.MadeElsewhere && empty(have, c.Kind):
		c.Action, c.Reason, c.MissingParts, c.FormerLists = Replace, ReasonReplaceContainer, nil, nil
	case c.onlyRenamed():
		// As in Terraform, the address is not a property of the node: there is nothing to change.
		c.Action = NoOp
	case c.rewrites() || c.ACL != nil || c.MissingParts != nil || c.FormerLists != nil:
		c.Action = Update
		d.checkShrink(&c)
	default:
		c.Action = NoOp
	}
	c.Drift = c.Action != NoOp && d.drifted(have)
	stays := c.Action == NoOp && !c.renamed()
	// What stays at the node is what is there, to the byte. In most plans nearly all nodes are such, and a copy for each
	// is a quarter of the plan's memory.
	if stays && want.Addr == have.Addr && slices.Equal(want.ACL, have.ACL) {
		c.After = have
		return c
	}
	c.After = want.withPayload()
	if c.Action != Replace {
		c.After.Payload.Carry(have.Payload)
	} else {
		c.After.Payload.CarrySince(have.Payload)
	}
	// The generation counts writes of the node's data. It must not rise only for an access list or a
	// missing part: then the data would differ, and would have to be written just for that.
	c.After.Payload.Gen = have.Payload.Gen
	if c.Action == Replace || c.rewrites() {
		c.After.Payload.Gen++
	}
	if stays {
		c.After.Payload = have.Payload
	}
	return c
}

// remake replaces a node, with all of its parts.
func (d *decisions) remake(c *Change, want *Node, reason Reason) {
	c.Action, c.Reason, c.Break, c.MissingParts, c.FormerLists = Replace, reason, d.breaks[c.Addr], nil, nil
	c.leaves, c.missing = d.reason(c.Before.owned())
	if to := d.elsewhere(c.Before); to != nil {
		c.NextPath, c.Break = to.Path, c.Break || d.breaks[to.Addr]
	}
	d.checkRemoval(c, want)
}

// onlyRenamed reports whether the address is all that differs. Such a change is
// NoOp and writes the node's marker nevertheless.
func (c *Change) onlyRenamed() bool {
	return c.PreviousAddr != "" && c.ACL == nil && c.FormerLists == nil && c.MissingParts == nil && len(c.ForcesReplace) == 0 &&
		len(c.Params) == 0 && c.ChildACL == nil && c.Protect == nil && !c.Revive && c.Importing == ""
}

// compare fills in how After differs from Before. It looks at nothing that lock traffic
// changes, so traffic is never drift.
func (c *Change) compare() {
	if c.Before.Kind() != c.After.Kind() {
		c.ForcesReplace = []string{"type"}
	} else {
		c.Params = kind.Diff(c.Before.Payload.Params, c.After.Payload.Params)
	}
	for _, p := range c.Params {
		if p.Replace {
			c.ForcesReplace = append(c.ForcesReplace, p.Name)
		}
	}
	have, want := c.Before.Payload, c.After.Payload
	if have.Owner.Addr != want.Owner.Addr && have.Owner.Addr != "" {
		c.PreviousAddr = Addr(have.Owner.Addr)
	}
	if have.Protect != want.Protect {
		c.Protect = &ProtectDiff{have.Protect, want.Protect}
	}
	if !have.ChildACL.Equal(want.ChildACL) {
		c.ChildACL = &ACLDiff{have.ChildACL, want.ChildACL}
	}
	c.Revive = have.State != kind.StateActive && cmp.Or(want.State, kind.StateActive) == kind.StateActive
	if !c.Before.ACL.Equal(c.After.ACL) {
		c.ACL = &ACLDiff{c.Before.ACL, c.After.ACL}
	}
	if c.Before.Live == nil || len(c.ForcesReplace) > 0 {
		return // a replacement creates all parts again
	}
	c.MissingParts = missing(c.Before)
	for _, part := range c.Before.Live.Parts {
		switch {
		case part.Absent:
		// Contenders are created in the parts, which have the node's list. If only a part's list
		// differs, it is shown as the node's; ACLSteps finds those that have to be set.
		case c.ACL == nil && !part.ACL.Equal(c.Kind.PartACL(part.Name, c.After.ACL)):
			c.ACL = &ACLDiff{part.ACL, c.Kind.PartACL(part.Name, c.After.ACL)}
		}
	}
}

// missing names the parts that a node lacks.
func missing(n *Node) (names []string) {
	for _, part := range n.Live.Parts {
		if part.Absent {
			names = append(names, part.Name)
		}
	}
	return names
}

// rewrites reports whether the node's data changes.
func (c *Change) rewrites() bool {
	return c.Importing != "" || len(c.Params) > 0 || c.ChildACL != nil || c.Protect != nil || c.Revive || c.PreviousAddr != ""
}

// drifted reports whether a node of ours differs from what the last apply left. Servers
// mask access lists for readers without ADMIN on the node (FinalRequestProcessor, getACL). A
// comparison entry by entry can allow for that, as kind.EqualACL does; a sum cannot. So a
// masked list counts as drifted only by its path and data. A node without a sum of the stack's key does not count as drifted.
func (d *sides) drifted(n *Node) bool {
	if !n.sealed(d.p.prior.Key) || n.Live != nil && n.Live.AsLeft {
		return false
	}
	if n.ACL.Masked() {
		written, err := n.written()
		return err != nil || !strings.HasPrefix(n.Payload.Sum, proof(d.p.prior.Key, written))
	}
	if n.fits(d.p.prior.Key) {
		return false
	}
	// The sum is that with the new list. The former list is stored nowhere, so a list that is still to be set does not count
	// as drift either.
	return !slices.ContainsFunc(d.awaited(n), func(acl kind.List) bool {
		return (&Node{Path: n.Path, Payload: n.Payload, ACL: acl}).fits(d.p.prior.Key)
	})
}

// awaited are the access lists that an interrupted apply may have had yet to set on a node: it has the list of before, or both.
func (d *sides) awaited(n *Node) (lists []kind.List) {
	for _, p := range d.pending {
		if n.ACL.Equal(p.From) || n.ACL.Equal(slices.Concat(p.From, p.To).Normalize()) {
			lists = append(lists, p.To)
		}
	}
	return lists
}

func usage(n *Node) *kind.Usage {
	if n.Live == nil || !n.Live.Usage.Busy() {
		return nil
	}
	return n.Live.Usage
}

// withPayload copies the node and its payload, so that a plan can complete them without
// changing the caller's tree. The parameters are shared: nothing here writes to them.
func (n *Node) withPayload() *Node {
	c, p := *n, *n.Payload
	if p.State == "" {
		p.State = kind.StateActive
	}
	c.Payload = &p
	return &c
}
