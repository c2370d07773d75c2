package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

// Semaphore is a lock that up to a declared number of permits hold. In ZooKeeper it has the layout of Curator's
// InterProcessSemaphoreV2: permits are nodes below "leases", who has to wait queues below "locks". The number is read
// from the declaration and followed while it changes: raised, it admits waiters at once; lowered, it interrupts
// nobody and admits nobody until enough permits came back.
type Semaphore struct{ q *queue }

// Semaphore returns a handle on the semaphore at path; see Client.Mutex.
func (c *Client) Semaphore(path string, opts ...Option) *Semaphore {
	return &Semaphore{c.queue(kind.Semaphore, path, false, opts)}
}

// Path is the lock's path.
func (m *Semaphore) Path() string { return m.q.path }

// Acquire takes n permits at once: all or none, in one transaction, so that callers wanting several cannot block each
// other half-served (two clients of Curator's that want 2 of 2 do). Waiters are served in the order of arrival: one
// that wants many is not overtaken by those that want few. ctx bounds the wait.
//
// With a context of a lease of this semaphore, Acquire is ErrWouldDeadlock: who takes permits while holding some can
// wait for itself. WithReentrancy it shares the permits that the lease has.
//
// Errors are those of Mutex.Lock, and ErrTooManyPermits: at once where fewer than n are declared, and from a wait when the
// number is lowered below n. Unless it were raised later, that could never be granted.
func (m *Semaphore) Acquire(ctx context.Context, n int) (*Lease, error) {
	return m.acquire(ctx, n, false)
}

// TryAcquire takes n permits if they are free and nobody waits for some, else it returns a *HeldError. A client that polls
// with it keeps no waiter from its permits, and writes nothing while they are taken.
func (m *Semaphore) TryAcquire(ctx context.Context, n int) (*Lease, error) {
	return m.acquire(ctx, n, true)
}

// Do runs fn while n permits are held; see Mutex.Do.
func (m *Semaphore) Do(ctx context.Context, n int, fn func(context.Context, *Lease) error) error {
	l, err := m.Acquire(ctx, n)
	if err != nil {
		return err
	}
	return l.do(ctx, fn)
}

// The two queues of the layout.
func leasesOf(k *kind.Kind) kind.Queue { return k.Queues[0] }
func gateOf(k *kind.Kind) kind.Queue   { return k.Queues[1] }

// draw is one call of Acquire.
type draw struct {
	claim
	permits []*contender
}

func (m *Semaphore) acquire(ctx context.Context, n int, try bool) (l *Lease, err error) {
	d := &draw{claim: claim{q: m.q, try: try, n: n, start: time.Now()}}
	defer func() {
		if err != nil {
			m.q.c.refused(m.q.path, m.q.kind, d.k, d.start, err)
		}
	}()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("recipes: semaphore %s: %w", m.q.path, context.Cause(ctx))
	}
	if m.q.wrong != nil {
		return nil, m.q.wrong
	}
	if n < 1 {
		return nil, fmt.Errorf("recipes: semaphore %s: %d permits asked for, at least 1 is needed", m.q.path, n)
	}
	if l, err := m.q.reenter(ctx, n); l != nil || err != nil {
		return l, err
	}
	defer m.q.c.state.pin(m.q.path)()
	h, err := d.run(ctx)
	if err != nil {
		return nil, err
	}
	return h.lease(ctx), nil
}

