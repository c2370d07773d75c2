package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// A root belongs to one stack, which has one set of administrators and readers: in ZooKeeper, to create and delete in a node is a
// right on that node. The set is the access list of <root>/.locktree, which the other nodes of the tool follow. The stack names it in
// its ensemble block.

// standing is what a stack has to do with the set of its root.
type standing string

const (
	standsOpen     standing = "open"     // nobody names one: it belongs to whoever applies first
	standsInForce  standing = "in force" // what is named is there, or comes with the first apply
	standsReplaces standing = "replaces" // what is named takes the place of what is there
)

// rootSet is the set of a root, seen from one stack.
type rootSet struct {
	standing standing
	there    kind.List // nil if there is none yet, or we may not read it
	limited  bool      // the plan leaves the lists of the tool's nodes as they are
}

// stand finds the standing, and who may use the tool's own nodes after the plan.
func (d *sides) stand() {
	named, x := d.intent.Access, d.current.Index
	if x != nil {
		d.p.prior.Noted, d.p.prior.Next = x.Access, x.Next
	}
	set := &d.p.set
	set.limited = d.opts.Destroy || len(d.opts.Targets) > 0
	set.there = d.framed(record.ScaffoldPath(d.p.Root)).ACL
	switch there := set.there; {
	case named == nil:
		set.standing = standsOpen
	case there == nil, there.Equal(named.List()):
		set.standing = standsInForce
	default:
		set.standing = standsReplaces
	}
	if set.named() {
		d.p.Set = named
	} else if set.standing != standsOpen {
		d.p.Set = AccessOf(set.there)
	}
	d.p.prior.Insiders = d.insiders()
}

// named reports whether the set is after the plan what the stack names.
func (s rootSet) named() bool {
	return s.standing == standsInForce || s.standing == standsReplaces && !s.limited
}

// between is all that may be in the set while it is replaced.
func (p *prior) between() kind.List { return slices.Concat(p.Noted, p.Next).Normalize() }

// AccessOf is who a set is.
func AccessOf(list kind.List) *Access {
	readers := slices.DeleteFunc(slices.Clone(list), func(a kind.ACL) bool { return a.Perms&kind.PermAdmin != 0 })
	return &Access{Admins: withAdmin(list), Readers: readers}
}

// appliers are those who may have to set the lists of this stack's nodes: the administrators of the root, those that the stack
// names, and those who leave.
func (d *sides) appliers() kind.List {
	return slices.Concat(d.p.Set.administrators(), d.intent.Access.administrators(), d.p.prior.Leaving)
}

// were are those who may be in the lists of the tool's nodes before this plan. The set itself is the last list that loses anybody.
// Of a set whose hashes are hidden from us, the record says whom the last apply let in.
func (d *sides) were() kind.List {
	noted := d.p.prior.Noted
	if !d.p.set.there.Masked() {
		noted = nil
	}
	return slices.Concat(d.p.set.there, noted, d.p.prior.Next, d.framed(d.p.Index.Path).ACL).Normalize()
}

// leaving are the administrators whom this plan shuts out. Until that is done, whatever it creates admits them too: wherever the
// apply ends, the nodes of before are still theirs, and whoever reads a stack has to read all of it.
func (d *sides) leaving() kind.List {
	return slices.DeleteFunc(withAdmin(d.were()).Without(d.p.Set.List()), func(a kind.ACL) bool { return masked(a) || Everybody(a) })
}

// noteSet writes into a record what set the stack knows: while it is being replaced, both.
func (p *Plan) noteSet(x *record.Record, pending bool) {
	x.Access, x.Next = p.prior.Noted, nil
	switch {
	case p.set.limited && !p.Index.Absent:
		x.Next = p.prior.Next
	case p.set.standing == standsReplaces && pending:
		if x.Access, x.Next = p.prior.between(), p.Set.List(); !p.set.there.Masked() {
			x.Access = p.set.there
		}
	case p.set.named():
		x.Access = p.Set.List()
	}
}

// NotesAccess reports whether the record does not have the set yet that the stack names.
func (p *Plan) NotesAccess() bool {
	return p.set.named() && !p.set.limited && !p.Index.Absent && !p.Set.List().Equal(p.prior.Noted)
}

// SetDeclared is where administrators are from that a stack names itself.
const SetDeclared = "declared in the ensemble block"

// SetOf says where those of Set are from.
func (p *Plan) SetOf() string {
	if p.set.named() {
		return SetDeclared
	}
	return "of " + p.Root
}

// tellOpen says that nobody is named who may apply. That concerns nobody's locks.
func (d *frame) tellOpen() {
	if d.p.set.standing != standsOpen || d.current.Frame == nil || d.p.set.limited || !d.somebody() {
		return
	}
	ensemble := EnsembleAddr(d.p.Ensemble)
	d.problem(Warning, ProblemAccess, &Node{Addr: ensemble, Path: d.p.Root}, "No administrators are declared",
		fmt.Sprintf("%s does not say who may apply, so the stack's record, its apply lock and all nodes without an acl belong to %s. "+
			"Nobody else can plan or apply, and nobody at all once that credential is replaced. Declare admins = [principal.NAME] in the ensemble block, and readers for those who only plan.",
			ensemble, cmp.Or(whoText(withAdmin(d.p.set.there)), "whoever applies first")))
}
