package plan

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

// ZooKeeper cannot rename a node, and a contender belongs to the session that
// created it, so nobody can move a queue to another path. A lock whose path changes
// is created at the new path. In the same transaction the old node is deleted and
// created again as a tombstone that names the new path. The deletion proves that
// nobody is in the old queue; without it two programs could hold the lock, one
// at each path. Programs of this library read the tombstone and follow it.
//
// One transaction is one moment: before it the lock is only at the old path, after it only at the
// new one. Programs of other libraries do not read
// tombstones: those that come to the old path later queue where nobody else looks. So a plan names
// those who use a tombstone (exhume), and it stays until they have gone.

// plot finds the nodes whose declaration is now at another path: by address, after the
// declared moves, or by a declared move of the path. It goes in the order of the paths, so
// that of two nodes with one address the same one moves in every plan; the other one counts
// as no longer declared.
func (d *pairing) plot() {
	d.byAddr = map[Addr]*Node{}
	for _, n := range d.desired {
		if _, twice := d.byAddr[n.Addr]; twice {
			d.byAddr[n.Addr] = nil // which one continues it cannot be told
			continue
		}
		d.byAddr[n.Addr] = n
	}
	for _, path := range d.paths() {
		have := d.have[path]
		if have == nil || !d.ours(have) || tombstone(have) {
			continue
		}
		if to := d.continues(have); to != nil && d.movable(have, to) {
			d.movesTo[path], d.movesFrom[to.Path] = to, have
		}
	}
}

// continues returns the declaration that continues a node, nil if there is none. Moves of the path come
// first: they name the node itself, while its address may have been reused.
func (d *pairing) continues(have *Node) *Node {
	for _, m := range d.intent.PathMoves {
		if kind.Below(have.Path, m.From) {
			if to := d.want[m.To+have.Path[len(m.From):]]; to != nil {
				return to
			}
		}
	}
	return d.byAddr[d.intent.Rename(have.owned())]
}

// movable reports whether the old path is free for a tombstone and the new one free for
// the lock. A path with the tombstone of an earlier move is free.
//
// The kind must stay the same, because a tombstone redirects programs that use a lock of its kind. A
// change of both path and kind is a deletion and a creation.
func (d *pairing) movable(have, to *Node) bool {
	there := d.have[to.Path]
	return to.Path != have.Path && d.want[have.Path] == nil && d.movesFrom[to.Path] == nil &&
		to.Kind() == have.Kind() && (there == nil || d.ours(there) && tombstone(there))
}

// tombstone reports whether a node only says where its lock has moved.
func tombstone(n *Node) bool {
	return n != nil && n.Payload != nil && n.Payload.State == kind.StateMoved
}

// bury is the change of a node that continues at another path.
//
// The tombstone keeps the parameters; its access list is narrower, see remainder. The protection moves with the lock to its new
// path.
func (d *decisions) bury(have, to *Node) Change {
	c := Change{
		Action: Update, Addr: have.owned(), Path: have.Path, Kind: have.Kind(),
		Before: have, Usage: usage(have), Tombstone: true,
	}
	if d.ours(have) {
		c.Drift = d.drifted(have)
	} else {
		c.Addr, c.Importing = to.Addr, have.Path
	}
	c.After = have.withPayload()
	c.After.Addr, c.After.Live = c.Addr, nil
	p := c.After.Payload
	p.Owner = kind.Owner{Stack: d.p.Stack, Addr: string(c.Addr)}
	p.State, p.MovedTo, p.Protect, p.Made = kind.StateMoved, to.Path, false, kind.MadeHere
	if to.Addr != c.Addr { // programs follow only to the address that the mark names
		p.MovedAs = string(to.Addr)
	}
	p.Gen++
	if !c.Kind.Container {
		c.After.ACL = remainder(have.ACL)
		if have.ACL.Masked() {
			c.After.ACL = remainder(to.ACL)
		}
	}
	c.compare()
	c.Break = d.breaks[c.Addr] || d.breaks[to.Addr]
	if c.NeedsIdle() && c.Usage.Busy() {
		d.busy(&c, "moved to "+to.Path)
	}
	return c
}

// remainder is the list of the mark that a lock leaves at its old path: who could read the lock can read where it has moved, who could set its list
// still can, and nobody can create a contender there. A program that does not read where the lock has moved, such as one of Curator's
// or kazoo's, fails instead of holding what nobody else looks at.
func remainder(list kind.List) (out kind.List) {
	for _, a := range list {
		if a.Perms&kind.PermAdmin != 0 {
			a.Perms &^= kind.PermCreate
		} else {
			a.Perms &= kind.PermRead
		}
		if a.Perms != 0 {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return list // servers take no empty list
	}
	return out
}

// departure is the change of a node of ours that is no longer declared.
func (d *decisions) departure(have *Node) Change {
	addr := have.owned()
	if tombstone(have) {
		return d.exhume(have)
	}
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
		c.After.Payload.State, c.After.Payload.MovedTo, c.After.Payload.MovedAs = kind.StateActive, "", "" // no later plan would reopen it
	}
	c.After.Payload.Gen++
	return c
}