// run takes the permits: without a turn while nobody of this client waits, else in turn. The turn is one to wait with, not
// to hold: it is passed on as soon as the permits are there, and many goroutines of one client hold at a time.
func (d *draw) run(ctx context.Context) (*holding, error) {
	key := d.q.path
	if d.try {
		held, err := d.q.c.state.vacant(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("recipes: semaphore %s: %w", key, err)
		}
		if held != nil {
			return nil, d.refused(held)
		}
		return d.retrying(ctx, d.direct)
	}
	if !d.q.c.state.taken(key) {
		h, err := d.retrying(ctx, d.direct)
		if !errors.Is(err, ErrHeld) {
			return h, err
		}
		// Somebody was there first: now it is the turn, and the antechamber, that keep the order.
	}
	b, held := d.q.c.state.enter(ctx, key, d.q.id(), false)
	if held != nil {
		return nil, d.refused(held)
	}
	d.turn = true
	h, err := d.retrying(ctx, func(ctx context.Context) (*holding, error) {
		k := b.k
		b = baton{} // inherited once: another try makes a place of its own
		return d.gated(ctx, k)
	})
	d.unwatch()
	if err != nil {
		return nil, d.giveUp(ctx, err)
	}
	d.q.c.state.leave(key, baton{})
	return h, nil
}

// retrying repeats f as long as it fails without having done anything. A place that exists (d.k) is giveUp's to deal with.
func (d *draw) retrying(ctx context.Context, f func(context.Context) (*holding, error)) (h *holding, err error) {
	err = retry(ctx, nil, func(err error) bool { return d.k == nil && didNothing(err) }, func() error {
		h, err = f(ctx)
		return err
	})
	return h, err
}

// prepare finds the session and the declaration.
func (d *draw) prepare(ctx context.Context) (err error) {
	if d.s, err = d.q.c.Session(ctx); err != nil {
		return err
	}
	if d.d, err = d.q.c.declared(ctx, d.s, d.q); err != nil {
		return err
	}
	return d.possible()
}

// possible refuses what the declared number of permits can never serve. A waiter asks whenever it looks at the queue and
// is not admitted (see ahead): the number may have been lowered meanwhile, and its place, or the permits it has in the
// order but was not granted, would keep everybody else out.
func (a *claim) possible() error {
	if a.n == 0 {
		return nil
	}
	if most := a.limit(); a.n > most {
		return fmt.Errorf("%w: semaphore %s: %d permits asked for, %d are declared", ErrTooManyPermits, a.q.path, a.n, most)
	}
	return nil
}

func (a *claim) limit() int { return a.q.kind.Permits(a.d.params) }

// exhaustedAny is exhausted of several. They have consecutive numbers, but those may run out between two of them.
func exhaustedAny(ks []*contender) error {
	for _, k := range ks {
		if err := k.exhausted(); err != nil {
			return err
		}
	}
	return nil
}

// both are the queue of the permits and the one of those who wait for them.
func (d *draw) both() []string {
	return []string{leasesOf(d.q.kind).Dir(d.q.path), gateOf(d.q.kind).Dir(d.q.path)}
}

// makePermits makes the permits' contenders.
func (d *draw) makePermits() ([]*contender, error) {
	about := holderSelf(d.q.id())
	about.Limit = d.limit()
	ks := make([]*contender, d.n)
	for i := range ks {
		k, err := d.q.contender(d.s, d.d, leasesOf(d.q.kind), false)
		if err != nil {
			return nil, err
		}
		k.data = about.Encode()
		ks[i] = k
	}
	return ks, nil
}

// makePlace makes the contender that waits for the permits and says how many they are: there is no node yet for each.
func (d *draw) makePlace() (*contender, error) {
	k, err := d.q.contender(d.s, d.d, gateOf(d.q.kind), false)
	if err == nil {
		k.data = d.wish()
	}
	return k, err
}

func (d *draw) wish() []byte {
	about := holderSelf(d.q.id())
	about.Permits = d.n
	return about.Encode()
}

// relabel corrects what an inherited place says about who waits there, and for how many permits. It is a label: where it
// cannot be written, the wait goes on without it. What somebody else wrote, a revocation, stays.
func (d *draw) relabel(ctx context.Context) {
	var was kind.Holder
	if json.Unmarshal(d.k.data, &was) != nil || was.ID == d.q.id() && was.Permits == d.n {
		return
	}
	data, stat, err := d.s.Get(ctx, d.k.path)
	if err != nil || string(data) != string(d.k.data) {
		return
	}
	wish := d.wish()
	if _, err := d.s.Set(ctx, d.k.path, wish, stat.Version); err == nil {
		d.k.data = wish
	}
}

