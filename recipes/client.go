package recipes

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/internal/lock"
	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/session/sasl"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// Config says how a Client reaches ZooKeeper and how it identifies itself there. Only Servers is required.
type Config struct {
	// Servers: "host", "host:port", "::1", "[::1]:2181"; port 2181 when absent; "a,b,c" in one entry is split. An IPv6 address
	// with a port needs brackets. Without brackets the address has no port. If its last group could be a port ("::1:2181",
	// "fd00::7:5"), it is refused. Names are resolved again on every pass over the list. While a name does not resolve, its last
	// known addresses are tried. A chroot suffix ("host:2181/app") is refused: write the prefix into the lock paths.
	// "dns-srv://_zookeeper._tcp.example.com" stands for the servers of the SRV records of that name, as in connect strings of
	// ZooKeeper 3.10. Servers with a lower priority number are tried first. With TLS the servers must be in the domain of that
	// name (example.com), or TLS.ServerName must be set, because DNS answers can be forged.
	Servers []string
	// SessionTimeout is the timeout to ask for; 0 = 15 s. The servers clamp it: Session.Timeout returns the timeout that they
	// granted.
	SessionTimeout time.Duration
	// ConnectTimeout bounds Dial as a whole, and each later dialling of a new session, but not the cleaning up after a failure;
	// 0 = 5 s.
	ConnectTimeout time.Duration
	// Auth is presented on every connection. A session is handed out only after a server has accepted it.
	Auth []Auth
	// SASL, when not nil, logs in on every connection, before Auth is presented: DigestMD5, or Kerberos by package
	// recipes/kerberos. When a ticket or password is replaced, open connections stay as they are. The next connection logs in with
	// the new ticket or password.
	SASL SASL
	// TLS, when not nil, is used on every connection. The server's certificate is verified against the name in
	// Servers unless TLS.ServerName says otherwise.
	TLS *tls.Config
	// GetTLS, when not nil, is used instead of TLS: the Client calls it for each connection, and it returns the connection's
	// configuration. So a program can follow authorities and certificates that are replaced while it runs, without losing its
	// session: open connections are not affected. If GetTLS returns an error or a nil configuration, the attempt to connect fails
	// and is repeated. GetTLS must return soon, and must not change a configuration that it has returned. Client certificates
	// alone can also be followed with TLS.GetClientCertificate.
	GetTLS func() (*tls.Config, error)
	// Dialer replaces net.Dialer. It receives the name from Servers, unresolved, and should obey ctx. If it ignores ctx, Close
	// waits a second for the Dialer and then leaves its goroutine behind. TLS, when configured, runs on top of the connection that
	// it returns.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)
	// ID names this client as a holder or waiter; it is written into this client's nodes in queues, for people to read. "" =
	// "host/pid".
	ID string
	// Logger receives the log lines of this package; nil = none. No lock depends on its handler, which may be slow or use the Client.
	Logger *slog.Logger
	// Observer receives an event for everything the recipes do, for metrics, traces and logs; nil = none.
	//
	// A Client calls the Observer with one event at a time, in order, on a goroutine that no lock depends on. A slow Observer
	// delays only later events: locks are granted, lost and given back in time while it blocks. The Observer may call the Client.
	// A panic in the Observer is recovered and logged to Logger. Events that the Observer has not received yet are kept in memory,
	// so in the long run it must keep up with them. Close waits up to 1.5 s for the rest.
	Observer func(Event)
	// LoseOnSuspect ends the session, and so its leases, as soon as the session is Suspect while the Client holds anything.
	// Before a grant it also commits another write if the session is Suspect, or if a third of its timeout has passed since the last one.
	// Without LoseOnSuspect leases last until the session is Lost, and survive a short disconnect.
	LoseOnSuspect bool
	// MaxReply bounds a server's reply, in bytes; 0 = 16 MiB. A longer reply ends the connection with ErrTooLarge. Only the reply
	// to a listing can exceed the default: 16 MiB hold 100,000 names of 160 bytes. Memory is allocated as the bytes arrive.
	MaxReply int
	// ReadOnly refuses every write before it is sent, with ErrReadOnly.
	ReadOnly bool
	// Lazy lets a program start while ZooKeeper is away: Dial checks this configuration and connects to nothing. The first use
	// connects. If it cannot connect, each method behaves as after the loss of a session. A Lock waits until its ctx ends or
	// WithMaxWait has passed. A Try waits for a sixth of SessionTimeout. Both return ErrUnreachable, which says why each server
	// failed. If the servers refuse an identity, the first use returns ErrAuth, and so does each later use. So such a program
	// should use the client once, or call Session, before it reports that it is ready.
	Lazy bool
}

