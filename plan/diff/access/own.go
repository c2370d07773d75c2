package access

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// A root belongs to one stack with one set of administrators and readers, because CREATE and DELETE are rights on the parent
// node, the root. The set is the access list of <root>/.locktree, which the other nodes of the tool follow. The stack names it in
// its ensemble block.

// Stand finds how the declared administrators relate to those of the root (record.Standing), and who may use the tool's own nodes
// after the plan.
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
		set.Standing = record.StandsOpen
	case there == nil, there.Equal(named.List()):
		set.Standing = record.StandsInForce
	default:
		set.Standing = record.StandsReplaces
	}
	if set.Named() {
		p.Set = named
	} else if set.Standing != record.StandsOpen {
		p.Set = AccessOf(set.There)
	}
	p.Before.Insiders = insidersOf(p, s)
}

// Appliers are the identities that may have to set the lists of this stack's nodes: the administrators of the root, those that
// the stack names, and those whom this plan removes (Before.Leaving).
func Appliers(p *plan.Plan, s *Sides) kind.List {
	return slices.Concat(Administrators(p.Set), Administrators(s.Intent.Access), p.Before.Leaving)
}

// formerInsiders are the identities that the lists of the tool's nodes may contain before this plan. The function starts from the
// list of .locktree, the set of the root, because an apply removes entries there last. If the hashes in that list are hidden from
// us, the record says whom the last apply let in.
func formerInsiders(p *plan.Plan, s *Sides) kind.List {
	noted := p.Before.Noted
	if !p.RootSet.There.Masked() {
		noted = nil
	}
	return slices.Concat(p.RootSet.There, noted, p.Before.Next, FrameAt(s, p.Index.Path).ACL).Normalize()
}

// removedAdmins are the administrators whom this plan removes. Until all lists are set, new nodes admit them too. So if the apply
// is interrupted, their credential can still read and manage the whole stack.
func removedAdmins(p *plan.Plan, s *Sides) kind.List {
	return slices.DeleteFunc(withAdmin(formerInsiders(p, s)).Without(p.Set.List()), func(a kind.ACL) bool { return masked(a) || plan.Everybody(a) })
}

// tellOpen says that no administrators are named. Rights on locks that have an acl do not depend on that.
func tellOpen(p *plan.Plan, s *Sides) {
	if p.RootSet.Standing != record.StandsOpen || s.Current.Frame == nil || p.RootSet.Limited || !hasIdentity(s) {
		return
	}
	ensemble := plan.EnsembleAddr(p.Ensemble)
	Tell(p, problem.Warning, problem.Access, &plan.Node{Addr: ensemble, Path: p.Root}, "No administrators are declared",
		fmt.Sprintf("%s does not say who may apply, so the stack's record, its apply lock and all nodes without an acl belong to %s. "+
			"No other identity can plan or apply. If that credential is replaced, none can. Declare admins = [principal.NAME] in the ensemble block, and readers for those who only plan.",
			ensemble, cmp.Or(whoText(withAdmin(p.RootSet.There)), "whoever applies first")))
}

// The tool's own nodes have access lists too: the root and what is above it, .locktree and everything in it, and namespaces that
// are no longer declared and cannot be deleted. Their access lists follow the root's set, and are planned like the access lists of
// locks. Entries of others stay in the lists of nodes that others made.

// PlanOwn plans the lists of the tool's own nodes when it is known which namespaces stay, and checks what others may do there.
func PlanOwn(p *plan.Plan, s *Sides) {
	f := FrameAt(s, record.ScaffoldPath(p.Root))
	p.Before.Unmarked = f.Path != "" && !f.Closed && !f.Data
	ownLists(p, s)
	tellOpen(p, s)
	auditFrame(p, s)
}

