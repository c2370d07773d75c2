package session

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// State is what this process may believe about a session.
type State int

const (
	// StateActive: connected, and a server answered recently.
	StateActive State = iota
	// StateSuspect: disconnected or unanswered, but the local deadline has not passed: the session may still live, and
	// what is held is still held. While something is held, only a committed write leads back to Active.
	StateSuspect
	// StateLost: final.
	StateLost
)

// String returns "active", "suspect" or "lost".
func (s State) String() string { return [...]string{"active", "suspect", "lost"}[s] }

// Session is one ZooKeeper session on one zk.Conn that is never used for another: when the session is over its
// connection is closed and joined, and operations fail with ErrLost. Obtain it from Client.Session.
//
// Operations wait for a connection while there is none, until their ctx ends or the session is lost. Reads whose
// answer was lost with a connection are asked again, up to three times; writes never are. Every error is an *OpError.
// Ephemeral nodes created here vanish when the session is closed or, at the latest, when the servers expire it.
//
// Not guaranteed: that a lost session is over on the servers too. It is closed when a connection allows it; else its
// nodes live on until the servers expire it, up to Timeout (and a tick) after their last word from us.
type Session struct {
	client  *Client
	guard   *guard
	clock   clock
	log     *slog.Logger
	conn    *zk.Conn
	events  <-chan zk.Event
	started chan struct{} // closed: conn and events are set
	ready   chan struct{} // closed: granted for the first time
	done    chan struct{}
	joined  chan struct{} // closed: nothing of go-zookeeper runs any more
	kick    chan struct{} // wakes watchClock

	mu       sync.Mutex
	id       int64
	timeout  time.Duration
	state    State
	err      error
	changed  chan struct{}
	link     *link         // nil while disconnected
	linked   chan struct{} // closed while link is set
	links    int           // number of links so far
	answered stamp         // send time of the newest frame that was answered
	proof    proof
	slept    time.Duration // of the machine, when the clock was last looked at
	looks    time.Time     // when watchClock looks next
	holds    []*held
	beating  bool
	nextBeat time.Time // not before; keeps failing heartbeats apart
	ended    bool      // the servers confirmed the end of the session
	watches  map[watchKey]map[*Watch]struct{}
}

// maxInFlight bounds the operations that wait for an answer, those abandoned by their callers included: a server that answers
// pings and nothing else would gather them without end.
const maxInFlight = 1024

// newSession makes a session that begins to connect with start. Until a server grants one it has the timeout that is
// asked for, and id 0.
func newSession(c *Client) *Session {
	live, refuse := context.WithCancel(context.Background()) // outlives the dialling caller's ctx; ended by lose
	s := &Session{
		client: c, clock: clock{slept: c.slept}, log: c.log, timeout: c.cfg.SessionTimeout,
		started: make(chan struct{}), ready: make(chan struct{}), done: make(chan struct{}), joined: make(chan struct{}),
		kick:    make(chan struct{}, 1),
		changed: make(chan struct{}), linked: make(chan struct{}), watches: map[watchKey]map[*Watch]struct{}{},
	}
	s.guard = &guard{
		on: s, live: live, refuse: refuse, clock: s.clock, tls: c.cfg.TLS, timeout: s.Timeout,
		dialer: c.cfg.Dialer, limit: c.cfg.ConnectTimeout * 4 / 5,
		hosts: newHosts(live, c.servers, c.resolve),
		slots: make(chan struct{}, maxInFlight), preempt: c.preempt, sends: map[writeKey][]chan struct{}{},
	}
	s.guard.hosts.hurry = s.hurry
	return s
}

// start hands the session to go-zookeeper, which begins to connect.
func (s *Session) start() error {
	conn, events, err := zk.Connect(s.client.servers, s.client.cfg.SessionTimeout,
		zk.WithDialer(s.guard.dial), zk.WithHostProvider(s.guard.hosts), zk.WithEventCallback(s.event),
		zk.WithLogger(newLogAdapter(s.log)), zk.WithLogInfo(false),
		// It is handed the answers to its connect request and to closeSession, no more, and would take 3 MB for them.
		zk.WithMaxBufferSize(4<<10), zk.WithMaxConnBufferSize(4<<10))
	if err != nil {
		return err
	}
	s.conn, s.events = conn, events
	close(s.started)
	return nil
}