// session is the part of the configuration that concerns sessions.
func (c Config) session() session.Config {
	below := session.Config{
		Servers: c.Servers, SessionTimeout: c.SessionTimeout, ConnectTimeout: c.ConnectTimeout,
		SASL: c.SASL, TLS: c.TLS, GetTLS: c.GetTLS, Dialer: c.Dialer, Logger: c.Logger, LoseOnSuspect: c.LoseOnSuspect, MaxReply: c.MaxReply, ReadOnly: c.ReadOnly,
		Lazy: c.Lazy,
	}
	for _, a := range c.Auth {
		below.Auth = append(below.Auth, session.Auth(a))
	}
	return below
}

// Secret is a string that must not be shown to people, such as "user:password". fmt with any verb, encoding/json, text encoders and
// log/slog print "(sensitive)" in its place. There are two exceptions: a key of a map encoded to JSON, and an unexported field of a struct.
// string(s) is the text.
type Secret = session.Secret

// Auth is one identity to present, as with zk's AddAuth. Credentials of scheme "digest" are "user:password".
type Auth struct {
	Scheme      string
	Credentials Secret
}

// Client reaches ZooKeeper and hands out the recipes. It outlives sessions: when a session is lost, the next use dials another.
// It is safe for use by many goroutines. Obtain it from Dial; Close it.
type Client struct {
	source // gives package inspect the session
	cfg    Config
	conn   *session.Client
	log    *slog.Logger
	state  lock.Client // the state of the recipes
	events eventQueue  // for Config.Observer
	now    func() time.Time
}

// source gives package inspect the client's session: see session.Source. It is embedded, and not exported.
type source = session.SourceFunc

// Dial checks cfg, connects, logs in by Config.SASL, presents Config.Auth and returns when a session is granted. When ctx ends or
// Config.ConnectTimeout has passed, Dial gives up with ErrUnreachable, whose text lists the servers and why each failed. It fails
// with ErrAuth when a server refuses an identity, or when one server refuses the login and no other server accepts it. A failed
// Dial leaves nothing behind; the cleaning up may take up to three seconds more. With Config.Lazy, Dial only checks cfg, and the
// first use does the rest.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	c := &Client{cfg: cfg, log: cfg.Logger, now: time.Now}
	if clock := seam.From(ctx).Now; clock != nil {
		c.now = clock
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.cfg.ID = cmp.Or(cfg.ID, znode.DefaultID())
	c.source = c.live
	below := cfg.session()
	if cfg.Observer != nil {
		below.Trace = func(e session.Event) {
			c.observe(Event{Type: e.Type, Context: context.Background(), Session: e.Session, Wait: e.Took, Cause: e.Err})
		}
	}
	var err error
	if c.conn, err = session.Dial(ctx, below); err != nil {
		return nil, err
	}
	c.state.Conn = c.conn
	return c, nil
}

// Session returns the live session. If the last session was lost, it dials a new one, and keeps trying until ctx ends. When ctx
// ends, the error matches ErrUnreachable and ctx's error, and contains the result of the last attempt. If ctx had ended before
// the call, the error is ctx's alone. Refused authentication (ErrAuth) ends the attempts at once. Before Session returns a
// session, it deletes the unused nodes that this client's lost sessions left in queues.
func (c *Client) Session(ctx context.Context) (*direct.Session, error) {
	s, err := c.live(ctx)
	if err != nil {
		return nil, err
	}
	return direct.Of(s), nil
}

