package plan

import (
	"github.com/locktree/locktree/plan/record"
)

// missing finds the declared nodes that the last apply left and that are gone. Nodes that may or may not be among those that it left
// are sought with them: a mark may be lost, hidden, changed or copied.
func (d *sides) missing() {
	d.gone = map[string]bool{}
	if d.current.Index == nil {
		return
	}
	left := record.RollOf(d.current.Index.Nodes)
	if left == nil {
		return
	}
	var sought []string
	for _, n := range d.current.Nodes {
		if d.ours(n) && !d.drifted(n) {
			left.Toggle(n.Path)
		} else {
			sought = append(sought, n.Path)
		}
	}
	for _, path := range d.current.Unreadable {
		if d.have[path] == nil {
			sought = append(sought, path)
		}
	}
	for _, n := range d.desired {
		if d.have[n.Path] == nil {
			sought = append(sought, n.Path)
		}
	}
	for _, path := range left.Chosen(sought) {
		d.gone[path] = d.have[path] == nil && d.want[path] != nil
	}
}

// left is the roll before the first transaction: what is there, and what is missing and may stay so.
func (d *selection) left() {
	d.p.prior.Left = record.NewRoll()
	for _, n := range d.current.Nodes {
		if d.ours(n) {
			d.p.prior.Left.Toggle(n.Path)
		}
	}
	for path, gone := range d.gone {
		if gone {
			d.p.prior.Left.Toggle(path)
		}
	}
}

// roll is the one that a transaction leaves.
func (b *batcher) roll(tx *Transaction) []byte {
	next := record.NewRoll()
	copy(next, b.left)
	ours := func(n *Node) bool { return n != nil && n.Payload.Owner.Stack == b.p.Stack }
	for _, c := range tx.Changes {
		before := c.Action == Create && c.Drift || c.Before != nil && c.Before.Payload != nil && ours(c.Before)
		if before != ours(c.After) {
			next.Toggle(c.Path)
		}
	}
	return next
}
