package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// An exchange deletes the nodes of a lease and takes a place in another queue, in one transaction.
//
// The lease is over before the transaction is sent, and stays over whatever becomes of it. A transaction whose answer is lost may be
// executed late, when a server has shown already that it was not (see resolve): a lease that went on after an exchange that failed
// could lose its node to it, without its holder's doing. So nothing has to be known of it. If it is known to have been applied our
// place is there; if it was not, the nodes are deleted as by Release, and the place is taken as by Lock: of two transactions that
// delete one node the second fails as a whole, and what the first one made late is found (recheck). If nobody knows yet, the
// background undoes both halves (abandon), and both tickets are passed on after that.
//
// Why goroutines that exchange A for B and B for A do not wait for each other, nor processes that do. Nobody waits with something in
// hand. The ticket of the other lock is taken only if it is free. If it is not, the lease is given back first, and its caller waits as
// by Lock. During the transaction a goroutine has both tickets, but waits for nothing but the answer, or the end of its context. In
// ZooKeeper the place in the new queue exists from the moment on at which the old nodes are gone, so who waits there holds nothing
// either. The declaration is read while the lease is still held: that waits for servers only. A lock that is about to
// move may not go before others have finished, so that is waited for without the lease.

// LockFrom gives from back and waits for the lock: as from.Release and Lock do, but if possible in one transaction, which deletes the
// node of from and takes the place in this lock's queue. It is for programs that go from lock to lock: each costs one round trip and
// one commit.
//
// It is not for taking a lock while another one is held: from has ended, with ErrReleased, before the transaction is sent, and does not
// come back, whatever becomes of that. If the lock is not free, LockFrom waits for it as Lock does, and from's lock is
// free meanwhile. It returns what its caller has then: the new lease; with an error, from if that was not touched, and else nil. If
// from was lost before, the error is ErrLost, and nothing was taken.
//
// A lease can be exchanged if this client has it, alone and for itself: LockFrom refuses one of a MultiLock, of a reader, of a
// handle WithRetention that may keep it, and one that was entered again and is still held inside, as well as a ctx that from's end
// would end. The text says which. It does not touch from either if the lock cannot be opened, such as one that is not provisioned. Other
// errors are those of Lock; after one that is Retryable call Lock.
//
// If a goroutine of this client has the lock, asks for it, or keeps it, or if it is about to move, there is no common
// transaction: LockFrom does what Release and Lock do, in two requests. So goroutines that exchange two locks for each other do not wait
// for each other in a circle.
func (m *Mutex) LockFrom(ctx context.Context, from *Lease) (*Lease, error) {
	return m.q.lockFrom(ctx, from)
}

// LockFrom gives from back and waits for the lock as the only holder; see Mutex.LockFrom. For a read lease there is no such method.
func (m *RWMutex) LockFrom(ctx context.Context, from *Lease) (*Lease, error) {
	return m.write.lockFrom(ctx, from)
}

func (q *queue) lockFrom(ctx context.Context, from *Lease) (*Lease, error) {
	a := q.acquisition(ctx, 0, false)
	err := a.begun(ctx)
	if err == nil {
		err = from.offered(ctx, q)
	}
	var l *Lease
	if err == nil {
		l, err = a.follow(a.wait, func(ctx context.Context) (*Lease, error) { return a.takeFrom(ctx, from) })
	}
	l, err = a.conclude(ctx, l, err)
	if err != nil && from != nil && !from.givenBack() {
		return from, err
	}
	return l, err
}

// offered refuses a lease that q cannot be taken from.
func (l *Lease) offered(ctx context.Context, q *queue) error {
	if l == nil {
		return fmt.Errorf("recipes: LockFrom for %s got no lease; use Lock", q.path)
	}
	if l.h.q.c != q.c {
		return fmt.Errorf("recipes: LockFrom for %s got a lease of %s from another Client; use Release and Lock", q.path, l.h.path)
	}
	if own, _ := ctx.Value(l.h.q.key).(*Lease); own != nil && own.h == l.h {
		return fmt.Errorf("recipes: LockFrom for %s got a context that ends with the lease of %s; pass the one that this was derived from", q.path, l.h.path)
	}
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	return l.exchangeable()
}

