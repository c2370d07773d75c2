package plan

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

// ZooKeeper cannot rename a node, and a contender belongs to the session that created it, so no queue moves to another path. A lock
// whose path changes is replaced: one transaction deletes the node at the old path and creates one at the new path. The deletion
// fails while a contender is in the old queue, so the lock is never held at both paths. Programs at the old path find no lock there.

// elsewhere returns the declaration at another path that continues a node, nil if there is none. Somebody may have copied a mark: the
// node at the declared path is the one that stays.
func (d *pairing) elsewhere(have *Node) *Node {
	to := d.byAddr[d.intent.Rename(have.owned())]
	if to == nil || to.Path == have.Path {
		return nil
	}
	if there := d.have[to.Path]; d.ours(there) && d.intent.Rename(there.owned()) == to.Addr {
		return nil
	}
	return to
}

// link joins what goes at one path with what comes at another. Of two nodes with one address the first is continued. A declaration that
// is refused, or that takes over a node which is there, continues none.
func (d *decisions) link() {
	if !slices.ContainsFunc(d.p.Changes, func(c Change) bool { return c.NextPath != "" }) {
		return
	}
	at := d.byPath()
	for c := range d.p.Each() {
		if c.NextPath == "" {
			continue
		}
		if c.Action == Replace {
			c.PreviousAddr = "" // that of another lock
		}
		to := at[c.NextPath]
		if to == nil || to.PreviousPath != "" || to.Importing != "" || to.Action != Create && to.Action != Replace {
			c.NextPath = ""
			continue
		}
		to.PreviousPath, to.former, to.After.Payload.Since = c.Path, c.Before, 0
		to.After.Payload.CarrySince(c.Before.Payload)
	}
	for c := range d.p.Each() {
		if c.PreviousPath == "" {
			continue
		}
		if c.PreviousAddr = c.former.owned(); c.PreviousAddr == c.Addr {
			c.PreviousAddr = ""
		}
	}
}

// tied are the other ends of paths that change, which are in the same transaction: those of locks. Nobody holds a namespace, so it may be
// at both paths for a while.
func (c *Change) tied() (paths []string) {
	if c.PreviousPath != "" && !c.former.Kind().Container {
		paths = append(paths, c.PreviousPath)
	}
	if c.NextPath != "" && !c.Before.Kind().Container {
		paths = append(paths, c.NextPath)
	}
	return paths
}

// Shown are the changes as a person reads them, in their order: the two ends of a path that changes are one replacement.
func (p *Plan) Shown() []*Change {
	at := map[string]*Change{}
	for c := range p.Each() {
		if c.PreviousPath != "" || c.NextPath != "" {
			at[c.Path] = c
		}
	}
	out := make([]*Change, 0, len(p.Changes))
	for c := range p.Each() {
		from, to := at[c.PreviousPath], at[c.NextPath]
		comes, goes := from != nil && from.NextPath == c.Path, to != nil && to.PreviousPath == c.Path
		switch {
		case comes:
			out = append(out, c.replacing(from))
			if c.Action == Replace && !goes { // the lock that was there is declared nowhere
				out = append(out, &Change{Action: Delete, Addr: c.Before.owned(), Path: c.Path, Kind: c.Before.Kind(), Before: c.Before,
					Reason: c.leaves, missing: c.missing, Usage: c.Usage, Drift: c.Drift, Break: c.Break})
			}
		case goes && c.Action == Replace: // its node is shown where it goes
			out = append(out, &Change{Action: Create, Addr: c.Addr, Path: c.Path, Kind: c.Kind, After: c.After})
		case !goes:
			out = append(out, c)
		}
	}
	return out
}

// replacing is a creation as the replacement of the node that goes.
func (c *Change) replacing(from *Change) *Change {
	r := &Change{
		Action: Replace, Reason: ReasonReplaceCannotUpdate, Addr: c.Addr, Path: c.Path, PreviousPath: from.Path, Kind: c.Kind,
		Before: from.Before, After: c.After, Usage: from.Usage, Drift: from.Drift, Break: from.Break,
	}
	r.compare()
	r.ForcesReplace, r.MissingParts = append([]string{"path"}, r.ForcesReplace...), nil
	return r
}

