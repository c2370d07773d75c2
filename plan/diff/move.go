package diff

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/recipes/kind"
)

// ZooKeeper cannot rename a node, and a contender belongs to the session that created it, so no queue moves to another path. A lock
// whose path changes is replaced: one transaction deletes the node at the old path and creates one at the new path. The deletion
// fails while a contender is in the old queue, so the lock is never held at both paths. Programs at the old path find no lock there.

// elsewhere returns the declaration at another path that continues a node, nil if there is none. Somebody may have copied a mark: the
// node at the declared path is the one that stays.
func elsewhere(p *plan.Plan, s *access.Sides, m *pairing, have *plan.Node) *plan.Node {
	to := m.byAddr[s.Intent.Rename(have.Owned())]
	if to == nil || to.Path == have.Path {
		return nil
	}
	if there := s.Have[to.Path]; access.IsOurs(p, there) && s.Intent.Rename(there.Owned()) == to.Addr {
		return nil
	}
	return to
}

// link joins what goes at one path with what comes at another. Of two nodes with one address the first is continued. A declaration that
// is refused, or that takes over a node which is there, continues none.
func link(p *plan.Plan) {
	if !slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return c.NextPath != "" }) {
		return
	}
	at := byPath(p)
	for c := range p.Each() {
		if c.NextPath == "" {
			continue
		}
		if c.Action == plan.Replace {
			c.PreviousAddr = "" // that of another lock
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

// warnVacated warns of locks that leave paths at which others may create nodes. A program that still uses such a path does not fail.
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
		access.Tell(p, plan.Warning, plan.ProblemOpen, &plan.Node{Addr: first.Addr, Path: first.Path}, "Others may create a lock at an old path",
			fmt.Sprintf("Apply replaces %d lock%s by one at another path, %s first. %s. A program of another library that still uses an old path can create a lock there, "+
				"and hold it beside the holder at the new path. Stop such programs, or give them the new path, before you apply.",
				n, plan.Plural(n), first.Path, who))
	}
}

// remaining is the node around a path that the plan leaves there, and its access list; that is nil if it is not known.
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
	// A removed block uses present addresses, but the ensemble may still have the node under its
	// former one, if it moved before it was removed (TestLockThatMovedBeforeItWasLetGoIsNotDeleted).
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

// busy warns that a change will be refused, or says what the apply does about it.
func busy(p *plan.Plan, c *plan.Change, verb string) {
	n := &plan.Node{Addr: c.Addr, Path: c.Path}
	switch {
	case c.Break:
		access.Tell(p, plan.Warning, plan.ProblemForceBreak, n, "Lock is broken by force",
			fmt.Sprintf("%s will be %s although it has %s: their places in it are deleted. Each of them learns that it lost the lock "+
				"only afterwards, so for a moment two programs may believe that they hold it.", c.Addr, verb, c.Usage))
	case p.Drain > 0:
		access.Tell(p, plan.Warning, plan.ProblemInUse, n, "Lock is in use",
			fmt.Sprintf("%s would be %s, but it has %s. Apply lets nobody else in, waits %s for it to become idle, and refuses otherwise.",
				c.Addr, verb, c.Usage, seconds(p.Drain)))
	default:
		access.Tell(p, plan.Warning, plan.ProblemInUse, n, "Lock is in use",
			fmt.Sprintf("%s would be %s, but it has %s. Apply refuses until it is idle.", c.Addr, verb, c.Usage))
	}
}

// seconds is a time in words, rounded up.
func seconds(ms int64) string {
	n := (ms + 999) / 1000
	return fmt.Sprintf("%d second%s", n, plan.Plural(int(n)))
}
