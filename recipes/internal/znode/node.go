package znode

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// MaxEphemeralBytes caps the paths of one session's contenders. A server could not restart after a session with 38,400 locks (2.4 MB of
// paths) had closed (ZOOKEEPER-4306). A server reads a transaction of at most jute.maxbuffer + zookeeper.jute.maxbuffer.extrasize bytes.
// Both are 1,048,575 unless set, and extrasize follows jute.maxbuffer. The cap leaves room where operators have set less.
const MaxEphemeralBytes = 512 << 10

// LastSequence is the highest number a contender may get. At 2^31-1, ZooKeeper 3.8 gives each further child the same number if no create
// is pending.
const LastSequence = math.MaxInt32 - 1<<20

// Node is one node of ours in a queue, before its creation, while it exists, or after its end. Its name starts with a random prefix, so
// this client finds it again if the reply to its create was lost.
type Node struct {
	Owner  *SessionNodes
	Dir    string // the path of the queue it is in
	Prefix string // unique part of its name, up to the sequence number
	Digits string // the sequence number, if the server is not to choose it
	Data   []byte
	ID     string // the holder or waiter that Data names; "" while a write changes that
	ACL    []zk.ACL
	Flags  int32
	Key    *KeyNode               // the node of the key whose queue it is in; nil for a declared lock
	freed  atomic.Bool            // its path does not count in Owner.Bytes: it is known not to exist, or is an anchor; see reserve and freeBytes
	Work   atomic.Pointer[Work]   // the work under its grant; nil before a grant
	Mark   atomic.Pointer[func()] // writes the mark of a grant into the node; nil if there is none to write

	// The next fields are known once the node exists.
	Name  string
	Path  string
	seq   int32
	Czxid int64 // from the reply to its create; 0 if that reply was lost
}

// Work is what a program does under a grant.
type Work interface {
	InUse() bool // reports whether the work may still go on
}

// ProtectedPrefix makes the part of a contender's name that precedes its number: Curator's protected form
// "_c_<uuid>-lock-", or kazoo's "<32 hex>__lock__".
func ProtectedPrefix(w string, marker string, u [16]byte) string {
	if w == kind.WireKazoo {
		return hex.EncodeToString(u[:]) + marker
	}
	name := append(make([]byte, 0, 64), "_c_"...)
	for _, part := range [][]byte{u[:4], u[4:6], u[6:8], u[8:10], u[10:]} {
		name = append(hex.AppendEncode(name, part), '-')
	}
	return string(append(name, marker...))
}

// Watch watches a node of ours: others may delete it, or ask for the lock back. A waiter has one Watch, and a holder has one for each
// node.
type Watch struct {
	K       *Node
	W       *session.Watch // nil while none is set
	Hidden  bool           // the servers do not let us read the node
	Version int32          // the version of the node's data
	Czxid   int64          // the node's czxid; 0 until the node is read
}

// Read reads and watches the node. A node that the servers do not let us read cannot be watched: Read sets Hidden, and Exists checks such
// a node.
func (o *Watch) Read(ctx context.Context, call func()) error {
	data, stat, w, err := GetCalledPersistent(ctx, o.K.Owner.Session, o.K.Path, call)
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		o.Hidden = true
		return nil
	case IsNoNode(err):
		return o.deleted(err)
	case err != nil:
		return err
	}
	o.W = w
	if err := o.Ours(stat); err != nil {
		return err
	}
	if string(data) == kind.RevokeMessage {
		return fmt.Errorf("%w: %s, while waiting", ErrRevoked, o.K.Path)
	}
	return nil
}

