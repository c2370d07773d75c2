package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/jute"
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
// fail with ErrLost. What its operations promise, recipes.Session says.
type Session struct {
	client *Client
	hosts  *hosts
	clock  clock
	log    *journal
	live   context.Context    // of whatever makes connections
	end    context.CancelFunc // ends that, for good; the present link lives on
	ready  chan struct{}      // closed: the session is granted
	done   chan struct{}
	joined chan struct{} // closed: stayConnected has returned, and all that is in running
	ended  chan struct{} // closed: the servers confirmed the end of the session
	kick   chan struct{} // wakes watchClock

	// What stayConnected waits for in the end. Whoever adds holds mu and the session is not lost, or a link's mu and that is not
	// dead: so all have been added by then.
	running sync.WaitGroup
	lasted  time.Duration // of a Keeper's session: its connection, once that has ended and joined is closed

	slots        [lanes]chan struct{} // one for each request, with those sent behind it, that no server has answered yet
	keepsWatches atomic.Bool          // a server does not know removeWatches
	id           atomic.Int64         // 0 until it is granted
	zxid         atomic.Int64         // the newest we have seen, for connect requests: a server behind it refuses us

	mu       sync.Mutex
	kind     ServerKind
	password Secret // with the id it is all that is needed to resume the session, or to close it
	timeout  time.Duration
	state    State
	err      error
	changed  chan struct{}
	link     *link         // nil while disconnected
	linked   chan struct{} // closed while link is set
	down     time.Time     // when the last link ended
	links    int           // number of links so far
	refusal  error         // why a login was refused; see turnedAway
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

// newSession makes a session for stayConnected to connect. Until it is granted it has id 0 and the timeout that is asked for.
func newSession(c *Client) *Session {
	live, end := context.WithCancel(context.Background()) // outlives the dialling caller's ctx; ended by lose
	return &Session{
		client: c, clock: clock{replaced: c.slept}, log: c.log, timeout: c.cfg.SessionTimeout, password: Secret(newPassword),
		live: live, end: end, hosts: newHosts(live, c.servers, c.book), slots: newSlots(),
		ready: make(chan struct{}), done: make(chan struct{}), joined: make(chan struct{}),
		ended: make(chan struct{}), kick: make(chan struct{}, 1),
		changed: make(chan struct{}), linked: make(chan struct{}), watches: map[watchKey]*Watch{},
	}
}

// neverWas makes s a session that is over before anybody has asked for one: the next one is dialled when somebody does.
func (s *Session) neverWas() {
	s.state, s.err = StateLost, fmt.Errorf("%w: none was asked for yet", ErrLost)
	s.end()
	close(s.done)
	close(s.joined)
}

// ID returns the session's id, 0 before the servers have granted it.
func (s *Session) ID() int64 { return s.id.Load() }

// Timeout returns the session timeout that the servers granted last; a reconnect may change it.
func (s *Session) Timeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timeout
}

