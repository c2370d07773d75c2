package conformance

import (
	"fmt"
	"testing"
	"time"

	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// Moved checks a connection whose session has moved to another server of the ensemble. It still reads. Its next write is not executed, and
// ends the connection.
func Moved(t *testing.T, old, other Dial) {
	t.Helper()
	a := newActor(t, old, "/moved")
	left := a.p.sessions[0]
	// The other server may be behind what the session has seen, and then hangs up.
	taken := retry(t, "take the session up at the other server", func() (*session, error) {
		return open(other, left.id, left.passwd, left.last)
	})
	a.do(exists(0, ""), 0)
	var w wire.Encoder
	create(0, "/x", 0).encode(a.p, &w, left)
	if f, _, err := left.call(wire.OpCreate, w.B); err == nil {
		t.Fatalf("a write on the connection that was left behind was answered: code %d", f.code)
	}
	left.conn.Close()
	a.p.sessions[0] = taken
	a.do(exists(0, "/x"), -101)
	a.do(create(0, "/x", 1), 0)
}

// ReadOnly checks a server that has lost its quorum and serves only readers.
func ReadOnly(t *testing.T, dial Dial) {
	t.Helper()
	if s, err := open(dial, 0, nil, 0); err == nil {
		t.Fatalf("a client that does not ask for read-only service was given session %x", s.id)
	}
	s := retry(t, "a read-only session", func() (*session, error) { return greet(dial, hello{timeout: 30_000, readOnly: true}) })
	defer s.conn.Close()
	p := &player{root: "", sessions: map[int]*session{0: s}}
	a := &actor{t, p}
	a.do(exists(0, "/zookeeper"), 0)
	a.do(list(0, "/zookeeper"), 0)
	for _, op := range []Op{create(0, "/x", 0), set(0, "/zookeeper"), del(0, "/x"), multi(create(0, "/x", 0)), {Op: wire.OpSync, Path: "/"}} {
		a.do(op, -119)
	}
	if answer := Word(t, dial, "isro"); answer != "ro" {
		t.Errorf("isro answers %q", answer)
	}
}

// retry gives a server time to settle.
func retry[T any](t *testing.T, what string, f func() (T, error)) T {
	t.Helper()
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		v, err := f()
		if err == nil {
			return v
		}
		if time.Since(start) > patience {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// Halt holds up the next create somewhere in a server: held waits until it is there, release lets it go on.
type Halt func() (held, release func())

// leave sends a create, and ends the connection when the create is held up.
func (a *actor) leave(halt Halt) (release func()) {
	a.t.Helper()
	held, release := halt()
	s := a.p.sessions[0]
	var w wire.Encoder
	create(0, "/late", 1).encode(a.p, &w, s)
	if _, err := s.send(wire.OpCreate, w.B); err != nil {
		a.t.Fatal(err)
	}
	held()
	s.conn.Close()
	return release
}

// take takes the session up over another connection.
func (a *actor) take(dial Dial) {
	a.t.Helper()
	old := a.p.sessions[0]
	// A server that is behind what the session has seen hangs up.
	s := retry(a.t, "take the session up again", func() (*session, error) { return open(dial, old.id, old.passwd, old.last) })
	s.xid = old.xid // never the same twice: ZooKeeper tells a session's writes apart by it
	a.p.sessions[0] = s
}

// Queued checks that a server's pipeline outlives connections. A create that is held up there is executed before the requests of its
// session's next connection, which is made meanwhile.
func Queued(t *testing.T, dial Dial, halt Halt) {
	t.Helper()
	a := newActor(t, dial, "/queued")
	release := a.leave(halt)
	a.take(dial)
	var write, look wire.Encoder
	set(0, "").encode(a.p, &write, nil)
	exists(0, "/late").encode(a.p, &look, nil)
	s := a.p.sessions[0]
	written, err := s.send(wire.OpSetData, write.B)
	if err != nil {
		t.Fatal(err)
	}
	looked, err := s.send(wire.OpExists, look.B)
	if err != nil {
		t.Fatal(err)
	}
	release()
	w, _, err := s.await(written)
	if err != nil || w.code != 0 {
		t.Fatalf("the write: code %d, %v", w.code, err)
	}
	l, _, err := s.await(looked)
	if err != nil || l.code != 0 {
		t.Fatalf("the create is not there behind a write that was sent later: code %d, %v", l.code, err)
	}
	if created := l.body.Int64(); created >= w.zxid {
		t.Errorf("the create has zxid %x, the write that was sent later %x", created, w.zxid)
	}
}

// Refused checks that a create that is held up in one server is not executed once its session is at another.
func Refused(t *testing.T, old, other Dial, halt Halt) {
	t.Helper()
	a := newActor(t, old, "/refused")
	release := a.leave(halt)
	a.take(other)
	a.do(set(0, ""), 0)
	release()
	// A write through the old server comes after the create.
	b := newActor(t, old, "/behind")
	b.do(exists(0, "!/refused/late"), codeNoNode)
}

// Late checks that a create can be executed after a later write of its session that was answered. While the create is held up, the write
// goes over a new connection by via, or by dial if via is nil.
func Late(t *testing.T, dial, via Dial, halt Halt) {
	t.Helper()
	a := newActor(t, dial, "/late")
	release := a.leave(halt)
	if via != nil {
		a.take(via)
	} else {
		a.take(dial)
	}
	written := a.do(set(0, ""), 0)
	a.do(exists(0, "/late"), codeNoNode)
	if via != nil {
		a.p.sessions[0].conn.Close()
		a.take(dial)
	}
	release()
	found := retry(t, "the late create", func() (frame, error) {
		f, err := a.try(exists(0, "/late"))
		if err == nil && f.code != 0 {
			err = fmt.Errorf("code %d", f.code)
		}
		return f, err
	})
	if created := found.body.Int64(); created <= written.zxid {
		t.Errorf("the create has zxid %x, the write that was answered before it %x", created, written.zxid)
	}
}
