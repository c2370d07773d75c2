package recipes

import (
	"context"

	"github.com/locktree/locktree/recipes/internal/declare"
	"github.com/locktree/locktree/recipes/internal/znode"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// An acquisition passes through phases, each with a type of its own, which knows what is known then and nothing that comes later:
//
//	terms      the lock is open: its declaration is read, in one session
//	entry      our contenders are in its queue
//	arrival    with what the queue looked like right behind their creation
//	waiter     waits there; it lives no longer than the call that waits
//	admission  the queue admits us: by which fact, and proven by which write
//	grant      that is certain; hold makes a holding of it

// terms are what one lock is taken under.
type terms struct {
	q    *handle
	n    int // permits wanted; 0 where the kind has none
	s    *znode.Session
	decl *declare.Session
	d    *declare.Declaration // renew replaces it
	up   listener
	try  bool
	many int // from how many contenders on a queue is long, if not longQueue: tests have few

	// Who is ahead, for the error of a call that ends.
	position int    // how many
	holder   *rival // the first of them; nil if none is known
}

// listener is told what happens to who waits, and makes the errors of those that wait no longer.
type listener interface {
	Ahead(t *terms)                       // who is ahead is known, or more is known of that one
	Waits(t *terms, node string)          // somebody is ahead, so the call waits
	Held(t *terms) error                  // of a try
	TimedOut(t *terms, cause error) error // of a wait that cause has ended
	Left(undone <-chan struct{})          // the nodes are the background's to delete, which says when that is done
	GoesOn(e *entry)                      // a place was exchanged for this one
}

// timedOut turns an error into one that says who is ahead, if ctx has ended.
func (t *terms) timedOut(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return t.up.TimedOut(t, znode.WhyEnded(ctx))
}

// renew reads the declaration again: the lock may be drained, moved, or have other parameters. It fails if the lock
// grants nothing any more.
func (t *terms) renew(ctx context.Context) error {
	d, err := t.decl.Of(ctx, &t.q.Name)
	if err != nil {
		return t.timedOut(ctx, err)
	}
	t.d = d
	return nil
}

// obey reads changed declarations again until all are those in force. It is for callers that decide by the listing that came
// with their create; wait lists again instead. See prove.
func obey(ctx context.Context, all ...*terms) error {
	for i := 0; i < len(all); i++ {
		if t := all[i]; t.d.Stale() {
			if err := t.renew(ctx); err != nil {
				return err
			}
			i = -1 // the others' may have changed in that time
		}
	}
	return nil
}

// says records what the holder says about itself. Only the error of a wait that ends needs it, and reads it then. Goroutines that
// wait behind us make errors of the same holder.
func (t *terms) says(data []byte) {
	t.holder.data = data
	t.up.Ahead(t)
}

// identify reads who the holder is, for the error of a wait that ends: the predecessor's data came with its watch, but
// the holder may be another contender. Best effort, once for each holder.
func (t *terms) identify(ctx context.Context) {
	if t.holder.data == nil {
		t.says([]byte{})
		if data, _, err := t.s.S.Get(ctx, t.holder.path()); err == nil {
			t.says(data)
		}
	}
}

// entry makes the contenders for a queue of the lock: one, or one for each permit.
func (t *terms) entry(in kind.Queue) (*entry, error) {
	about := znode.HolderSelf(t.q.id)
	n := 1
	switch {
	case t.n > 0 && in.Gate: // there is no node yet for each
		about.Permits = t.n
	case t.n > 0:
		about.Limit, n = t.limit(), t.n
	}
	nodes := make([]*znode.Node, n)
	key := t.q.KeyNode(t.d, in)
	for i := range nodes {
		var err error
		if nodes[i], err = t.q.contender(t.s, t.d, in, about); err != nil {
			return nil, err
		}
		nodes[i].Key = key
	}
	return &entry{t, in, nodes}, nil
}

// entry is our place in one queue: a contender, or among permits one for each. For a semaphore that is a place at the gate
// first, and then one among the permits.
type entry struct {
	*terms
	in    kind.Queue
	nodes []*znode.Node // the last one waits: when it is granted all are
}

// node is the contender that waits.
func (e *entry) node() *znode.Node { return e.nodes[len(e.nodes)-1] }

// key is the node of the key, if it is a key's.
func (e *entry) key() *znode.Parent { return e.node().Key }

// seen notes what a listing says: who has seen others in the queue of a key expects some when it leaves.
func (e *entry) seen(v *verdict) {
	if n := e.key(); n != nil && v.total > len(e.nodes) {
		n.Rival = true
	}
}

// permits reports whether the place is among the permits. Other clients count those as held from their creation.
func (e *entry) permits() bool { return e.n > 0 && !e.in.Gate }

// dirs are the queues that decide: for permits their own and the gate's, else the place's own.
func (e *entry) dirs() []string {
	dirs := []string{e.in.Dir(e.q.Path)}
	if e.permits() {
		dirs = append(dirs, e.q.entrance().Dir(e.q.Path))
	}
	return dirs
}

// exhausted reports a number too close to the end of the sequence, which may be reached between two permits.
func (e *entry) exhausted() error {
	for _, k := range e.nodes {
		if err := k.Exhausted(); err != nil {
			return err
		}
	}
	return nil
}

// named reports whether the node has our ID. An inherited one may have that of another goroutine of this client. Then
// prove writes ours, in the write that it makes anyway unless the place was granted already.
func (e *entry) named() bool { return e.node().Id == e.q.id }

// rival is a contender ahead of us, as far as it is known.
type rival struct {
	kind.Contender
	dir  string
	data []byte // what it says about itself; nil until it is read
}

func (r *rival) path() string { return kind.JoinPath(r.dir, r.Name) }

func (r *rival) contender() kind.Party {
	c := inspect.NewContender(r.dir, r.Contender, nil, nil)
	c.Data = r.data
	return c
}
