package session

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/internal/session/clock"
	"github.com/locktree/locktree/recipes/internal/session/journal"
	"github.com/locktree/locktree/recipes/internal/session/sasl"
	"github.com/locktree/locktree/recipes/internal/session/servers"
	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// State is what this process may assume about a session.
type State int

const (
	// StateActive: connected, and a server has answered recently.
	StateActive State = iota
	// StateSuspect: nothing proves that the session is alive, but the local deadline has not passed: the session may be alive, and what is
	// held is still held. While something is held, only a committed write leads back to StateActive.
	StateSuspect
	// StateLost: the session is over. This state is final.
	StateLost
	// stateAsked: no server has granted the session yet, and no program has it.
	stateAsked
)

// String returns "active", "suspect" or "lost", and "asked" for a session that no program has yet.
func (s State) String() string { return [...]string{"active", "suspect", "lost", "asked"}[s] }

// sessionMoves has the legal moves.
var sessionMoves = map[State][]State{
	stateAsked:   {StateActive, StateLost},
	StateActive:  {StateSuspect, StateLost},
	StateSuspect: {StateActive, StateLost},
}

// Session is one ZooKeeper session. Obtain it from Client.Session. When it is over, its connection is closed and operations fail
// with ErrLost. direct.Session documents the operations.
type Session struct {
	client *Client
	hosts  *servers.Rotation
	clock  clock.Clock
	log    *journal.Journal
	live   context.Context    // the context under which connections are made
	end    context.CancelFunc // cancels the context live for good; the present link goes on
	ready  chan struct{}      // closed: the session is granted
	done   chan struct{}
	joined chan struct{} // closed: stayConnected has ended, and so have all goroutines that the field running counts
	ended  chan struct{} // closed: the servers confirmed the end of the session
	kick   chan struct{} // wakes watchClock

	// At its end stayConnected waits for running. Code that adds to running holds mu of a session that is not lost, or mu of a link that
	// is not dead. So nothing is added any more when stayConnected begins to wait.
	running sync.WaitGroup

	// Each request, or batch of requests, that no server has answered yet takes a slot.
	slots        [lanes]chan struct{}
	keepsWatches atomic.Bool  // a server does not know removeWatches
	id           atomic.Int64 // 0 until it is granted
	zxid         atomic.Int64 // the newest zxid that we have seen; connect requests carry it, and a server that has not seen it refuses us

	mu       sync.Mutex
	password Secret // id and password suffice to resume the session, or to close it
	timeout  time.Duration
	state    State
	err      error
	changed  chan struct{}
	link     *link         // nil while disconnected
	linked   chan struct{} // closed while link is set
	down     time.Time     // when the last link ended
	links    int           // number of links so far
	refusal  error         // why a login was refused, or that the server is a Keeper; see turnedAway
	answered clock.Stamp   // send time of the newest frame that was answered
	proof    proof
	slept    time.Duration // the machine's sleep, as last read
	looks    time.Time     // when watchClock looks next
	holds    []*heldThing
	next     []*heldThing // the things of Ready: they carry heartbeats, and no deadline applies
	beating  bool
	nextBeat time.Time           // no heartbeat is sent before this time, so failed heartbeats are not repeated too fast
	watches  map[watchKey]*Watch // the newest watch of each node, which is linked to the others
}

// newSession makes a session for stayConnected to connect. Until it is granted it has id 0 and the timeout that is asked for.
func newSession(c *Client) *Session {
	live, end := context.WithCancel(context.Background()) // outlives the dialling caller's ctx; ended by lose
	s := &Session{
		state: stateAsked, client: c, clock: clock.Clock{Replaced: c.slept}, log: c.log, timeout: c.cfg.SessionTimeout, password: Secret(wire.NewPassword),
		live: live, end: end, hosts: servers.NewRotation(live, c.servers, c.book),
		ready: make(chan struct{}), done: make(chan struct{}), joined: make(chan struct{}),
		ended: make(chan struct{}), kick: make(chan struct{}, 1),
		changed: make(chan struct{}), linked: make(chan struct{}), watches: map[watchKey]*Watch{},
	}
	for in, n := range inFlight {
		s.slots[in] = make(chan struct{}, n)
	}
	return s
}

