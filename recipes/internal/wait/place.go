package wait

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/internal/declare"
	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/znode"
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
type Opened struct {
	Q    *Handle
	N    int // permits wanted; 0 where the kind has none
	S    *znode.Session
	Decl *declare.Session
	D    *declare.Declaration // renew replaces it
	Up   listener
	Try  bool
	Many int // from how many contenders on a queue is long, if not longQueue: tests have few

	// Who is ahead, for the error of a call that ends.
	Position int    // how many
	Holder   *Rival // the first of them; nil if none is known
}

// listener is told what happens to who waits, and makes the errors of those that wait no longer.
type listener interface {
	Ahead(t *Opened)                       // who is ahead is known, or more is known of that one
	Waits(t *Opened, node string)          // somebody is ahead, so the call waits
	Held(t *Opened) error                  // of a try
	TimedOut(t *Opened, cause error) error // of a wait that cause has ended
	Left(undone <-chan struct{})           // the nodes are the background's to delete, which says when that is done
	GoesOn(e *Place)                       // a place was exchanged for this one
}

// timedOut turns an error into one that says who is ahead, if ctx has ended.
func (t *Opened) TimedOut(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return t.Up.TimedOut(t, znode.WhyEnded(ctx))
}

// renew reads the declaration again: the lock may be drained, or have other parameters. It fails if the lock
// grants nothing any more.
func (t *Opened) renew(ctx context.Context) error {
	d, err := t.Decl.Of(ctx, &t.Q.Name)
	if err != nil {
		return t.TimedOut(ctx, err)
	}
	t.D = d
	return nil
}

