package plan

import (
	"fmt"

	"github.com/locktree/locktree/recipes/kind"
)

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
	return c.NeedsIdle() && !c.Foreign()
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
