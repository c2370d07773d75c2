package diff

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/kind"
)

// listDrift lists the nodes that are not as the last apply left them. It does not look at the changes: a node may have drifted to
// its present declaration, or may no longer be declared. A node that has lost its mark is not among them: nothing says what it
// was. A node that is gone and no longer declared is not among them either.
func listDrift(p *plan.Plan, s *access.Sides) {
	for _, have := range s.Current.Nodes {
		if access.IsOurs(p, have) && drifted(p, s, have) {
			p.Drifted = append(p.Drifted, plan.Drift{Addr: have.Owned(), Path: have.Path, Attributes: differences(s.Want[have.Path], have)})
		}
	}
	for path, gone := range s.Gone {
		if gone {
			p.Drifted = append(p.Drifted, plan.Drift{Addr: s.Want[path].Addr, Path: path, Deleted: true})
		}
	}
	slices.SortFunc(p.Drifted, func(a, b plan.Drift) int { return cmp.Compare(a.Path, b.Path) })
}

// differences are the attributes of a node that are not as declared. The declaration of the last apply is stored nowhere; this
// plan restores the present one.
func differences(want, have *plan.Node) (out []plan.Attribute) {
	if want == nil || want.Kind() != have.Kind() {
		return nil
	}
	add := func(name, declared, found string) {
		out = append(out, plan.Attribute{Name: name, Declared: declared, Found: found})
	}
	for _, p := range kind.Diff(want.Payload.Params, have.Payload.Params) {
		add(p.Name, valueText(p.Before), valueText(p.After))
	}
	if a, b := want.ACL, have.ACL; !a.Equal(b) {
		add("acl", "["+a.String()+"]", "["+b.String()+"]")
	}
	if a, b := want.Payload.ChildACL, have.Payload.ChildACL; !a.Equal(b) {
		add("contender_acl", "["+a.String()+"]", "["+b.String()+"]")
	}
	if a, b := want.Payload.Protect, have.Payload.Protect; a != b {
		add("prevent_destroy", valueText(a), valueText(b))
	}
	return out
}

func valueText(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(s)
	}
	return fmt.Sprint(v)
}

// findUnsealed finds the nodes whose data is written only for a new sum, the keyed checksum of package record. The old sum is
// missing, has another key, covers another access list than the declared one, or predates a hand edit that matches the
// declaration. A plan with targets keeps the sum of an edited node, so that the next whole plan still reports the edit.
//
// A list whose hashes are hidden from us gets no sum. A node that no administrator may write keeps its old one, because a refused
// write would undo the whole transaction. ADMIN suffices if the list changes: the administrator first grants itself WRITE.
func findUnsealed(p *plan.Plan, s *access.Sides) {
	key := p.Before.Key
	for c := range p.Each() {
		writes := c.Action == plan.Update && c.Rewrites() || c.Renamed()
		if c.Action != plan.NoOp && c.Action != plan.Update || writes || !access.IsOurs(p, c.Before) || c.Hides() {
			continue
		}
		none := !record.Sealed(key, c.Before.Payload)
		asLeft := c.Before.Live != nil && c.Before.Live.AsLeft && c.Before.ACL.Equal(c.After.ACL)
		if !none && (asLeft || record.Fits(key, c.Path, c.Before.Payload, c.After.ACL)) {
			continue
		}
		kept := !none && c.Action == plan.NoOp && p.Targeted && drifted(p, s, c.Before)
		need := kind.PermWrite
		if c.Action == plan.Update && !c.Before.ACL.Equal(c.After.ACL) {
			need |= kind.PermAdmin
		}
		c.Unsealed = !kept && mayMark(p, s, c.Before.ACL, need)
	}
}

// mayMark reports whether a list surely gives one of the rights to an administrator or to this connection. An entry that only
// servers can match does not count: a list that contains no other entry may shut the administrators out. If a mere reader plans,
// the servers hide the hashes from it. Then an entry with an administrator's name counts as the administrator's.
func mayMark(p *plan.Plan, s *access.Sides, list kind.List, need kind.Perm) bool {
	admins := access.Appliers(p, s)
	who, readerPlans := admins, len(admins) > 0
	for _, a := range s.Opts.Identities {
		who, readerPlans = append(who, a), readerPlans && !access.Granted(admins, a)
	}
	return len(who) == 0 || access.IsSuper(s) || slices.ContainsFunc(who, func(a kind.ACL) bool {
		sure, maybe := list.Rights(a)
		_, hidden := list.Of(a)
		return sure&need != 0 || len(admins) == 0 && maybe&need != 0 ||
			readerPlans && slices.ContainsFunc(hidden, func(b kind.ACL) bool { return b.Perms&need != 0 })
	})
}