// ID returns the session's id, 0 before the servers have granted it.
func (s *Session) ID() int64 { return s.id.Load() }

// Timeout returns the session timeout that the servers granted last; a reconnect may change it.
func (s *Session) Timeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timeout
}

// Stats returns the present activity of the session: tests look there for leaks.
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

// Stats is the present activity of a session.
type Stats struct {
	Server      string   // the address that the session is connected to, or was last
	Connections int      // the number of connections made so far
	Requests    int      // the number of requests that no server has answered yet; those sent together count as one
	Holds       int      // the number of paths held
	Watches     []string // the nodes of Watches that are neither closed nor stopped, in no order
}

// State returns the session's state. It reads the clock: after a suspension of the machine it returns StateLost before any timer has run.
func (s *Session) State() State {
	s.mu.Lock()
	if now, x := s.readClock(), s.schedule(); s.state == StateActive && now.Before(x.doubt) && now.Before(x.lost) {
		s.mu.Unlock()
		return StateActive // the usual case: no deadline has passed
	}
	s.mu.Unlock()
	s.look()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Done returns a channel that is closed when the session is lost, and all holders have been told.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns nil while the session lives; then an error that wraps ErrLost and the cause: errExpired, ErrClosed, ErrAuth,
// errDoubt or the local deadline.
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

// move changes the state, if the table of moves allows that; the caller holds mu.
func (s *Session) move(to State) {
	from := s.state
	if !slices.Contains(sessionMoves[from], to) {
		return
	}
	s.state = to
	close(s.changed)
	s.changed = make(chan struct{})
	switch {
	case from != stateAsked:
		s.trace([...]EventType{EventCleared, EventSuspected, EventLost}[to], 0, s.err)
	case to == StateActive:
		s.trace(EventOpened, 0, nil)
	}
}

// EventType says what an Event is about.
type EventType string

// The events of a session.
const (
	EventOpened    EventType = "session opened"    // a server granted the session
	EventConnected EventType = "session connected" // the session has a connection again
	EventSuspected EventType = "session suspected" // StateSuspect begins
	EventCleared   EventType = "session cleared"   // StateActive again
	EventLost      EventType = "session lost"      // StateLost, because of Err
	EventHeartbeat EventType = "heartbeat"         // a heartbeat was answered after Took, or failed with Err
)

// Event is what Config.Trace receives.
type Event struct {
	Type    EventType
	Session int64 // its id
	Took    time.Duration
	Err     error
}

// trace calls Config.Trace; mu is held.
func (s *Session) trace(what EventType, took time.Duration, err error) {
	if f := s.client.cfg.Trace; f != nil {
		f(Event{what, s.ID(), took, err})
	}
}

// lose ends the session, once. It first calls the callbacks of all holds (onLoss of Hold): before it returns, before any operation fails
// because of the loss, and before it tells the servers. It waits only for the callbacks.
//
// If something is held, it does not tell the servers, because the work under the lost lease has perhaps not ended yet: see CloseLost. If
// the client was closed, it tells them in any case.
func (s *Session) lose(cause error) {
	s.mu.Lock()
	if s.state == StateLost {
		s.mu.Unlock()
		return
	}
	s.running.Add(1) // until all callbacks have returned
	defer s.running.Done()
	s.err = errs.Errorf("%w: session 0x%x: %w", ErrLost, uint64(s.ID()), cause)
	s.move(StateLost)
	l, err, holds := s.link, s.err, slices.Clone(s.holds)
	patience := farewellTime
	switch {
	case len(holds) == 0:
	case errors.Is(cause, ErrClosed):
		// Close reports whether others can have the locks. Servers take seconds to end a session with thousands of nodes.
		patience = s.timeout
	default:
		patience = 0
	}
	s.mu.Unlock()
	defer func() { // also if a callback panics: a link that lived on would send pings, and so keep all locks held
		close(s.done)
		s.end()
		s.fireAll(zk.EventNotWatching)
		if l != nil {
			l.leave(err, patience)
		}
		id := fmt.Sprintf("0x%x", uint64(s.ID()))
		if errors.Is(cause, ErrClosed) {
			s.log.Write(slog.LevelInfo, "session closed", "session", id)
			return
		}
		s.log.Write(slog.LevelInfo, "session lost", "session", id, "cause", cause)
	}()
	// Call them before the servers are told: as soon as the servers know, a rival may be granted. mu is released, because the
	// callbacks may ask this session for its state, or release what they hold.
	for _, h := range holds {
		if h.lost != nil {
			h.lost(err)
		}
	}
}

// farewellTime is how long an ended session may take to send its closeSession and see it answered. If Close ends a session that holds
// something, the session timeout applies instead.
const farewellTime = time.Second

// acceptGrant decides about the session that a server offers on l. If g is another session than before, s is over: requests that were
// made in s must not run in another session.
func (s *Session) acceptGrant(g wire.Grant, l *link) error {
	s.mu.Lock()
	switch {
	case s.state == StateLost:
		s.mu.Unlock()
		return errOver
	case s.state != stateAsked && g.ID == 0:
		s.mu.Unlock()
		s.lose(errExpired)
		return errOver
	case s.state != stateAsked && g.ID != s.ID():
		s.mu.Unlock()
		s.lose(fmt.Errorf("%w: %s silently handed out session 0x%x in its place", errExpired, l.target.Name, uint64(g.ID)))
		return errOver
	case g.ID == 0 || l.timeout < 10*time.Millisecond:
		s.mu.Unlock()
		return fmt.Errorf("%w: session 0x%x with a timeout of %d ms", ErrProtocol, uint64(g.ID), g.Timeout)
	}
	s.hosts.Granted(l.target) // before another goroutine can find the link dead
	s.id.Store(g.ID)
	s.password, s.timeout, s.answered = Secret(g.Password), l.timeout, l.asked
	s.link, s.links = l, s.links+1
	s.nextBeat = time.Time{} // a heartbeat that failed on the last connection is repeated at once
	first := s.state == stateAsked
	if first {
		s.proof = proof{sent: l.asked, touched: l.asked} // creating the session is a committed write
	} else {
		// The identities go before any other request. On the first link Client.admit presents them.
		s.authenticate(l)
		s.trace(EventConnected, 0, nil)
	}
	// While something is held, only a commit makes the session active: the server may answer but commit nothing.
	if len(s.holds) == 0 {
		s.move(StateActive)
	}
	close(s.linked)
	if first {
		close(s.ready)
		s.running.Go(s.watchClock)
	}
	s.mu.Unlock()
	if !first {
		// A watch that was already set on the new link fires too, once, without a change.
		s.fireAll(zk.EventSession)
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
		calls = append(calls, o.ask(new(call)))
	}
	if len(calls) > 0 {
		l.submit(frames, calls)
	}
}

// noteDisconnect notes that the connection is gone. The session may still be alive.
func (s *Session) noteDisconnect(l *link) {
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

// endRefused ends the session: the servers rejected it or an identity for good.
func (s *Session) endRefused(code int32) {
	if code == wire.CodeSessionExpired {
		s.lose(errExpired)
		return
	}
	if code == wire.CodeSASLRequired {
		_, err := wire.Answer(code)
		s.lose(fmt.Errorf("%w; connected as %s", err, s.Whoami()))
		return
	}
	s.lose(fmt.Errorf("%w: the server answered code %d; check the credentials: their scheme must be one that the servers know", ErrAuth, code))
}

// shutdown ends the session on request and waits for it. An error means that the servers perhaps do not know that the session is
// over.
func (s *Session) shutdown(cause error) error {
	s.mu.Lock()
	before := s.state
	s.mu.Unlock()
	s.lose(cause)
	<-s.joined
	if before == StateLost { // the session was lost earlier, and the loss was reported at that time
		return nil
	}
	select {
	case <-s.ended:
		return nil
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Errorf("recipes: session 0x%x: close not confirmed (%s); its ephemeral nodes disappear when the servers expire it, usually within %v",
		uint64(s.ID()), s.hosts.Report(), s.timeout)
}

// Addresses returns the addresses of a host, as the session itself would find them. It returns only the host if the lookup takes longer
// than ctx allows.
func (s *Session) Addresses(ctx context.Context, host string) []string {
	return s.hosts.Book.Lookup(ctx, host)
}

// TLS reports whether the session's connections are encrypted.
func (s *Session) TLS() bool { return s.client.tls.get != nil }

// Servers lists the addresses of the ensemble: a name may resolve to several.
func (s *Session) Servers() []servers.Server { return s.hosts.All() }

// At returns the server that the session is connected to, or was last.
func (s *Session) At() servers.Server { return s.hosts.Current() }

// Aside opens a second connection to a server, writes a request, and calls receive for the answer, for as long as ctx allows.
func (s *Session) Aside(ctx context.Context, t servers.Server, request []byte, receive func(io.Reader) error) error {
	return s.aside(ctx, t, request, func(c io.ReadWriter) error { return receive(c) })
}

func (s *Session) aside(ctx context.Context, t servers.Server, request []byte, receive func(io.ReadWriter) error) error {
	conn, ours, err := s.open(ctx, t)
	if err != nil {
		return err
	}
	defer hangUp(conn)
	if err = ownFault(ours, talk(ctx, conn, request, receive)); err != nil {
		s.log.Write(slog.LevelDebug, "check", "server", t.Name, "cause", err)
	}
	return err
}

// ReadOnly reports whether the session refuses every write before sending it.
func (s *Session) ReadOnly() bool { return s.client.cfg.ReadOnly }

// Zxid returns the newest transaction that a server has reported to this session.
func (s *Session) Zxid() int64 { return s.zxid.Load() }

// ShortestTimeout returns the shortest session timeout the server grants, in milliseconds; 0 if the server does not answer. It opens a
// session that asks for one millisecond, and sends a closeSession right after the connect request.
func (s *Session) ShortestTimeout(ctx context.Context) (ms int) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_ = s.Aside(ctx, s.At(), wire.Closing(wire.ConnectFrame(0, time.Millisecond, 0, wire.NewPassword), 1), func(r io.Reader) error {
		g, err := wire.ReadGrant(r)
		ms = int(g.Timeout)
		_, _ = io.Copy(io.Discard, r) // until the server closes the connection
		return err
	})
	return ms
}

// Config is how a Client reaches ZooKeeper; recipes.Config says more of each field. Only Servers is required.
type Config struct {
	Servers        []string       // "host" or "host:port", port 2181 when absent; or "dns-srv://name"
	SessionTimeout time.Duration  // to ask for, 0 = 15 s: Session.Timeout is what the servers granted
	ConnectTimeout time.Duration  // bounds Dial, and each later dialling of a new session, but not the clean-up after a failure; 0 = 5 s
	Auth           []Auth         // presented on every connection
	SASL           sasl.Mechanism // logs in on every connection, before Auth; nil = not at all
	TLS            *tls.Config    // used on every connection; nil = none, or what GetTLS returns
	Logger         *slog.Logger   // nil = none; its handler may use the Client
	LoseOnSuspect  bool           // a suspect session that holds something is lost at once
	MaxReply       int            // bytes of the longest reply that is read; 0 = 16 MiB
	ReadOnly       bool           // refuses every write before it is sent, with ErrReadOnly
	Lazy           bool           // Dial does not connect, the first use does
	// GetTLS, when not nil, returns the TLS configuration of one connection.
	GetTLS func() (*tls.Config, error)
	// Dialer replaces net.Dialer. It receives the name from Servers, unresolved, and should obey ctx.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)
	// Trace, when not nil, receives the events of every session, in order. It is called with locks held: it must return at
	// once, and must use neither the Client nor the Session.
	Trace func(Event)
}

// Auth is one identity to present, as with zk's AddAuth. Credentials of scheme "digest" are "user:password".
type Auth struct {
	Scheme      string
	Credentials Secret
}

// Client has one session at a time and outlives it: after one is lost, Client.Session dials the next. It is safe for use by
// many goroutines. Obtain it from Dial; Close it.
type Client struct {
	cfg     Config
	servers *servers.Roster
	book    *servers.Book
	log     *journal.Journal
	joined  chan struct{}   // closed when Close is done
	live    context.Context // a context that ends, with mu held, when Close begins; background dialling runs under it
	end     context.CancelFunc
	slept   func() time.Duration                   // tests say here how long the machine has been suspended
	preempt func()                                 // tests hook in here: the scheduler may stop a goroutine that is about to write a request
	jitter  func(most time.Duration) time.Duration // returns a random time that is not longer than most
	tls     tlsSource

	mu      sync.Mutex
	session *Session       // the newest
	dialing *dialling      // the attempt at the next session, while it is under way
	running sync.WaitGroup // counts the calls of redial under way
}

// Source hands out sessions to package inspect, which package recipes imports. It is a *recipes.Client, which embeds a
// SourceFunc, or a Client in tests. handOut is not exported, because an exported method would let programs reach the session that
// their direct.Session hides.
type Source interface {
	handOut(ctx context.Context) (*Session, error)
}

// SourceFunc is a Source.
type SourceFunc func(ctx context.Context) (*Session, error)

func (f SourceFunc) handOut(ctx context.Context) (*Session, error) { return f(ctx) }

func (c *Client) handOut(ctx context.Context) (*Session, error) { return c.Session(ctx) }

// Live returns the live session of a source.
func Live(ctx context.Context, from Source) (*Session, error) { return from.handOut(ctx) }

// dialling is one attempt at a new session, shared by all who wait for it.
type dialling struct {
	done    chan struct{}
	since   time.Time
	session *Session // the session to be granted; it is live if the attempt ends with a nil err
	err     error
}

// Dial checks cfg, connects, presents Config.Auth and returns once a session is granted. When ctx ends or Config.ConnectTimeout
// has passed, it fails with ErrUnreachable, whose text lists the servers and why each failed. It fails with ErrAuth when a server
// refuses an identity, and with wire.ErrKeeper when a server is a ClickHouse Keeper. A failed Dial leaves nothing behind; the
// clean-up may take up to three seconds more. With Config.Lazy it only checks cfg.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	c, err := newClient(cfg, seam.From(ctx))
	if err != nil {
		return nil, err
	}
	if c.session = newSession(c); cfg.Lazy {
		s := c.session // lost, and never connected: the first caller that needs a session dials the next one
		s.err = fmt.Errorf("%w: none was asked for yet", ErrLost)
		s.move(StateLost)
		s.end()
		close(s.done)
		close(s.joined)
		return c, nil
	}
	if err = c.connect(ctx, c.session); err != nil {
		c.end()
		c.log.Wait()
		return nil, err
	}
	return c, nil
}

// newClient checks and completes the configuration.
func newClient(cfg Config, test seam.Seams) (*Client, error) {
	names, err := servers.Parse(cfg.Servers)
	if err != nil {
		return nil, err
	}
	if cfg.Auth, err = checkAuth(cfg.Auth); err != nil {
		return nil, err
	}
	if cfg.SessionTimeout < 0 || cfg.ConnectTimeout < 0 {
		return nil, errors.New("recipes: a negative timeout in Config; 0 means the default")
	}
	cfg.SessionTimeout = cmp.Or(cfg.SessionTimeout, 15*time.Second)
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, 5*time.Second)
	if cfg.MaxReply < 0 {
		return nil, fmt.Errorf("recipes: MaxReply of %d bytes in Config; 0 means the default", cfg.MaxReply)
	}
	cfg.MaxReply = cmp.Or(cfg.MaxReply, wire.MaxReply)
	if cfg.SessionTimeout < time.Millisecond || cfg.SessionTimeout > math.MaxInt32*time.Millisecond {
		return nil, fmt.Errorf("recipes: session timeout %v: ZooKeeper counts it in milliseconds, in 31 bits", cfg.SessionTimeout)
	}
	c := &Client{servers: servers.NewRoster(names), log: journal.New(cfg.Logger), joined: make(chan struct{}), slept: test.Slept, preempt: test.Preempt, jitter: test.Jitter}
	if c.jitter == nil {
		c.jitter = func(most time.Duration) time.Duration { return rand.N(most + 1) }
	}
	resolve := test.Resolve
	if cfg.Dialer == nil {
		cfg.Dialer, resolve = (&net.Dialer{}).DialContext, net.DefaultResolver.LookupHost
	}
	c.book = servers.NewBook(resolve, test.Services, c.log.Write)
	switch c.tls.get = cfg.GetTLS; {
	case cfg.GetTLS != nil && cfg.TLS != nil:
		return nil, errors.New("recipes: Config has both TLS and GetTLS; set one of them")
	case cfg.TLS != nil:
		c.tls.get = func() (*tls.Config, error) { return cfg.TLS, nil }
	}
	c.cfg = cfg
	c.live, c.end = context.WithCancel(context.Background()) // Dial's ctx bounds Dial only
	return c, nil
}