// Stats returns what the session is doing now: tests look for what is left over.
func (s *Session) Stats() (x Stats) {
	on := s.At()
	s.mu.Lock()
	defer s.mu.Unlock()
	x = Stats{Server: on.Addr, Connections: s.links, Holds: len(s.holds)}
	for _, slots := range s.slots {
		x.Requests += len(slots)
	}
	for k, w := range s.watches {
		for ; w != nil; w = w.next {
			x.Watches = append(x.Watches, k.path)
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

// Done returns a channel that is closed when the session is lost, and all that held something have been told.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns nil while the session lives; then an error that wraps ErrLost and the cause: errExpired, ErrClosed, ErrAuth or
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

// lose ends the session, once. It calls the lost callbacks of what is held before it returns, before any operation fails because of that,
// and before it tells the servers. It waits for nothing else.
//
// It does not tell them while something is held, unless the client was closed: what runs under a lease that is lost at this
// moment has not ended yet. See CloseLost.
func (s *Session) lose(cause error) {
	s.mu.Lock()
	if s.state == StateLost {
		s.mu.Unlock()
		return
	}
	s.running.Add(1) // until everybody has been told
	defer s.running.Done()
	s.err = fmt.Errorf("%w: session 0x%x: %w", ErrLost, uint64(s.ID()), cause)
	s.move(StateLost)
	l, err, holds := s.link, s.err, slices.Clone(s.holds)
	patience := politely
	switch {
	case len(holds) == 0:
	case errors.Is(cause, ErrClosed):
		patience = s.timeout // Close says whether others can have it; to end thousands of nodes takes servers seconds
	default:
		patience = 0
	}
	s.mu.Unlock()
	defer func() { // also if a callback panics: a link that lived on would be pinged, and so keep all locks held
		close(s.done)
		s.end()
		s.fireAll(zk.EventNotWatching)
		if l != nil {
			l.leave(err, patience)
		}
		s.log.write(slog.LevelInfo, "session lost", "session", fmt.Sprintf("0x%x", uint64(s.ID())), "cause", cause)
	}()
	// Before anything tells the servers: as soon as they know, a rival may be granted. With mu released: the callbacks may ask this session
	// for its state, or release what they hold.
	for _, h := range holds {
		if h.lost != nil {
			h.lost(err)
		}
	}
}

// politely is how long an ended session may take to send its closeSession and see it answered, unless Close waits for that on
// behalf of others.
const politely = time.Second

// granted decides about the session that a server offers on l. It is the one that it was, or it is over: in another one, requests
// made under the first would run.
func (s *Session) granted(g grant, l *link) error {
	s.mu.Lock()
	pinned := s.ID()
	switch {
	case g.version == keeperRejects:
		s.mu.Unlock()
		return errNoLeader
	case s.state == StateLost:
		s.mu.Unlock()
		return errOver
	case pinned != 0 && g.id == 0:
		s.mu.Unlock()
		s.lose(errExpired)
		return errOver
	case pinned != 0 && g.id != pinned:
		s.mu.Unlock()
		s.lose(fmt.Errorf("%w: %s silently handed out session 0x%x in its place", errExpired, l.target.Name, uint64(g.id)))
		return errOver
	case g.id == 0 || l.timeout < 10*time.Millisecond:
		s.mu.Unlock()
		return fmt.Errorf("%w: session 0x%x with a timeout of %d ms", ErrProtocol, uint64(g.id), g.timeout)
	}
	s.hosts.granted(l.target) // before anybody else can find the link dead
	s.id.Store(g.id)
	s.kind, s.password, s.timeout, s.answered = g.kind(), g.password, l.timeout, l.asked
	s.link, s.links = l, s.links+1
	s.nextBeat = time.Time{} // a heartbeat that failed on the last connection is repeated at once
	first := pinned == 0
	if first {
		s.proof = proof{sent: l.asked, touched: l.asked} // the session's creation is a committed write
		s.trace(EventOpened, 0, nil)
	} else {
		s.authenticate(l) // before any other request; on the first link Client.admit does it
		s.trace(EventConnected, 0, nil)
	}
	if len(s.holds) == 0 { // otherwise only a commit does this: this server may answer but commit nothing
		s.move(StateActive)
	}
	close(s.linked)
	if first {
		close(s.ready)
		s.running.Go(s.watchClock)
	}
	s.mu.Unlock()
	if !first {
		s.fireAll(zk.EventSession) // also a watch of a read that is on the new link already: it fires without a change, once
	}
	s.wake()
	return nil
}

// authenticate presents the identities on l; mu is held.
func (s *Session) authenticate(l *link) {
	var frames []byte
	var calls []*call
	for _, a := range s.client.cfg.Auth {
		o := a.op()
		frames, _ = s.encode(frames, o) // it succeeded in Client.admit
		calls = append(calls, o.call())
	}
	if len(calls) > 0 {
		l.submit(frames, calls)
	}
}

// lost notes that the connection is gone, the session not yet.
func (s *Session) lost(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != l {
		return
	}
	s.link, s.down = nil, time.Now()
	s.linked = make(chan struct{})
	s.move(StateSuspect)
	s.wake()
}

// refused ends the session: the servers rejected it or an identity for good.
func (s *Session) refused(code int32) {
	if code == jute.CodeSessionExpired {
		s.lose(errExpired)
		return
	}
	if code == jute.CodeSASLRequired {
		_, err := answer(code)
		s.lose(fmt.Errorf("%w; connected as %s", err, s.Whoami()))
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
	return fmt.Errorf("recipes: session 0x%x: close not confirmed (%s); its ephemeral nodes disappear within %v",
		uint64(s.ID()), s.hosts.report(), s.timeout)
}

// Addresses are those of a host, as the session itself would find them; only the host if that takes longer than ctx allows.
func (s *Session) Addresses(ctx context.Context, host string) []string {
	book := s.hosts.book
	if _, err := netip.ParseAddr(host); err != nil && book.resolve != nil {
		if ips, err := book.resolve(ctx, host); err == nil {
			return append(ips, host)
		}
	}
	return []string{host}
}

// TLS reports whether the session's connections are encrypted.
func (s *Session) TLS() bool { return s.client.tls.get != nil }

// Servers lists the addresses of the ensemble: a name may resolve to several.
func (s *Session) Servers() []Server { return s.hosts.all() }

// At is the one that the session is connected to, or was last.
func (s *Session) At() Server { return s.hosts.current() }

// Aside opens a second connection to a server, writes say and lets hear read the answer, for as long as ctx allows.
func (s *Session) Aside(ctx context.Context, t Server, say []byte, hear func(io.Reader) error) error {
	return s.aside(ctx, t, say, func(c io.ReadWriter) error { return hear(c) })
}

func (s *Session) aside(ctx context.Context, t Server, say []byte, hear func(io.ReadWriter) error) error {
	conn, ours, err := s.open(ctx, t)
	if err != nil {
		return err
	}
	defer hangUp(conn)
	if err = ownFault(ours, talk(ctx, conn, say, hear)); err != nil {
		s.log.write(slog.LevelDebug, "check", "server", t.Name, "cause", err)
	}
	return err
}

// ReadOnly reports whether the session refuses every write before sending it.
func (s *Session) ReadOnly() bool { return s.client.cfg.ReadOnly }

// Zxid returns the newest transaction that a server has reported to this session.
func (s *Session) Zxid() int64 { return s.zxid.Load() }

// ShortestTimeout returns the shortest session timeout the server grants, in milliseconds; 0 when it does not answer. It
// opens a session that asks for one millisecond, and closes it with a closeSession right behind the connect request.
func (s *Session) ShortestTimeout(ctx context.Context) (ms int) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_ = s.Aside(ctx, s.At(), closing(connectFrame(0, time.Millisecond, 0, newPassword), 1), func(r io.Reader) error {
		g, err := readGrant(r)
		ms = int(g.timeout)
		_, _ = io.Copy(io.Discard, r) // until it is closed
		return err
	})
	return ms
}