// Exists checks that a hidden node is still there and ours. Some servers hide its stat too (see Session.Exists). Then the token of the
// lease is not known.
func (o *Watch) Exists(ctx context.Context) error {
	var stat *zk.Stat
	err := retry.Do(ctx, o.K.Owner.Session, Unanswered, func() (err error) {
		stat, err = o.K.Owner.Session.Exists(ctx, o.K.Path)
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		return nil
	case err != nil:
		return err
	case stat == nil:
		return o.deleted(zk.ErrNoNode)
	}
	return o.Ours(stat)
}

func (o *Watch) deleted(err error) error {
	return LostError(o.K.Path, fmt.Errorf("the node was deleted by somebody else: %w", err))
}

// Ours checks whose the node is, and records its version and its token.
func (o *Watch) Ours(stat *zk.Stat) error {
	if id := o.K.Owner.Session.ID(); stat.EphemeralOwner != id {
		return LostError(o.K.Path, fmt.Errorf("it belongs to session %#x, ours is %#x", stat.EphemeralOwner, id))
	}
	o.Version, o.Czxid = stat.Version, stat.Czxid
	return nil
}

// Silent reports whether the node is watched, on the present connection, and has had no event.
func (o *Watch) Silent() bool { return o.W != nil && o.W.Event() == 0 }

func (o *Watch) Unwatch() { o.W = Stop(o.W) }

// Stop stops w unless it is nil, and returns nil.
func Stop(w *session.Watch) *session.Watch {
	if w != nil {
		w.Stop()
	}
	return nil
}

// IsNoNode reports whether a server says that a node does not exist.
func IsNoNode(err error) bool { return errors.Is(err, zk.ErrNoNode) }

// NewUUID draws a UUID of version 4, as Curator's are (ProtectedMode, UUID.randomUUID).
func NewUUID() (u [16]byte) {
	_, _ = rand.Read(u[:]) // crypto/rand.Read never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return u
}

// reserve counts the bytes of the node about to be created: its path with a number of ten digits. A negative number has eleven
// characters, but a node with such a number is given back at once (Exhausted).
func (k *Node) reserve() error {
	size := int64(len(k.Dir) + 1 + len(k.Prefix) + 10)
	if k.Owner.Bytes.Add(size) > MaxEphemeralBytes {
		k.Owner.Bytes.Add(-size)
		k.freed.Store(true) // its bytes do not count
		return &session.OpError{Op: "create", Path: k.Dir, Outcome: session.OutcomeNotSent, Hint: "open another Client",
			Err: fmt.Errorf("%w: %d bytes of node paths would pass the limit of %d", ErrSessionFull, k.Owner.Bytes.Load()+size, MaxEphemeralBytes)}
	}
	k.Owner.noteContender(k)
	return nil
}

// freeBytes takes the node's bytes out of the count, once, when the node is known not to exist.
func (k *Node) freeBytes() {
	if k.freed.CompareAndSwap(false, true) {
		k.Owner.Bytes.Add(-int64(len(k.Dir) + 1 + len(k.Prefix) + 10))
		k.Owner.forget(k)
	}
}

func freeAll(ks []*Node) {
	for _, k := range ks {
		k.freeBytes()
	}
}

// Paths returns the paths of the contenders' nodes.
func Paths(ks []*Node) []string {
	all := make([]string, len(ks))
	for i, k := range ks {
		all[i] = k.Path
	}
	return all
}

// createRequest returns the request that creates the node.
func (k *Node) createRequest() *zk.CreateRequest {
	return &zk.CreateRequest{Path: kind.JoinPath(k.Dir, k.Prefix+k.Digits), Data: k.Data, Acl: k.ACL, Flags: k.Flags}
}

// recordPath records the path that the server gave the node.
func (k *Node) recordPath(path string) error {
	name := kind.BaseName(path)
	p, ok := kind.ParseContender(name)
	switch {
	case !ok:
		return fmt.Errorf("%w: the server named our contender %q, which has no sequence number", session.ErrProtocol, name)
	case len(path) != len(k.Dir)+1+len(name) || path[:len(k.Dir)] != k.Dir:
		return fmt.Errorf("%w: the server answered a create in %s with the path %q", session.ErrProtocol, k.Dir, path)
	}
	k.Path, k.Name, k.seq = path, name, p.Seq
	k.Owner.noteContender(k)
	return nil
}

// Exhausted returns an error if the node's number is too close to the end of the sequence.
func (k *Node) Exhausted() error {
	if k.seq >= 0 && k.seq <= LastSequence {
		return nil
	}
	return fmt.Errorf("%w: %s handed out number %d; delete the node and apply it again while nobody queues", ErrSequenceExhausted, k.Dir, k.seq)
}

// pick returns the child with that prefix, or "". The prefix has 122 random bits and ends in the marker, so it is unique.
func pick(children []string, prefix string) string {
	for _, name := range children {
		if strings.HasPrefix(name, prefix) {
			return name
		}
	}
	return ""
}

var Hostname = sync.OnceValue(func() string {
	h, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return h
})

// HolderSelf returns what the contender of id writes about itself.
func HolderSelf(id string) kind.Holder {
	return kind.Holder{ID: id, Host: Hostname(), PID: os.Getpid(), Since: time.Now().UTC()}
}

// NodeData is the data of a contender's node in a queue.
func NodeData(q kind.Queue, h kind.Holder) []byte {
	if q.Plain {
		return []byte(h.ID)
	}
	return h.Encode()
}

// HeldData is a contender's data with the mark of a grant to id; the mark says since when id holds.
func HeldData(q kind.Queue, data []byte, id string, at time.Time) []byte {
	h, ok := kind.ParseHolder(data)
	if !ok {
		h = HolderSelf(id)
	}
	at = at.UTC()
	h.ID, h.Held = id, &at
	return NodeData(q, h)
}

// SaysHeld reports whether the data have the mark of a grant: a contender of this library wrote there that it was granted.
func SaysHeld(data []byte) bool {
	h, ok := kind.ParseHolder(data)
	return ok && h.Held != nil && h.ID != ""
}

// DefaultID is Config.ID's default.
func DefaultID() string { return fmt.Sprintf("%s/%d", Hostname(), os.Getpid()) }

// Readable reports whether everybody may read nodes with this access list.
func Readable(acl []zk.ACL) bool {
	return slices.ContainsFunc(acl, func(a zk.ACL) bool { return a.Scheme == "world" && a.Perms&zk.PermRead != 0 })
}

// ToZK converts an access list.
func ToZK(acl kind.List) []zk.ACL {
	out := make([]zk.ACL, len(acl))
	for i, a := range acl {
		out[i] = zk.ACL{Perms: int32(a.Perms), Scheme: a.Scheme, ID: a.ID}
	}
	return out
}

// Workers are the goroutines that clean up for a client.
type Workers struct {
	mu      sync.Mutex
	running int
	idle    *sync.Cond // signals that the field running has fallen to 0; nil until Join is called
}

// ClientNodes makes and deletes the nodes of one client, in one session after another.
type ClientNodes struct {
	Workers

	mu      sync.Mutex
	newest  *SessionNodes
	Lost    lostSessions
	cleared chan struct{} // closed when the clearing that is under way has ended; nil while none is under way
}

// SessionNodes has the nodes of one session.
type SessionNodes struct {
	*Workers
	// WorkEnded is called after the loss of the session, when the work under its nodes may be over.
	WorkEnded func()

	Session *session.Session
	Janitor janitor
	Bytes   atomic.Int64 // the number of bytes in the paths of the session's contenders

	// ClientNodes.mu guards these.
	cleared *SessionNodes // for a lost session: the later session that last deleted its idle nodes
	until   time.Time     // the time when the tries to close the lost session end; zero before the first try

	mu     sync.Mutex
	nodes  map[string]orphan        // the contenders that exist, or may exist, by the unique parts of their names
	timers map[*time.Timer]struct{} // see runAfter
}

// Begin notes that s is the newest session; the session before it is lost.
func (st *ClientNodes) Begin(s *session.Session) *SessionNodes {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.newest != nil {
		st.Lost = append(st.Lost, st.newest)
	}
	e := &SessionNodes{Workers: &st.Workers, Session: s, nodes: map[string]orphan{}, timers: map[*time.Timer]struct{}{}}
	e.WorkEnded = func() { st.workEnded(e) }
	e.Janitor.s, e.Janitor.spawn = s, st.Spawn
	st.newest = e
	return e
}

// workEnded makes the newest session look at the nodes of a lost one again.
func (st *ClientNodes) workEnded(lost *SessionNodes) {
	st.mu.Lock()
	lost.cleared = nil
	now := st.newest
	st.mu.Unlock()
	if now.Session.Err() == nil {
		st.Clearing(now)
	}
}

// Clearing makes e delete the contenders of lost sessions that have no work under them, unless that is under way. It returns a channel
// that is closed when they are deleted or e is lost; nil if there is nothing to delete.
func (st *ClientNodes) Clearing(e *SessionNodes) <-chan struct{} {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.cleared == nil && len(st.Lost) > 0 && len(st.Lost.unclearedBy(e)) > 0 {
		done := make(chan struct{})
		st.cleared = done
		st.Spawn(func() {
			defer close(done)
			for todo := st.nextToClear(e); todo != nil; todo = st.nextToClear(e) {
				st.clear(e.Session, todo)
			}
		})
	}
	return st.cleared
}

// Spawn runs f in a goroutine that Join waits for. Each such goroutine ends soon after its session. Workers is no sync.WaitGroup: a call
// of Lock may still spawn while Close waits.
func (w *Workers) Spawn(f func()) {
	w.mu.Lock()
	w.running++
	w.mu.Unlock()
	go func() {
		defer func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.running--; w.running == 0 && w.idle != nil {
				w.idle.Broadcast()
			}
		}()
		f()
	}()
}