// missing explains a NoNode: the layout is incomplete. WithCreate completes it.
func (d *draw) missing(ctx context.Context, err error) error {
	if err = d.q.complete(ctx, d.s, err); !isNoNode(err) {
		return err
	}
	return fmt.Errorf("%w: %s lacks a child its layout needs (%v); run apply: %w", ErrNotProvisioned, d.q.path, d.q.kind.Children, err)
}

// hold turns the permits into a holding.
func (d *draw) hold(ctx context.Context) (*holding, error) {
	if err := d.agree(ctx); err != nil {
		return nil, d.withdraw(ctx, err)
	}
	h, err := hold(ctx, &holding{q: d.q, s: d.s, d: d.d, ks: d.permits, wait: time.Since(d.start)})
	if err != nil {
		return nil, d.withdraw(ctx, err)
	}
	return h, nil
}

// gated queues for the permits with the contender k, or a new one.
func (d *draw) gated(ctx context.Context, k *contender) (*holding, error) {
	d.k, d.queued, d.deaf = nil, false, false
	if err := d.prepare(ctx); err != nil {
		if d.k = k; k == nil {
			err = notQueued(err)
		}
		return nil, err
	}
	var children []string
	if k == nil || k.s != d.s {
		place, err := d.makePlace()
		if err != nil {
			return nil, err
		}
		t := &txn{c: d.q.c, s: d.s, born: []*contender{place}}
		lists, err := t.run(ctx, place.dir)
		if d.left = t.left; err != nil {
			return nil, d.missing(ctx, err)
		}
		k = place
		if lists != nil {
			children = lists[0]
		}
	}
	d.k = k
	if err := k.exhausted(); err != nil {
		return nil, err
	}
	d.relabel(ctx)
	if err := d.front(ctx, children); err != nil {
		return nil, err
	}
	err := d.serve(ctx)
	if d.permits != nil {
		d.k = nil // the place is gone, and a permit is none that another goroutine could inherit
	}
	if err != nil {
		return nil, d.withdraw(ctx, err)
	}
	return d.hold(ctx)
}

// front waits until our place is the first in the queue of those who wait. That grants nothing yet, so it needs no proof: the
// transaction in take deletes the place, and fails if it or its session is gone.
func (d *draw) front(ctx context.Context, children []string) error {
	for {
		if children == nil {
			var err error
			if children, err = d.plainList(ctx); err != nil {
				return d.timedOut(ctx, err)
			}
		}
		v, err := decide(gateOf(d.q.kind), nil, children, d.k.name)
		if err != nil {
			return lostError(d.k.path, err)
		}
		if v.granted {
			return nil
		}
		v.waiters = v.position // unlike a mutex's front, the front of this queue waits too
		if err := d.ahead(d.k.dir, v); err != nil {
			return err
		}
		turn, err := d.await(ctx, v)
		if turn || err != nil {
			return err
		}
		children = nil
	}
}

