package plan

import (
	"github.com/locktree/locktree/recipes/kind"
)

// What the tests, which are programs like any other, know of the inside.

var (
	Healing = healing
	Under   = under
)

// SlowSums is for how many lists the slow part of a sum was computed, of late.
func SlowSums() int { return len(slowSums.of) }

// NextAccess is the set that the record notes after the plan, and the one that is to take its place.
func (p *Plan) NextAccess(pending bool) (set, next kind.List) {
	x := &Index{}
	p.noteSet(x, pending)
	return x.Access, x.Next
}

// NextIndex is the record as the plan leaves it.
func (p *Plan) NextIndex(applyID string) (x *Index, err error) {
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
