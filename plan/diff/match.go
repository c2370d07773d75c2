package diff

import (
	"fmt"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/recipes/kind"
)

// ZooKeeper cannot rename a node, and a contender belongs to the session that created it, so no queue moves to another path. A
// lock whose path changes is replaced: one transaction deletes the node at the old path and creates one at the new path. The
// deletion fails while a contender is in the old queue, so the lock is never held at both paths. Programs at the old path find no
// lock there.

// successor returns the declaration at another path that continues a node; nil if there is none. A mark may have been copied: the
// node at the declared path is the one that stays.
func successor(p *plan.Plan, s *access.Sides, m *pairing, have *plan.Node) *plan.Node {
	to := m.byAddr[s.Intent.Rename(have.Owned())]
	if to == nil || to.Path == have.Path {
		return nil
	}
	if there := s.Have[to.Path]; access.IsOurs(p, there) && s.Intent.Rename(there.Owned()) == to.Addr {
		return nil
	}
	return to
}

// link joins the deletion of a node at its old path with the creation at its new one. If two nodes have one address, the first is
// continued. A declaration continues no node if it is refused, or imports an existing node.
func link(p *plan.Plan) {
	var at map[string]*plan.Change
	for c := range p.Each() {
		if c.NextPath == "" {
			continue
		}
		if at == nil {
			at = byPath(p)
		}
		if c.Action == plan.Replace {
			c.PreviousAddr = "" // the address here was another lock's
		}
		to := at[c.NextPath]
		if to == nil || to.PreviousPath != "" || to.Importing != "" || to.Action != plan.Create && to.Action != plan.Replace {
			c.NextPath = ""
			continue
		}
		to.PreviousPath, to.Former, to.After.Payload.Since = c.Path, c.Before, 0
		to.After.Payload.CarrySince(c.Before.Payload)
	}
	for c := range p.Each() {
		if c.PreviousPath == "" {
			continue
		}
		if c.PreviousAddr = c.Former.Owned(); c.PreviousAddr == c.Addr {
			c.PreviousAddr = ""
		}
	}
}

// warnVacated warns of locks that leave a path where others may create nodes. A program that still uses such a path does not
// fail.
func warnVacated(p *plan.Plan, s *access.Sides) {
	var first *plan.Change
	var who string
	var after map[string]*plan.Change
	n := 0
	for c := range p.Each() {
		if c.NextPath == "" || c.Action != plan.Delete || c.Kind.Container {
			continue
		}
		if after == nil {
			after = byPath(p)
		}
		at, list := remaining(p, s, c.Path, after)
		if list != nil && !access.OthersCreateAfter(p, list) {
			continue
		}
		if n++; first == nil {
			first, who = c, "Others may create nodes in "+at
			if list == nil {
				who = "We may not see who may create nodes in " + at
			}
		}
	}
	if n > 0 {
		access.Tell(p, problem.Warning, problem.Open, &plan.Node{Addr: first.Addr, Path: first.Path}, "Others may create a lock at an old path",
			fmt.Sprintf("Apply replaces %d lock%s by one at another path, %s first. %s. A program of another library that still uses an old path can create a lock there, "+
				"and hold it beside the holder at the new path. Stop such programs, or give them the new path, before you apply.",
				n, explain.Plural(n), first.Path, who))
	}
}

// remaining returns the nearest node above a path that exists after the plan, and its access list, nil if unknown.
func remaining(p *plan.Plan, s *access.Sides, path string, after map[string]*plan.Change) (string, kind.List) {
	at := kind.ParentPath(path)
	for ; at != p.Root && at != "/"; at = kind.ParentPath(at) {
		if c := after[at]; c != nil && c.After != nil {
			return at, c.After.ACL
		}
	}
	return at, access.FrameAt(s, at).ACL
}

