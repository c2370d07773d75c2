package held

import (
	"context"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/znode"
)

// giveBack deletes our nodes, or makes a place for the goroutine of this client that waits. Its error is that of Client.drop.
func (h *Lock) giveBack(ctx context.Context) error {
	h.drop() // nothing is believed to be held any more: the session need not die of a release that takes long
	next := h.next()
	if next == nil {
		h.turns.Leaving()
		return h.s.Client().Drop(ctx, h.ks, func() { h.close(nil, nil) })
	}
	var p *passing
	answered := false
	if ctx.Err() == nil && h.s.S.State() == session.StateActive { // else the caller may leave before anything is sent
		p = h.pass(ctx, next)
		answered = p.sent() && p.t.Sent.Wait(ctx) == nil
		if answered && p.passed(ctx) {
			h.close(p.next, p.queue)
			return nil
		}
	}
	done := make(chan error, 1)
	h.s.Client().Spawn(func() { // as in drop: the caller may leave before
		if p == nil {
			p = h.pass(context.WithoutCancel(ctx), next)
		}
		var err error
		if answered || !p.passed(context.WithoutCancel(ctx)) {
			err = p.undo(ctx)
		}
		h.close(p.next, p.queue)
		done <- err
	})
	return znode.AwaitRelease(ctx, done, h.ks)
}

// letGo is giveBack for a caller that waits for no answer: the request is on its way when it returns, or left to the background. The
// lanes of a session bound how many are under way, and ctx the wait for room there.
//
// The tickets are passed on when the nodes are gone, as by giveBack. That would not be needed on one connection, where the create
// of the next place is served behind the delete of this one. But it may go out on the next connection, when the delete was lost with the
// one before: then this client would wait, or be refused, because of its own node.
func (h *Lock) letGo() {
	ctx, cancel := context.WithTimeout(context.Background(), h.s.S.Timeout()/6)
	defer cancel()
	h.drop()
	st := h.s.Client()

	next := h.next()
	if next == nil || h.s.S.State() != session.StateActive {
		h.turns.Leaving()
		h.s.Client().LeaveBehind(ctx, h.ks, func() { h.close(nil, nil) })
		return
	}
	p := h.pass(ctx, next)
	st.Spawn(func() {
		if !p.passed(context.Background()) {
			_ = p.undo(context.Background())
		}
		h.close(p.next, p.queue)
	})
}

// next is the node to be made for the goroutine of this client that waits.
func (h *Lock) next() *znode.Node {
	if h.s.S.State() == session.StateLost {
		return nil
	}
	return h.turns.Next()
}

// passing is the transaction that deletes our node and makes a place for the next local holder. The place is the last in the
// queue, so that other processes get their turn.
type passing struct {
	h     *Lock
	t     *znode.Txn
	next  *znode.Node // what the next holder gets; nil if there is none
	queue []string    // as of its creation, or nil
}

// pass sends the transaction.
func (h *Lock) pass(ctx context.Context, k *znode.Node) *passing {
	k.Key = h.ks[0].Key // it stays: somebody is in it at any moment
	p := &passing{h: h, t: &znode.Txn{E: h.s, Born: []*znode.Node{k}, Gone: h.ks}}
	_ = p.t.Begin(ctx, k.Dir) // see sent
	return p
}

func (p *passing) sent() bool { return p.t.Sent != nil }

// passed waits for the answer, and reports whether there is a place for the next holder. The listing behind it is the next holder's:
// when ctx ends, that one lists the queue itself.
func (p *passing) passed(ctx context.Context) bool {
	if !p.sent() {
		return false
	}
	lists, err := p.t.End(ctx)
	if err != nil {
		return false
	}
	if p.next = p.t.Born[0]; lists != nil {
		p.queue = lists[0]
	}
	return true
}

// undo deletes our node where the transaction had no effect. Where its outcome is unknown it waits until the nodes are gone.
func (p *passing) undo(ctx context.Context) error {
	if p.t.Left != nil {
		<-p.t.Left
	}
	p.h.turns.Leaving()
	return p.h.s.Client().DropNow(ctx, p.h.ks)
}

// close ends the watching and passes the turn on, with a place if there is one. It deletes a place that nobody is there to take.
func (h *Lock) close(place *znode.Node, queue []string) {
	h.stopWatching()
	h.drop()
	switch {
	case place == nil:
		h.turns.Free()
	case !h.turns.HandOver(place, queue): // who it was made for has given up since (TestATryDuringAHandOffIsNotRefusedByThePlaceHandedOn)
		h.turns.Leaving()
		h.s.Client().Spawn(func() {
			_ = h.s.Client().DropNow(context.Background(), []*znode.Node{place}) // the janitor goes on
			h.turns.Free()
		})
	}
}
