package plan

import (
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// What the tests, which are programs like any other, know of the inside.

var (
	Healing = healing
	Under   = under
)

// NextAccess is the set that the record notes after the plan, and the one that is to take its place.
func (p *Plan) NextAccess(pending bool) (set, next kind.List) {
	x := &record.Record{}
	p.noteSet(x, pending)
	return x.Access, x.Next
}

// DesiredOf is what a diff makes of a declared tree before it compares anything, in order and by path.
func DesiredOf(tree *Tree) ([]*Node, map[string]*Node) {
	d := &sides{p: &Plan{Root: tree.Root, Stack: tree.Stack}, current: &Tree{}, want: map[string]*Node{}, have: map[string]*Node{}, intent: tree.Intent}
	d.index(tree)
	return d.desired, d.want
}

// NextIndex is the record as the plan leaves it.
func (p *Plan) NextIndex(applyID string) (x *record.Record, err error) {
	err = p.Transactions(applyID, nil, func(tx *Transaction) error {
		x = tx.Index
		return nil
	})
	return x, err
}

// Operations are those of all transactions, in order.
func (p *Plan) Operations(applyID string, indexACL kind.List) (ops []Op, err error) {
	err = p.Transactions(applyID, indexACL, func(tx *Transaction) error {
		ops = append(ops, tx.Ops...)
		return nil
	})
	return ops, err
}
