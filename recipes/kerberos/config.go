package kerberos

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/session/sasl"
)

// Config says who logs in, and which names the servers have in Kerberos. The zero value uses the tickets that kinit got.
type Config struct {
	// Principal names the client that logs in, such as "ledger@EXAMPLE.COM" or "ledger/host1@EXAMPLE.COM". A principal without a
	// realm is in krb5.conf's default_realm. With a Keytab, Principal is required. With a cache, "" means the principal in the
	// cache.
	Principal string
	// Keytab is the file with the principal's keys. Without one, the tickets of CCache are used.
	Keytab string
	// CCache is a file with tickets, as "/path" or "FILE:/path"; "" = the environment variable KRB5CCNAME, or /tmp/krb5cc_UID.
	CCache string
	// Krb5Conf is the configuration of Kerberos; "" = the environment variable KRB5_CONFIG, or /etc/krb5.conf.
	Krb5Conf string

	// ServerPrincipal is the principal of all servers (zookeeper.server.principal). A principal without a realm is in ServerRealm.
	// "" = Service, a slash, and the server's host.
	ServerPrincipal string
	// Service is the first part of the servers' principals (zookeeper.sasl.client.username); "" = "zookeeper".
	Service string
	// ServerRealm is the servers' realm (zookeeper.server.realm); "" = the client's own.
	ServerRealm string
	// AsConfigured takes the servers' hosts as they are in recipes.Config.Servers (zookeeper.sasl.client.canonicalize.hostname=false).
	// Otherwise, as in ZooKeeper, the host is the address's name in DNS, if that name resolves to the same address.
	AsConfigured bool

	// RemoveHost and RemoveRealm say that the servers remove the host or the realm from a name before they compare the name with
	// access lists. In zoo.cfg these are kerberos.removeHostFromPrincipal and kerberos.removeRealmFromPrincipal. See
	// [Login.Identity].
	RemoveHost, RemoveRealm bool

	// Logger is told of tickets that cannot be renewed while the present tickets are still valid; nil means no messages.
	Logger *slog.Logger
}

// Login is a [recipes.SASL]. Several Clients may share it, and many goroutines may use it at once. A Login needs no closing: the
// timer that renews its tickets does not keep the Login alive.
type Login struct {
	cfg Config
	log *slog.Logger

	mu      sync.Mutex
	flights map[spn]*flight // the tickets that are being obtained
	turn    sync.Mutex      // held by the one goroutine that may talk to the KDC; it guards the field tickets
	tickets tickets
	name    principal // the client's principal; with a cache, the one read from it last
	timer   *time.Timer

	lookupAddr func(ctx context.Context, ip string) ([]string, error)
	lookupHost func(ctx context.Context, host string) ([]string, error)
}

var _ recipes.SASL = (*Login)(nil)

// New reads the files that cfg names, and makes no connection. An error says which file is wrong, and what to do.
func New(cfg Config) (*Login, error) {
	l := &Login{
		cfg: cfg, log: cfg.Logger, flights: map[spn]*flight{},
		lookupAddr: net.DefaultResolver.LookupAddr, lookupHost: net.DefaultResolver.LookupHost,
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if cfg.Service == "" {
		l.cfg.Service = "zookeeper"
	}
	switch {
	case cfg.Keytab != "" && cfg.CCache != "":
		return nil, fmt.Errorf("kerberos: a keytab and a credential cache are given; use one of them")
	case cfg.Keytab != "" && cfg.Principal == "":
		return nil, fmt.Errorf("kerberos: a keytab holds keys of several principals: say which one logs in; \"klist -k %s\" lists them", cfg.Keytab)
	case cfg.ServerPrincipal != "" && cfg.Service != "":
		return nil, fmt.Errorf("kerberos: the servers' principal and their service are given; use one of them")
	}
	files, err := l.read()
	if err != nil {
		return nil, fmt.Errorf("kerberos: %w", err)
	}
	l.tickets.files, l.name = files, files.client
	return l, nil
}

// Identity is the principal's name in the servers' access lists. It lacks the host with Config.RemoveHost, and the realm with
// Config.RemoveRealm. Identity does not know the servers' auth_to_local rules.
func (l *Login) Identity() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.name.localName(l.cfg.RemoveHost, l.cfg.RemoveRealm)
}

// Principal returns the name of the client that logs in.
func (l *Login) Principal() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.name.String()
}

// Start obtains a ticket for the server, if the Login has none that is valid.
func (l *Login) Start(ctx context.Context, server, address string) (sasl.Exchange, error) {
	to, err := l.server(ctx, server, address)
	if err != nil {
		return sasl.Exchange{}, err
	}
	t, err := l.ticket(ctx, to)
	if err != nil {
		return sasl.Exchange{}, err
	}
	x, err := newExchange(t)
	if err != nil {
		return sasl.Exchange{}, err
	}
	return sasl.Exchange{Next: x.step, Refused: fmt.Sprintf(
		"it did not accept the ticket of %s for %s: its keytab may lack that key or have an older one (kvno), its clock may differ, or it does not log in with Kerberos. Its log says which", t.client, to)}, nil
}
