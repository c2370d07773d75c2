package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// The tool's own nodes have access lists too: the root and what is above it, .locktree and everything
// in it, and namespaces that are no longer declared and cannot be deleted. They follow the
// set of the root (set.go), and are planned like those of locks. To lists of nodes that somebody else made, entries are only added.

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
type frame struct{ *sides }

// plan runs when it is known which namespaces stay. audit checks the lists that it plans.
func (d *frame) plan() {
	f := d.framed(record.ScaffoldPath(d.p.Root))
	d.p.prior.Unmarked = f.Path != "" && !f.Closed && !f.Data
	d.ownLists()
	d.tellOpen()
	d.audit()
}

// ownLists plans the lists of the tool's own nodes. A plan with targets leaves them alone. So does
// one that would write nothing to a stack without a record: its first apply creates what is missing
// with the right lists.
func (d *frame) ownLists() {
	if d.p.Set == nil || d.p.set.limited || d.current.Index == nil && !d.p.HasChanges() {
		return
	}
	d.p.prior.Leaving = d.leaving()
	for c := range d.p.Each() {
		if d.kept(c) {
			d.relist(c)
		}
	}
	d.ownDrift()
	list := d.p.Set.List()
	var closed []string
	for i := range d.current.Frame {
		f := &d.current.Frame[i]
		if f.Closed {
			if !under(d.p.Root, f.Path) { // nodes above the root may belong to another team
				closed = append(closed, f.Path)
			}
			continue
		}
		if want := d.wantedOf(f); want != nil && !f.ACL.Equal(want) {
			d.ownChange(AccessChange{EnsembleAddr(d.p.Ensemble), ACLDiff{f.ACL, want}, false, f.Pin}, d.joins(f))
		}
		if f.Path == record.LockPath(d.p.Root, d.p.Stack) && !d.current.Contenders.Equal(list) {
			d.ownChange(AccessChange{EnsembleAddr(d.p.Ensemble), ACLDiff{d.current.Contenders, list}, true, f.Pin}, false)
		}
	}
	if len(closed) > 0 {
		d.problem(Warning, ProblemAccess, &Node{Addr: EnsembleAddr(d.p.Ensemble), Path: closed[0]}, "Access lists cannot be read",
			fmt.Sprintf("%d of the tool's own nodes (%s first) cannot be read by this connection, so their access lists are not checked. Run the plan with the credentials of an administrator.", len(closed), closed[0]))
	}
	d.checkSetters()
}

// ownDrift finds lists of the tool's own nodes that differ from what the last apply left. While lists are pending, it cannot be
// determined.
func (d *frame) ownDrift() {
	x := d.current.Index
	if x == nil || x.Access == nil || len(x.Pending) > 0 {
		return
	}
	for i := range d.current.Frame {
		f := &d.current.Frame[i]
		have := f.ACL
		if f.Closed || d.wantedOf(f) == nil || have.Equal(x.Access) || d.joins(f) && have.Covers(x.Access) {
			continue
		}
		d.p.Drifted = append(d.p.Drifted, Drift{Addr: EnsembleAddr(d.p.Ensemble), Path: f.Path, Attributes: []Attribute{{"acl", "[" + x.Access.String() + "]", "[" + have.String() + "]"}}})
	}
	slices.SortStableFunc(d.p.Drifted, func(a, b Drift) int { return strings.Compare(a.Path, b.Path) })
}

// ownChange plans one change. A list whose hashes are hidden from us cannot be written. Nor can one in which entries of others
// stay: which of the hidden ones are theirs is not known.
func (d *frame) ownChange(c AccessChange, joined bool) {
	if c.After.Masked() || joined && c.Before.Masked() {
		d.problem(Warning, ProblemAccess, &Node{Addr: c.Addr, Path: c.Pin.Path}, "Access list cannot be planned",
			fmt.Sprintf("The access list of %s may differ from %s: ZooKeeper hides its password hashes from this connection. Run the plan with the credentials of an administrator.", c.Pin.Path, c.Before))
		return
	}
	d.p.Access = append(d.p.Access, c)
}

