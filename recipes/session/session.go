package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// State is what this process may assume about a session.
type State int

const (
	// StateActive: connected, and a server has answered recently.
	StateActive State = iota
	// StateSuspect: disconnected or unanswered, but the local deadline has not passed: the session may still be alive, and
	// what is held is still held. While something is held, only a committed write leads back to StateActive.
	StateSuspect
	// StateLost: the session is over. This state is final.
	StateLost
)

// String returns "active", "suspect" or "lost".
func (s State) String() string { return [...]string{"active", "suspect", "lost"}[s] }

// Session is one ZooKeeper session. Obtain it from Client.Session. When it is over, its connection is closed and operations
// fail with ErrLost.
//
// Operations wait for a connection until their ctx ends or the session is lost. Reads whose answer was lost with a connection
// are repeated, up to three times; writes never are. Every error is an *OpError. Ephemeral nodes created here vanish when the
// session is closed or, at the latest, when the servers expire it: if there is no connection when it is lost, up to Timeout
// (and a tick) after they last heard from us.
type Session struct {
	client  *Client
	guard   *guard
	clock   clock
	log     *journal
	conn    *zk.Conn
	events  <-chan zk.Event
	started chan struct{} // closed: conn and events are set
	ready   chan struct{} // closed: the session is granted
	done    chan struct{}
	joined  chan struct{} // closed: nothing of go-zookeeper runs any more
	ended   chan struct{} // closed: the servers confirmed the end of the session
	kick    chan struct{} // wakes watchClock

	mu       sync.Mutex
	id       int64
	password Secret // with the id it is all that is needed to resume the session, or to close it
	timeout  time.Duration
	state    State
	err      error
	changed  chan struct{}
	link     *link         // nil while disconnected
	linked   chan struct{} // closed while link is set
	down     time.Time     // when the last link ended
	sought   time.Time     // when the next session was first asked for; the client's mu guards it
	links    int           // number of links so far
	answered stamp         // send time of the newest frame that was answered
	proof    proof
	slept    time.Duration // the machine's sleep, as last read
	looks    time.Time     // when watchClock looks next
	holds    []*held
	next     []*held // of Ready: they carry heartbeats, and no deadline
	beating  bool
	nextBeat time.Time           // no heartbeat before this time; keeps failing ones apart
	watches  map[watchKey]*Watch // the newest of each node, which leads to the others
}

// newSession makes a session, which start begins to connect. Until it is granted it has id 0 and the timeout that is asked for.
func newSession(c *Client) *Session {
	live, refuse := context.WithCancel(context.Background()) // outlives the dialling caller's ctx; ended by lose
	s := &Session{
		client: c, clock: clock{replaced: c.slept}, log: c.log, timeout: c.cfg.SessionTimeout,
		started: make(chan struct{}), ready: make(chan struct{}), done: make(chan struct{}), joined: make(chan struct{}),
		ended: make(chan struct{}), kick: make(chan struct{}, 1),
		changed: make(chan struct{}), linked: make(chan struct{}), watches: map[watchKey]*Watch{},
	}
	s.guard = &guard{
		on: s, live: live, refuse: refuse, clock: s.clock, tls: &c.tls, timeout: s.Timeout,
		dialer: c.cfg.Dialer, reply: c.cfg.MaxReply, limit: c.cfg.ConnectTimeout * 4 / 5,
		hosts: newHosts(live, c.servers, c.book),
		slots: newSlots(), preempt: c.preempt,
	}
	s.guard.hosts.hurry = s.hurry
	return s
}

// start hands the session to go-zookeeper, which begins to connect.
func (s *Session) start() error {
	conn, events, err := zk.Connect(s.client.servers, s.client.cfg.SessionTimeout,
		zk.WithDialer(s.guard.dial), zk.WithHostProvider(s.guard.hosts), zk.WithLogger(newLogAdapter(s.log)), zk.WithLogInfo(false),
		// It receives only the answers to its connect request and to closeSession, and would allocate 3 MB for them.
		zk.WithMaxBufferSize(4<<10), zk.WithMaxConnBufferSize(4<<10))
	if err != nil {
		return err
	}
	s.conn, s.events = conn, events
	close(s.started)
	return nil
}

// ID returns the session's id, 0 before the servers have granted it.
func (s *Session) ID() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// Timeout returns the session timeout that the servers granted last; a reconnect may change it.
func (s *Session) Timeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timeout
}

