package conformance

import (
	"testing"
	"time"

	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// Clock is the configuration of a server under [Timed]. In real time, short times make a short test.
type Clock struct {
	Tick time.Duration // tickTime
	Reap time.Duration // how often containers and TTL nodes are checked
}

// Timed checks what a server does by itself, by name. A server ends silent sessions, not before their timeout. It removes containers and
// TTL nodes that have outlived their purpose, and no others. The server must have extended types on, and allow sessions of 30 s. Each part
// can be run in fake time.
var Timed = map[string]func(*testing.T, Dial, Clock){
	"a silent session expires, not early": expiry,
	"credentials keep no session alive":   credentials,
	"containers and TTL nodes are reaped": reaping,
}

// actor is a player for tests that look at single answers.
type actor struct {
	t *testing.T
	p *player
}

func newActor(t *testing.T, dial Dial, root string) *actor {
	t.Helper()
	a := &actor{t, &player{dial: dial, root: root, sessions: map[int]*session{}, owners: map[int64]string{}}}
	t.Cleanup(a.p.close)
	a.do(create(0, "", 0), 0)
	return a
}

func (a *actor) do(op Op, want int32) frame {
	a.t.Helper()
	f, err := a.try(op)
	if err != nil {
		a.t.Fatalf("%v: %v", op, err)
	}
	if f.code != want {
		a.t.Fatalf("%v: code %d, not %d", op, f.code, want)
	}
	return f
}

func (a *actor) try(op Op) (frame, error) {
	s, err := a.p.session(op.S)
	if err != nil {
		return frame{}, err
	}
	var w wire.Encoder
	op.encode(a.p, &w, s)
	f, _, err := s.call(op.Op, w.B)
	return f, err
}

// inTime repeats a step that must come before a server's time is up, until the machine is fast enough.
func (a *actor) inTime(what string, f func() bool) {
	a.t.Helper()
	for start := time.Now(); !f(); {
		if time.Since(start) > patience {
			a.t.Fatalf("%s: there is never time for it", what)
		}
	}
}

// deleted waits for the event that path is gone, and keeps the session alive.
func (a *actor) deleted(session int, path string, every time.Duration) {
	a.t.Helper()
	start := time.Now()
	s := a.p.sessions[session]
	for time.Since(start) < patience {
		f, events, err := s.call(wire.OpPing, nil)
		if err != nil {
			a.t.Fatalf("waiting for %s to go: %v, %v", path, f, err)
		}
		for _, e := range events {
			if typ, _, at := e.body.Int32(), e.body.Int32(), e.body.Str(); typ == 2 && a.p.rel(at) == path {
				return
			}
		}
		time.Sleep(every) // the heartbeat of an idle client
	}
	a.t.Fatalf("%s is still there after %v", path, patience)
}

// expiry lets a session fall silent while another watches its ephemeral.
func expiry(t *testing.T, dial Dial, clock Clock) {
	a := newActor(t, dial, "/expiry")
	timeout := 5 * clock.Tick
	var silent *session
	var heard time.Time // no later than the server hears the session
	a.inTime("an ephemeral that somebody sees", func() bool {
		s, err := openFor(dial, timeout)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.conn.Close() })
		silent, a.p.sessions[1], heard = s, s, time.Now()
		made, err := a.try(create(1, "/e", 1))
		return err == nil && made.code == 0 && a.seen(get(0, "/e"))
	})
	a.deleted(0, "/e", clock.Tick/10)
	if took := time.Since(heard); took < timeout {
		t.Fatalf("the session expired after %v, its timeout is %v", took, timeout)
	}
	if _, err := silent.read(); err == nil {
		t.Fatal("the expired session's connection was answered")
	}
	if _, err := open(dial, silent.id, silent.passwd, silent.last); err == nil {
		t.Fatal("the expired session could be taken up again")
	}
	delete(a.p.sessions, 1)
}

// credentials sends only logins: they bypass the session tracker.
func credentials(t *testing.T, dial Dial, clock Clock) {
	s, err := openFor(dial, 5*clock.Tick)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.conn.Close() })
	var login, token wire.Encoder
	login.Int32(0)
	login.Str("digest")
	login.Buffer([]byte("u:p"))
	token.Buffer([]byte{})
	for start := time.Now(); time.Since(start) < patience; time.Sleep(clock.Tick / 10) {
		if _, _, err = s.call(wire.OpAuth, login.B); err == nil {
			_, _, err = s.call(wire.OpSASL, token.B)
		}
		if err != nil {
			if _, gone := open(dial, s.id, s.passwd, s.last); gone == nil {
				t.Fatalf("after %v the connection ended (%v), and the session is still there", time.Since(start), err)
			}
			return
		}
	}
	t.Fatalf("logins have kept a session of %v alive for %v", 5*clock.Tick, patience)
}

// seen reads a node that may be gone.
func (a *actor) seen(op Op) bool {
	a.t.Helper()
	f, err := a.try(op)
	if err != nil || f.code != 0 && f.code != codeNoNode {
		a.t.Fatalf("%v: code %d, %v", op, f.code, err)
	}
	return f.code == 0
}

// openFor is open with a timeout.
func openFor(dial Dial, timeout time.Duration) (*session, error) {
	return greet(dial, hello{timeout: int32(timeout.Milliseconds())})
}

// reaping has one node of each kind that must go, and one that must stay: in use, never used, or not old enough.
func reaping(t *testing.T, dial Dial, clock Clock) {
	a := newActor(t, dial, "/reaping")
	ttl := 2 * clock.Reap
	timed := func(path string) Op {
		return Op{Op: wire.OpCreateTTL, Path: path, ACL: anyone, Flags: 5, TTL: ttl.Milliseconds()}
	}
	a.inTime("a child of a node with a TTL", func() bool {
		a.do(timed("/parent"), 0)
		return a.seen(create(0, "/parent/x", 0))
	})
	var born time.Time
	a.inTime("a look at a node with a TTL", func() bool {
		born = time.Now()
		a.do(timed("/brief"), 0)
		return a.seen(exists(0, "/brief"))
	})
	a.deleted(0, "/brief", clock.Reap/10)
	if took := time.Since(born); took < ttl {
		t.Fatalf("the node with a TTL of %v was gone after %v", ttl, took)
	}
	for _, path := range []string{"/unused", "/used", "/inUse"} {
		a.do(Op{Op: wire.OpCreateContainer, Path: path, ACL: anyone, Flags: 4}, 0)
	}
	a.do(create(0, "/inUse/x", 1), 0)
	a.do(create(0, "/used/x", 0), 0)
	a.do(exists(0, "/used"), 0)
	a.do(del(0, "/used/x"), 0)
	a.deleted(0, "/used", clock.Reap/10)
	for _, path := range []string{"/unused", "/inUse", "/parent"} {
		a.do(exists(0, path), 0)
	}
}
