package wait

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/declare"
	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// A call passes through phases, each with a type of its own, which knows what is known then and nothing that comes later:
//
//	Opened     the lock is open: its declaration is read, in one session
//	Place      our contenders are in its queue
//	arrival    with what the queue looked like right behind their creation (package lock)
//	waiter     waits there; it lives no longer than the call that waits
//	admission  the queue admits us: by which fact, and proven by which write
//	Grant      that is certain; held.Hold makes a lock of it

// Opened is a lock whose declaration is read.
type Opened struct {
	Handle   *Handle
	Permits  int // permits wanted; 0 where the kind has none
	Owner    *znode.SessionNodes
	Reader   *declare.Reader
	Declared *declare.Declaration // renew replaces it
	Listener listener
	Try      bool
	Many     int // from how many contenders on a queue is long, if not longQueue: tests have few

	// The contenders ahead, for the error of a call that ends.
	Position int    // how many
	Holder   *Rival // the first of them; nil if none is known
}

// listener is told what happens to a waiter, and makes the errors of waits that end.
type listener interface {
	Ahead(e *Place)                        // the call waits for the contender ahead, or more is known of it
	Held(t *Opened) error                  // the error of a try
	TimedOut(t *Opened, cause error) error // the error of a wait that cause has ended
	Left(undone <-chan struct{})           // the background deletes the nodes, and then closes undone
	GoesOn(e *Place)                       // a place was exchanged for this one
}

// TimedOut turns an error into one that says who is ahead, if ctx has ended.
func (t *Opened) TimedOut(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return t.Listener.TimedOut(t, retry.WhyEnded(ctx))
}

// renew reads the declaration again. It fails if the lock grants nothing any more.
func (t *Opened) renew(ctx context.Context) error {
	d, err := t.Reader.Of(ctx, &t.Handle.Name)
	if err != nil {
		return t.TimedOut(ctx, err)
	}
	t.Declared = d
	return nil
}

// Obey reads changed declarations again until all are in force. It is for callers that decide by the listing behind their create; a
// waiter lists again instead. See prove.
func Obey(ctx context.Context, all ...*Opened) error {
	for i := 0; i < len(all); i++ {
		if t := all[i]; t.Declared.Stale() {
			if err := t.renew(ctx); err != nil {
				return err
			}
			i = -1 // the others may have changed meanwhile
		}
	}
	return nil
}

// says records what the holder says about itself, for the error of a wait that ends.
func (e *Place) says(data []byte) {
	known := *e.Holder
	known.data = data
	e.Holder = &known
	e.Listener.Ahead(e)
}

// identify reads who the holder is, once for each holder, for the error of a wait that ends. Failure is no error.
func (e *Place) identify(ctx context.Context) {
	if e.Holder.data == nil {
		e.says([]byte{})
		if data, _, err := e.Owner.Session.Get(ctx, e.Holder.path()); err == nil {
			e.says(data)
		}
	}
}

// Entry makes the contenders for a queue of the lock: one, or one for each permit.
func (t *Opened) Entry(in kind.Queue) (*Place, error) {
	about := znode.HolderSelf(t.Handle.ID)
	n := 1
	switch {
	case t.Permits > 0 && in.Gate: // there is no node yet for each
		about.Permits = t.Permits
	case t.Permits > 0:
		about.Limit, n = t.Limit(), t.Permits
	}
	nodes := make([]*znode.Node, n)
	key := t.Handle.KeyNode(t.Declared, in)
	for i := range nodes {
		var err error
		if nodes[i], err = t.Handle.Contender(t.Owner, t.Declared, in, about); err != nil {
			return nil, err
		}
		nodes[i].Key = key
	}
	return &Place{t, in, nodes}, nil
}

// Place is ours in one queue: a contender, or among permits one for each. A semaphore has a place at the gate first, and then one among
// the permits.
type Place struct {
	*Opened
	In    kind.Queue
	Nodes []*znode.Node // the last one waits: when it is granted all are
}

// Node is the contender that waits.
func (e *Place) Node() *znode.Node { return e.Nodes[len(e.Nodes)-1] }

// Seen notes the verdict's listing: a client that has seen others in the queue of a key expects some when it leaves.
func (e *Place) Seen(v *Verdict) {
	if n := e.Node().Key; n != nil && v.total > len(e.Nodes) {
		n.SeenOthers = true
	}
}