// ownLists plans the lists of the tool's own nodes. A limited plan leaves them alone. A plan without changes also leaves them
// alone if the stack has no record: the stack's first apply creates missing nodes with the right lists.
func ownLists(p *plan.Plan, s *Sides) {
	if p.Set == nil || p.RootSet.Limited || s.Current.Index == nil && !p.HasChanges() {
		return
	}
	p.Before.Leaving = removedAdmins(p, s)
	for c := range p.Each() {
		if keptNamespace(s, c) {
			relist(p, s, c)
		}
	}
	ownDrift(p, s)
	list := p.Set.List()
	var closed []string
	for i := range s.Current.Frame {
		f := &s.Current.Frame[i]
		if f.Closed {
			if !Under(p.Root, f.Path) { // nodes above the root may belong to another team
				closed = append(closed, f.Path)
			}
			continue
		}
		if want := wantedOf(p, s, f); want != nil && !f.ACL.Equal(want) {
			ownChange(p, plan.AccessChange{Addr: plan.EnsembleAddr(p.Ensemble), ACLDiff: plan.ACLDiff{Before: f.ACL, After: want}, Contenders: false, Pin: f.Pin}, joins(p, s, f))
		}
		if f.Path == record.LockPath(p.Root, p.Stack) && !s.Current.Contenders.Equal(list) {
			ownChange(p, plan.AccessChange{Addr: plan.EnsembleAddr(p.Ensemble), ACLDiff: plan.ACLDiff{Before: s.Current.Contenders, After: list}, Contenders: true, Pin: f.Pin}, false)
		}
	}
	if len(closed) > 0 {
		Tell(p, problem.Warning, problem.Access, &plan.Node{Addr: plan.EnsembleAddr(p.Ensemble), Path: closed[0]}, "Access lists cannot be read",
			fmt.Sprintf("%d of the tool's own nodes (%s first) cannot be read by this connection, so their access lists are not checked. Run the plan with the credentials of an administrator.", len(closed), closed[0]))
	}
	checkSetters(p, s)
}

// ownDrift finds lists of the tool's own nodes that differ from those that the last apply left. While lists are pending, it
// cannot be determined.
func ownDrift(p *plan.Plan, s *Sides) {
	x := s.Current.Index
	if x == nil || x.Access == nil || len(x.Pending) > 0 {
		return
	}
	for i := range s.Current.Frame {
		f := &s.Current.Frame[i]
		have := f.ACL
		if f.Closed || wantedOf(p, s, f) == nil || have.Equal(x.Access) || joins(p, s, f) && have.Covers(x.Access) {
			continue
		}
		p.Drifted = append(p.Drifted, plan.Drift{Addr: plan.EnsembleAddr(p.Ensemble), Path: f.Path, Attributes: []plan.Attribute{{Name: "acl", Declared: "[" + x.Access.String() + "]", Found: "[" + have.String() + "]"}}})
	}
	slices.SortStableFunc(p.Drifted, func(a, b plan.Drift) int { return strings.Compare(a.Path, b.Path) })
}

// ownChange plans one change. A list whose hashes are hidden from us cannot be written. If others may have entries in a list with
// hidden hashes, no new list can be made from it: we cannot tell which entries are theirs.
func ownChange(p *plan.Plan, c plan.AccessChange, joined bool) {
	if c.After.Masked() || joined && c.Before.Masked() {
		Tell(p, problem.Warning, problem.Access, &plan.Node{Addr: c.Addr, Path: c.Pin.Path}, "Access list cannot be planned",
			fmt.Sprintf("The access list of %s may differ from %s: ZooKeeper hides its password hashes from this connection. Run the plan with the credentials of an administrator.", c.Pin.Path, c.Before))
		return
	}
	p.Access = append(p.Access, c)
}

// keptNamespace reports whether a node stays although nothing declares it any more: a namespace with contents. Its list follows
// the ensemble block, so that administrators can read it in the next apply.
func keptNamespace(s *Sides, c *plan.Change) bool {
	return s.Want[c.Path] == nil && c.Before != nil && c.Action == plan.NoOp && c.Before.ACL != nil
}

// For a node that stays without a declaration, relist plans the access list that it should have.
func relist(p *plan.Plan, s *Sides, c *plan.Change) {
	list := joinLists(p, s, c.Before.ACL)
	if c.After.ACL.Equal(list) {
		return
	}
	after := *c.After
	after.ACL = list
	c.After = &after
	ownChange(p, plan.AccessChange{Addr: c.Addr, ACLDiff: plan.ACLDiff{Before: c.Before.ACL, After: list}, Contenders: false, Pin: c.Before.Pin(c.Addr)}, true)
}