// exhume decides about the tombstone of an earlier move. It stays while the move is
// declared. After that it is deleted, unless somebody is still in its queue. If no moved
// block was needed (the name changed), it is deleted with the next apply that has
// anything else to do, see selection.tidy.
func (d *decisions) exhume(have *Node) Change {
	addr := have.owned()
	c := Change{
		Action: NoOp, Addr: addr, Path: have.Path, Kind: have.Kind(), Before: have, After: have,
		Usage: usage(have), Tombstone: true,
	}
	if d.opts.Destroy {
		c.Action, c.After, c.Break = Delete, nil, d.breaks[addr]
		d.checkRemoval(&c, nil)
		return c
	}
	covered := d.intent.Rename(addr) != addr
	for _, m := range d.intent.PathMoves {
		covered = covered || kind.Below(have.Path, m.From)
	}
	for _, m := range d.intent.Imports {
		covered = covered || m.Path == have.Path
	}
	switch {
	case covered:
		d.readdress(&c)
	case c.Usage.Busy():
		d.problem(Warning, ProblemInUse, &Node{Addr: addr, Path: have.Path}, "Moved lock is still in use",
			fmt.Sprintf("%s has moved to %s, but its old node %s has %s. The old node is left there. Point these programs at the new path. An apply deletes the old node when nobody uses it.", addr, have.Payload.MovedTo, have.Path, c.Usage))
	// The address is declared, at the path that the tombstone names or at another one since.
	// Programs had until now to be given the new path. The next apply with other changes deletes it.
	case d.byAddr[addr] != nil:
		d.spent[have.Path] = true
	default:
		c.Action, c.After, c.Reason = Delete, nil, ReasonDeleteTombstone
	}
	return c
}

// readdress has a tombstone name the address that its lock has now: programs follow to no other. The mark is written with what else
// the plan does, as one that is not as it should be, see [selection.unsealed].
func (d *decisions) readdress(c *Change) {
	to := d.want[c.Before.Payload.MovedTo]
	if to == nil || string(to.Addr) == c.Before.Payload.Moves().Addr {
		return
	}
	c.After = c.Before.withPayload()
	c.After.Payload.MovedAs = string(to.Addr)
	c.After.Payload.Gen++
}

// tidy deletes tombstones together with other changes: neither they nor namespaces that stay because of them are a reason for an apply.
func (d *selection) tidy() {
	if len(d.spent) == 0 || d.p.Targeted {
		return
	}
	staying, others := d.contents(), *d.p
	others.Changes = slices.DeleteFunc(slices.Clone(d.p.Changes), func(c Change) bool { return c.Action != Replace && len(staying.tie(&c)) > 0 })
	if !others.HasChanges() {
		return
	}
	for c := range d.p.Each() {
		if d.spent[c.Path] {
			c.Action, c.After, c.Reason = Delete, nil, ReasonDeleteTombstone
		}
	}
}

// vacated warns of marks of moves that are deleted where others may create nodes. A program of another library that still uses the
// old path does not fail there any more.
func (d *selection) vacated() {
	var first *Change
	n := 0
	for c := range d.p.Each() {
		around, known := d.have[kind.ParentPath(c.Path)], d.framed(kind.ParentPath(c.Path)).ACL
		if around != nil {
			known = around.ACL
		}
		if c.Reason != ReasonDeleteTombstone || c.Kind.Container || known != nil && !slices.ContainsFunc(known, d.another) {
			continue
		}
		if n++; first == nil {
			first = c
		}
	}
	if n > 0 {
		d.problem(Warning, ProblemInUse, &Node{Addr: first.Addr, Path: first.Path}, "Old path of a moved lock becomes free",
			fmt.Sprintf("Apply deletes the marks that moved locks left at their old paths: %d node%s, %s first. A program of Curator or kazoo that still uses such a path "+
				"creates a lock there in which nobody else looks. Make sure that all programs use the new paths.", n, plural(n), first.Path))
	}
}

// NeedsIdle reports whether the change can be made only while nobody holds or waits for the
// lock: deletion, replacement, and the move to another path. It does not depend on who uses it
// now, which changes while a plan waits for approval.
func (c *Change) NeedsIdle() bool {
	if c.Before == nil || c.Before.Kind().Container {
		return false
	}
	return c.Action == Delete || c.anew()
}

// Foreign reports whether the change takes over a znode without a declaration, with another
// program's data or none. Its users do not read a declaration there.
func (c *Change) Foreign() bool {
	return c.Importing != "" && c.Before != nil && c.Before.Live != nil && c.Before.Live.Trouble != ""
}

// Closable reports whether an apply that drains the lock can keep others out by its state.
// A [Change.Foreign] node has no state to write. A tombstone's state must not be lost: if it were
// set to active after a failed drain, there would be a second lock beside the one it names. This
// library's programs stay out of a tombstone anyway, and others never read it.
func (c *Change) Closable() bool {
	return c.NeedsIdle() && !c.Foreign() && c.Before.Payload.State != kind.StateMoved
}

// busy warns that a change will be refused, or says what the apply does about it.
func (d *decisions) busy(c *Change, verb string) {
	n := &Node{Addr: c.Addr, Path: c.Path}
	switch {
	case c.Break:
		d.problem(Warning, ProblemForceBreak, n, "Lock is broken by force",
			fmt.Sprintf("%s will be %s although it has %s: their places in it are deleted. Each of them learns that it lost the lock "+
				"only afterwards, so for a moment two programs may believe that they hold it.", c.Addr, verb, c.Usage))
	case d.p.Drain > 0 && !c.Closable():
		d.problem(Warning, ProblemInUse, n, "Lock is in use",
			fmt.Sprintf("%s would be %s, but it has %s. Apply waits %s for it to become idle, and refuses otherwise. "+
				"Nothing keeps others out meanwhile: stop the programs that use it if it does not become idle.", c.Addr, verb, c.Usage, seconds(d.p.Drain)))
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