// connect dials s and presents the identities on it.
func (c *Client) connect(ctx context.Context, s *Session) error {
	bounded, cancel := context.WithTimeout(ctx, c.cfg.ConnectTimeout)
	defer cancel()
	go s.stayConnected()
	err := c.admit(bounded, s)
	if err == nil {
		return nil
	}
	// Take the report first: lose ends the attempt under way, and a later report would tell of that end.
	report := s.hosts.Report()
	s.lose(ErrUnreachable)
	// When Dial returns, nothing is left of the attempt: no socket, and no session that was just granted.
	<-s.joined
	switch {
	case errors.Is(err, ErrAuth), errors.Is(err, errOtherEnsemble), errors.Is(err, wire.ErrKeeper):
		return err
	case ctx.Err() != nil:
		return errs.Errorf("%w: %w; %s", ErrUnreachable, causeOf(ctx), report)
	default:
		return errs.Errorf("%w: no session within %v; %s", ErrUnreachable, c.cfg.ConnectTimeout, report)
	}
}

// admit waits for the session and presents the identities, so that no operation can run without them.
func (c *Client) admit(ctx context.Context, s *Session) error {
	select {
	case <-s.ready:
	case <-s.done:
		return s.whyDenied()
	case <-ctx.Done():
		return ctx.Err()
	}
	// One at a time: this way a refusal can name the identity that was refused.
	for _, a := range c.cfg.Auth {
		if _, err := s.run(ctx, a.op()); err != nil {
			if a.Scheme == schemeEnsemble && ctx.Err() == nil {
				return otherEnsemble(err, string(a.Credentials))
			}
			if lost := s.Err(); errors.Is(lost, ErrAuth) || errors.Is(err, zk.ErrAuthFailed) {
				return fmt.Errorf("%w: scheme %q: no such provider on the servers, or credentials it does not accept", ErrAuth, a.Scheme)
			}
			return err
		}
	}
	return nil
}