// departure is the change of a node of ours that is no longer declared.
func departure(p *plan.Plan, s *access.Sides, m *pairing, have *plan.Node) plan.Change {
	addr := have.Owned()
	// A removed block uses present addresses, but the ensemble may still have the node under its former address, if it moved
	// before it was removed (TestLockThatMovedBeforeItWasLetGoIsNotDeleted).
	r := s.Intent.Removed(s.Intent.Rename(addr))
	if r == nil {
		r = s.Intent.Removed(addr)
	}
	if r != nil && !r.Destroy {
		return release(p, s, have)
	}
	return deletion(p, s, m, have)
}

// release forgets a node. Its declaration stays, so that programs can go on using it.
// Only the owner is removed; then no stack plans anything for it until one imports it. A
// protected node may be forgotten, and stays protected.
func release(p *plan.Plan, s *access.Sides, have *plan.Node) plan.Change {
	c := plan.Change{
		Action: plan.Forget, Addr: have.Owned(), Path: have.Path, Kind: have.Kind(),
		Before: have, Usage: usage(have), Drift: drifted(p, s, have),
	}
	c.After = have.WithPayload()
	c.After.Live = nil
	c.After.Payload.Owner = kind.Owner{}
	if c.After.Payload.State == kind.StateDraining {
		c.After.Payload.State = kind.StateActive // no later plan would reopen it
	}
	c.After.Payload.Gen++
	return c
}

// warnBusy warns that a change will be refused, or says what the apply does about it.
func warnBusy(p *plan.Plan, c *plan.Change, verb string) {
	n := &plan.Node{Addr: c.Addr, Path: c.Path}
	switch {
	case c.Break:
		access.Tell(p, problem.Warning, problem.ForceBreak, n, "Lock is broken by force",
			fmt.Sprintf("%s will be %s although it has %s: their places in it are deleted. Each of them learns that it lost the lock "+
				"only afterwards, so for a moment two programs may believe that they hold it.", c.Addr, verb, c.Usage))
	case p.Drain > 0:
		wait := (p.Drain + 999) / 1000 // in seconds, rounded up
		access.Tell(p, problem.Warning, problem.InUse, n, "Lock is in use",
			fmt.Sprintf("%s would be %s, but it has %s. Apply makes the lock grant nothing new, waits %d second%s for it to become idle, and refuses otherwise.",
				c.Addr, verb, c.Usage, wait, explain.Plural(int(wait))))
	default:
		access.Tell(p, problem.Warning, problem.InUse, n, "Lock is in use",
			fmt.Sprintf("%s would be %s, but it has %s. Apply refuses until it is idle.", c.Addr, verb, c.Usage))
	}
}

// adoptions prepares the declared imports. A znode is taken over at its path, which has to be the declared one.
//
// An import that is done already is skipped, so that its block may stay in the configuration for
// ever, as in Terraform. It is done if there is a node of ours at the declared path, or if the node is ours under this address.
func adoptions(p *plan.Plan, s *access.Sides, m *pairing) {
	for i := range s.Intent.Imports {
		imp := &s.Intent.Imports[i]
		want := m.byAddr[imp.To]
		if want == nil {
			continue // the address is not declared, which Load reports
		}
		if access.IsOurs(p, s.Have[want.Path]) {
			importedAlready(p, s, imp, want)
			continue
		}
		have := s.Have[imp.Path]
		if access.IsOurs(p, have) && m.byAddr[s.Intent.Rename(have.Owned())] == want {
			continue // the import is done, and the path has changed since
		}
		if hasVanished(p, s, imp, want) {
			continue
		}
		m.imports[want.Path] = imp
		if !adoptable(p, s, imp, want, have) {
			m.refused[want.Path] = true
			continue
		}
	}
}