// kept reports whether a node stays although nothing declares it any more: a namespace in which something is. Nothing but the
// ensemble block says who may use it, and an apply reads it.
func (d *frame) kept(c *Change) bool {
	return d.want[c.Path] == nil && c.Before != nil && c.Action == NoOp && c.Before.ACL != nil
}

// relist gives a node that no declaration keeps the access list it should have.
func (d *frame) relist(c *Change) {
	list := d.joined(c.Before.ACL)
	if c.After.ACL.Equal(list) {
		return
	}
	after := *c.After
	after.ACL = list
	c.After = &after
	d.ownChange(AccessChange{c.Addr, ACLDiff{c.Before.ACL, list}, false, c.Before.pin(c.Addr)}, true)
}

// wantedOf is the list that a node of the frame should have; nil if this stack does not decide it.
func (d *frame) wantedOf(f *Framed) kind.List {
	switch {
	case d.joins(f) && (f.Path != d.p.Root || d.settable(f.ACL)):
		return d.joined(f.ACL)
	case under(f.Path, d.p.Root), f.Path == d.p.Root && d.made(f):
		return d.p.Set.List()
	}
	return nil
}

// made reports whether the tool created a node above .locktree. The scaffold creates all that is missing in one transaction, so
// such a node has the czxid of .locktree.
func (d *frame) made(f *Framed) bool {
	return f.Path != "/" && !f.Data && f.Pin.Czxid == d.framed(record.ScaffoldPath(d.p.Root)).Pin.Czxid
}

// joins reports whether entries of others stay in the list of a node: of a root that somebody else created, and of what the tool
// created above the root, where others may have theirs since. Of a declaration the list is its own.
func (d *frame) joins(f *Framed) bool {
	return under(d.p.Root, f.Path) && d.made(f) || f.Path == d.p.Root && f.Path != "/" && !f.Data && !d.made(f)
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
	return slices.ContainsFunc(append(d.us(), d.p.Set.Admins...), func(a kind.ACL) bool { return mayAdminister(a, list) })
}

// joined is somebody else's list with the set added, and without what an earlier apply added. An entry with more rights there than
// that came from somebody else. A hidden digest is taken for one of ours of that name, and a second one for somebody else's.
func (d *frame) joined(have kind.List) kind.List {
	list, ours := d.p.Set.List(), d.p.Set.List().Normalize()
	known := slices.Concat(list, d.were()).Normalize()
	for _, a := range have {
		if masked(a) {
			if at := slices.IndexFunc(ours, func(b kind.ACL) bool { return kind.List{b}.Covers(kind.List{a}) }); at >= 0 {
				ours = slices.Delete(ours, at, at+1)
				continue
			}
		} else if known.Covers(kind.List{a}) {
			continue
		}
		list = append(list, a)
	}
	return list.Normalize()
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

// Settled is the record after the plan, once all access lists are set.
func (p *Plan) Settled(x *record.Record) *record.Record {
	next := *x
	next.Pending = nil
	p.noteSet(&next, false)
	return &next
}

// relock writes the data of the apply lock anew, which says what its contenders are created with. Who
// sends this holds the lock, so that any version of its data is right. It counts as a destroy, see
// [Tree]: all that matters there is that no plan of before fits.
// While lists are to be set, contenders are of those who were let in before, too: they may have to finish.
func (p *Plan) relock() ([]Op, error) {
	for _, c := range p.Access {
		if list := c.After; c.Contenders {
			if len(p.ACLSteps()) > 0 {
				list = slices.Concat(c.Before, list).Normalize()
			}
			return p.lockOp(list)
		}
	}
	return nil, nil
}

func (p *Plan) lockOp(list kind.List) ([]Op, error) {
	data, err := record.LockPayload(p.Stack, list)
	return []Op{{Kind: OpSet, Path: record.LockPath(p.Root, p.Stack), Data: data, Version: -1}}, err
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
