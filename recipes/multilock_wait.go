package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/session"
)

// run takes all members, from the beginning as long as a try fails without having done anything: in the next session, if
// need be, because nothing stands in the last one. Once the places exist there is one try to settle on them. They are of
// one session and one transaction, so whatever ends one ends the set.
func (b *bid) run(ctx context.Context) (*holding, error) {
	var lists [][][]string
	err := retry(ctx, nil, didNothing, func() (err error) {
		lists, err = b.join(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return b.settle(ctx, lists)
}

// join takes a place in every queue, and the permits of every semaphore. The listings are those of each seat's
// queues; nil when they are not known.
func (b *bid) join(ctx context.Context) ([][][]string, error) {
	b.seats = nil
	s, err := b.m.c.Session(ctx)
	if err != nil {
		return nil, err
	}
	seats := make([]*draw, len(b.m.parts))
	for i, p := range b.m.parts {
		d := &draw{claim: claim{q: p.q, n: p.n, try: b.try, start: b.start, s: s}}
		if d.d, err = d.q.c.declared(ctx, s, d.q); err != nil {
			return nil, notQueued(err) // reads are all there was so far
		}
		if err := d.possible(); err != nil {
			return nil, err
		}
		seats[i] = d
	}
	err = look(ctx, s, seats...)
	wait := !b.try && errors.Is(err, ErrHeld)
	if err != nil && !wait {
		return nil, notQueued(err)
	}
	for _, d := range seats {
		if err := d.place(wait); err != nil {
			return nil, err
		}
	}
	return b.sit(ctx, seats, nil)
}

// place makes what the seat is to create: permits, or where they are to be waited for a place in the antechamber.
func (d *draw) place(wait bool) (err error) {
	switch {
	case d.n == 0:
		d.k, err = d.q.contender(d.s, d.d, d.q.kind.Queues[0], d.q.shared)
	case wait:
		d.k, err = d.makePlace()
	default:
		d.permits, err = d.makePermits()
	}
	return err
}

// requeue does that, again as long as nothing has come of it.
func (b *bid) requeue(ctx context.Context) (lists [][][]string, err error) {
	err = retry(ctx, b.seats[0].s, didNothing, func() error {
		lists, err = b.queue(ctx)
		return err
	})
	return lists, err
}

// queue exchanges what join created for places everywhere, in the antechambers of semaphores too. The places that are
// good are exchanged with the others: what keeps sets from waiting in a circle is that all places of one are of one
// transaction (see MultiLock), and none in an antechamber was in the first.
func (b *bid) queue(ctx context.Context) ([][][]string, error) {
	seats := make([]*draw, len(b.seats))
	for i, old := range b.seats {
		seats[i] = &draw{claim: claim{q: old.q, n: old.n, start: b.start, s: old.s, d: old.d}}
		if err := seats[i].place(true); err != nil {
			return nil, err
		}
	}
	return b.sit(ctx, seats, b.nodes())
}

// sit runs the transaction that creates the seats' nodes and deletes others. The seats are ours when it succeeds.
func (b *bid) sit(ctx context.Context, seats []*draw, gone []*contender) ([][][]string, error) {
	t := &txn{c: b.m.c, s: seats[0].s, gone: gone}
	var dirs []string
	for _, d := range seats {
		if d.permits != nil {
			t.born = append(t.born, d.permits...)
		} else {
			t.born = append(t.born, d.k)
		}
		dirs = append(dirs, d.dirs()...)
	}
	flat, err := t.run(ctx, dirs...)
	b.left = t.left
	if isNoNode(err) && gone != nil {
		return nil, lostError(b.m.path(), err) // the parents existed when those were created
	}
	for _, d := range seats {
		err = d.q.complete(ctx, d.s, err) // for the first that may: what the others lack, the next try tells
	}
	if isNoNode(err) {
		err = fmt.Errorf("%w: one of %s, or of what its layout needs, does not exist: %w", ErrNotProvisioned, b.m.path(), err)
	}
	if err != nil {
		return nil, err
	}
	b.seats = seats
	lists := make([][][]string, len(seats))
	for i, d := range seats {
		if n := len(d.dirs()); flat != nil {
			lists[i], flat = flat[:n], flat[n:]
		}
	}
	return lists, nil
}

// dirs are the queues the seat looks at: of permits the permits and the antechamber, else the place's own.
func (d *draw) dirs() []string {
	if d.permits == nil {
		return []string{d.k.dir}
	}
	return d.both()
}

// settle waits for all members; our places exist. A listing that was lost with its connection is read again, a Try's too:
// a later one shows everybody who is still ahead, and our places as long as they exist.
func (b *bid) settle(ctx context.Context, lists [][][]string) (*holding, error) {
	if err := exhaustedAny(b.nodes()); err != nil {
		return nil, err
	}
	for i, d := range b.seats {
		if lists[i] != nil {
			continue
		}
		var err error
		if lists[i], err = listAllAgain(ctx, d.s, d.dirs()...); err != nil {
			return nil, d.timedOut(ctx, err)
		}
	}
	// Behind the transaction, and before the listings are judged: a limit that was lowered before our permits were
	// created counts. See claim.wait for why a watch that is silent now is proof.
	if err := b.obey(ctx); err != nil {
		return nil, err
	}
	free, err := b.free(lists)
	if err != nil {
		return nil, err
	}
	if !free && b.permits() {
		if lists, err = b.requeue(ctx); err != nil {
			return nil, err
		}
		if err := exhaustedAny(b.nodes()); err != nil {
			return nil, err
		}
	}
	if !free { // without permits, the places of join are as good as any, and so are its listings
		if err := b.wait(ctx, lists); err != nil {
			return nil, err
		}
		if err := b.prove(ctx); err != nil {
			return nil, err
		}
		if err := b.obey(ctx); err != nil {
			return nil, err
		}
	}
	for _, d := range b.seats {
		if err := d.agree(ctx); err != nil {
			return nil, err
		}
	}
	return b.hold(ctx)
}

// obey reads the declarations that have changed again, until all are those in force; see claim.wait.
func (b *bid) obey(ctx context.Context) error {
	for i := 0; i < len(b.seats); i++ {
		if d := b.seats[i]; d.d.stale() {
			if err := d.redeclare(ctx); err != nil {
				return err
			}
			i = -1 // the others' may have changed in that time
		}
	}
	return nil
}

// free reports whether everything was ours at once; a Try errs when it was not. The create that went before the
// listings is the committed write that proves it: they are of states behind it, of one session, and show nothing in the
// way (see claim.wait).
func (b *bid) free(lists [][][]string) (bool, error) {
	var held error
	for i, d := range b.seats { // all of them: of every semaphore that is busy we want to know it (see look)
		if err := d.atOnce(lists[i]); held == nil {
			held = err
		}
	}
	if b.try {
		return held == nil, held
	}
	return held == nil, nil
}

// atOnce says whether the seat was ours at once: nil, or who is in the way.
func (d *draw) atOnce(lists [][]string) error {
	switch {
	case d.permits != nil:
		return d.free(lists)
	case d.n > 0:
		return &HeldError{Path: d.q.path, c: d.q.c} // it queues already, because look found somebody in the way
	}
	v, err := decide(d.q.place(), d.d.params, lists[0], d.k.name)
	if err == nil && v.granted {
		return nil
	}
	return &HeldError{Path: d.q.path, Holder: inspect.NewContender(d.k.dir, v.first), Position: v.position, c: d.q.c}
}

// permits says whether permits are among the seats: places that others count although nobody holds them.
func (b *bid) permits() bool {
	for _, d := range b.seats {
		if d.permits != nil {
			return true
		}
	}
	return false
}

// errAside stops the waits for the other members when one has failed.
var errAside = errors.New("another member of the multi-lock failed")

// wait waits in all queues at once; what fails in one gives up all. At once, so that a place which is asked back,
// deleted or drained is noticed wherever that happens, and not when the wait for the others has come to it. So each
// member has a goroutine, which stays with it until all are granted.
func (b *bid) wait(ctx context.Context, lists [][][]string) error {
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	type answer struct {
		i   int
		err error
	}
	answers, all := make(chan answer, len(b.seats)), make(chan struct{})
	var left atomic.Int64
	left.Store(int64(len(b.seats)))
	for i, d := range b.seats {
		go func() {
			err := d.reach(inner, lists[i])
			if err == nil {
				// Whoever is the last to be granted lets all go. So a nil answer of stay means that, or that another one failed.
				if left.Add(-1) == 0 {
					close(all)
				}
				err = d.stay(inner, all)
			}
			d.unwatch()
			answers <- answer{i, err}
		}()
	}
	failed := answer{i: len(b.seats)}
	for range b.seats {
		a := <-answers
		// When the caller's patience ends all members say so, and the first one speaks; else what failed by itself.
		if a.err != nil && (failed.err == nil || ctx.Err() != nil && a.i < failed.i) {
			failed = a
			stop(errAside)
		}
	}
	return failed.err
}

// reach waits until the member is granted. Without its listing the claim's proof is still to be made, see claim.wait.
func (d *draw) reach(ctx context.Context, lists [][]string) error {
	var children []string
	if lists != nil {
		children = lists[0]
	}
	if d.n == 0 {
		d.proven = children != nil
		return d.wait(ctx, children)
	}
	if err := d.front(ctx, children); err != nil {
		return err
	}
	return d.serve(ctx)
}

// stay watches over a granted member until all are: it may be lost, asked back, or its lock drained.
func (d *draw) stay(ctx context.Context, all <-chan struct{}) error {
	for {
		if done, err := d.stayUntilNews(ctx, all); done || err != nil {
			return err
		}
	}
}

// stayUntilNews looks once, and waits for what is worth another look.
func (d *draw) stayUntilNews(ctx context.Context, all <-chan struct{}) (done bool, err error) {
	select {
	case <-all:
		return true, nil
	default:
	}
	if d.own == nil && !d.deaf {
		if err := d.readOwn(ctx); err != nil {
			if ctx.Err() != nil {
				return true, nil // the member that is waited for tells why
			}
			return true, err
		}
	}
	var own <-chan struct{}
	if d.own != nil {
		own = d.own.C()
	}
	select {
	case <-own:
		if d.s.State() == session.StateLost {
			return true, lostError(d.k.path, d.s.Err())
		}
		d.unwatch()
	case <-d.d.changed():
		return false, d.redeclare(ctx)
	case <-d.d.dropped:
		return false, d.redeclare(ctx)
	case <-all:
		return true, nil
	case <-ctx.Done():
		return true, nil
	}
	return false, nil
}

// prove confirms all members at one moment: while one was waited for, another's node may have been deleted. A transaction
// that only checks is committed like any other, so this is the write that the grant rests on, whatever each member has
// proven for itself before. It fails as a whole when one node is gone
// (TestAMultiLockIsNotGrantedWithAMemberThatWentWhileAnotherWasWaitedFor).
func (b *bid) prove(ctx context.Context) error {
	s, ks := b.seats[0].s, b.nodes()
	ops := make([]any, len(ks))
	for i, k := range ks {
		ops[i] = &zk.CheckVersionRequest{Path: k.path, Version: -1}
	}
	err := retry(ctx, s, unanswered, func() error {
		_, err := s.Multi(ctx, ops...)
		return err
	})
	if isNoNode(err) {
		return lostError(b.m.path(), err)
	}
	return err
}
