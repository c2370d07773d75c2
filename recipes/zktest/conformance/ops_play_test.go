package conformance

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/locktree/locktree/recipes/internal/session/wire"
	server "github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// Steps that are not requests.
const (
	stepReconnect int32 = -2001 // drop the connection and take the session up again
	stepGarbage   int32 = -2002 // a request whose body does not decode
	stepPipeline  int32 = -2003 // several requests, sent before the first reply is read
)

// name returns an operation's or a step's name.
func name(op int32) string {
	steps := map[int32]string{stepReconnect: "reconnect", stepGarbage: "garbage", stepPipeline: "pipeline"}
	return cmp.Or(steps[op], server.OpNames[op])
}

// ACL is one access control entry.
type ACL struct {
	Perms  int32
	Scheme string
	ID     string
}

var anyone = []ACL{{31, "world", "anyone"}}

// Op is one step of a sequence: a request of session S. Paths are below the sequence's own root unless they begin with "!": the rest is
// then the path as it is.
type Op struct {
	S       int
	Op      int32
	Path    string
	Data    []byte
	ACL     []ACL
	Flags   int32
	TTL     int64
	Version int32
	Watch   bool
	Mode    int32
	Ops     []Op
	Lists   [5][]string
	Back    int64 // setWatches: how many zxids before the newest seen
}

// String is the step as a transcript shows it.
func (o Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "s%d %s", o.S, name(o.Op))
	if o.Path != "" {
		fmt.Fprintf(&b, " %q", o.Path)
	}
	switch o.Op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		fmt.Fprintf(&b, " data=%q flags=%d ttl=%d acl=%v", o.Data, o.Flags, o.TTL, o.ACL)
	case wire.OpSetData:
		fmt.Fprintf(&b, " data=%q v=%d", o.Data, o.Version)
	case wire.OpSetACL:
		fmt.Fprintf(&b, " acl=%v v=%d", o.ACL, o.Version)
	case wire.OpDelete, wire.OpCheck:
		fmt.Fprintf(&b, " v=%d", o.Version)
	case wire.OpExists, wire.OpGetData, wire.OpGetChildren, wire.OpGetChildren2:
		fmt.Fprintf(&b, " watch=%v", o.Watch)
	case wire.OpAddWatch, wire.OpCheckWatches, wire.OpRemoveWatches:
		fmt.Fprintf(&b, " mode=%d", o.Mode)
	case stepGarbage:
		fmt.Fprintf(&b, " for op %d: %q", o.Mode, o.Data)
	case wire.OpAuth:
		fmt.Fprintf(&b, " %q", o.Data)
	case wire.OpSetWatches, wire.OpSetWatches2:
		fmt.Fprintf(&b, " since=-%d %q", o.Back, o.Lists)
	}
	// A part belongs to the step's session, whatever it says itself.
	for _, sub := range o.Ops {
		fmt.Fprintf(&b, "\n      + %s", strings.TrimPrefix(sub.String(), fmt.Sprintf("s%d ", sub.S)))
	}
	return b.String()
}

// encode writes the request's body. An operation without a case has none.
func (o Op) encode(p *player, w *wire.Encoder, s *session) {
	path := p.abs(o.Path)
	switch o.Op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		w.Str(path)
		w.Buffer(o.Data)
		acls(w, o.ACL)
		w.Int32(o.Flags)
		if o.Op == wire.OpCreateTTL {
			w.Int64(o.TTL)
		}
	case wire.OpDelete, wire.OpCheck:
		w.Str(path)
		w.Int32(o.Version)
	case wire.OpSetData:
		w.Str(path)
		w.Buffer(o.Data)
		w.Int32(o.Version)
	case wire.OpSetACL:
		w.Str(path)
		acls(w, o.ACL)
		w.Int32(o.Version)
	case wire.OpExists, wire.OpGetData, wire.OpGetChildren, wire.OpGetChildren2:
		w.Str(path)
		w.Bool(o.Watch)
	case wire.OpGetACL, wire.OpSync, wire.OpGetAllChildrenNumber, wire.OpGetEphemerals:
		w.Str(path)
	case wire.OpAddWatch, wire.OpCheckWatches, wire.OpRemoveWatches:
		w.Str(path)
		w.Int32(o.Mode)
	case wire.OpAuth:
		w.Int32(0)
		w.Str(o.Path)
		w.Buffer(o.Data)
	case wire.OpMulti, wire.OpMultiRead:
		for _, sub := range o.Ops {
			w.Int32(sub.Op)
			w.Bool(false)
			w.Int32(-1)
			sub.encode(p, w, s)
		}
		w.Int32(-1)
		w.Bool(true)
		w.Int32(-1)
	case wire.OpSetWatches, wire.OpSetWatches2:
		o.encodeWatches(p, w, s)
	case wire.OpReconfig:
		w.Int32(-1)
		w.Int32(-1)
		w.Str(o.Path)
		w.Int64(-1)
	case stepGarbage:
		w.B = append(w.B, o.Data...)
	}
}

// encodeWatches counts back from the newest zxid that this session has seen: the servers' own differ.
func (o Op) encodeWatches(p *player, w *wire.Encoder, s *session) {
	w.Int64(max(0, s.last-o.Back))
	n := 3
	if o.Op == wire.OpSetWatches2 {
		n = 5
	}
	for _, list := range o.Lists[:n] {
		var abs []string
		for _, path := range list {
			abs = append(abs, p.abs(path))
		}
		strs(w, abs)
	}
}
