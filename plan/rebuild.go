package plan

import (
	"fmt"

	"github.com/locktree/locktree/recipes/kind"
)

// The index is a help, not the truth, so it may be lost: a stack owns the nodes with its
// mark. If a plan finds nodes of the stack that the index does not contain, it says so, and
// its transaction adds them.
//
// With an index only what no node contains is lost for good: which nodes were deleted by hand
// since, the outputs, access lists that were still to be set. The last a plan
// finds by itself: it compares lists with what is declared, not with that note.

// unnoted marks the nodes of ours that are not in the index, and reports why if some of
// them stay. Those that are deleted are not added first: that could be more than fits into
// a transaction.
func (d *selection) unnoted() {
	n, first := 0, ""
	for c := range d.p.Each() {
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
	then := "Apply writes it again from the nodes' own marks; no lock changes. " +
		"Until then outputs, and what was deleted by hand since the last apply, are not known."
	switch {
	case d.p.prior.Unread:
		d.problem(Warning, ProblemIndex, &Node{}, "Index is damaged",
			fmt.Sprintf("%s cannot be understood (%s), although there %s. %s", at, d.current.IndexTrouble, are(n, marks), then))
	case lost > 0:
		d.problem(Warning, ProblemIndex, &Node{}, "Index is damaged",
			fmt.Sprintf("%d of the %d parts of %s %s gone or cannot be understood, and %s unknown to the others. %s",
				lost, len(d.p.prior.Shards), at, map[bool]string{true: "is", false: "are"}[lost == 1], are(n, marks), then))
	case n > 0 && d.current.Index == nil:
		d.problem(Warning, ProblemIndex, &Node{}, "Index is missing",
			fmt.Sprintf("There is no node at %s, although there %s. %s", at, are(n, marks), then))
	case n > 0:
		d.problem(Warning, ProblemIndex, &Node{}, "Index is incomplete",
			fmt.Sprintf("There %s (%s first) that %s does not contain. Apply adds them; no lock changes.", are(n, marks), first, at))
	}
}

// unseen warns of nodes that we may not read if the index is written from what was read: they may be
// this stack's. Those that the index or the configuration names are reported as problems elsewhere.
func (d *selection) unseen() {
	if !d.p.MendsIndex() {
		return
	}
	for _, path := range d.current.Unreadable {
		if _, known := d.indexed[path]; known || d.want[path] != nil {
			continue
		}
		d.problem(Warning, ProblemUnreadable, &Node{Path: path}, "Node cannot be read",
			fmt.Sprintf("We may not read %s, so it is not known whether it is this stack's. If it is, connect with an identity that has READ there and try again.", path))
	}
}

// stays reports whether the node belongs to the stack afterwards.
func (c *Change) stays() bool { return c.After != nil && c.Action != Forget }

func are(n int, what string) string {
	if n == 1 {
		return "is " + what
	}
	return "are " + what
}

// lostParts counts the parts of the index that have to be written again.
func (p *Plan) lostParts() (n int) {
	for _, s := range p.prior.Shards {
		if s.Absent || s.Lost {
			n++
		}
	}
	return n
}

// MendsIndex reports whether an apply restores what the index lost; see [ProblemIndex]. Nodes that are
// deleted do not matter: they get no entry.
func (p *Plan) MendsIndex() bool {
	if p.prior.Unread || p.lostParts() > 0 {
		return true
	}
	for c := range p.Each() {
		if c.Unnoted && c.stays() {
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