// Join waits until every goroutine has ended, for Close, after all sessions are lost. A call that is still under way finds its session
// lost, so a goroutine that it starts later ends at once.
func (w *Workers) Join() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.idle == nil {
		w.idle = sync.NewCond(&w.mu)
	}
	for w.running > 0 {
		w.idle.Wait()
	}
}

// noteContender notes a contender that exists, or that may exist if its path is not known yet.
func (e *SessionNodes) noteContender(k *Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if strings.HasPrefix(k.Name, k.Prefix) { // let both share memory
		k.Prefix = k.Name[:len(k.Prefix)]
	}
	e.nodes[k.Prefix] = orphan{k, k.Path, k.Prefix}
}

// forget notes that a contender no longer exists.
func (e *SessionNodes) forget(k *Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.nodes, k.Prefix)
}

// Own returns our contender at path, of the newest session or of a lost session; nil if there is none.
func (st *ClientNodes) Own(path string) *Node {
	name := kind.BaseName(path)
	c, ok := kind.ParseContender(name)
	if !ok {
		return nil
	}
	prefix := name[:strings.LastIndex(name, c.Marker)+len(c.Marker)]
	st.mu.Lock()
	all := slices.Clone(st.Lost)
	if st.newest != nil {
		all = append(all, st.newest)
	}
	st.mu.Unlock()
	for _, e := range all {
		e.mu.Lock()
		k := e.nodes[prefix].Node
		e.mu.Unlock()
		if k != nil && k.Dir == kind.ParentPath(path) {
			return k
		}
	}
	return nil
}

// runAfter runs f when d has passed, unless the session is over by then.
func (e *SessionNodes) runAfter(d time.Duration, f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Session.Err() != nil { // Rest may already have stopped the timers
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if _, runs := e.timers[timer]; runs {
			delete(e.timers, timer)
			e.Spawn(f)
		}
	})
	e.timers[timer] = struct{}{}
}

// Rest stops the timers, which refer to the session and to the client.
func (e *SessionNodes) Rest() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for timer := range e.timers {
		timer.Stop()
	}
	clear(e.timers)
}
