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

// A call passes through phases. Each phase has a type, which has the facts known in that phase:
//
//	Opened     the lock is open: its declaration is read, in one session
//	Place      our contenders are in its queue
//	arrival    a place, and listings of its queue that were made after its creation (package lock)
//	waiter     waits at a place; it lives no longer than the call that waits
//	admission  the queue admits us: how we know, and whether a write was committed with that
//	Grant      the admission is proven; held.Hold makes a lock of it

// Opened is a lock whose declaration is read.
type Opened struct {
	Handle   *Handle
	Permits  int // permits wanted; 0 where the kind has none
	Owner    *znode.SessionNodes
	Reader   *declare.Reader
	Declared *declare.Declaration // replaced by renew
	Listener listener
	Try      bool
	Many     int // the number of contenders beyond which a queue is long; 0 = longQueue (tests set less)

	// The contenders ahead, for the error of a call that ends.
	Position int    // the number of contenders ahead
	Holder   *Rival // the first contender; nil if none is known
}

// listener receives what happens to a waiter, and makes the errors of waits that end. The call is the listener: see
// Opened.Listener.
type listener interface {
	Ahead(e *Place)                        // the call waits, or more is known about the contender ahead
	Held(t *Opened) error                  // returns the error of a Try that is not granted
	TimedOut(t *Opened, cause error) error // returns the error of a wait that cause has ended
	Left(undone <-chan struct{})           // a goroutine in the background deletes our nodes, and then closes undone
	GoesOn(e *Place)                       // the place at the gate was exchanged for e
}

// TimedOut returns err if ctx has not ended. Otherwise it returns an error that names the contender ahead.
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

// Obey reads changed declarations again until none has changed. It is for callers that decide by the listing made after their
// create; a waiter lists again instead. See prove.
func Obey(ctx context.Context, all ...*Opened) error {
	for i := 0; i < len(all); i++ {
		if t := all[i]; t.Declared.Stale() {
			if err := t.renew(ctx); err != nil {
				return err
			}
			i = -1 // the other declarations may have changed meanwhile
		}
	}
	return nil
}

// noteHolderData records the data of the holder's node, for the error of a wait that ends.
func (e *Place) noteHolderData(data []byte) {
	known := *e.Holder
	known.data = data
	e.Holder = &known
	e.Listener.Ahead(e)
}

// identify reads the holder's node, once for each holder, for the error of a wait that ends. It ignores errors.
func (e *Place) identify(ctx context.Context) {
	if e.Holder.data == nil {
		e.noteHolderData([]byte{})
		if data, _, err := e.Owner.Session.Get(ctx, e.Holder.path()); err == nil {
			e.noteHolderData(data)
		}
	}
}

// Entry prepares the nodes for a queue of the lock: one node, or among permits one for each permit. The nodes do not exist yet.
func (t *Opened) Entry(in kind.Queue) (*Place, error) {
	about := znode.HolderSelf(t.Handle.ID)
	n := 1
	switch {
	case t.Permits > 0 && in.Gate: // at the gate one node waits for all permits
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

// Place has the call's nodes in one queue: one node, or among permits one for each permit. A call that waits for permits first
// has a place at the gate, and then a place among the permits.
type Place struct {
	*Opened
	In    kind.Queue
	Nodes []*znode.Node // the last node waits: when it is granted, all nodes are
}

// Node returns the node that waits.
func (e *Place) Node() *znode.Node { return e.Nodes[len(e.Nodes)-1] }

// Seen records whether the listing of v showed other contenders in the queue of a key. If so, the transaction that deletes our
// nodes leaves the key's node (removesNode of package znode).
func (e *Place) Seen(v *Verdict) {
	if n := e.Node().Key; n != nil && v.total > len(e.Nodes) {
		n.SeenOthers = true
	}
}

// AmongPermits reports whether the place is among the permits. Other clients count permits from their creation.
func (e *Place) AmongPermits() bool { return e.Permits > 0 && !e.In.Gate }

// Dirs returns the directories of the queues that decide: the queue of the place, and for permits also the gate.
func (e *Place) Dirs() []string {
	dirs := []string{e.In.Dir(e.Handle.Path)}
	if e.AmongPermits() {
		dirs = append(dirs, e.Handle.Entrance().Dir(e.Handle.Path))
	}
	return dirs
}

// Exhausted returns an error if a node's number is too close to the end of the sequence. The nodes of one call can be on both
// sides of that limit.
func (e *Place) Exhausted() error {
	for _, k := range e.Nodes {
		if err := k.Exhausted(); err != nil {
			return err
		}
	}
	return nil
}

// hasOurID reports whether the node has our ID. An inherited node may have the ID of another goroutine of this client. Then the
// write that prove makes replaces that ID by ours.
func (e *Place) hasOurID() bool { return e.Node().ID == e.Handle.ID }

// Rival is a contender ahead of us. It does not change, because other goroutines read it.
type Rival struct {
	kind.Contender
	Dir  string
	data []byte // the data of its node; nil until they are read
}

func (r *Rival) path() string { return kind.JoinPath(r.Dir, r.Name) }

func (r *Rival) Party() kind.Party {
	return kind.Party{Path: r.path(), Name: r.Name, GUID: r.GUID, Seq: r.Seq, Shared: r.Shared, Data: r.data}
}

// Handle says which lock a caller wants, and whether as a reader (Shared).
type Handle struct {
	declare.Name
	Shared bool
	ID     string // the name of the holder or waiter, written into its nodes
}

// Decides returns the queue that decides who holds.
func (q *Handle) Decides() kind.Queue { return q.Kind.Queues[0] }

// Entrance returns the queue in which to wait: the gate, if the kind has one.
func (q *Handle) Entrance() kind.Queue { return q.Kind.Queues[len(q.Kind.Queues)-1] }

// Dir returns the directory of the deciding queue.
func (q *Handle) Dir() string { return q.Decides().Dir(q.Path) }

// Contender prepares a node, which does not exist yet.
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

// Verdict is what a listing says about our node.
type Verdict struct {
	Granted  bool
	Behind   string // the child to wait for; "" means any change of the queue
	before   string // the child ahead of Behind, if Behind is our predecessor
	head     bool   // Behind is the front of the queue
	Position int    // the number of contenders ahead
	waiters  int    // the number of contenders ahead that are not granted
	total    int    // the number of all contenders
	first    *kind.Contender
}

// ErrNotListed: our own node is not in the list. That never means that the queue is empty, as go-zookeeper's Lock wrongly
// assumes.
var ErrNotListed = errors.New("our contender is not in the queue")

// Decide asks the queue k about the contender called name among the children of the queue, and fills v. A Verdict is large, so
// callers provide it.
func (v *Verdict) Decide(k kind.Queue, p kind.Params, children []string, name string) error {
	line, _ := kind.SortContenders(children) // foreign children do not count
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
		if admitted, _ := k.Admit(p, line, j); k.Gate || !admitted { // at a gate even the first contender waits
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

// Possible refuses more permits than are declared. A waiter calls Possible whenever it is not admitted, because the declared
// number may have been lowered. A waiter that can never be granted would keep all other contenders out.
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
