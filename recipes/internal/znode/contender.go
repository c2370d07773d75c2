package znode

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// maxEphemeralBytes caps the paths of one session's contenders. 38,400 locks (2.4 MB of paths) in one session made a
// server unable to restart after that session closed; the limit there is 2,097,150 bytes (ZOOKEEPER-4306).
const MaxEphemeralBytes = 512 << 10

// lastSequence is the highest number a contender may get: beyond it the queue is too close to 2^31-1, where an idle
// ZooKeeper 3.8 numbers every further child 2147483647.
const LastSequence = math.MaxInt32 - 1<<20

// contender is one node of ours in a queue, wanted, existing or gone. Its name starts with a random prefix, so that
// we know it again whatever happened to the reply of its create.
type Node struct {
	E      *Session
	Dir    string // the queue it is in
	Prefix string // unique part of its name, up to the sequence number
	Digits string // the number, where the server is not to choose it
	Data   []byte
	Id     string // whom data names; "" while a write that changes that is under way
	Acl    []zk.ACL
	Flags  int32
	Key    *Parent // of the key whose queue it is in; nil where that is declared
	freed  atomic.Bool
	Work   atomic.Pointer[func() bool] // reports whether what it was granted for may still be worked under
	Mark   atomic.Pointer[func()]      // says in the node that it is held; nil once it does

	node
}

// node is what is known of a contender once it exists.
type node struct {
	Name  string
	Path  string
	seq   int32
	Czxid int64 // from the reply to its create; 0 where that was lost
}

// protectedPrefix makes the part of a contender's name that precedes its number: Curator's protected form
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

// markerOf returns the marker in the names of a queue's contenders, or an error that says why the wire format has none.
func MarkerOf(q kind.Queue, wire string, shared bool) (string, error) {
	table, mode := q.Exclusive, "exclusive"
	if shared {
		table, mode = q.Shared, "shared"
	}
	m, ok := table[wire]
	if !ok {
		return "", fmt.Errorf("wire format %q has no %s contender for this recipe type; use wire = %q", wire, mode, kind.WireCurator)
	}
	return m, nil
}

// newUUID draws a UUID of version 4, as Curator's are (ProtectedMode, UUID.randomUUID).
func NewUUID() (u [16]byte) {
	_, _ = rand.Read(u[:]) // crypto/rand.Read never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return u
}

// reserve books the bytes of the node about to be created: its path with the ten digits a number has. One with a sign has
// eleven characters, and is given back at once (exhausted).
func (k *Node) reserve() error {
	size := int64(len(k.Dir) + 1 + len(k.Prefix) + 10)
	if k.E.Bytes.Add(size) > MaxEphemeralBytes {
		k.E.Bytes.Add(-size)
		k.freed.Store(true) // nothing is booked, so there is nothing to give back
		return &session.OpError{Op: "create", Path: k.Dir, Outcome: session.OutcomeNotSent, Hint: "open another Client",
			Err: fmt.Errorf("%w: %d bytes of node paths would pass the limit of %d", ErrSessionFull, k.E.Bytes.Load()+size, MaxEphemeralBytes)}
	}
	k.E.exists(k)
	return nil
}

// free gives the bytes back, once, when the node is known not to exist (any more).
func (k *Node) free() {
	if k.freed.CompareAndSwap(false, true) {
		k.E.Bytes.Add(-int64(len(k.Dir) + 1 + len(k.Prefix) + 10))
		k.E.forget(k)
	}
}

func freeAll(ks []*Node) {
	for _, k := range ks {
		k.free()
	}
}

// paths are those of the contenders' nodes.
func Paths(ks []*Node) []string {
	all := make([]string, len(ks))
	for i, k := range ks {
		all[i] = k.Path
	}
	return all
}

// createRequest is the node as ZooKeeper is asked for it.
func (k *Node) createRequest() *zk.CreateRequest {
	return &zk.CreateRequest{Path: kind.JoinPath(k.Dir, k.Prefix+k.Digits), Data: k.Data, Acl: k.Acl, Flags: k.Flags}
}

// found records the path the server gave.
func (k *Node) found(path string) error {
	name := kind.BaseName(path)
	p, ok := kind.ParseContender(name)
	switch {
	case !ok:
		return fmt.Errorf("%w: the server named our contender %q, which has no sequence number", session.ErrProtocol, name)
	case len(path) != len(k.Dir)+1+len(name) || path[:len(k.Dir)] != k.Dir:
		return fmt.Errorf("%w: the server answered a create in %s with the path %q", session.ErrProtocol, k.Dir, path)
	}
	k.Path, k.Name, k.seq = path, name, p.Seq
	k.E.exists(k)
	return nil
}

// exhausted reports a number too close to the end of the sequence.
func (k *Node) Exhausted() error {
	if k.seq >= 0 && k.seq <= LastSequence {
		return nil
	}
	return fmt.Errorf("%w: %s handed out number %d; delete the node and apply it again while nobody queues", ErrSequenceExhausted, k.Dir, k.seq)
}

// pick returns the child that is the contender of that prefix, or "". It has 122 random bits and ends in the marker, so no other name
// begins with it.
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

// holderSelf is what the contender of id says about itself.
func HolderSelf(id string) kind.Holder {
	return kind.Holder{ID: id, Host: Hostname(), PID: os.Getpid(), Since: time.Now().UTC()}
}

// nodeData is the data of a contender's node in a queue.
func NodeData(q kind.Queue, h kind.Holder) []byte {
	if q.Plain {
		return []byte(h.ID)
	}
	return h.Encode()
}

// heldData is a contender's data with the mark of a grant to id.
func HeldData(q kind.Queue, data []byte, id string, at time.Time) []byte {
	h, ok := kind.ParseHolder(data)
	if !ok {
		h = HolderSelf(id)
	}
	at = at.UTC()
	h.ID, h.Held = id, &at
	return NodeData(q, h)
}

// saysHeld reports whether a contender of ours wrote that it was granted.
func SaysHeld(data []byte) bool {
	h, ok := kind.ParseHolder(data)
	return ok && h.Held != nil && h.ID != ""
}

// defaultID is Config.ID's default.
func DefaultID() string { return fmt.Sprintf("%s/%d", Hostname(), os.Getpid()) }

// readable reports whether everybody may read nodes with this access list.
func Readable(acl []zk.ACL) bool {
	return slices.ContainsFunc(acl, func(a zk.ACL) bool { return a.Scheme == "world" && a.Perms&zk.PermRead != 0 })
}

// toZK converts an access list.
func ToZK(acl kind.List) []zk.ACL {
	out := make([]zk.ACL, len(acl))
	for i, a := range acl {
		out[i] = zk.ACL{Perms: int32(a.Perms), Scheme: a.Scheme, ID: a.ID}
	}
	return out
}
