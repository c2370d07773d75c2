package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// The tool's own nodes have access lists too: the root and what is above it, .locktree and everything
// in it, the tombstones that moves leave behind, and namespaces that are no longer declared and cannot be deleted. If
// administrators and readers are declared (Intent.Access), these lists are planned like those of locks.
//
// Nodes that belong to this stack alone get exactly the declared list. Nodes shared with other stacks
// keep what the others declare. To lists that this stack does not decide, entries are only added.

// AccessChange is an access list of one of the tool's own nodes that changes.
type AccessChange struct {
	Addr Addr `json:"address"` // "ensemble.main"; the own address of a node that the stack has left behind
	ACLDiff
	// Contenders: it is the list for the contenders of the apply lock, which is in that lock's data.
	Contenders bool `json:"contenders,omitempty"`
	Pin        Pin  `json:"pin"` // of the node, as it was read
}

// EnsembleAddr is the address for what belongs to no declared node.
func EnsembleAddr(ensemble string) Addr { return Addr("ensemble." + ensemble) }

// frame plans the lists of the tool's own nodes, and checks what others may do there.
type frame struct {
	*sides
	unsure bool // a problem says already that a list stays because of another stack
}

// plan runs when it is known which tombstones stay. audit checks the lists that it plans.
func (d *frame) plan() {
	d.p.prior.Unmarked = d.unmarked()
	d.ownLists()
	d.undeclared()
	d.audit()
}

// ownLists plans the lists of the tool's own nodes. A plan with targets leaves them alone. So does
// one that would write nothing to a stack without a record: its first apply creates what is missing
// with the right lists.
func (d *frame) ownLists() {
	d.p.Declared = d.intent.Access
	x := d.current.Index
	if x != nil {
		d.p.prior.Noted = x.Access
	}
	if d.intent.Access == nil || d.opts.Destroy || d.p.Targeted || x == nil && !d.p.HasChanges() {
		return
	}
	d.p.prior.Leaving = d.leaving()
	for c := range d.p.Each() {
		if c.left() || d.kept(c) {
			d.relist(c)
		}
	}
	d.ownDrift()
	closed, first := 0, ""
	for i := range d.current.Frame {
		f := &d.current.Frame[i]
		if f.Closed {
			if !under(d.p.Root, f.Path) { // nodes above the root may belong to another team
				if closed++; first == "" {
					first = f.Path
				}
			}
			continue
		}
		if want := d.wantedOf(f); want != nil && !f.ACL.Equal(want) {
			d.ownChange(AccessChange{EnsembleAddr(d.p.Ensemble), ACLDiff{f.ACL, want}, false, f.Pin})
		}
		if list := d.intent.Access.List(); f.Path == LockPath(d.p.Root, d.p.Stack) && !d.current.Contenders.Equal(list) {
			d.ownChange(AccessChange{EnsembleAddr(d.p.Ensemble), ACLDiff{d.current.Contenders, list}, true, f.Pin})
		}
	}
	if closed > 0 {
		d.problem(Warning, ProblemAccess, &Node{Addr: EnsembleAddr(d.p.Ensemble), Path: first}, "Access lists cannot be read",
			fmt.Sprintf("%d of the tool's own nodes (%s first) cannot be read by this connection, so their access lists are not checked. Run the plan with the credentials of an administrator.", closed, first))
	}
	d.checkSetters()
}

// ownDrift finds lists of the tool's own nodes that differ from what the last apply left. Other stacks
// add to the shared ones. While lists are pending it cannot be determined.
func (d *frame) ownDrift() {
	x := d.current.Index
	if x == nil || x.Access == nil || len(x.Pending) > 0 {
		return
	}
	for i := range d.current.Frame {
		f := &d.current.Frame[i]
		if f.Closed {
			continue
		}
		if d.own(f.Path) && !f.ACL.Equal(x.Access) || d.wantedOf(f) != nil && !f.ACL.Covers(x.Access) {
			d.p.Drifted = append(d.p.Drifted, Drift{EnsembleAddr(d.p.Ensemble), f.Path,
				[]Attribute{{"acl", "[" + x.Access.String() + "]", "[" + f.ACL.String() + "]"}}})
		}
	}
	slices.SortStableFunc(d.p.Drifted, func(a, b Drift) int { return strings.Compare(a.Path, b.Path) })
}

// own reports whether a node belongs to this stack alone: its record and its apply lock.
func (d *sides) own(path string) bool {
	return path == IndexPath(d.p.Root, d.p.Stack) || path == LockPath(d.p.Root, d.p.Stack)
}

