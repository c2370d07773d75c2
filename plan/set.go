package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

// A root has one set of administrators and readers for all stacks on it: they create and delete in the same nodes, which in
// ZooKeeper is a right on the parent. The set is the access list of <root>/.locktree, which the other nodes of the tool follow. A
// stack names it in its ensemble block, or leaves it out and takes what is there.
//
// A stack replaces the set if it names another one than before and nobody else has replaced it since, or if no other stack is there.
// Otherwise the root stays as it is: a text that does not know what another stack has changed must not undo it.

// standing is what a stack has to do with the set of its root.
type standing string

const (
	standsOpen     standing = "open"     // nobody names one: it belongs to whoever applies first
	standsTaken    standing = "taken"    // left out, and taken from the root
	standsInForce  standing = "in force" // what is named is there, or comes with the first apply
	standsReplaces standing = "replaces" // what is named takes the place of what is there
	standsWaiting  standing = "waiting"  // what is named was in force at the last apply of this stack, and has been replaced since
	standsAnother  standing = "another"  // what is named has never been in force, and this stack may not replace what is there
)

// rootSet is the set of a root, seen from one stack.
type rootSet struct {
	standing standing
	there    kind.List // nil if there is none yet, or we may not read it
	others   bool      // other stacks are there, or we may not look
	limited  bool      // the plan leaves the lists of the tool's nodes as they are
}

// stand finds the standing, and who may use the tool's own nodes after the plan.
func (d *sides) stand() {
	named, x := d.intent.Access, d.current.Index
	records := d.framed(kind.ParentPath(d.p.Index.Path))
	if x != nil {
		d.p.prior.Noted, d.p.prior.Next = x.Access, x.Next
	}
	set := &d.p.set
	set.limited = d.opts.Destroy || len(d.opts.Targets) > 0
	set.there = d.framed(ScaffoldPath(d.p.Root)).ACL
	set.others = records.Closed || records.Children > 1 || records.Children == 1 && d.p.Index.Absent
	switch there, noted := set.there, d.p.prior.Noted; {
	case named == nil && (there == nil || !set.others):
		set.standing = standsOpen
	case named == nil:
		set.standing = standsTaken
	case there == nil, there.Equal(named.List()):
		set.standing = standsInForce
	case !set.others, openTo(there) != "", noted.Equal(there), d.p.prior.Next != nil && d.p.prior.between().Covers(there):
		set.standing = standsReplaces
	case noted.Equal(named.List()):
		set.standing = standsWaiting
	default:
		set.standing = standsAnother
	}
	if set.named() {
		d.p.Set = named
	} else if set.standing != standsOpen {
		d.p.Set = AccessOf(set.there)
	}
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
func (p *Plan) noteSet(x *Index, pending bool) {
	x.Access, x.Next = p.prior.Noted, nil
	switch s := p.set.standing; {
	case p.set.limited && !p.Index.Absent:
		x.Next = p.prior.Next
	case s == standsReplaces && pending:
		if x.Access, x.Next = p.prior.between(), p.Set.List(); !p.set.there.Masked() {
			x.Access = p.set.there
		}
	case p.set.named(), s == standsTaken && !p.set.there.Masked():
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

// tellStanding says where the root and the configuration differ. That concerns nobody's locks.
func (d *frame) tellStanding() {
	ensemble, there := EnsembleAddr(d.p.Ensemble), d.p.set.there
	warn := func(path, summary, format string, args ...any) {
		d.problem(Warning, ProblemAccess, &Node{Addr: ensemble, Path: path}, summary, fmt.Sprintf(format, args...))
	}
	const follow = "Name these in the ensemble block, or leave out admins and readers: then the stack takes what is there."
	switch gone := d.p.prior.Leaving; d.p.set.standing {
	case standsOpen:
		if d.current.Frame != nil && !d.p.set.limited && d.somebody() {
			warn(d.p.Root, "No administrators are declared", "%s does not say who may apply, so the stack's record, its apply lock and all nodes without an acl belong to %s. "+
				"Nobody else can plan or apply, and nobody at all once that credential is replaced. Declare admins = [principal.NAME] in the ensemble block, and readers for those who only plan.",
				ensemble, cmp.Or(whoText(withAdmin(there)), "whoever applies first"))
		}
	case standsWaiting:
		warn(ScaffoldPath(d.p.Root), "Administrators of the root were replaced", "The root %s has other administrators and readers (%s) than %s names (%s), as it had when this stack was applied last. "+
			"Another stack, or somebody by hand, has replaced them since. A root has one set, so this plan leaves it. %s", d.p.Root, there, ensemble, d.intent.Access.List(), follow)
	case standsAnother:
		warn(ScaffoldPath(d.p.Root), "Root has other administrators", "The root %s has other administrators and readers (%s) than %s names (%s). A root has one set for all stacks on it, "+
			"and a stack can replace it only after it has named the one that is there. Only those who have it can apply. This plan leaves it, and plans the locks as declared. "+
			"%s If the teams are to be separated, give this one a root of its own: see \"locktree help two-teams\".", d.p.Root, there, ensemble, d.intent.Access.List(), follow)
	case standsReplaces:
		if d.p.set.others && len(gone) > 0 && !d.p.set.limited {
			warn(ScaffoldPath(d.p.Root), "Other stacks are on this root", "%s will have no rights any more on %s and on what locktree keeps there for all stacks. Before you apply this, have the "+
				"configurations of the other stacks name the new administrators and apply them: a stack that was not can be applied only with the credentials of both.",
				whoBut(gone, d.p.Set.Admins), d.p.Root)
		}
	}
}