// serve waits, at the front, until the permits are free, and takes them in the transaction that gives the place up.
// d.permits says whether that was done, also when it errs.
//
// Why nobody who polls can keep the front waiting. It counts the permits that it finds when it comes to the front, and none
// that are created later: while our place is the first nobody else takes permits in turn, and whoever creates some directly
// finds our place in the listing behind that, and withdraws them. So, of L declared permits, at most L are waited for here
// that somebody holds; the others are being withdrawn. Direct permits that are older than ours when we take those are what
// within waits for, and nothing comes before ours any more. These are being withdrawn too, unless their listing was read
// behind our transaction, which deletes our place: then the first L of them may be granted. So the front waits for 2L
// permits to be released at most, and whoever is behind it for that many more each. That is for our clients' front; for
// one of Curator's, which counts every permit, see look.
func (d *draw) serve(ctx context.Context) error {
	leases := d.both()[0]
	var known map[string]bool
	for {
		if err := d.possible(); err != nil {
			return err
		}
		children, w, err := childrenWPersistent(ctx, d.s, leases)
		if err != nil {
			return d.timedOut(ctx, err)
		}
		line, _ := kind.SortContenders(children)
		if known == nil {
			known = map[string]bool{}
			for _, k := range line {
				known[k.Name] = true
			}
		}
		line = slices.DeleteFunc(line, func(k kind.Contender) bool { return !known[k.Name] })
		if len(line)+d.n <= d.limit() {
			w.Stop()
			if err := d.take(ctx); err != nil || d.permits != nil {
				return err
			}
			continue
		}
		// There is a first one: were nobody there, n would be beyond the limit, which was looked at above.
		if err := d.ahead(leases, verdict{position: len(line), first: line[0]}); err != nil {
			w.Stop()
			return err
		}
		d.identify(ctx)
		if err = d.sameLimit(d.holder); err == nil { // rather than when those who disagree have gone
			_, err = d.sleep(ctx, w)
		}
		w.Stop()
		if err != nil {
			return err
		}
	}
}

// take makes the transaction. Others may have created permits directly since we counted, and may be granted: then the
// last of ours is beyond the limit, and we wait, with our permits in the order, until enough older ones have gone.
// Neither permits nor an error: look again.
func (d *draw) take(ctx context.Context) error {
	permits, err := d.makePermits()
	if err != nil {
		return err
	}
	// Not under a limit that has been lowered meanwhile: any write to the declaration fails this, and is read.
	limit := &zk.CheckVersionRequest{Path: d.q.path, Version: d.d.version}
	t := &txn{c: d.q.c, s: d.s, born: permits, gone: []*contender{d.k}, with: []any{limit}}
	lists, err := t.run(ctx, permits[0].dir)
	if d.left = t.left; d.left != nil { // whatever the outcome turns out to be, the place and the permits are deleted
		d.k = nil // nobody can inherit it
	}
	switch {
	case err == nil:
		d.permits = permits
		var children []string
		if lists != nil {
			children = lists[0]
		}
		return d.within(ctx, children)
	case isNoNode(err):
		return fmt.Errorf("%w, or %s lacks a child its layout needs (%v): run apply then", lostError(d.k.path, err), d.q.path, d.q.kind.Children)
	case errors.Is(err, zk.ErrBadVersion):
		d.q.c.state.outdated(d.d) // its event precedes this answer, unless it was lost
		return d.redeclare(ctx)
	case (didNothing(err) || errors.Is(err, session.ErrThrottled)) && ctx.Err() == nil:
		return pause(ctx, d.s, 10*time.Millisecond)
	default:
		return d.timedOut(ctx, err)
	}
}

// within waits until the last of our permits, and with it all of them, is within the limit.
func (d *draw) within(ctx context.Context, children []string) error {
	if err := exhaustedAny(d.permits); err != nil {
		return err
	}
	d.unwatch() // the place in the queue is gone; from here on the last permit is what waits
	d.k, d.deaf, d.version, d.czxid = d.permits[len(d.permits)-1], false, 0, 0
	d.queued, d.proven = true, children != nil
	return d.wait(ctx, children)
}

// Permits reads how many permits are declared and how many are taken now.
func (m *Semaphore) Permits(ctx context.Context) (declared, taken int, err error) {
	s, err := m.q.c.Session(ctx)
	if err != nil {
		return 0, 0, err
	}
	d, err := m.q.c.declared(ctx, s, m.q)
	if err != nil {
		return 0, 0, err
	}
	children, _, err := s.Children(ctx, leasesOf(m.q.kind).Dir(m.q.path))
	line, _ := kind.SortContenders(children)
	return m.q.kind.Permits(d.params), len(line), err
}
