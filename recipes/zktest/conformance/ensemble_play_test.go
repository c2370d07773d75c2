package conformance

import (
	"testing"
	"time"
)

// Moved checks what becomes of a connection whose session has been taken up at another server of the ensemble. It still reads.
// Its next write is not executed, and cuts it.
func Moved(t *testing.T, old, other Dial) {
	t.Helper()
	a := newActor(t, old, "/moved")
	left := a.p.sessions[0]
	// The other server may be behind what the session has seen, and then hangs up.
	taken := retry(t, "take the session up at the other server", func() (*session, error) {
		return open(other, left.id, left.passwd, left.last)
	})
	a.do(exists(0, ""), 0)
	var w out
	create(0, "/x", 0).encode(a.p, &w, left)
	if f, _, err := left.call(opCreate, w.b); err == nil {
		t.Fatalf("a write on the connection that was left behind was answered: code %d", f.code)
	}
	left.conn.Close()
	a.p.sessions[0] = taken
	a.do(exists(0, "/x"), -101)
	a.do(create(0, "/x", 1), 0)
}

// ReadOnly checks a server that serves readers only, having lost its quorum.
func ReadOnly(t *testing.T, dial Dial) {
	t.Helper()
	if s, err := open(dial, 0, make([]byte, 16), 0); err == nil {
		t.Fatalf("a client that does not ask for read-only service was given session %x", s.id)
	}
	s := retry(t, "a read-only session", func() (*session, error) { return greet(dial, 0, make([]byte, 16), 0, true) })
	defer s.conn.Close()
	p := &player{root: "", sessions: map[int]*session{0: s}}
	a := &actor{t, p}
	a.do(exists(0, "/zookeeper"), 0)
	a.do(list(0, "/zookeeper"), 0)
	for _, op := range []Op{create(0, "/x", 0), set(0, "/zookeeper"), del(0, "/x"), multi(create(0, "/x", 0)), {Op: opSync, Path: "/"}} {
		a.do(op, -119)
	}
	if answer, err := Word(dial, "isro"); answer != "ro" {
		t.Errorf("isro answers %q, %v", answer, err)
	}
}

// retry gives a server that is settling its time.
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