// wantedOf is the list that a node of the frame (the root, the nodes above it, and .locktree with its contents) should have; nil
// if this stack does not decide it.
func wantedOf(p *plan.Plan, s *Sides, f *plan.Framed) kind.List {
	switch {
	case joins(p, s, f) && (f.Path != p.Root || canBeSet(p, s, f.ACL)):
		return joinLists(p, s, f.ACL)
	case Under(f.Path, p.Root), f.Path == p.Root && madeByTool(p, s, f):
		return p.Set.List()
	}
	return nil
}

// madeByTool reports whether the tool created a node above .locktree. The scaffold creates all that is missing in one transaction,
// so such a node has the czxid of .locktree.
func madeByTool(p *plan.Plan, s *Sides, f *plan.Framed) bool {
	return f.Path != "/" && !f.Data && f.Pin.Czxid == FrameAt(s, record.ScaffoldPath(p.Root)).Pin.Czxid
}

// joins reports whether a node's list keeps the entries of others, beside this stack's. It does so on nodes that the tool created
// above the root, where others may have added entries. It also does so on a root that others created, except for "/" and a root
// that holds data: this stack does not change the lists of these two.
func joins(p *plan.Plan, s *Sides, f *plan.Framed) bool {
	return Under(p.Root, f.Path) && madeByTool(p, s, f) || f.Path == p.Root && f.Path != "/" && !f.Data && !madeByTool(p, s, f)
}

// canBeSet reports whether an administrator, or this connection, can set the list.
func canBeSet(p *plan.Plan, s *Sides, list kind.List) bool {
	return slices.ContainsFunc(slices.Concat(s.Opts.Identities, p.Set.Admins), func(a kind.ACL) bool { return mayAdminister(a, list) })
}