// findGone finds the declared nodes that the last apply left and that no longer exist. The roll (package record) tells which nodes
// the last apply left. findGone asks it about absent declared nodes, and about nodes whose marks prove nothing.
func findGone(p *plan.Plan, s *access.Sides) {
	s.Gone = map[string]bool{}
	if s.Current.Index == nil {
		return
	}
	left := record.RollOf(s.Current.Index.Nodes)
	if left == nil {
		return
	}
	var sought []string
	for _, n := range s.Current.Nodes {
		if access.IsOurs(p, n) && !drifted(p, s, n) {
			left.Toggle(n.Path)
		} else {
			sought = append(sought, n.Path)
		}
	}
	for _, path := range s.Current.Unreadable {
		if s.Have[path] == nil {
			sought = append(sought, path)
		}
	}
	for _, n := range s.Desired {
		if s.Have[n.Path] == nil {
			sought = append(sought, n.Path)
		}
	}
	for _, path := range left.Chosen(sought) {
		s.Gone[path] = s.Have[path] == nil && s.Want[path] != nil
	}
}

// noteLeft computes the roll before the first transaction: the stack's nodes that exist, and the declared ones that were deleted
// by hand.
func noteLeft(p *plan.Plan, s *access.Sides) {
	p.Before.Left = record.NewRoll()
	for _, n := range s.Current.Nodes {
		if access.IsOurs(p, n) {
			p.Before.Left.Toggle(n.Path)
		}
	}
	for path, gone := range s.Gone {
		if gone {
			p.Before.Left.Toggle(path)
		}
	}
}

// warnLost reports that the record is damaged, or missing although there are nodes of the stack. Their marks say all that a plan
// needs.
func warnLost(p *plan.Plan, s *access.Sides) {
	summary, why := "Record is damaged", "cannot be understood ("+s.Current.IndexTrouble+")"
	if s.Current.IndexTrouble == "" {
		if s.Current.Index != nil || !slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return access.IsOurs(p, c.Before) }) {
			return
		}
		summary, why = "Record is missing", "does not exist, although there are nodes of this stack"
	}
	then := "Apply writes it again, and new sums into the nodes; no lock changes. The outputs are not known until then. " +
		"Changes by hand since the last apply stay unknown, and so do nodes of this stack outside of its namespaces, or where others may create nodes."
	if s.Opts.Destroy {
		then = "Nodes of this stack outside of its namespaces, or where others may create nodes, are not known, so they stay where they are."
	}
	p.Before.Lost = true
	access.Tell(p, problem.Warning, problem.Index, &plan.Node{}, summary, fmt.Sprintf("%s %s. %s", p.Index.Path, why, then))
}

// warnUnseen warns of undeclared nodes that we may not read, or cannot understand: they may be this stack's.
func warnUnseen(p *plan.Plan, s *access.Sides) {
	if p.Targeted {
		return
	}
	for _, path := range s.Current.Unreadable {
		if s.Want[path] == nil {
			access.Tell(p, problem.Warning, problem.Unreadable, &plan.Node{Path: path}, "Node cannot be read",
				fmt.Sprintf("We may not read %s, so it is not known whether it is this stack's. If it is, connect with an identity that has READ there and try again.", path))
		}
	}
	for _, n := range s.Current.Illegible {
		whose := "It may be this stack's"
		if n.Addr != "" {
			whose = fmt.Sprintf("It says that it is this stack's %s", n.Addr)
		}
		code, summary, next := problem.Damaged, "Node is damaged", " Restore its data, or delete the node by hand."
		if n.Live.Trouble == plan.TroubleNewer {
			code, summary, next = problem.Newer, "Node written by a newer version", ""
		}
		access.Tell(p, problem.Warning, code, n, summary, fmt.Sprintf("%s is not declared, and its mark cannot be understood: %s. %s, but nothing is planned for it.%s",
			n.Path, n.Live.Detail, whose, next))
	}
}

// unreadablePaths returns the paths whose nodes cannot be understood.
func unreadablePaths(s *access.Sides, paths []string) (out []string) {
	for _, path := range paths {
		if n := s.Have[path]; n != nil && n.Payload == nil && n.Live != nil && n.Live.Trouble != plan.TroubleForeign {
			out = append(out, path)
		}
	}
	return out
}

// maxUntracked bounds the paths that the record names, in bytes: every transaction writes the record.
const maxUntracked = 400_000

// checkUntracked refuses a plan if the record has no room for all of this stack's nodes in namespaces where others may create nodes.
func checkUntracked(p *plan.Plan) {
	size, paths := 0, tx.Untracked(p, false)
	for _, path := range paths {
		size += len(path) + len(`"",`)
	}
	if size > maxUntracked {
		access.Tell(p, problem.Error, problem.Listing, &plan.Node{Path: kind.ParentPath(paths[len(paths)-1])}, "Too many nodes where others may create nodes",
			fmt.Sprintf("The record would name %d nodes of this stack in %d bytes, and it has room for %d. It names those in namespaces in which others may create nodes. "+
				"Declare an acl there by which only administrators create nodes, or give the others a namespace of their own.", len(paths), size, maxUntracked))
	}
}

// A stack may let another team create nodes in a namespace. Nothing that the team does there may stop the stack. So a read does
// not walk into such a namespace: it reads the nodes that are declared or that the record names, and counts the others.