// AmongPermits reports whether the place is among the permits, which other clients count as held from their creation.
func (e *Place) AmongPermits() bool { return e.Permits > 0 && !e.In.Gate }

// Dirs are the queues that decide: the place's own, and for permits the gate's.
func (e *Place) Dirs() []string {
	dirs := []string{e.In.Dir(e.Handle.Path)}
	if e.AmongPermits() {
		dirs = append(dirs, e.Handle.Entrance().Dir(e.Handle.Path))
	}
	return dirs
}

// Exhausted reports a number too close to the end of the sequence, which may be reached between two permits.
func (e *Place) Exhausted() error {
	for _, k := range e.Nodes {
		if err := k.Exhausted(); err != nil {
			return err
		}
	}
	return nil
}

// named reports whether the node has our ID. An inherited one may name another goroutine of this client. Then the write of prove names
// ours.
func (e *Place) named() bool { return e.Node().ID == e.Handle.ID }

// Rival is a contender ahead of us, as far as it is known. It does not change: other goroutines read it.
type Rival struct {
	kind.Contender
	Dir  string
	data []byte // about itself; nil until it is read
}

func (r *Rival) path() string { return kind.JoinPath(r.Dir, r.Name) }

func (r *Rival) Party() kind.Party {
	return kind.Party{Path: kind.JoinPath(r.Dir, r.Name), Name: r.Name, GUID: r.GUID, Seq: r.Seq, Shared: r.Shared, Data: r.data}
}

// Handle says which lock a caller wants, and how.
type Handle struct {
	declare.Name
	Shared bool
	ID     string // the holder or waiter that its nodes name
}

// Decides is the queue that decides who holds.
func (q *Handle) Decides() kind.Queue { return q.Kind.Queues[0] }

// Entrance is the queue to wait in: the gate, where the kind has one.
func (q *Handle) Entrance() kind.Queue { return q.Kind.Queues[len(q.Kind.Queues)-1] }

// Dir is where the contenders of the deciding queue are.
func (q *Handle) Dir() string { return q.Decides().Dir(q.Path) }

// Contender makes a contender that does not exist yet.
func (q *Handle) Contender(s *znode.SessionNodes, d *declare.Declaration, in kind.Queue, about kind.Holder) (*znode.Node, error) {
	markers, mode := in.Exclusive, "exclusive"
	if q.Shared {
		markers, mode = in.Shared, "shared"
	}
	marker, ok := markers[d.Wire]
	if !ok {
		return nil, fmt.Errorf("recipes: %s: wire format %q has no %s contender for this recipe type; use wire = %q", q.Path, d.Wire, mode, kind.WireCurator)
	}
	return &znode.Node{
		Owner: s, Dir: in.Dir(q.Path), Prefix: znode.ProtectedPrefix(d.Wire, marker, znode.NewUUID()), ID: about.ID,
		Data: znode.NodeData(in, about), ACL: d.ACL, Flags: zk.FlagEphemeral | zk.FlagSequence,
	}, nil
}

// Verdict is what a listing says about our contender.
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

// ErrNotListed: our own contender is not in the list. It never means that the queue is empty (go-zookeeper's Lock reads it so).
var ErrNotListed = errors.New("our contender is not in the queue")

// Decide asks the kind about the contender called name, of all those in its queue. A verdict is large, so it is made where it is needed.
func (v *Verdict) Decide(k kind.Queue, p kind.Params, children []string, name string) error {
	line, _ := kind.SortContenders(children) // junk is neither waited for nor counted
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

// Package recipes documents these errors.
var (
	ErrQueueFull      = errors.New("recipes: queue full")
	ErrTooManyPermits = errors.New("recipes: too many permits")
)

// Possible refuses more permits than are declared. A waiter asks whenever it is not admitted: after the number was lowered its place, or
// its own permits that were not granted, would keep every other contender out.
func (t *Opened) Possible() error {
	if t.Permits == 0 {
		return nil
	}
	if most := t.Limit(); t.Permits > most {
		return fmt.Errorf("%w: semaphore %s: %d permits asked for, %d are declared", ErrTooManyPermits, t.Handle.Path, t.Permits, most)
	}
	return nil
}

func (t *Opened) Limit() int { return t.Handle.Kind.Permits(t.Declared.Params) }