// joinLists returns a list of others with the set added, and without the entries that an earlier apply added. An entry with more
// rights than the set gives came from others. If the hashes are hidden, the first entry with the name of one of our users counts
// as ours. Any later one counts as foreign.
func joinLists(p *plan.Plan, s *Sides, have kind.List) kind.List {
	list, ours := p.Set.List(), p.Set.List().Normalize()
	known := slices.Concat(list, formerInsiders(p, s)).Normalize()
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

// In ZooKeeper, the parent's access list decides whether a node may be deleted or created. A lock's own list is worth nothing if
// others may delete in the root: they can delete an idle lock there and create it again with another list. The same is true of
// the tool's own nodes: a client that deletes in the apply lock lets two applies in.
//
// Nodes above the root need no check: only an empty node can be deleted, and the root contains at least the tool's own nodes.

// auditFrame finds others who may create or delete the stack's nodes. It accepts an identity with ADMIN there, which was put in
// charge on purpose, but not world:anyone. It checks the access lists as the plan leaves them.
func auditFrame(p *plan.Plan, s *Sides) {
	if s.Opts.Destroy || p.Set == nil && !hasIdentity(s) {
		return // a connection without an identity has no rights of its own to protect
	}
	checkRoot(p, s, FrameAt(s, p.Root))
	var open []string
	for _, f := range s.Current.Frame {
		if !Under(f.Path, p.Root) && f.Path != p.Root {
			continue
		}
		mask := kind.PermCreate | kind.PermDelete
		if slices.Contains(record.OwnPaths(p.Root, p.Stack), f.Path) {
			mask |= kind.PermWrite
		}
		if who := othersIn(p, s, listAfter(p, &f), mask); len(who) > 0 {
			open = append(open, fmt.Sprintf("%s grants %s", f.Path, strings.Join(who, " and ")))
		}
	}
	if len(open) == 0 {
		return
	}
	Tell(p, problem.Warning, problem.Open, &plan.Node{}, "Others may create or delete nodes of this stack",
		strings.Join(open, "; ")+". In ZooKeeper, creating and deleting are rights on the parent: whatever the access lists of the locks say, "+
			"others can delete or create an idle lock, or one of the tool's own nodes, there. "+
			"Grant c, d and a there only to those who apply, for example with zkCli.sh's setAcl.")
}

// othersIn returns the entries that give one of the rights in mask to identities that are neither ours nor administrators of the
// node.
//
// The rights of an identity are added up first, as the server does. An identity with ADMIN in one entry can take the rest.
func othersIn(p *plan.Plan, s *Sides, list kind.List, mask kind.Perm) (who []string) {
	for _, a := range list.Normalize() {
		switch {
		case a.Scheme == "auth", oneOfUs(p, s, a):
		case plan.Everybody(a) && a.Perms&(mask|kind.PermAdmin) != 0, a.Perms&mask != 0 && a.Perms&kind.PermAdmin == 0:
			who = append(who, a.String())
		}
	}
	return who
}

// oneOfUs reports whether an entry names an identity that may apply.
func oneOfUs(p *plan.Plan, s *Sides, a kind.ACL) bool {
	if p.Set != nil {
		return Granted(p.Set.Admins, a)
	}
	return a.Scheme != "world" && slices.ContainsFunc(s.Opts.Identities, func(id kind.ACL) bool { return id.Scheme == a.Scheme && id.ID == a.ID })
}

// listAfter is the access list of a node of the frame as the plan leaves it.
func listAfter(p *plan.Plan, f *plan.Framed) kind.List {
	for _, c := range p.Access {
		if c.Pin.Path == f.Path && !c.Contenders {
			return c.After
		}
	}
	return f.ACL
}

// checkRoot checks a root whose access list this stack does not set.
func checkRoot(p *plan.Plan, s *Sides, f *plan.Framed) {
	if p.Set == nil || f.Path == "" || f.Closed || wantedOf(p, s, f) != nil {
		return
	}
	for _, who := range p.Set.Admins {
		if sure, maybe := f.ACL.Rights(who); (kind.PermCreate|kind.PermDelete)&^(sure|maybe) == 0 {
			return
		}
	}
	owner := "another program made it"
	if s.Current.RootOwner != "" {
		owner = "it is of " + s.Current.RootOwner
	}
	Tell(p, problem.Warning, problem.Access, &plan.Node{Addr: plan.EnsembleAddr(p.Ensemble), Path: f.Path}, "Administrators have no rights on the root",
		fmt.Sprintf("%s grants CREATE and DELETE to none of %s, who need both to manage the nodes right below it. This stack does not set its access list, because %s: "+
			"ask its owner for a grant of \"admin\" (the list is %s), or choose a root of your own.", f.Path, whoText(p.Set.Admins), owner, f.ACL))
}

// WarnUncompared says whose passwords the plan could not compare. Servers show the hashes of digests in an access list only to its
// administrators (FinalRequestProcessor, getACL). Without them, kind.List.Equal compares schemes, names and permissions.
func WarnUncompared(p *plan.Plan, s *Sides) {
	if s.Opts.Destroy {
		return
	}
	var first *plan.Node
	n := 0
	var who kind.List
	note := func(addr plan.Addr, path string, list kind.List) {
		if !list.Masked() {
			return
		}
		if n++; first == nil {
			first = &plan.Node{Addr: addr, Path: path}
		}
		who = append(who, slices.DeleteFunc(slices.Clone(list), func(a kind.ACL) bool { return !masked(a) })...)
	}
	for i := range s.Current.Frame {
		f := &s.Current.Frame[i]
		note(plan.EnsembleAddr(p.Ensemble), f.Path, f.ACL)
	}
	for _, have := range s.Current.Nodes {
		if want := s.Want[have.Path]; want != nil && IsOurs(p, have) {
			note(want.Addr, have.Path, have.ACL)
		}
	}
	if n == 0 {
		return
	}
	names := Names(who)
	slices.Sort(names)
	Tell(p, problem.Warning, problem.Access, first, "Passwords were not compared",
		fmt.Sprintf("ZooKeeper hides the password hashes of %s from this connection, in %d access list%s (%s first). This plan compared these entries by scheme and name, "+
			"so it does not show a password that has changed. Run the plan with the credentials of an administrator to compare them.",
			explain.Few(slices.Compact(names), 10), n, explain.Plural(n), first.Path))
}