// ID returns the session's id, 0 before the servers granted one.
func (s *Session) ID() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// Timeout returns the session timeout the servers granted last (a reconnect may change it).
func (s *Session) Timeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timeout
}

// Stats returns what the session is busy with.
func (s *Session) Stats() Stats {
	on, _, _ := s.guard.hosts.current()
	s.mu.Lock()
	defer s.mu.Unlock()
	x := Stats{Server: on.addr, Connections: s.links, Requests: len(s.guard.slots), Holds: len(s.holds)}
	for k, set := range s.watches {
		for range set {
			x.Watches = append(x.Watches, k.path)
		}
	}
	if l := s.link; l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		for k := range l.armed {
			x.Armed = append(x.Armed, k.path)
		}
	}
	return x
}

// Stats is what a session is busy with.
type Stats struct {
	Server      string   // the address it is, or was last, connected to
	Connections int      // made so far
	Requests    int      // that no server has answered yet
	Holds       int      // paths that Hold has been given
	Watches     []string // the nodes of Watches that are neither closed nor stopped, in no order
	Armed       []string // the nodes of watches that servers keep for this session, in no order
}

// State returns what may be believed now. It looks at the clock: after a suspended machine wakes it says Lost before
// any timer has run.
func (s *Session) State() State {
	s.look()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Done returns a channel that is closed when the session is Lost.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns nil before Done is closed; then an error that is ErrLost and has the cause: ErrExpired,
// ErrClosed, ErrAuth or the local deadline.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Changed returns a channel that is closed at the next change of State; take it before reading State, and take
// a new one after it closed.
func (s *Session) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// move changes the state; the caller holds mu. Lost is final.
func (s *Session) move(to State) {
	if s.state == to || s.state == StateLost {
		return
	}
	s.state = to
	close(s.changed)
	s.changed = make(chan struct{})
	s.trace([...]EventType{EventCleared, EventSuspected, EventLost}[to], 0, s.err)
}

// lose ends the session, once. Who holds something is told before it returns, and before the servers are; otherwise it
// does not wait: what go-zookeeper still does is joined in the background.
func (s *Session) lose(cause error) {
	s.mu.Lock()
	if s.state == StateLost {
		s.mu.Unlock()
		return
	}
	s.err = fmt.Errorf("%w: session 0x%x: %w", ErrLost, uint64(s.id), cause)
	s.move(StateLost)
	l, err, holds := s.link, s.err, slices.Clone(s.holds)
	s.mu.Unlock()
	// With mu released: who is told may ask this session for its state, or let go of what it holds.
	close(s.done)
	// Before anything below tells the servers: a rival may be granted as soon as they know.
	for _, h := range holds {
		if h.lost != nil {
			h.lost(err)
		}
	}
	s.guard.refuse()
	s.fireAll(zk.EventNotWatching)
	if l != nil {
		l.abandon(err)
	}
	go s.join(l != nil)
	s.log.Info("session lost", "session", hexID(s.ID()), "cause", cause)
}

// politely is how long an ended session's connection may take to carry the closeSession.
const politely = 1500 * time.Millisecond

// join closes the zk.Conn and waits until nothing of it runs. closeSession is tried first while there is a
// connection, so that what the session held is free at once. Then the socket is closed whatever go-zookeeper says: it
// waits a second for the answer to its closeSession, and then goes on pinging, holding all locks, for ever.
func (s *Session) join(linked bool) {
	defer close(s.joined)
	<-s.started
	closing := make(chan struct{})
	go func() {
		defer close(closing)
		s.conn.Close()
	}()
	if linked { // else there is nothing to carry it, and waiting would only delay whoever waits for the end
		timer := time.NewTimer(politely)
		select {
		case <-closing:
		case <-timer.C:
		}
		timer.Stop()
	}
	s.guard.kill(errOver)
	for range s.events { // closed by go-zookeeper's loop as its last act
	}
	<-closing
}

// event is go-zookeeper's callback. The guard has seen all it tells before it; expiry is looked at again because a
// second session on this handle would be the worst that can happen.
func (s *Session) event(e zk.Event) {
	if e.Type == zk.EventSession && e.State == zk.StateExpired {
		s.lose(ErrExpired)
	}
}

// granted implements listener: a server offers the session on l.
func (s *Session) granted(g grant, sent stamp, l *link) error {
	timeout := time.Duration(g.timeout) * time.Millisecond
	s.mu.Lock()
	pinned := s.id
	// Refused with an error, the answer never reaches go-zookeeper, which would go on with whatever session it names: a
	// second one on this handle, where requests made under the first would be run.
	switch {
	case s.state == StateLost:
		s.mu.Unlock()
		return errOver
	case pinned != 0 && g.id == 0:
		s.mu.Unlock()
		s.lose(ErrExpired)
		return errOver
	case pinned != 0 && g.id != pinned:
		s.mu.Unlock()
		s.lose(fmt.Errorf("%w: %s handed out session 0x%x in its place, without a word", ErrExpired, l.target.name, uint64(g.id)))
		return errOver
	case g.id == 0 || timeout < 10*time.Millisecond:
		// go-zookeeper panics on a timeout that is not positive.
		s.mu.Unlock()
		return fmt.Errorf("%w: session 0x%x with a timeout of %d ms", ErrProtocol, uint64(g.id), g.timeout)
	}
	if s.link != nil { // whoever found the last one dead has not come to tell us yet
		s.unlink()
	}
	s.id, s.timeout, s.answered = g.id, timeout, sent
	s.link, s.links = l, s.links+1
	s.nextBeat = time.Time{} // what failed on the last connection is tried at once
	first := pinned == 0
	if first {
		s.proof = proof{sent: sent, touched: sent} // the session's creation is a committed write
	}
	if !first { // before it is anybody else's; the first one's are waited for, one after the other: see Client.admit
		for _, a := range s.client.cfg.Auth {
			o := op{name: "auth", code: opSetAuth, path: a.Scheme, request: a, read: true}
			frame, _ := s.encode(&o) // which was no error before
			l.submit(o.call(frame))
		}
	}
	if first {
		s.trace(EventOpened, 0, nil)
	} else {
		s.trace(EventConnected, 0, nil)
	}
	if len(s.holds) == 0 { // else a commit leads back: this server may be one that answers and commits nothing
		s.move(StateActive)
	}
	close(s.linked)
	s.mu.Unlock()
	if first {
		close(s.ready)
		go s.watchClock()
	} else {
		s.fireAll(zk.EventSession) // before anything is written on the new link, so before anybody re-reads there
	}
	s.wake()
	return nil
}

// lost implements listener: the connection is gone, the session not yet.
func (s *Session) lost(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != l {
		return
	}
	s.unlink()
	s.wake()
}

// unlink takes note that there is no connection; the caller holds mu.
func (s *Session) unlink() {
	s.link = nil
	s.linked = make(chan struct{})
	s.move(StateSuspect)
}

// closed implements listener.
func (s *Session) closed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// refused implements listener.
func (s *Session) refused(code int32) {
	if code == codeSessionExpired {
		s.lose(ErrExpired)
		return
	}
	s.lose(fmt.Errorf("%w: the server answered code %d; check the credentials: their scheme must be one that the servers know", ErrAuth, code))
}

// shutdown ends the session for good reasons and waits for it. The error says that the servers may not know.
func (s *Session) shutdown(cause error) error {
	s.mu.Lock()
	before := s.state
	s.mu.Unlock()
	s.lose(cause)
	<-s.joined
	s.mu.Lock()
	defer s.mu.Unlock()
	if before == StateLost || s.ended { // one that was lost earlier was told then
		return nil
	}
	return fmt.Errorf("recipes: session 0x%x was not confirmed closed (%s); what it created vanishes within %v",
		uint64(s.id), s.guard.hosts.report(), s.timeout)
}

func hexID(id int64) string { return fmt.Sprintf("0x%x", uint64(id)) }