// exchangeable says why the lease cannot be exchanged for another lock's. The holding's mu is held.
func (l *Lease) exchangeable() error {
	h, why := l.h, ""
	switch err := l.over(); {
	case err != nil:
		return err
	case h.members != nil:
		why = "it is that of a MultiLock"
	case h.q.shared:
		why = "it is a reader's, whose place others may share"
	case h.keep != nil:
		why = "its handle has WithRetention, which keeps the lock"
	case h.leases > 1:
		why = fmt.Sprintf("it was entered %d times; give the inner leases back first", h.leases)
	case h.state != held:
		why = "another call is exchanging it"
	default:
		return nil
	}
	return fmt.Errorf("recipes: the lease of %s cannot be exchanged: %s; or use Release and Lock", h.path, why)
}

// givenBack reports whether the lease was given back, by whomever.
func (l *Lease) givenBack() bool {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	return !l.released.IsZero()
}

// handIn ends the lease for an exchange. The nodes are its caller's to give back then.
func (l *Lease) handIn() error {
	h := l.h
	h.overdue()
	h.mu.Lock()
	err := l.exchangeable()
	if err == nil {
		l.released, l.why = time.Now(), releasedError(h.path)
		l.g.leases, h.leases = 0, 0
	}
	h.mu.Unlock()
	if err != nil {
		return err
	}
	h.workEnded()
	if h.finish(releasedError(h.path), EventReleased, nil) == over { // lost at this moment
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.why
	}
	h.drop() // as in giveBack
	return nil
}

// takeFrom is take in exchange for from.
func (a *acquisition) takeFrom(ctx context.Context, from *Lease) (*Lease, error) {
	q := a.members[0].q
	if from.givenBack() { // before a mark was followed
		return a.take(ctx)
	}
	if l, err := a.reenter(ctx, q, 0); l != nil || err != nil {
		if err == nil {
			from.Release()
		}
		return l, err
	}
	if err := a.inOrder(ctx); err != nil {
		return nil, err
	}
	all, err := a.open(ctx, nil)
	var elsewhere *elsewhereError
	if errors.As(err, &elsewhere) && elsewhere.goes() || err == nil && !a.c.state.claim(q.localKey(), q.id()) {
		from.Release()
		return a.take(ctx)
	}
	if err != nil {
		return nil, err
	}
	a.tickets = append(a.tickets, q.localKey())
	t, err := a.exchange(ctx, from, &all[0])
	if err != nil {
		return nil, a.giveUp(ctx, err)
	}
	h, err := a.contend(ctx, t)
	if err != nil {
		return nil, err
	}
	return h.leaseOf(ctx, h.first), nil
}

// exchange ends from and makes the transaction. If that is known to have been applied the ticket that it returns comes with our place.
// It fails if from cannot be exchanged any more, or if what became of the transaction is left to the background.
func (a *acquisition) exchange(ctx context.Context, from *Lease, to *terms) (next ticket, err error) {
	old := from.h
	e, err := to.entry(to.q.entrance())
	if err != nil {
		return ticket{}, err
	}
	if err := from.handIn(); err != nil {
		return ticket{}, err
	}
	t := &txn{e: e.e, born: e.nodes, gone: old.ks, ends: keysOf(old.ks)}
	if n := e.key(); n != nil {
		t.keys = append(t.keys, n)
	}
	lists, err := t.runKeyed(ctx, e.dirs()...)
	switch {
	case t.left != nil:
		a.left = append(a.left, t.left)
		a.c.state.whenLeft(a.left, func() { old.close(ticket{}) })
		return ticket{}, err
	case err != nil:
		old.letGo()
		return ticket{}, nil
	}
	t.sweepEnds()
	old.close(ticket{})
	if err := t.admits(ctx); err != nil {
		a.entries = []*entry{e}
		return ticket{}, err
	}
	if next.k = e.node(); lists != nil {
		next.children = lists[0]
	}
	return next, nil
}
