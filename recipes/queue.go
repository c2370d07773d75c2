package recipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

// queue is one handle's way into one queue: everything that does not change from one acquisition to the next.
type queue struct {
	c      *Client
	kind   *kind.Kind
	path   string // the lock node
	shared bool
	opts   options
	wrong  error // with how the handle was made; every use of it says so, before it sends anything
}

func (c *Client) queue(k *kind.Kind, path string, shared bool, opts []Option) *queue {
	q := &queue{c: c, kind: k, path: path, shared: shared}
	q.opts, q.wrong = collect(opts, k)
	if path == "/" {
		q.wrong = errors.New("the root of the tree is no lock; name a node below it")
	} else if err := kind.ValidatePath(path); err != nil {
		q.wrong = err
	}
	if q.wrong != nil {
		q.wrong = fmt.Errorf("recipes: %s %s: %w", k, path, q.wrong)
	}
	return q
}

// dir is where the contenders of the deciding queue stand.
func (q *queue) dir() string { return q.place().Dir(q.path) }

// slot is the local queue of the goroutines that want the same. Readers leave theirs when they are granted: see share.go.
func (q *queue) slot() string {
	if q.shared {
		return q.path + "\x00" // no path of ZooKeeper's
	}
	return q.path
}

// place is the deciding queue of the kind.
func (q *queue) place() kind.Queue { return q.kind.Queues[0] }

func (q *queue) id() string { return cmp.Or(q.opts.id, q.c.cfg.ID) }

// contender makes a contender that does not exist yet.
func (q *queue) contender(s *Session, d *declaration, in kind.Queue, shared bool) (*contender, error) {
	marker, err := in.Marker(d.wire, shared)
	if err != nil {
		return nil, fmt.Errorf("recipes: %s: %w", q.path, err)
	}
	return &contender{
		s: s, dir: in.Dir(q.path), prefix: protectedPrefix(d.wire, marker), id: q.id(),
		data: in.Data(holderSelf(q.id())), acl: d.acl, flags: zk.FlagEphemeral | zk.FlagSequence, bytes: q.c.state.account(s),
	}, nil
}

// verdict is what a listing says about our contender.
type verdict struct {
	granted  bool
	behind   string // child to wait for; "" = any change
	head     bool   // behind is the front of the queue
	position int    // contenders ahead
	waiters  int    // of them, not granted
	first    kind.Contender
}

// errNotListed: our own contender is not in the list. It is never read as "nobody is ahead" (go-zookeeper's Lock does).
var errNotListed = errors.New("our contender is not in the queue")

// decide asks the kind about the contender called name, of all those in its queue.
func decide(k kind.Queue, p kind.Params, children []string, name string) (verdict, error) {
	line, _ := kind.SortContenders(children) // junk is nobody's place: neither waited for nor counted
	i := slices.IndexFunc(line, func(c kind.Contender) bool { return c.Name == name })
	if i < 0 {
		return verdict{}, errNotListed
	}
	adm := k.Admit(p, line, i)
	v := verdict{granted: adm.Granted, position: i, first: line[0]}
	if adm.Granted {
		return v, nil
	}
	if adm.Behind != kind.AnyChange {
		v.behind, v.head = line[adm.Behind].Name, adm.Behind == 0
	}
	for j := range i {
		if !k.Admit(p, line, j).Granted {
			v.waiters++
		}
	}
	return v, nil
}

// claim is one call of Lock or TryLock.
type claim struct {
	q     *queue
	n     int // permits wanted; 0 where there are none
	try   bool
	start time.Time

	s       *Session
	d       *declaration
	k       *contender
	left    <-chan struct{} // closed when the background has undone what we asked for and left; nil: nothing
	turn    bool            // the slot is ours
	own     *session.Watch  // on k
	deaf    bool            // k may not be read by us
	version int32           // of k's data
	czxid   int64           // of k; 0 until read
	proven  bool            // a committed write was made after, or by, the fact that admits us
	handoff int
	queued  bool

	position int
	holder   Contender
	shares   *tenure // ours, of a holding that was shared
}

// lock takes the lock, waiting unless try.
func (q *queue) lock(ctx context.Context, try bool) (l *Lease, err error) {
	a := &claim{q: q, try: try, start: time.Now()}
	defer func() {
		if err != nil {
			q.c.refused(q.path, q.kind, a.k, a.start, err)
		}
	}()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("recipes: lock %s: %w", q.path, context.Cause(ctx))
	}
	if q.wrong != nil {
		return nil, q.wrong
	}
	// Before the turn is asked for, which the caller's own lease has.
	if l, err := q.reenter(ctx, 0); l != nil || err != nil {
		return l, err
	}
	defer q.c.state.pin(q.path)()
	if q.shared {
		if _, err := q.yield(ctx, try); err != nil {
			return nil, err
		}
	}
	b, err := a.enter(ctx)
	if err != nil {
		return nil, err
	}
	if b.shared != nil {
		return a.beside(ctx, b.shared), nil
	}
	g, err := a.run(ctx, b)
	if err != nil {
		return nil, err
	}
	if q.shared {
		q.c.state.admit(q.slot(), g)
	}
	return g.leaseOf(ctx, cmp.Or(a.shares, g.first)), nil
}