// errOtherEnsemble: a server did not confirm the name of its ensemble.
var errOtherEnsemble = errors.New("another ensemble, or one without a name")

// otherEnsemble says what it means that a server did not confirm a name.
func otherEnsemble(err error, name string) error {
	if errors.Is(err, ErrAuth) || errors.Is(err, ErrLost) || errors.Is(err, zk.ErrAuthFailed) {
		return errs.Errorf("%w: %w: the servers do not know the scheme ensemble: set authProvider.ensemble and ensembleAuthName there, or do not present the name %q", ErrAuth, errOtherEnsemble, name)
	}
	return errs.Errorf("%w: %w: a server ended the connection when it was asked whether it belongs to ensemble %q; servers of another ensemble do that (zookeeper.ensembleAuthName)", ErrUnreachable, errOtherEnsemble, name)
}

// Session returns the live session, or dials the next one: see recipes.Client.Session.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	var tried error           // why the last attempt failed
	ended := ctx.Err() != nil // ctx ended before anything was tried
	for {
		s, d := c.current()
		switch {
		case s != nil:
			return s, nil
		case d == nil:
			return nil, ErrClosed
		}
		over := ctx.Done()
		select {
		case <-d.done:
			over = nil // the result of the attempt says more than the end of ctx
		default:
		}
		select {
		case <-d.done:
			// The attempt has its own bound (ConnectTimeout), the caller has another. A caller that can wait longer gets another attempt
			// when no server was reachable, but not when a server refused.
			switch {
			case d.err == nil:
				return d.session, nil
			case !errors.Is(d.err, ErrUnreachable):
				return nil, d.err
			}
			tried = d.err
		case <-over:
		}
		switch {
		case ctx.Err() == nil:
		case tried != nil:
			return nil, fmt.Errorf("%w%.0w", tried, causeOf(ctx)) // %.0w wraps ctx's error without printing it
		case ended:
			return nil, fmt.Errorf("recipes: no session: %w", causeOf(ctx))
		default:
			return nil, errs.Errorf("%w: %w", ErrUnreachable, causeOf(ctx))
		}
	}
}