// vacated warns of locks that leave paths at which others may create nodes. A program that still uses such a path does not fail.
func (d *selection) vacated() {
	var first *Change
	var who string
	var after map[string]*Change
	n := 0
	for c := range d.p.Each() {
		if c.NextPath == "" || c.Action != Delete || c.Kind.Container {
			continue
		}
		if after == nil {
			after = d.byPath()
		}
		at, list := d.remaining(c.Path, after)
		if list != nil && !d.p.othersCanCreate(list) {
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
		d.problem(Warning, ProblemOpen, &Node{Addr: first.Addr, Path: first.Path}, "Others may create a lock at an old path",
			fmt.Sprintf("Apply replaces %d lock%s by one at another path, %s first. %s. A program of another library that still uses an old path can create a lock there, "+
				"and hold it beside the holder at the new path. Stop such programs, or give them the new path, before you apply.",
				n, plural(n), first.Path, who))
	}
}

// remaining is the node around a path that the plan leaves there, and its access list; that is nil if it is not known.
func (d *selection) remaining(path string, after map[string]*Change) (string, kind.List) {
	at := kind.ParentPath(path)
	for ; at != d.p.Root && at != "/"; at = kind.ParentPath(at) {
		if c := after[at]; c != nil && c.After != nil {
			return at, c.After.ACL
		}
	}
	return at, d.framed(at).ACL
}

// departure is the change of a node of ours that is no longer declared.
func (d *decisions) departure(have *Node) Change {
	addr := have.owned()
	// A removed block uses present addresses, but the ensemble may still have the node under its
	// former one, if it moved before it was removed (TestLockThatMovedBeforeItWasLetGoIsNotDeleted).
	r := d.intent.Removed(d.intent.Rename(addr))
	if r == nil {
		r = d.intent.Removed(addr)
	}
	if r != nil && !r.Destroy {
		return d.release(have)
	}
	return d.deletion(have)
}

// release forgets a node. Its declaration stays, so that programs can go on using it.
// Only the owner is removed; then no stack plans anything for it until one imports it. A
// protected node may be forgotten, and stays protected.
func (d *decisions) release(have *Node) Change {
	c := Change{
		Action: Forget, Addr: have.owned(), Path: have.Path, Kind: have.Kind(),
		Before: have, Usage: usage(have), Drift: d.drifted(have),
	}
	c.After = have.withPayload()
	c.After.Live = nil
	c.After.Payload.Owner = kind.Owner{}
	if c.After.Payload.State == kind.StateDraining {
		c.After.Payload.State = kind.StateActive // no later plan would reopen it
	}
	c.After.Payload.Gen++
	return c
}

// NeedsIdle reports whether the change can be made only while nobody holds or waits for the
// lock: deletion and replacement. It does not depend on who uses it now, which changes while a plan waits for approval.
// What may be a container is not replaced while it is in use: see [Change.Leave].
func (c *Change) NeedsIdle() bool {
	if c.Before == nil || c.Before.Kind().Container || c.Reason == ReasonReplaceContainer {
		return false
	}
	return c.Action == Delete || c.anew()
}

// busy warns that a change will be refused, or says what the apply does about it.
func (d *decisions) busy(c *Change, verb string) {
	n := &Node{Addr: c.Addr, Path: c.Path}
	switch {
	case c.Break:
		d.problem(Warning, ProblemForceBreak, n, "Lock is broken by force",
			fmt.Sprintf("%s will be %s although it has %s: their places in it are deleted. Each of them learns that it lost the lock "+
				"only afterwards, so for a moment two programs may believe that they hold it.", c.Addr, verb, c.Usage))
	case d.p.Drain > 0:
		d.problem(Warning, ProblemInUse, n, "Lock is in use",
			fmt.Sprintf("%s would be %s, but it has %s. Apply lets nobody else in, waits %s for it to become idle, and refuses otherwise.",
				c.Addr, verb, c.Usage, seconds(d.p.Drain)))
	default:
		d.problem(Warning, ProblemInUse, n, "Lock is in use",
			fmt.Sprintf("%s would be %s, but it has %s. Apply refuses until it is idle.", c.Addr, verb, c.Usage))
	}
}

// seconds is a time in words, rounded up.
func seconds(ms int64) string {
	n := (ms + 999) / 1000
	return fmt.Sprintf("%d second%s", n, plural(int(n)))
}
