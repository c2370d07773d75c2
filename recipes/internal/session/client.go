package session

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/seam"
)

// Config is how a Client reaches ZooKeeper; recipes.Config says more of each field. Only Servers is required.
type Config struct {
	Servers        []string      // "host" or "host:port", port 2181 when absent; or "dns-srv://name"
	SessionTimeout time.Duration // to ask for, 0 = 15 s: Session.Timeout is what the servers granted
	ConnectTimeout time.Duration // bounds Dial, and each later dialling of a new session, as a whole; 0 = 5 s
	Auth           []Auth        // presented on every connection
	SASL           SASL          // logs in on every connection, before Auth; nil = not at all
	TLS            *tls.Config   // used on every connection; nil = none, or what GetTLS returns
	Logger         *slog.Logger  // nil = none; its handler may use the Client
	LoseOnSuspect  bool          // a session under which something is held is lost as soon as it is in doubt
	MaxReply       int           // bytes of the longest reply that is read; 0 = 16 MiB
	ReadOnly       bool          // refuses every write before it is sent, with ErrReadOnly
	Lazy           bool          // Dial does not connect, the first use does
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
	servers *roster
	book    *addressBook
	log     *journal
	joined  chan struct{}   // closed when Close is done
	live    context.Context // ends, with mu held, when Close begins; background dialling runs under it
	end     context.CancelFunc
	slept   func() time.Duration                   // tests say here how long the machine has been suspended
	preempt func()                                 // tests hook in here: the scheduler may stop a goroutine that is about to write a request
	jitter  func(most time.Duration) time.Duration // a random time up to most
	tls     tlsSource

	mu      sync.Mutex
	session *Session       // the newest
	dialing *dialling      // the attempt at the next, while it is under way
	running sync.WaitGroup // dialling and lost sessions not yet joined
}

// Source hands out sessions to package inspect, which package recipes imports. It is a *recipes.Client, which embeds a
// SourceFunc, or a Client in tests. An interface that inspect could name would need an exported method, and show programs what is
// below their Session.
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
	session *Session // what is to be granted; it lives if the attempt ends without err
	err     error
}

// Dial checks cfg, connects, presents Config.Auth and returns once a session is granted. When ctx ends or Config.ConnectTimeout
// has passed it gives up with ErrUnreachable, whose text lists the servers and why each failed; it fails with ErrAuth when a
// server refuses an identity. A failed Dial leaves nothing behind, for which it may take up to three seconds longer. With Config.Lazy
// it only checks cfg.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	c, err := newClient(cfg, seam.From(ctx))
	if err != nil {
		return nil, err
	}
	if c.session = newSession(c); cfg.Lazy {
		c.session.neverWas()
		return c, nil
	}
	if err = c.connect(ctx, c.session); err != nil {
		c.end()
		c.log.wait()
		return nil, err
	}
	return c, nil
}