// SetServers replaces Config.Servers, for the present session and for later sessions. A session that is connected to a server that the new
// list does not name leaves it: see link.retire. An error means that the list is wrong, and nothing has changed.
func (c *Client) SetServers(list []string) error {
	names, err := servers.Parse(list)
	if err != nil {
		return err
	}
	c.servers.Replace(names)
	if s := c.Newest(); s != nil {
		s.wake() // a session that is being dialled finds the new list at its first look at the clock
	}
	return nil
}

// Newest returns the session dialled last, even if it is lost.
func (c *Client) Newest() *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// current returns the live session. If there is none it returns the attempt under way, which it starts if need be. Once the
// client is closed it returns neither.
func (c *Client) current() (*Session, *dialling) {
	newest := c.Newest()
	// Without mu: State may find the loss, and then calls the functions given to Session.Hold.
	lost := newest == nil || newest.State() == StateLost
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.live.Err() != nil:
		return nil, nil
	case !lost:
		return newest, nil
	case c.session != newest: // dialled meanwhile
		return c.session, nil
	case c.dialing == nil:
		c.dialing = &dialling{done: make(chan struct{}), since: time.Now(), session: newSession(c)}
		c.running.Add(1)
		go c.redial(c.dialing, c.session)
	}
	return nil, c.dialing
}

// redial dials the next session. It does not run under the ctx of the first caller: other callers that wait for the attempt may have more
// time.
func (c *Client) redial(d *dialling, old *Session) {
	defer c.running.Done()
	<-old.joined // the old connection is gone before the new one is made
	d.err = c.connect(c.live, d.session)
	c.mu.Lock()
	if d.err == nil {
		c.session = d.session
	} else if c.live.Err() != nil {
		d.err = ErrClosed
	}
	c.dialing = nil
	c.mu.Unlock()
	close(d.done)
}

// Close ends the client. It loses the session with ErrClosed, which calls the callbacks given to Session.Hold, and closes the session on
// the servers. It joins its goroutines, except where a Dialer or a log handler does not return: see recipes.Client.Close.
func (c *Client) Close() error {
	c.mu.Lock()
	again := c.live.Err() != nil
	c.end()
	c.mu.Unlock()
	if again {
		// A sync.Once would not do here: waiting for its mutex would stop time in a synctest bubble.
		<-c.joined
		return nil
	}
	defer close(c.joined)
	// live has ended, so no further attempt begins: after this only Close touches c.session.
	c.running.Wait()
	err := c.session.shutdown(ErrClosed)
	c.log.Wait()
	return err
}
