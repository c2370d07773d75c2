package plan

import (
	"fmt"

	"github.com/locktree/locktree/recipes/kind"
)

// The index is a help and not the truth, so that it may be lost: what carries the
// stack's mark is what it owns. A plan that finds nodes of the stack which the
// index does not know says so, and its transaction writes them into it.
//
// What is lost for good with an index is what no node says: which nodes were deleted by hand
// since, who set a quota, the outputs, lists that were still to be set. The last of these a
// plan finds out by itself: it compares lists with what is declared, and not with the note.

// unnoted marks the nodes of ours that are not in the index, and says why when some of
// them stay. Those that go are not noted on their way: that could be more than fits
// into a transaction.
func (d *selection) unnoted() {
	n, first := 0, ""
	for i := range d.p.Changes {
		c := &d.p.Changes[i]
		if _, known := d.indexed[c.Path]; known || !d.ours(c.Before) {
			continue
		}
		if c.Unnoted = true; !c.stays() {
			continue
		}
		if n++; first == "" {
			first = c.Path
		}
	}
	at := IndexPath(d.p.Root, d.p.Stack)
	lost := d.p.lostParts()
	d.p.prior.Strays, d.p.prior.Unread = d.current.Strays, d.current.IndexTrouble != ""
	marks := fmt.Sprintf("%d node%s that carr%s this stack's mark", n, plural(n), map[bool]string{true: "ies", false: "y"}[n == 1])
	then := "Apply writes it anew from the nodes' own marks; no lock changes by that. " +
		"What was deleted by hand since the last apply, and outputs, are not known meanwhile."
	switch {
	case d.p.prior.Unread:
		d.problem(Warning, ProblemIndex, &Node{}, "Index is damaged",
			fmt.Sprintf("%s cannot be understood (%s), though there %s. %s", at, d.current.IndexTrouble, are(n, marks), then))
	case lost > 0:
		d.problem(Warning, ProblemIndex, &Node{}, "Index is damaged",
			fmt.Sprintf("%d of the %d parts of %s %s gone or cannot be understood, and %s unknown to the others. %s",
				lost, len(d.p.prior.Shards), at, map[bool]string{true: "is", false: "are"}[lost == 1], are(n, marks), then))
	case n > 0 && d.current.Index == nil:
		d.problem(Warning, ProblemIndex, &Node{}, "Index is missing",
			fmt.Sprintf("Nothing stands at %s, though there %s. %s", at, are(n, marks), then))
	case n > 0:
		d.problem(Warning, ProblemIndex, &Node{}, "Index is incomplete",
			fmt.Sprintf("There %s (%s first) which %s does not know. Apply notes them; no lock changes by that.", are(n, marks), first, at))
	}
}

// unseen tells of nodes that may not be read when the index is written from what was read: whether
// they are this stack's nobody knows. What the index or the configuration names is a problem already.
func (d *selection) unseen() {
	if !d.p.RefreshOnly && !d.p.MendsIndex() {
		return
	}
	for _, path := range d.current.Unreadable {
		if _, known := d.indexed[path]; known || d.want[path] != nil && !d.p.RefreshOnly {
			continue
		}
		d.problem(Warning, ProblemUnreadable, &Node{Path: path}, "Node cannot be read",
			fmt.Sprintf("%s may not be read by us, so nobody can say whether it is this stack's. If it is, connect with an identity that has READ there, and do this again.", path))
	}
}

// stays reports whether the node is the stack's afterwards.
func (c *Change) stays() bool { return c.After != nil && c.Action != Forget }

func are(n int, what string) string {
	if n == 1 {
		return "is " + what
	}
	return "are " + what
}

// lostParts counts the parts of the index that have to be written anew.
func (p *Plan) lostParts() (n int) {
	for _, s := range p.prior.Shards {
		if s.Absent || s.Lost {
			n++
		}
	}
	return n
}

// MendsIndex reports whether an apply writes into the index what it lost; see [ProblemIndex].
// Nodes that go are no reason: no entry is to be written for them.
func (p *Plan) MendsIndex() bool {
	if p.prior.Unread || p.lostParts() > 0 {
		return true
	}
	for i := range p.Changes {
		if c := &p.Changes[i]; c.Unnoted && c.stays() {
			return true
		}
	}
	return false
}

// sweep deletes the parts of an index that could not be understood.
func (p *Plan) sweep() (ops []Op) {
	for _, s := range p.prior.Strays {
		ops = append(ops, Op{Kind: OpDelete, Path: kind.JoinPath(p.Index.Path, s.Name), Version: s.Version})
	}
	return ops
}