// newClient checks and completes the configuration.
func newClient(cfg Config, test seam.Seams) (*Client, error) {
	servers, err := parseServers(cfg.Servers)
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
	cfg.MaxReply = cmp.Or(cfg.MaxReply, maxReply)
	if cfg.SessionTimeout < time.Millisecond || cfg.SessionTimeout > math.MaxInt32*time.Millisecond {
		return nil, fmt.Errorf("recipes: session timeout %v: ZooKeeper counts it in milliseconds, in 31 bits", cfg.SessionTimeout)
	}
	c := &Client{servers: newRoster(servers), log: newJournal(cfg.Logger), joined: make(chan struct{}), slept: test.Slept, preempt: test.Preempt, jitter: test.Jitter}
	if c.jitter == nil {
		c.jitter = func(most time.Duration) time.Duration { return rand.N(most + 1) }
	}
	c.book = &addressBook{resolve: test.Resolve, services: test.Services, log: c.log, known: map[string]resolved{}}
	if c.book.services == nil {
		c.book.services = func(ctx context.Context, name string) ([]*net.SRV, error) {
			_, records, err := net.DefaultResolver.LookupSRV(ctx, "", "", name)
			return records, err
		}
	}
	if cfg.Dialer == nil {
		cfg.Dialer, c.book.resolve = (&net.Dialer{}).DialContext, net.DefaultResolver.LookupHost
	}
	if c.tls.get, err = tlsOf(cfg); err != nil {
		return nil, err
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
	report := s.hosts.report() // taken now: giving up changes the attempt under way
	s.lose(ErrUnreachable)
	<-s.joined // when Dial returns nothing is left of the attempt: no socket, and no session that was granted just now
	switch {
	case errors.Is(err, ErrAuth), errors.Is(err, errOtherEnsemble):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w; %s", ErrUnreachable, cause(ctx), report)
	default:
		return fmt.Errorf("%w: no session within %v; %s", ErrUnreachable, c.cfg.ConnectTimeout, report)
	}
}

// admit waits for the session and presents the identities, so that no operation can run without them.
func (c *Client) admit(ctx context.Context, s *Session) error {
	select {
	case <-s.ready:
	case <-s.done:
		return s.denied()
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
		return fmt.Errorf("%w: %w: the servers do not know the scheme ensemble: set authProvider.ensemble and ensembleAuthName there, or do not present the name %q", ErrAuth, errOtherEnsemble, name)
	}
	return fmt.Errorf("%w: %w: a server ended the connection when it was to belong to ensemble %q, as servers of another name do (zookeeper.ensembleAuthName)", ErrUnreachable, errOtherEnsemble, name)
}

// Session returns the live session, or dials the next one: see recipes.Client.Session.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	var tried error // why the last attempt failed
	for {
		s, d := c.current()
		switch {
		case s != nil:
			return s, nil
		case d == nil:
			return nil, ErrClosed
		}
		select {
		case <-d.done:
			// The attempt has its own bound (ConnectTimeout), the caller has another. A caller that can wait longer gets
			// another attempt when no server was reachable, but not when one refused.
			switch {
			case d.err == nil:
				return d.session, nil
			case !errors.Is(d.err, ErrUnreachable):
				return nil, d.err
			}
			tried = d.err
		case <-ctx.Done():
		}
		switch {
		case ctx.Err() == nil:
		case tried != nil:
			return nil, fmt.Errorf("%w%.0w", tried, cause(ctx)) // %.0w wraps ctx's error without printing it
		default:
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, cause(ctx))
		}
	}
}

// SetServers replaces Config.Servers, for the present session and for those to come. A session that is connected to a server that
// the new list does not name leaves it: see link.retire. An error means that the list is wrong, and nothing has changed.
func (c *Client) SetServers(servers []string) error {
	names, err := parseServers(servers)
	if err != nil {
		return err
	}
	c.servers.names.Store(&names)
	if s := c.Newest(); s != nil {
		s.wake() // one that is being dialled finds the new list at its first look at the clock
	}
	return nil
}

// Newest returns the session dialled last, even if it is lost.
func (c *Client) Newest() *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// current returns the live session, or else the attempt under way, starting one if there is none; neither once closed.
func (c *Client) current() (*Session, *dialling) {
	newest := c.Newest()
	lost := newest == nil || newest.State() == StateLost // without mu: it may find the loss, and then makes the calls given to Session.Hold
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

// redial dials the next session. It does not run under the ctx of the first caller: others that wait for it may have more time.
func (c *Client) redial(d *dialling, old *Session) {
	defer c.running.Done()
	<-old.joined // the old connection is gone before the new one is made
	old.calmDown(c.live)
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

// Close ends the client. The session becomes Lost with ErrClosed, the callbacks given to Session.Hold are called, the session is
// closed on the servers, and every goroutine is joined. recipes.Client.Close says what an error means, and how long that may take.
func (c *Client) Close() error {
	c.mu.Lock()
	again := c.live.Err() != nil
	c.end()
	c.mu.Unlock()
	if again {
		<-c.joined // not a sync.Once: waiting for its mutex would stop time in a synctest bubble
		return nil
	}
	defer close(c.joined)
	// live has ended, so no further attempt begins: after this nothing else touches c.session.
	c.running.Wait()
	err := c.session.shutdown(ErrClosed)
	c.log.wait()
	return err
}