func (c *Client) live(ctx context.Context) (*session.Session, error) {
	e, err := c.state.Live(ctx)
	if err != nil {
		return nil, err
	}
	return e.Session, nil
}

// SetServers replaces Config.Servers for the present session, which goes on, and for later sessions. A connection to a server of
// the new list stays. Any other connection ends when its requests under way are answered. Such a connection waits for these
// answers for at most a twelfth of the session timeout, and never longer than 1 s. Then the session connects to a server of the
// new list, as after any disconnect: leases are kept, unless Config.LoseOnSuspect is set. An error says what is wrong with the
// new list; the old list then remains in force.
func (c *Client) SetServers(servers []string) error { return c.conn.SetServers(servers) }

// observerGrace is how long Close waits for an Observer that has not received everything yet.
const observerGrace = 1500 * time.Millisecond

// Close ends the client. The session becomes Lost with ErrClosed, which cancels the context of every lease. Then Close closes the
// session on the servers, which removes its nodes at once, and waits for the Client's goroutines. It leaves behind only the
// goroutines of a Dialer, an Observer, a Logger or a Kerberos login that do not return. An error means that the servers did not confirm: the nodes
// then vanish when the servers expire the session. If the servers do not answer, Close takes up to three seconds. There is one
// exception: while a lock is held and the connection works, Close waits up to a session timeout for the answer. A slow Observer
// adds up to 1.5 s, and a slow Logger up to another 1.5 s. A second Close waits for the first and returns nil.
func (c *Client) Close() error {
	err := c.conn.Close()
	c.state.Join() // the goroutines of the recipes end with the session
	c.events.wait(observerGrace)
	return err
}

// Identities returns the identities that the servers see in this client, as far as the Client can know them. These are
// world:anyone, the name of Config.SASL, the digest users of Config.Auth, and the subject of the TLS client certificate. A
// program can check with them that an access list will not lock it out. The entries grant nothing: their Perms are 0.
func (c *Client) Identities() (all kind.List) {
	for _, id := range c.conn.Newest().Identities() {
		all = append(all, kind.ACL{Scheme: id.Scheme, ID: id.ID})
	}
	return all
}

// Revoke asks the contender at path node, the Path of a [Contender], to give the lock back or to leave the queue. It writes
// "__REVOKE__" into the node, as Curator's revocation does. A holder of this library keeps the lock until it unlocks. The Context
// of the holder's lease is cancelled with ErrRevoked. In the lease's first 100 ms the library may not watch its node yet; the
// cancellation then comes after the 100 ms. A waiter of this library leaves. Curator's holders obey if their program made the
// lock revocable; other clients ignore the request. Revoke overwrites the node's information about its owner. It needs WRITE on
// the node.
func (c *Client) Revoke(ctx context.Context, node string) error {
	if _, ok := kind.ParseContender(kind.BaseName(node)); !ok {
		return fmt.Errorf("recipes: revoke %s: not a contender; use the Path of an inspect.Contender", node)
	}
	s, err := c.live(ctx)
	if err != nil {
		return err
	}
	_, err = s.Set(ctx, node, []byte(kind.RevokeMessage), -1)
	return err
}

// SASL logs in to servers by one mechanism of SASL; see [Config]. A server's JAAS configuration decides which mechanism the
// server accepts; nothing is negotiated. [DigestMD5] is one mechanism, and package recipes/kerberos has Kerberos.
type SASL = sasl.Mechanism

// DigestMD5 logs in as user by the mechanism DIGEST-MD5, for servers whose JAAS section Server has ZooKeeper's DigestLoginModule.
// The function password is called at each connection, so it may read a file that is replaced while the program runs. The password
// does not cross the network, and the server must prove that it knows the password too. The identity in access lists is
// sasl:user.
//
// MD5 is broken for other purposes, and a listener on the network can try out passwords: use long passwords, and TLS. Servers in
// FIPS mode refuse this mechanism.
func DigestMD5(user string, password func() (Secret, error)) SASL {
	return sasl.DigestMD5(user, password)
}
