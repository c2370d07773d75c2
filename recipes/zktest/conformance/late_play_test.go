package conformance

import (
	"fmt"
	"testing"
)

// Halt holds up the next create somewhere in a server: held waits until it is there, release lets it go on.
type Halt func() (held, release func())

// leave sends a create, and ends the connection when it is held up.
func (a *actor) leave(halt Halt) (release func()) {
	a.t.Helper()
	held, release := halt()
	s := a.p.sessions[0]
	var w out
	create(0, "/late", 1).encode(a.p, &w, s)
	if _, err := s.send(opCreate, w.b); err != nil {
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
	s.xid = old.xid // never the same twice: ZooKeeper tells the writes of a session by it
	a.p.sessions[0] = s
}

// Queued checks that a server's pipeline outlives connections. A create that is held up in it is executed before the requests of
// its session's next connection, which is granted meanwhile.
func Queued(t *testing.T, dial Dial, halt Halt) {
	t.Helper()
	a := newActor(t, dial, "/queued")
	release := a.leave(halt)
	a.take(dial)
	var write, look out
	set(0, "").encode(a.p, &write, nil)
	exists(0, "/late").encode(a.p, &look, nil)
	s := a.p.sessions[0]
	written, err := s.send(opSetData, write.b)
	if err != nil {
		t.Fatal(err)
	}
	looked, err := s.send(opExists, look.b)
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
	if created := l.body.i64(); created >= w.zxid {
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
	// A write through the old server is behind the create.
	b := newActor(t, old, "/behind")
	b.do(exists(0, "!/refused/late"), codeNoNode)
}

// Late checks that a create can be executed after a later write of its session that was answered. The write goes over the
// connection that via makes while the create is held up; nil for none.
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
	if created := found.body.i64(); created <= written.zxid {
		t.Errorf("the create has zxid %x, the write that was answered before it %x", created, written.zxid)
	}
}
