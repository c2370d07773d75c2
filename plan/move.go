package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// ZooKeeper cannot rename a node, and a contender belongs to the session that
// made it, so nobody can carry a queue to another path. A lock whose path changes
// is made anew there, and in the same transaction the old node is deleted and
// created again as a tombstone that says where to: the deletion proves that
// nobody is in the old queue, without which two programs could hold the lock, one
// at either path. Programs that open the old path read the tombstone and follow.
//
// One transaction is one moment: before it the lock is at the old path alone, behind it at the
// new one alone, and no program finds neither. Programs of other libraries read no tombstone;
// who of them comes to the old path later queues where nobody else looks. So a plan says who
// stands in what a move left (exhume), and it stays until they have gone.

// plot finds the nodes whose declaration stands at another path now: of the same
// address, after the declared moves, or by a declared move of the path.
// In the order of the paths, so that of two nodes with one address the same one moves in every
// plan; the other one is not declared any more.
func (d *pairing) plot() {
	d.byAddr = map[Addr]*Node{}
	for _, n := range d.desired {
		if _, twice := d.byAddr[n.Addr]; twice {
			d.byAddr[n.Addr] = nil // nobody can say which one continues it
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

// continues is the declaration that goes on with a node, nil when none does. A move of the
// path is asked first: it names the very node, where an address may have been given away.
func (d *pairing) continues(have *Node) *Node {
	for _, m := range d.intent.PathMoves {
		if rest, ok := strings.CutPrefix(have.Path, m.From); ok && (rest == "" || rest[0] == '/') {
			if to := d.want[m.To+rest]; to != nil {
				return to
			}
		}
	}
	return d.byAddr[d.intent.Rename(have.owned())]
}

// movable: the old path must be free to become a tombstone and the new one free
// to become the lock. What was left there by an earlier move is free.
//
// Of the same kind, because a tombstone sends programs on that open a lock of its kind. One
// that changes its path and its kind is a deletion and a creation.
func (d *pairing) movable(have, to *Node) bool {
	there := d.have[to.Path]
	return to.Path != have.Path && d.want[have.Path] == nil && d.movesFrom[to.Path] == nil &&
		to.Kind() == have.Kind() && (there == nil || d.ours(there) && tombstone(there))
}

// tombstone reports whether a node only says where its lock went.
func tombstone(n *Node) bool {
	return n != nil && n.Payload != nil && n.Payload.State == kind.StateMoved
}

// bury is the change of a node that continues at another path.
//
// The tombstone keeps the parameters and the access lists: who could read where the lock is can
// read where it went. The protection goes with the lock to its new path.
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
	c.After.Addr, c.After.Live, c.After.Quota = c.Addr, nil, 0
	p := c.After.Payload
	p.Owner = kind.Owner{Stack: d.p.Stack, Addr: string(c.Addr)}
	p.State, p.MovedTo, p.Protect = kind.StateMoved, to.Path, false
	p.Gen++
	if !c.Kind.Container && slices.ContainsFunc(have.ACL, kind.ACL.Masked) {
		c.After.ACL = to.ACL
	}
	c.compare()
	c.Break = d.breaks[c.Addr] || d.breaks[to.Addr]
	if c.NeedsIdle() && c.Usage.Busy() {
		d.busy(&c, "moved to "+to.Path)
	}
	return c
}

// departure is the change of a node of ours that is not declared any more.
func (d *decisions) departure(have *Node) Change {
	addr := have.owned()
	if tombstone(have) {
		return d.exhume(have)
	}
	// A removed block speaks of today's addresses, and may be written for what the ensemble still
	// knows under the former one (TestLockThatMovedBeforeItWasLetGoIsNotDeleted).
	r := d.intent.Removed(d.intent.Rename(addr)) // it may have moved before it was removed
	if r == nil {
		r = d.intent.Removed(addr)
	}
	if r != nil && !r.Destroy {
		return d.release(have)
	}
	return d.deletion(have)
}

// release forgets a node. Its declaration stays, so that programs go on using it;
// only the owner is taken out, after which no stack plans anything for it until
// one imports it. A protected node may be forgotten, and stays protected.
func (d *decisions) release(have *Node) Change {
	c := Change{
		Action: Forget, Addr: have.owned(), Path: have.Path, Kind: have.Kind(),
		Before: have, Usage: usage(have), Drift: d.drifted(have),
	}
	c.After = have.withPayload()
	c.After.Live = nil
	c.After.Payload.Owner = kind.Owner{}
	if c.After.Payload.State == kind.StateDraining {
		c.After.Payload.State = kind.StateActive // nobody would open it any more
	}
	c.After.Payload.Gen++
	return c
}

// exhume decides about what an earlier move left: it stays while the move is
// declared. After that it goes, unless somebody still stands in it; where no moved
// block was needed (the name changed), it goes with the next apply that has
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
		rest, ok := strings.CutPrefix(have.Path, m.From)
		covered = covered || ok && (rest == "" || rest[0] == '/')
	}
	for _, m := range d.intent.Imports {
		covered = covered || m.Path == have.Path
	}
	switch {
	case covered:
	case c.Usage.Busy():
		d.problem(Warning, ProblemInUse, &Node{Addr: addr, Path: have.Path}, "Moved lock is still in use",
			fmt.Sprintf("%s has moved to %s, but its old node %s has %s. It is left there. Have them take the lock at its new path: an apply takes the old node away once nobody is in it.", addr, have.Payload.MovedTo, have.Path, c.Usage))
	// The address is declared: at the path the tombstone points to, or at another one since.
	// Programs had until now to follow. The next apply ends that, but not on its own.
	case d.byAddr[addr] != nil:
		d.spent = append(d.spent, have.Path)
	default:
		c.Action, c.After, c.Reason = Delete, nil, ReasonDeleteTombstone
	}
	return c
}