// importedAlready reports a command-line import to a path that the stack has already, while the znode to import still exists. It
// does not report import blocks: a block may be old, and another program may use its path by now.
func importedAlready(p *plan.Plan, s *access.Sides, imp *plan.Import, want *plan.Node) {
	have := s.Have[imp.Path]
	if !imp.ByCommand || imp.Path == want.Path || have == nil {
		return
	}
	who := fmt.Sprintf("To take over %s, import it to another address.", imp.Path)
	switch {
	case access.IsOurs(p, have):
		who = fmt.Sprintf("%s is this stack's too, as %s, so nothing is left to import.", imp.Path, have.Owned())
	case have.Payload != nil && have.Payload.Owner.Stack != "":
		who = fmt.Sprintf("%s belongs to stack %q (%s). Leave it there, or correct the path.", imp.Path, have.Payload.Owner.Stack, have.Owned())
	}
	access.Tell(p, problem.Error, problem.Import, &plan.Node{Addr: want.Addr, Path: imp.Path, Origin: imp.Origin}, "Import of a lock that is there already",
		fmt.Sprintf("%s is to be imported from %s, but the stack has it already, at %s. %s", want.Addr, imp.Path, want.Path, who))
}

// hasVanished reports whether an import block names a node that is gone, and warns of it. Such a block must not stop a plan: it was
// right once. If a container was imported while it was in use, the servers delete it some time after its last contender has left.
func hasVanished(p *plan.Plan, s *access.Sides, imp *plan.Import, want *plan.Node) bool {
	if imp.ByCommand || s.Have[imp.Path] != nil || insideLock(s, imp.Path) {
		return false
	}
	access.Tell(p, problem.Warning, problem.Import, &plan.Node{Addr: want.Addr, Path: imp.Path, Origin: imp.Origin}, "Nothing to import",
		fmt.Sprintf("%s is to be imported from %s, where no node exists, so nothing is taken over: it is planned as declared. "+
			"Correct the path if programs use another one, or remove the import block.", want.Addr, imp.Path))
	return true
}

// insideLock reports whether a path is that of a child of a lock.
func insideLock(s *access.Sides, path string) bool {
	lock := s.Have[kind.ParentPath(path)]
	return lock.Kind() != nil && !lock.Kind().Container
}

// adoptable reports whether a znode can be taken over, and adds a problem if not.
//
// Its data is checked last. The data of a lock of ours, or of a forgotten one, is a declaration. Newer
// formats and data that we may not read are refused in any case. An import destroys all other data,
// and only a person can say what that is worth.
func adoptable(p *plan.Plan, s *access.Sides, imp *plan.Import, want, have *plan.Node) bool {
	n := &plan.Node{Addr: want.Addr, Path: imp.Path, Origin: imp.Origin}
	refuse := func(summary, format string, args ...any) bool {
		access.Tell(p, problem.Error, problem.Import, n, summary, fmt.Sprintf(format, args...))
		return false
	}
	if have == nil && insideLock(s, imp.Path) {
		lock := s.Have[kind.ParentPath(imp.Path)]
		return refuse("Import of a part of a lock", "%s is inside %s, which is a %s: everything inside a lock is part of it. Correct the path.",
			imp.Path, lock.Path, lock.Kind().Name)
	}
	if have == nil {
		return refuse("Nothing to import", "%s is to be imported from %s, where no node exists. Correct the path, or let \"locktree apply\" create it.", want.Addr, imp.Path)
	}
	trouble, detail := troubleOf(have)
	switch {
	case have.Live != nil && have.Live.Ephemeral:
		or := ", or remove the import block"
		if imp.ByCommand {
			or = ""
		}
		return refuse("Import of an ephemeral node", "%s is ephemeral and ends with its session, so it cannot be a lock. Correct the path%s.", imp.Path, or)
	case trouble == "" && access.IsOurs(p, have):
		return refuse("Import of a node that is managed already", "%s is this stack's already, as %s. Declare moved { from = %s, to = %s } instead of the import.",
			imp.Path, have.Owned(), have.Owned(), want.Addr)
	case trouble == "" && have.Payload.Owner.Stack == "" && have.Kind().Container && !want.Kind().Container && have.Live != nil && have.Live.Children > 0:
		return refuse("Import of a namespace as a lock", "%s is a namespace and holds %d node%s, so it cannot become %s: every child of a lock counts as a contender. "+
			"Declare a namespace there and import that, or delete by hand what is in it.", imp.Path, have.Live.Children, explain.Plural(have.Live.Children), want.Addr)
	case trouble == "" && have.Payload.Owner.Stack != "":
		return refuse("Import from another stack", "%s belongs to stack %q (%s). Declare removed { from = %s } with destroy = false there, and apply that first.",
			imp.Path, have.Payload.Owner.Stack, have.Owned(), have.Owned())
	case trouble == plan.TroubleUnreadable:
		return refuse("Node cannot be imported", "This connection cannot read %s. Connect with an identity that has READ there.", imp.Path)
	case trouble == plan.TroubleNewer:
		return refuse("Node cannot be imported", "%s is of a newer version: %s.", imp.Path, detail)
	case imp.Path != want.Path:
		return refuse("Import to another path", "%s is to be imported from %s, but it is declared at %s. An import takes a lock over where it is: "+
			"set name, or declare it in the namespace that the lock is in.", want.Addr, imp.Path, want.Path)
	case trouble == "":
		return true
	case have.Live != nil && have.Live.DataLength > 0 && !s.Opts.OverwriteData:
		return refuse("Node holds data", "%s holds %d bytes that another program wrote there, which an import replaces. "+
			"Make sure that they are not needed, and plan with -overwrite-data, or empty the node by hand.", imp.Path, have.Live.DataLength)
	}
	return true
}

