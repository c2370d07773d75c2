package plan

import (
	"math"

	"github.com/locktree/locktree/recipes/kind"
)

// What the tests, which are programs like any other, know of the inside.

const (
	MovedFrom = movedFrom
	StandsAt  = standsAt
)

type Digests = digests

var (
	ACLText   = aclText
	Healing   = healing
	Reveal    = reveal
	Tombstone = tombstone
	Under     = under
)

func (d digests) Add(list []kind.ACL) { d.add(list) }

func (p *Plan) NextAccess(pending bool) []kind.ACL { return p.nextAccess(pending) }

func MatchGlob(pattern, addr string) bool { return compileGlobs([]string{pattern}).match(Addr(addr)) }

// DesiredOf is what a diff makes of a declared tree before it compares anything, in order and by path.
func DesiredOf(tree *Tree) ([]*Node, map[string]*Node) {
	d := &sides{p: &Plan{Root: tree.Root, Stack: tree.Stack}, current: &Tree{}, want: map[string]*Node{}, have: map[string]*Node{}, bases: map[Addr]bool{}, intent: tree.Intent}
	d.index(tree)
	return d.desired, d.want
}

// NextIndex is the index as the plan leaves it, also a plan that writes nothing else.
func (p *Plan) NextIndex(applyID string) (x *Index, err error) {
	b := &batcher{p: p, id: applyID, whole: true, budget: math.MaxInt, yield: func(tx *Transaction) error {
		x = tx.Index
		return nil
	}}
	err = b.run()
	return x, err
}

// Operations are those of all transactions, in order.
func (p *Plan) Operations(applyID string, indexACL []kind.ACL) (ops []Op, err error) {
	err = p.Transactions(applyID, indexACL, func(tx *Transaction) error {
		ops = append(ops, tx.Ops...)
		return nil
	})
	return ops, err
}
