package conformance

import (
	"fmt"
	"strings"
)

// Operation codes, as in ZooDefs.OpCode; written down a second time, as the codec is (see out).
const (
	opCreate          int32 = 1
	opDelete          int32 = 2
	opExists          int32 = 3
	opGetData         int32 = 4
	opSetData         int32 = 5
	opGetACL          int32 = 6
	opSetACL          int32 = 7
	opChildren        int32 = 8
	opSync            int32 = 9
	opPing            int32 = 11
	opChildren2       int32 = 12
	opCheck           int32 = 13
	opMulti           int32 = 14
	opCreate2         int32 = 15
	opReconfig        int32 = 16
	opCheckWatches    int32 = 17
	opRemoveWatches   int32 = 18
	opCreateContainer int32 = 19
	opCreateTTL       int32 = 21
	opDeleteContainer int32 = 20
	opMultiRead       int32 = 22
	opAuth            int32 = 100
	opSetWatches      int32 = 101
	opSASL            int32 = 102
	opEphemerals      int32 = 103
	opCount           int32 = 104
	opSetWatches2     int32 = 105
	opAddWatch        int32 = 106
	opWhoAmI          int32 = 107
	opClose           int32 = -11

	// Steps that are no request.
	stepReconnect int32 = -2001 // drop the connection and take the session up again
	stepGarbage   int32 = -2002 // a request whose body does not decode
	stepPipeline  int32 = -2003 // several requests, sent before the first reply is read
)

var names = map[int32]string{
	opCreate: "create", opDelete: "delete", opExists: "exists", opGetData: "getData", opSetData: "setData",
	opGetACL: "getACL", opSetACL: "setACL", opChildren: "getChildren", opSync: "sync", opChildren2: "getChildren2",
	opCheck: "check", opMulti: "multi", opCreate2: "create2", opReconfig: "reconfig",
	opCheckWatches: "checkWatches", opRemoveWatches: "removeWatches", opCreateContainer: "createContainer",
	opCreateTTL: "createTTL", opMultiRead: "multiRead", opAuth: "auth", opSetWatches: "setWatches",
	opEphemerals: "getEphemerals", opCount: "getAllChildrenNumber", opSetWatches2: "setWatches2",
	opAddWatch: "addWatch", opWhoAmI: "whoAmI", opClose: "closeSession", stepReconnect: "reconnect",
	stepGarbage: "garbage", stepPipeline: "pipeline",
}

// ACL is one access control entry.
type ACL struct {
	Perms  int32
	Scheme string
	ID     string
}

var anyone = []ACL{{31, "world", "anyone"}}

// Op is one step of a sequence: a request of session S. Paths are below the sequence's own root unless they begin with "!", which stands
// for a path as it is.
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
	fmt.Fprintf(&b, "s%d %s", o.S, names[o.Op])
	if o.Path != "" {
		fmt.Fprintf(&b, " %q", o.Path)
	}
	switch o.Op {
	case opCreate, opCreate2, opCreateContainer, opCreateTTL:
		fmt.Fprintf(&b, " data=%q flags=%d ttl=%d acl=%v", o.Data, o.Flags, o.TTL, o.ACL)
	case opSetData:
		fmt.Fprintf(&b, " data=%q v=%d", o.Data, o.Version)
	case opSetACL:
		fmt.Fprintf(&b, " acl=%v v=%d", o.ACL, o.Version)
	case opDelete, opCheck:
		fmt.Fprintf(&b, " v=%d", o.Version)
	case opExists, opGetData, opChildren, opChildren2:
		fmt.Fprintf(&b, " watch=%v", o.Watch)
	case opAddWatch, opCheckWatches, opRemoveWatches:
		fmt.Fprintf(&b, " mode=%d", o.Mode)
	case stepGarbage:
		fmt.Fprintf(&b, " for op %d: %q", o.Mode, o.Data)
	case opAuth:
		fmt.Fprintf(&b, " %q", o.Data)
	case opSetWatches, opSetWatches2:
		fmt.Fprintf(&b, " since=-%d %q", o.Back, o.Lists)
	}
	// A part belongs to the step's session, whatever it says itself.
	for _, sub := range o.Ops {
		fmt.Fprintf(&b, "\n      + %s", strings.TrimPrefix(sub.String(), fmt.Sprintf("s%d ", sub.S)))
	}
	return b.String()
}

// encode writes the request's body. An operation without a case has none.
func (o Op) encode(p *player, w *out, s *session) {
	path := p.abs(o.Path)
	switch o.Op {
	case opCreate, opCreate2, opCreateContainer, opCreateTTL:
		w.str(path)
		w.buf(o.Data)
		w.acls(o.ACL)
		w.i32(o.Flags)
		if o.Op == opCreateTTL {
			w.i64(o.TTL)
		}
	case opDelete, opCheck:
		w.str(path)
		w.i32(o.Version)
	case opSetData:
		w.str(path)
		w.buf(o.Data)
		w.i32(o.Version)
	case opSetACL:
		w.str(path)
		w.acls(o.ACL)
		w.i32(o.Version)
	case opExists, opGetData, opChildren, opChildren2:
		w.str(path)
		w.flag(o.Watch)
	case opGetACL, opSync, opCount, opEphemerals:
		w.str(path)
	case opAddWatch, opCheckWatches, opRemoveWatches:
		w.str(path)
		w.i32(o.Mode)
	case opAuth:
		w.i32(0)
		w.str(o.Path)
		w.buf(o.Data)
	case opMulti, opMultiRead:
		for _, sub := range o.Ops {
			w.i32(sub.Op)
			w.flag(false)
			w.i32(-1)
			sub.encode(p, w, s)
		}
		w.i32(-1)
		w.flag(true)
		w.i32(-1)
	case opSetWatches, opSetWatches2:
		o.encodeWatches(p, w, s)
	case opReconfig:
		w.i32(-1)
		w.i32(-1)
		w.str(o.Path)
		w.i64(-1)
	case stepGarbage:
		w.b = append(w.b, o.Data...)
	}
}

// encodeWatches says since when by the newest zxid this session has seen: the servers' own differ.
func (o Op) encodeWatches(p *player, w *out, s *session) {
	w.i64(max(0, s.last-o.Back))
	n := 3
	if o.Op == opSetWatches2 {
		n = 5
	}
	for _, list := range o.Lists[:n] {
		var abs []string
		for _, path := range list {
			abs = append(abs, p.abs(path))
		}
		w.strs(abs)
	}
}