// enter waits for this client's turn. A Try that excludes others is refused without a request where another goroutine has
// the turn: that one holds the lock or is ahead of us. A Try to read may share what that one gets, and waits until it is
// known to have to wait.
func (a *claim) enter(ctx context.Context) (baton, error) {
	key := a.q.slot()
	a.turn = true
	if a.try && !a.q.shared {
		b, held := a.q.c.state.tryEnter(ctx, key, a.q.id())
		if held != nil && held.Cause != nil {
			return baton{}, fmt.Errorf("recipes: lock %s: %w", a.q.path, held.Cause)
		}
		return b, a.refused(held)
	}
	b, held := a.q.c.state.enter(ctx, key, a.q.id(), a.try)
	return b, a.refused(held)
}

// refused completes what the local queue says is in the way; nil when it is nothing.
func (a *claim) refused(held *HeldError) error {
	if held == nil {
		return nil
	}
	held.Path, held.c = a.q.path, a.q.c
	if held.Cause != nil {
		held.Waited = time.Since(a.start)
	}
	return held
}

// run contends until granted. On an error the turn has been passed on and the contender is gone or going.
func (a *claim) run(ctx context.Context, b baton) (g *holding, err error) {
	// A place that exists is given up, or inherited, and not taken twice.
	err = retry(ctx, nil, func(err error) bool { return a.k == nil && didNothing(err) }, func() error {
		g, err = a.once(ctx, b)
		a.unwatch()
		b = baton{} // what was inherited is used up, or went with its session
		return err
	})
	if err != nil {
		return nil, a.giveUp(ctx, err)
	}
	return g, nil
}

// once is one try in one session.
func (a *claim) once(ctx context.Context, b baton) (g *holding, err error) {
	a.k, a.proven, a.deaf, a.queued = b.k, false, false, false
	a.version, a.czxid = 0, 0
	if ctx.Err() != nil {
		return nil, fmt.Errorf("recipes: lock %s: %w", a.q.path, context.Cause(ctx))
	}
	if a.s, err = a.q.c.Session(ctx); err != nil {
		return nil, err
	}
	if a.k != nil && a.k.s != a.s { // it went with its session
		a.k, b = nil, baton{}
	}
	// Also for a place that is granted already: a lock that is drained or moved is not passed on from hand to hand.
	if a.d, err = a.q.c.declared(ctx, a.s, a.q); err != nil {
		if a.k == nil {
			err = notQueued(err)
		}
		return nil, err
	}
	if b.granted {
		a.handoff, a.proven = b.handoffs, a.named()
		if err := a.prove(ctx); err != nil {
			return nil, err
		}
		return newHolding(ctx, a)
	}
	if a.k == nil && a.q.shared {
		if g, err := a.share(ctx); g != nil || err != nil {
			return g, notQueued(err)
		}
	}
	children := b.children
	if a.k == nil {
		if children, err = a.join(ctx); err != nil {
			return nil, err
		}
	}
	if err := a.k.exhausted(); err != nil {
		return nil, err
	}
	// A listing that came with the create is read behind it, and makes of it the committed write of wait's proof. An
	// inherited one came with a create of the same session, by whoever left us the place.
	a.proven = children != nil && a.named()
	if err := a.wait(ctx, children); err != nil {
		return nil, err
	}
	return newHolding(ctx, a)
}

// named reports whether the place says that it is ours. One that was inherited may have been made for another goroutine
// of this client: then prove writes our name, in the write that it makes anyway unless the place was granted already.
func (a *claim) named() bool { return a.k.id == a.q.id() }

// join creates the contender and lists the queue in one round trip.
func (a *claim) join(ctx context.Context) ([]string, error) {
	k, err := a.q.contender(a.s, a.d, a.q.place(), a.q.shared)
	if err != nil {
		return nil, err
	}
	t := &txn{c: a.q.c, s: a.s, born: []*contender{k}}
	lists, err := t.run(ctx, k.dir)
	if a.left = t.left; err != nil {
		if isNoNode(err) {
			err = fmt.Errorf("%w: %s does not exist: %w", ErrNotProvisioned, k.dir, err)
		}
		return nil, err
	}
	a.k = k
	if lists == nil {
		return nil, nil
	}
	return lists[0], nil
}

// giveUp leaves the queue: a waiting goroutine of this client inherits the place, otherwise the contender is deleted
// in the background and the turn passed on after that, so that nobody here meets it as a rival. The same goes for one that
// may or may not exist: callers that give up before the network has answered leave one behind at most.
//
// Inherited is only a place whose owner has lost patience. Any other error is about the place or the lock, and an heir
// would meet it again.
func (a *claim) giveUp(ctx context.Context, err error) error {
	st, key := &a.q.c.state, a.q.slot()
	k := a.k
	if k != nil && ctx.Err() != nil && !a.try && k.s.State() != session.StateLost && st.bequeath(key, baton{k: k}) {
		return err
	}
	st.clearing(key)
	if k == nil {
		a.q.c.whenLeft(a.left, func() { st.leave(key, baton{}) })
		return err
	}
	a.q.c.leaveBehind(ctx, []*contender{k}, func() { st.leave(key, baton{}) })
	return err
}