// tidy takes tombstones away together with other changes: on their own they are
// no reason for an apply. It comes when everything else that could be one is known.
func (d *selection) tidy(held []heldBack) {
	// Not all was planned, or nothing may be written.
	if len(d.spent) == 0 || d.p.Targeted || d.p.RefreshOnly || !d.p.HasChanges() {
		return
	}
	going := map[string]bool{}
	for _, p := range d.spent {
		going[p] = true
	}
	// What a namespace that moved still has in it goes first, with a later apply; one
	// that stayed for nothing but tombstones goes with them, or makes room.
	freed := map[string]*Change{}
	// Which tombstones can go depends on which namespaces go, and the other way about. So all
	// that might go is assumed to, and what cannot is taken out until nothing more falls: going
	// only shrinks, so this ends, and what is left can go together.
	for n := -1; n != len(going); {
		n = len(going)
		clear(freed)
		for i := range held {
			if h := &held[i]; !slices.ContainsFunc(h.inside, func(p string) bool { return !going[p] }) {
				freed[h.change.Path] = &h.change
			}
		}
		staying := slices.Clone(d.current.Unmanaged)
		for i := range d.p.Changes {
			c := &d.p.Changes[i]
			if goes := going[c.Path] || freed[c.Path] != nil && freed[c.Path].Action == Delete; c.After != nil && !goes {
				staying = append(staying, c.Path)
			}
		}
		for _, s := range staying {
			for p := kind.ParentPath(s); p != "/"; p = kind.ParentPath(p) {
				delete(going, p)
			}
		}
	}
	// What was held back for tombstones alone is as it was before keepOccupied, and no problem.
	d.p.Problems = slices.DeleteFunc(d.p.Problems, func(q Problem) bool { return q.Code == ProblemUnmanaged && freed[q.Path] != nil })
	for i := range d.p.Changes {
		if c := freed[d.p.Changes[i].Path]; c != nil {
			d.p.Changes[i] = *c
		}
	}
	for i := range d.p.Changes {
		if c := &d.p.Changes[i]; going[c.Path] {
			c.Action, c.After, c.Reason = Delete, nil, ReasonDeleteTombstone
		}
	}
}

// heldBack is the deletion of a namespace that was taken back, or its replacement that
// was refused, and what for.
type heldBack struct {
	change Change
	inside []string
}

// NeedsIdle reports whether the change can be made only while nobody is in the
// lock: deletion, replacement, and the move to another path.
// It does not look at who is there now: that changes while a plan waits for its approval.
func (c *Change) NeedsIdle() bool {
	if c.Before == nil || c.Before.Kind().Container {
		return false
	}
	return c.Action == Delete || c.Action == Replace || c.Action == Update && c.Tombstone
}

// Foreign reports whether the change takes over a znode that holds no declaration yet:
// another program's data, or none. Whoever uses it does not look there for a word of ours.
func (c *Change) Foreign() bool {
	return c.Importing != "" && c.Before != nil && c.Before.Live != nil && c.Before.Live.Trouble != ""
}

// Closable reports whether an apply that drains the lock can keep others out by its state.
// A [Change.Foreign] node has none to write. A tombstone has one that must not be lost:
// opened again after a drain that failed, it would be a second lock beside the one it
// points to. Ours stay out of it as it is, and others never read it.
func (c *Change) Closable() bool {
	return c.NeedsIdle() && !c.Foreign() && c.Before.Payload.State != kind.StateMoved
}

// busy warns that a change will be refused, or says what is done about it.
func (d *decisions) busy(c *Change, verb string) {
	n := &Node{Addr: c.Addr, Path: c.Path}
	or := ""
	if c.Reason == ReasonReplaceACL {
		or = ` Take acl_change = "replace" out of its lifecycle block to have the list set without waiting.`
	}
	switch {
	case c.Break:
		d.problem(Warning, ProblemForceBreak, n, "Lock is broken by force",
			fmt.Sprintf("%s will be %s although it has %s: their places in it are deleted. Each of them learns that it lost the lock "+
				"only afterwards, so for a moment two programs may believe that they hold it.", c.Addr, verb, c.Usage))
	case d.opts.drainMs() > 0 && !c.Closable():
		d.problem(Warning, ProblemInUse, n, "Lock is in use",
			fmt.Sprintf("%s would be %s, but it has %s. Apply waits %s for it to become idle, and refuses otherwise. "+
				"Nothing keeps others out meanwhile: stop the programs that use it if it does not become idle.", c.Addr, verb, c.Usage, seconds(d.opts.drainMs())))
	case d.opts.drainMs() > 0:
		d.problem(Warning, ProblemInUse, n, "Lock is in use",
			fmt.Sprintf("%s would be %s, but it has %s. Apply lets nobody else in, waits %s for it to become idle, and refuses otherwise.%s",
				c.Addr, verb, c.Usage, seconds(d.opts.drainMs()), or))
	default:
		d.problem(Warning, ProblemInUse, n, "Lock is in use",
			fmt.Sprintf("%s would be %s, but it has %s. Apply refuses until it is idle.%s", c.Addr, verb, c.Usage, or))
	}
}

// seconds is a time in words, rounded up.
func seconds(ms int64) string {
	n := (ms + 999) / 1000
	return fmt.Sprintf("%d second%s", n, plural(int(n)))
}