// declaredForm returns the node to take over in a form in which only real differences show as changes.
//
// A forgotten node has a payload, which is compared with the declaration. Another program's node has none, so it gets the declared
// one without an owner. Otherwise every parameter would show as a change, although its users see none.
func declaredForm(have, want *plan.Node) *plan.Node {
	if have.Payload != nil {
		return have
	}
	b, p := *have, *want.Payload
	p.Owner, p.Gen, p.Protect, p.State = kind.Owner{}, 0, false, kind.StateActive
	b.Payload, b.Addr = &p, want.Addr
	return &b
}

// adoption is the change of a znode that becomes the declared node at its present path.
//
// A foreign node may be a container, as Curator's lock nodes are. No server reveals that (DataNode.getClientEphemeralOwner hides
// it), and servers delete empty containers (ContainerManager), with the declaration. So an empty node is created again, which
// disturbs no user. If it is in use, its payload says that it was made elsewhere, and each later plan tries again.
func adoption(p *plan.Plan, s *access.Sides, m *pairing, want, have *plan.Node) (plan.Change, bool) {
	imp := m.imports[want.Path]
	if imp == nil || imp.Path != want.Path {
		return plan.Change{}, false
	}
	foreign := have.Payload == nil
	c := plan.Change{Addr: want.Addr, Path: want.Path, Kind: want.Kind(), Usage: usage(have), Importing: imp.Path}
	c.Before, c.After = declaredForm(have, want), want.WithPayload()
	c.After.Payload.Carry(c.Before.Payload)
	c.After.Payload.Gen = c.Before.Payload.Gen + 1
	c.Compare()
	planKeys(s, &c)
	c.Action = plan.Update
	switch {
	case len(c.ForcesReplace) > 0:
		remake(p, s, m, &c, want, plan.ReasonReplaceCannotUpdate)
	case foreign && isEmpty(have, c.Kind):
		c.Action, c.Reason, c.MissingParts = plan.Replace, plan.ReasonReplaceContainer, nil
	case foreign && !c.Kind.Container:
		c.After.Payload.Made = kind.MadeElsewhere
	}
	if c.Action == plan.Replace {
		c.After.Payload.Made = kind.MadeHere
	}
	return c, true
}

// isEmpty reports whether a node can be deleted and created again: it has no children except its parts. Other children are
// contenders, or nodes that a program keeps there.
func isEmpty(n *plan.Node, k *kind.Kind) bool {
	if n.Live == nil {
		return false
	}
	own := 0
	for _, p := range n.Live.Parts {
		if p.Absent {
			continue
		}
		if own++; p.Children > 0 {
			return false
		}
	}
	return n.Live.Children == own
}
