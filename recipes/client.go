package recipes

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"
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
	// Dialer replaces net.Dialer. It receives the name from Servers, unresolved, and should obey ctx: a dialer that
	// does not delays Close. TLS, when configured, runs on top of what it returns.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)
	// ID says who holds a lock; it is written into contenders for people to read. "" = "host/pid".
	ID string
	// Logger receives what go-zookeeper and this package have to tell, rate-limited; nil = nothing.
	Logger *slog.Logger
	// Observer is told what the recipes do; nil = nobody.
	Observer Observer
	// OnSuspect says what becomes of leases while the session is Suspect.
	OnSuspect SuspectPolicy
	// ReadOnly refuses every write before it is sent, with ErrReadOnlyClient.
	ReadOnly bool
}

// Auth is one identity to present: zk's AddAuth. Scheme "digest" takes "user:password".
type Auth struct {
	Scheme      string
	Credentials Secret
}

// Identity is one ACL identity, as a ZooKeeper server would write it into an ACL.
type Identity struct{ Scheme, ID string }