// ownChange plans one change. A list whose hashes are hidden from us cannot be written.
func (d *frame) ownChange(c AccessChange) {
	if c.After.Masked() {
		d.problem(Warning, ProblemAccess, &Node{Addr: c.Addr, Path: c.Pin.Path}, "Access list cannot be planned",
			fmt.Sprintf("The access list of %s may differ from %s: ZooKeeper hides its password hashes from this connection. Run the plan with the credentials of an administrator.", c.Pin.Path, c.Before))
		return
	}
	d.p.Access = append(d.p.Access, c)
}

// left reports whether a node is what a move leaves at the old path.
func (c *Change) left() bool { return c.Tombstone && c.After != nil && c.Before.ACL != nil }

// kept reports whether a node stays although nothing declares it any more: a namespace in which something is. Nothing but the
// ensemble block says who may use it, and an apply reads it.
func (d *frame) kept(c *Change) bool {
	return d.want[c.Path] == nil && c.Before != nil && c.Action == NoOp && c.Before.ACL != nil
}

// relist gives a node that no declaration keeps the access list it should have. Programs that come for a lock that has moved
// must be able to read where to.
func (d *frame) relist(c *Change) {
	list := d.joined(c.Before.ACL)
	if to := d.want[c.After.Payload.MovedTo]; to != nil {
		list = d.intent.Access.List()
		for _, a := range to.ACL {
			a.Perms = kind.PermRead
			list = append(list, a)
		}
		if list = list.Normalize(); !c.Kind.Container {
			list = remainder(list)
		}
	}
	if c.After.ACL.Equal(list) {
		return
	}
	after := *c.After
	after.ACL = list
	c.After = &after
	if c.Action == Update {
		c.ACL = &ACLDiff{c.Before.ACL, list}
	}
	if !c.anew() { // otherwise it is created with that list
		d.ownChange(AccessChange{c.Addr, ACLDiff{c.Before.ACL, list}, false, c.Before.pin(c.Addr)})
	}
}

// wantedOf is the list that a node of the frame should have; nil if this stack does not decide it.
//
// The scaffold creates all that is missing in one transaction, so a root with the czxid of .locktree
// was created by the tool. To the list of a root that somebody else created, entries are only added, and
// only if we may.
func (d *frame) wantedOf(f *Framed) kind.List {
	root, scaffold := d.p.Root, ScaffoldPath(d.p.Root)
	index, lock := IndexPath(root, d.p.Stack), LockPath(root, d.p.Stack)
	made := f.Pin.Czxid == d.framed(scaffold).Pin.Czxid && !f.Data
	if d.own(f.Path) {
		return d.intent.Access.List()
	}
	switch f.Path {
	case scaffold, kind.ParentPath(index), kind.ParentPath(lock):
		return d.shared(f)
	case root:
		switch {
		case root == "/" || f.Data:
			return nil
		case made:
			return d.shared(f)
		case !d.settable(f.ACL):
			return nil
		}
		return d.joined(f.ACL)
	}
	if made { // above the root, which other stacks may share
		list := d.joined(f.ACL)
		for _, o := range d.current.Others { // without these entries they could not restore them
			if list = append(list, o.Access...); o.Access == nil {
				list = append(list, f.ACL...)
			}
		}
		return list.Normalize()
	}
	return nil
}

// framed returns a node of the frame; one without a path if it was not read.
func (d *sides) framed(path string) *Framed {
	for i := range d.current.Frame {
		if f := &d.current.Frame[i]; f.Path == path {
			return f
		}
	}
	return &Framed{Pin: Pin{Czxid: -1}}
}

// settable reports whether an administrator, or whoever plans, can set the list.
func (d *sides) settable(list kind.List) bool {
	return slices.ContainsFunc(d.intent.Access.Admins, func(a kind.ACL) bool { return mayAdminister(a, list) }) ||
		slices.ContainsFunc(d.opts.Identities, func(id Identity) bool { return mayAdminister(id.entry(), list) })
}

// shared is the list of a node that other stacks use too. If one of them does not say which entries it
// needs, nothing is removed.
func (d *frame) shared(f *Framed) kind.List {
	list := d.intent.Access.List()
	unknown, says := "", ""
	for _, o := range d.current.Others {
		list = append(list, o.Access...)
		switch {
		case o.Closed:
			unknown, says = o.Stack, "and this connection cannot read whether it needs that, so nothing is removed. Run the plan with credentials that can read its record"
		case o.Access == nil:
			unknown, says = o.Stack, "and does not say whether it needs that, so it stays: declare admins in its configuration, apply that, and plan again"
		}
	}
	list = list.Normalize()
	if unknown == "" || !f.ACL.Masked() && list.Covers(f.ACL) {
		return list
	}
	if !d.unsure {
		d.problem(Warning, ProblemAccess, &Node{Addr: EnsembleAddr(d.p.Ensemble), Path: f.Path}, "Access list is shared with another stack",
			fmt.Sprintf("%s grants more than is declared here (%s). Stack %q uses it too, %s.", f.Path, f.ACL, unknown, says))
	}
	d.unsure = true
	// Entries that exist need not be added; from a reader the servers hide their hashes.
	missing := list.Without(f.ACL)
	return append(missing, f.ACL...).Normalize()
}