// dropUntrusted takes undeclared nodes with this stack's mark out of the tree if others may have written them. Nodes that an apply
// of this stack left as they are now stay in the tree.
func dropUntrusted(p *plan.Plan, s *access.Sides) {
	var paths []string
	for _, n := range s.Current.Nodes {
		if p.Before.Key == "" || s.Want[n.Path] != nil || !access.IsOurs(p, n) {
			continue
		}
		_, unread := s.Current.Unread[kind.ParentPath(n.Path)]
		if (unread || access.Grants(p.Before.Insiders, n.ACL, kind.PermWrite)) && !asLeft(p, s, n) {
			paths = append(paths, n.Path)
			delete(s.Have, n.Path)
		}
	}
	if len(paths) == 0 {
		return
	}
	tree := *s.Current
	tree.Nodes = slices.DeleteFunc(slices.Clone(tree.Nodes), func(n *plan.Node) bool { return s.Have[n.Path] == nil })
	tree.Unmanaged = slices.Sorted(slices.Values(slices.Concat(tree.Unmanaged, paths)))
	s.Current = &tree
	first := paths[0]
	if len(paths) > 1 {
		first += fmt.Sprintf(" (and %d more)", len(paths)-1)
	}
	access.Tell(p, problem.Warning, problem.Foreign, &plan.Node{Path: paths[0]}, "Others may have written a node",
		first+" has this stack's mark and is not declared. Others may write there, and no apply of this stack has left it so. "+
			"It counts as another program's and is left alone. If it is this stack's, declare it.")
}

// asLeft reports whether a node is as an apply of this stack left it, as far as its list is shown to us. The servers show an
// administrator the hashes of every list that an apply set. So if they hide hashes of a list from an administrator, others have
// set that list. Without the hashes the sum cannot be checked, and others may have copied it together with the data.
func asLeft(p *plan.Plan, s *access.Sides, n *plan.Node) bool {
	administers := slices.ContainsFunc(s.Opts.Identities, func(a kind.ACL) bool { return access.Granted(access.Administrators(s.Intent.Access), a) })
	return record.Sealed(p.Before.Key, n.Payload) && !drifted(p, s, n) && !(administers && n.ACL.Masked())
}

// overwrittenAsLock reports whether a namespace of ours was made a lock by hand, and used since.
func overwrittenAsLock(p *plan.Plan, s *access.Sides, want, have *plan.Node) bool {
	return want != nil && want.Kind().Container && !have.Kind().Container && have.Live != nil && have.Live.Children > 0 && !asLeft(p, s, have)
}

// pinAll collects every node that the plan relied on. Children of an absent path are pinned too; the apply skips them, as the
// absence of the path proves theirs.
//
// Every node of the current tree is pinned, even if the plan leaves it alone or, with targets, did not plan it: a person approved
// the plan with its state. Its children and contenders are not pinned, so lock traffic does not make a plan stale. A path is
// pinned once.
func pinAll(p *plan.Plan, s *access.Sides) {
	p.Pins = make([]plan.Pin, 0, max(len(s.Desired), len(s.Current.Nodes)))
	for _, n := range s.Desired {
		if s.Have[n.Path] == nil && !s.Opts.Destroy {
			p.Pins = append(p.Pins, plan.Pin{Path: n.Path, Addr: n.Addr, Absent: true})
		}
	}
	for _, n := range s.Current.Nodes {
		if n.Live == nil || n.Live.Trouble == plan.TroubleUnreadable && n.Live.Czxid == 0 {
			continue // servers that hide it now will hide it from an apply too
		}
		addr := n.Addr
		if n.Payload != nil {
			addr = n.Owned()
		}
		p.Pins = append(p.Pins, n.Pin(addr))
		for _, part := range n.Live.Parts {
			p.Pins = append(p.Pins, plan.Pin{Path: kind.JoinPath(n.Path, part.Name), Addr: addr, Absent: part.Absent, Czxid: part.Czxid, Version: part.Version, Aversion: part.Aversion, Written: part.Written})
		}
	}
	if f := access.FrameAt(s, record.ScaffoldPath(p.Root)); p.Set != nil && f.Pin.Path != "" {
		p.Pins = append(p.Pins, f.Pin) // its list is the set of the root
	}
	for _, c := range p.Access {
		if c.Pin.Path != p.Index.Path { // the record is verified in any case
			p.Pins = append(p.Pins, c.Pin)
		}
	}
	// If a declared node takes the path of a deleted semaphore's structural child, that path has two pins. The child's pin is
	// kept: a node exists at the path, and the other pin says that none does.
	slices.SortFunc(p.Pins, func(a, b plan.Pin) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(b.Czxid, a.Czxid), cmp.Compare(a.Addr, b.Addr))
	})
	p.Pins = slices.CompactFunc(p.Pins, func(a, b plan.Pin) bool { return a.Path == b.Path })
	if s.Current.Index != nil {
		p.Applied = s.Current.Index.Apply
	}
}
