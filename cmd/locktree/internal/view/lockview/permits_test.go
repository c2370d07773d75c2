package lockview_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// pool is a semaphore of 12 permits: gw holds 7 of them, and gw2 waits for 7.
func pool() *plan.Node {
	n := node("semaphore.pool", "/locks/payments/pool", semaphore(12))
	n.Live.Usage = &kind.Usage{Waiters: []kind.Party{
		{Name: "_c_9-lock-0000000009", ID: "gw2", Session: 0x2, Token: 4294967390, Since: time.UnixMilli(now - 30_000), Permits: 7}}}
	for i := range 7 {
		n.Live.Usage.Holders = append(n.Live.Usage.Holders, kind.Party{Name: fmt.Sprintf("_c_%d-lease-%010d", i, i), ID: "gw", Session: 0x1,
			Token: 4294967301, Since: time.UnixMilli(now - 90_000), Permits: 1})
	}
	return n
}

// One holder of seven permits was seven lines, and neither their limit nor what a waiter wanted was to be seen.
func TestOneHolderOfManyPermitsIsOneRow(t *testing.T) {
	tree := &plan.Tree{Ensemble: "main", Root: "/locks", Stack: "s", Nodes: []*plan.Node{pool()}}
	in := &inspect.Report{Path: "/locks/pool", Kind: kind.Semaphore, Payload: pool().Payload,
		Holders: at("/locks/pool", pool().Live.Usage.Holders), Waiters: at("/locks/pool", pool().Live.Usage.Waiters)}
	foreign := *in
	foreign.Path, foreign.Payload = "/locks/foreign", nil
	golden(t, "permits.txt", text(status(tree), locks(in, &foreign)))
}