// joined is somebody else's list with the declared entries added, and without those that an earlier
// apply of ours added.
func (d *frame) joined(have kind.List) kind.List {
	was := d.were()
	list := d.intent.Access.List()
	known := append(slices.Clone(list), was...)
	of, hidden := digests{}, map[string]int{}
	of.add(known)
	for _, a := range have {
		if masked(a) {
			hidden[a.ID]++
		}
	}
	for _, a := range have {
		user, _, _ := strings.Cut(a.ID, ":")
		same := slices.IndexFunc(known, func(b kind.ACL) bool { return !stranger(kind.List{b}, a) })
		switch {
		// If a user has more digests there than we know, at least one of them is somebody else's.
		case same < 0, hidden[a.ID] > len(of[user]):
			list = append(list, a)
		// One of ours has more rights than we gave it: another stack gave it those.
		case len(kind.List{a}.Without(was)) > 0:
			list = append(list, kind.ACL{Scheme: a.Scheme, ID: known[same].ID, Perms: a.Perms})
		}
	}
	return list.Normalize()
}

// were is who might use the tool's own nodes before this plan.
func (d *frame) were() kind.List {
	if d.p.prior.Noted == nil { // the first apply created everything with one list
		return d.framed(IndexPath(d.p.Root, d.p.Stack)).ACL
	}
	return d.p.prior.Noted
}

// leaving are the administrators whom this plan shuts out. Until that is done, whatever it creates admits them too: wherever the
// apply ends, the nodes of before are still theirs, and whoever reads a stack has to read all of it.
func (d *frame) leaving() kind.List {
	list := d.intent.Access.List()
	return slices.DeleteFunc(withAdmin(d.were()).Without(list), func(a kind.ACL) bool { return masked(a) || Everybody(a) })
}

func masked(a kind.ACL) bool { return kind.List{a}.Masked() }

// stranger reports whether an entry is surely for nobody of a list.
func stranger(list kind.List, a kind.ACL) bool {
	sure, perhaps := list.Of(a)
	return sure == nil && perhaps == nil
}

// granted reports whether a list has an entry of the same identity.
func granted(list kind.List, to kind.ACL) bool {
	sure, _ := list.Of(to)
	return sure != nil
}

// nextAccess is what the record says about the tool's access lists after the plan. While some are still to
// be set, it contains all entries that may be in them, so that a later apply knows what it may remove.
func (p *Plan) nextAccess(pending bool) kind.List {
	switch {
	case p.Declared == nil || (p.Targeted || p.Destroy) && !p.Index.Absent:
		return p.prior.Noted
	case pending:
		return append(p.Declared.List(), p.prior.Noted...).Normalize()
	}
	return p.Declared.List()
}

// Settled is the record after the plan, once all access lists are set. set has the aversion of each since then.
func (p *Plan) Settled(x *Index, set []ACLStep) *Index {
	next := *x
	next.Pending, next.Access = nil, p.nextAccess(false)
	if x.Lists != nil {
		next.Lists = x.Lists.afterSteps(p.prior.Tallies, set)
	}
	return &next
}

// NotesAccess reports whether the record and the declaration differ about who may use the stack.
func (p *Plan) NotesAccess() bool {
	return p.Declared != nil && !p.Index.Absent && !p.nextAccess(false).Equal(p.prior.Noted)
}

// relock writes the data of the apply lock anew, which says what its contenders are created with. Who
// sends this holds the lock, so that any version of its data is right. It counts as a destroy, see
// [Tree]: all that matters there is that no plan of before fits.
// While lists are to be set, contenders are of those who were let in before, too: they may have to finish.
func (p *Plan) relock() ([]Op, error) {
	for _, c := range p.Access {
		if c.Contenders && len(p.ACLSteps()) > 0 {
			return p.lockOp(slices.Concat(c.Before, c.After).Normalize())
		} else if c.Contenders {
			return p.lockOp(c.After)
		}
	}
	return nil, nil
}

func (p *Plan) lockOp(list kind.List) ([]Op, error) {
	data, err := LockPayload(p.Stack, list)
	return []Op{{Kind: OpSet, Path: LockPath(p.Root, p.Stack), Data: data, Version: -1}}, err
}

// Relock is what is left to be written to the apply lock when all lists are set.
func (p *Plan) Relock() ([]Op, error) {
	for _, c := range p.Access {
		if c.Contenders && !c.After.Covers(c.Before) {
			return p.lockOp(c.After)
		}
	}
	return nil, nil
}