// Stats returns what the session is doing now.
func (s *Session) Stats() Stats {
	on, _, _ := s.guard.hosts.current()
	s.mu.Lock()
	defer s.mu.Unlock()
	x := Stats{Server: on.addr, Connections: s.links, Holds: len(s.holds)}
	for _, slots := range s.guard.slots {
		x.Requests += len(slots)
	}
	for k, w := range s.watches {
		for ; w != nil; w = w.next {
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

// Stats is what a session is doing.
type Stats struct {
	Server      string   // the address it is, or was last, connected to
	Connections int      // the number of connections made so far
	Requests    int      // the number of requests that no server has answered yet
	Holds       int      // the number of paths held
	Watches     []string // the nodes of Watches that are neither closed nor stopped, in no order
	Armed       []string // the nodes of the watches set on the server, in no order
}

// State returns the session's state. It reads the clock: after a suspension it returns StateLost before any timer has run.
func (s *Session) State() State {
	s.mu.Lock()
	if now := s.read(); s.state == StateActive && now.Before(s.doubtAt()) && now.Before(s.lostAt()) {
		s.mu.Unlock()
		return StateActive // most are: no deadline has passed
	}
	s.mu.Unlock()
	s.look()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Done returns a channel that is closed when the session is lost.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns nil before Done is closed; then an error that wraps ErrLost and the cause: ErrExpired, ErrClosed, ErrAuth or
// the local deadline.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Changed returns a channel that is closed at the next change of State. Get it before reading State, and get a new one after
// it was closed.
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

// lose ends the session, once. It calls the lost callbacks of what is held before it returns, and before it tells the servers.
// It waits for nothing else: go-zookeeper's goroutines are joined in the background.
//
// It does not tell them while something is held, unless the client was closed: what runs under a lease that is lost at this
// moment has not ended yet. See CloseLost.
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
	// With mu released: the callbacks may ask this session for its state, or release what they hold.
	close(s.done)
	// Before anything below tells the servers: as soon as they know, a rival may be granted.
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
	tell, patience := l != nil, politely
	switch {
	case len(holds) == 0:
	case errors.Is(cause, ErrClosed):
		patience = s.Timeout() // Close says whether others can have it; to end thousands of nodes takes servers seconds
	default:
		tell = false
	}
	go s.join(tell, patience)
	s.log.write(slog.LevelInfo, "session lost", "session", fmt.Sprintf("0x%x", uint64(s.ID())), "cause", cause)
}

// politely is how long an ended session may take to send its closeSession and see it answered, unless Close waits for that on
// behalf of others.
const politely = time.Second

// join closes the zk.Conn and waits until nothing of it runs. If it is to tell the servers it first sends closeSession, so that
// what the session held is free at once, and waits for the answer for that long or until the connection ends. Then it closes the
// socket in any case: go-zookeeper waits a second for the answer and then pings for ever, which would keep all locks held.
func (s *Session) join(tell bool, patience time.Duration) {
	defer close(s.joined)
	<-s.started
	if !tell { // before go-zookeeper can send its closeSession
		s.guard.kill(errOver)
	}
	closing, looped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(closing)
		s.conn.Close()
	}()
	go func() {
		defer close(looped)
		for range s.events { // closed by go-zookeeper's loop as its last act
		}
	}()
	if tell {
		timer := time.NewTimer(patience)
		select {
		case <-s.ended:
		case <-looped:
		case <-timer.C:
		}
		timer.Stop()
	}
	s.guard.kill(errOver)
	<-looped
	<-closing
}

// granted implements listener: a server offers the session on l.
func (s *Session) granted(g grant, sent stamp, l *link) error {
	timeout := time.Duration(g.timeout) * time.Millisecond
	s.mu.Lock()
	pinned := s.id
	// An error keeps the answer from go-zookeeper, which would accept whatever session it names: a second one on this
	// handle, in which requests made under the first would run.
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
		s.lose(fmt.Errorf("%w: %s silently handed out session 0x%x in its place", ErrExpired, l.target.name, uint64(g.id)))
		return errOver
	case g.id == 0 || timeout < 10*time.Millisecond:
		// go-zookeeper panics on a timeout that is not positive.
		s.mu.Unlock()
		return fmt.Errorf("%w: session 0x%x with a timeout of %d ms", ErrProtocol, uint64(g.id), g.timeout)
	}
	if s.link != nil { // the goroutine that found the last one dead has not called lost yet
		s.unlink()
	}
	s.id, s.password, s.timeout, s.answered = g.id, g.password, timeout, sent
	s.link, s.links = l, s.links+1
	s.nextBeat = time.Time{} // a heartbeat that failed on the last connection is repeated at once
	first := pinned == 0
	if first {
		s.proof = proof{sent: sent, touched: sent} // the session's creation is a committed write
		s.trace(EventOpened, 0, nil)
	} else {
		for _, a := range s.client.cfg.Auth { // before any other request; on the first link Client.admit does it
			o := a.op()
			frame, _ := s.encode(nil, o) // it succeeded in Client.admit
			l.submit(frame, []*call{o.call()})
		}
		s.trace(EventConnected, 0, nil)
	}
	if len(s.holds) == 0 { // otherwise only a commit does this: this server may answer but commit nothing
		s.move(StateActive)
	}
	close(s.linked)
	s.mu.Unlock()
	if first {
		close(s.ready)
		go s.watchClock()
	} else {
		s.fireAll(zk.EventSession) // before anything is written on the new link, hence before any re-read
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

// unlink notes that there is no connection; the caller holds mu.
func (s *Session) unlink() {
	s.link, s.down = nil, time.Now()
	s.linked = make(chan struct{})
	s.move(StateSuspect)
}

// closed implements listener.
func (s *Session) closed() { close(s.ended) }

// refused implements listener.
func (s *Session) refused(code int32) {
	if code == codeSessionExpired {
		s.lose(ErrExpired)
		return
	}
	s.lose(fmt.Errorf("%w: the server answered code %d; check the credentials: their scheme must be one that the servers know", ErrAuth, code))
}

// shutdown ends the session on request and waits for it. An error means that the servers may not know.
func (s *Session) shutdown(cause error) error {
	s.mu.Lock()
	before := s.state
	s.mu.Unlock()
	s.lose(cause)
	<-s.joined
	if before == StateLost { // an earlier loss was reported then
		return nil
	}
	select {
	case <-s.ended:
		return nil
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Errorf("recipes: session 0x%x was not confirmed closed (%s); what it created vanishes within %v",
		uint64(s.id), s.guard.hosts.report(), s.timeout)
}