// obey reads changed declarations again until all are those in force. It is for callers that decide by the listing that came
// with their create; wait lists again instead. See prove.
func Obey(ctx context.Context, all ...*Opened) error {
	for i := 0; i < len(all); i++ {
		if t := all[i]; t.D.Stale() {
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
func (t *Opened) says(data []byte) {
	t.Holder.data = data
	t.Up.Ahead(t)
}

// identify reads who the holder is, for the error of a wait that ends: the predecessor's data came with its watch, but
// the holder may be another contender. Best effort, once for each holder.
func (t *Opened) identify(ctx context.Context) {
	if t.Holder.data == nil {
		t.says([]byte{})
		if data, _, err := t.S.S.Get(ctx, t.Holder.path()); err == nil {
			t.says(data)
		}
	}
}

// entry makes the contenders for a queue of the lock: one, or one for each permit.
func (t *Opened) Entry(in kind.Queue) (*Place, error) {
	about := znode.HolderSelf(t.Q.Id)
	n := 1
	switch {
	case t.N > 0 && in.Gate: // there is no node yet for each
		about.Permits = t.N
	case t.N > 0:
		about.Limit, n = t.Limit(), t.N
	}
	nodes := make([]*znode.Node, n)
	key := t.Q.KeyNode(t.D, in)
	for i := range nodes {
		var err error
		if nodes[i], err = t.Q.Contender(t.S, t.D, in, about); err != nil {
			return nil, err
		}
		nodes[i].Key = key
	}
	return &Place{t, in, nodes}, nil
}

// entry is our place in one queue: a contender, or among permits one for each. For a semaphore that is a place at the gate
// first, and then one among the permits.
type Place struct {
	*Opened
	In    kind.Queue
	Nodes []*znode.Node // the last one waits: when it is granted all are
}

// node is the contender that waits.
func (e *Place) Node() *znode.Node { return e.Nodes[len(e.Nodes)-1] }

// key is the node of the key, if it is a key's.
func (e *Place) Key() *znode.Parent { return e.Node().Key }

// seen notes what a listing says: who has seen others in the queue of a key expects some when it leaves.
func (e *Place) Seen(v *Verdict) {
	if n := e.Key(); n != nil && v.total > len(e.Nodes) {
		n.Rival = true
	}
}

// permits reports whether the place is among the permits. Other clients count those as held from their creation.
func (e *Place) Permits() bool { return e.N > 0 && !e.In.Gate }

// dirs are the queues that decide: for permits their own and the gate's, else the place's own.
func (e *Place) Dirs() []string {
	dirs := []string{e.In.Dir(e.Q.Path)}
	if e.Permits() {
		dirs = append(dirs, e.Q.Entrance().Dir(e.Q.Path))
	}
	return dirs
}

// exhausted reports a number too close to the end of the sequence, which may be reached between two permits.
func (e *Place) Exhausted() error {
	for _, k := range e.Nodes {
		if err := k.Exhausted(); err != nil {
			return err
		}
	}
	return nil
}

// named reports whether the node has our ID. An inherited one may have that of another goroutine of this client. Then
// prove writes ours, in the write that it makes anyway unless the place was granted already.
func (e *Place) named() bool { return e.Node().Id == e.Q.Id }

// rival is a contender ahead of us, as far as it is known.
type Rival struct {
	kind.Contender
	Dir  string
	data []byte // what it says about itself; nil until it is read
}

func (r *Rival) path() string { return kind.JoinPath(r.Dir, r.Name) }

func (r *Rival) Party() kind.Party {
	c := inspect.NewContender(r.Dir, r.Contender, nil, nil)
	c.Data = r.data
	return c
}

// handle is how a caller wants a lock.
type Handle struct {
	declare.Name
	Shared bool
	Id     string // whom its nodes name
}

// decides is the queue that decides who holds.
func (q *Handle) Decides() kind.Queue { return q.Kind.Queues[0] }

// entrance is the queue in which to wait: the gate, where the kind has one.
func (q *Handle) Entrance() kind.Queue { return q.Kind.Queues[len(q.Kind.Queues)-1] }

// dir is where the contenders of the deciding queue are.
func (q *Handle) Dir() string { return q.Decides().Dir(q.Path) }

// contender makes a contender that does not exist yet.
func (q *Handle) Contender(s *znode.Session, d *declare.Declaration, in kind.Queue, about kind.Holder) (*znode.Node, error) {
	marker, err := znode.MarkerOf(in, d.Wire, q.Shared)
	if err != nil {
		return nil, errs.Errorf("recipes: %s: %w", q.Path, err)
	}
	return &znode.Node{
		E: s, Dir: in.Dir(q.Path), Prefix: znode.ProtectedPrefix(d.Wire, marker, znode.NewUUID()), Id: about.ID,
		Data: znode.NodeData(in, about), Acl: d.ACL, Flags: zk.FlagEphemeral | zk.FlagSequence,
	}, nil
}

// verdict is what a listing says about our contender.
type Verdict struct {
	Granted  bool
	Behind   string // child to wait for; "" = any change
	before   string // the one ahead of that, if behind is right ahead of us
	head     bool   // behind is the front of the queue
	Position int    // contenders ahead
	waiters  int    // of them, not granted
	total    int    // contenders, with those behind
	first    *kind.Contender
}

// errNotListed: our own contender is not in the list. It is never read as "nobody is ahead" (go-zookeeper's Lock does).
var ErrNotListed = errors.New("our contender is not in the queue")

// decide asks the kind about the contender called name, of all those in its queue. (A verdict is large: it is made where it is
// needed, and not handed through the frames between.)
func (v *Verdict) Decide(k kind.Queue, p kind.Params, children []string, name string) error {
	line, _ := kind.SortContenders(children) // junk is nobody's place: neither waited for nor counted
	i := slices.IndexFunc(line, func(c kind.Contender) bool { return c.Name == name })
	if i < 0 {
		return ErrNotListed
	}
	admitted, behind := k.Admit(p, line, i)
	*v = Verdict{Granted: admitted, Position: i, first: &line[0], total: len(line)}
	if admitted {
		return nil
	}
	if behind != kind.AnyChange {
		v.Behind, v.head = line[behind].Name, behind == 0
		if 0 < behind && behind == i-1 {
			v.before = line[i-2].Name
		}
	}
	for j := range i {
		if admitted, _ := k.Admit(p, line, j); k.Gate || !admitted { // of a gate the first waits too
			v.waiters++
		}
	}
	return nil
}

var (
	// ErrQueueFull: as many contenders wait as max_waiters allows.
	ErrQueueFull = errors.New("recipes: queue full")
	// ErrTooManyPermits: the call asked for more permits than are declared, perhaps since the number was lowered.
	ErrTooManyPermits = errors.New("recipes: too many permits")
)

// possible refuses more permits than are declared. A waiter asks whenever it is not admitted (see ahead): the number may have
// been lowered, and its place, or permits of its own that were not granted, would keep everybody else out.
func (t *Opened) Possible() error {
	if t.N == 0 {
		return nil
	}
	if most := t.Limit(); t.N > most {
		return fmt.Errorf("%w: semaphore %s: %d permits asked for, %d are declared", ErrTooManyPermits, t.Q.Path, t.N, most)
	}
	return nil
}

func (t *Opened) Limit() int { return t.Q.Kind.Permits(t.D.Params) }
