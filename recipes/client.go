package recipes

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

// Config is how a Client reaches ZooKeeper and what it is called there. Only Servers is required.
type Config struct {
	// Servers: "host", "host:port", "::1", "[::1]:2181"; port 2181 when absent; "a,b,c" in one entry is split.
	// Names are kept and resolved again on every pass over the list. A chroot suffix ("host:2181/app") is refused:
	// write the prefix into the lock paths.
	Servers []string
	// SessionTimeout is asked for; 0 = 15 s. The servers clamp it: Session.Timeout is what they granted.
	SessionTimeout time.Duration
	// ConnectTimeout bounds Dial, and each later dialling of a new session, as a whole; 0 = 5 s.
	ConnectTimeout time.Duration
	// Auth is presented on every connection and accepted by a server before a session is handed out.
	Auth []Auth
	// TLS, when not nil, is used on every connection. The server's certificate is verified against the name in
	// Servers unless TLS.ServerName says otherwise.
	TLS *tls.Config
	// Dialer replaces net.Dialer. It receives the name from Servers, unresolved, and should obey ctx: of one
	// that does not, Close waits for a second and then leaves its goroutine behind. TLS, when configured, runs on top of
	// what it returns.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)
	// ID says who holds a lock; it is written into contenders for people to read. "" = "host/pid".
	ID string
	// Logger receives what go-zookeeper and this package have to tell, rate-limited; nil = nothing.
	Logger *slog.Logger
	// Observer receives what the recipes do; nil = nobody.
	Observer Observer
	// LoseOnSuspect ends leases at the first doubt about the session. Without it they last until it is Lost: no false alarm
	// for a short disconnect.
	LoseOnSuspect bool
	// ReadOnly refuses every write before it is sent, with session.ErrReadOnly.
	ReadOnly bool
}

// session is the part of the configuration that concerns sessions.
func (c Config) session() session.Config {
	return session.Config{
		Servers: c.Servers, SessionTimeout: c.SessionTimeout, ConnectTimeout: c.ConnectTimeout, Auth: c.Auth, TLS: c.TLS,
		Dialer: c.Dialer, Logger: c.Logger, ReadOnly: c.ReadOnly,
	}
}

// Client reaches ZooKeeper and hands out the recipes. It outlives sessions: when one is lost, the next is dialled on
// demand. Safe for use by many goroutines. Obtain it from Dial; Close it.
type Client struct {
	cfg    Config
	conn   *session.Client
	log    *slog.Logger
	state  clientState // the recipes' own
	events eventQueue  // for Config.Observer
}

// Dial checks cfg, connects, presents Config.Auth and returns when a session is granted. It gives up when ctx ends or
// after Config.ConnectTimeout with ErrUnreachable, whose text lists the servers and why each failed, or with ErrAuth.
// A failed Dial leaves nothing behind, for which it may take up to three seconds longer.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	c := &Client{cfg: cfg, log: cfg.Logger}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.cfg.ID = cmp.Or(cfg.ID, defaultID())
	below := cfg.session()
	if cfg.Observer != nil {
		below.Trace = c.observeSession
	}
	var err error
	if c.conn, err = session.Dial(ctx, below); err != nil {
		return nil, err
	}
	return c, nil
}

// Session returns the live session; when the last one was lost it dials a new one, and keeps trying until ctx ends:
// then the error is ErrUnreachable and ctx's, with what the last try found. Refused authentication (ErrAuth) ends the
// trying at once.
func (c *Client) Session(ctx context.Context) (*Session, error) { return c.conn.Session(ctx) }

// observerGrace is how long Close waits for an Observer that has not received everything yet.
const observerGrace = 1500 * time.Millisecond

// Close ends the client: the session is Lost with ErrClosed (every lease's context is cancelled first), then closed on
// the servers, which removes its nodes at once, and everything that ran is joined. An error says that the servers did
// not confirm: the nodes then vanish when the session expires there. It takes up to three seconds when they do not
// answer, and 1.5 s more when Config.Observer is slow. Closing again waits likewise and returns nil.
func (c *Client) Close() error {
	err := c.conn.Close()
	c.state.join() // what the recipes run ends with the session
	c.events.wait(observerGrace)
	return err
}

// Identities returns who the servers take this client for, as far as it can be known here: world:anyone, the digest
// users of Config.Auth, and the subject of the TLS client certificate. For checks that an ACL would not lock us out.
func (c *Client) Identities() []session.Identity { return c.conn.Newest().Identities() }

// State returns what may be believed about the newest session: [session.StateActive], [session.StateSuspect] or
// [session.StateLost]. After StateLost
// the next use of the Client dials another session.
func (c *Client) State() session.State { return c.conn.Newest().State() }

// Revoke asks the contender at path node, the Path of a [Contender], to give the lock back or to leave the queue:
// it writes "__REVOKE__" into the node, as Curator's revocation does. A holder of ours finds its Context cancelled with
// ErrRevoked, perhaps only once it has held the lock for 100 ms, and keeps the lock until it unlocks; a waiter of ours
// leaves. Curator's holders obey if their program made itself revocable; other clients do not listen. What the node said
// about its owner is overwritten. Needs WRITE on it.
func (c *Client) Revoke(ctx context.Context, node string) error {
	if _, ok := kind.ParseContender(kind.BaseName(node)); !ok {
		return fmt.Errorf("recipes: revoke %s: that is nobody's contender; take the path from package inspect", node)
	}
	s, err := c.Session(ctx)
	if err != nil {
		return err
	}
	_, err = s.Set(ctx, node, []byte(kind.RevokeMessage), -1)
	return err
}
