package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// target is one address to try: name as in Config.Servers, against which certificates are verified, and addr to dial.
type target struct{ name, addr string }

// hosts is the zk.HostProvider of one session. It keeps names, resolves them again on each pass over the list, and goes on
// with the others when one of them does not resolve.
type hosts struct {
	names   []string
	resolve func(ctx context.Context, host string) ([]string, error) // nil: names are dialled as they are
	live    context.Context                                          // ends when the session must not connect again
	hurry   func() (most time.Duration, held bool)                   // see Session.hurry

	mu      sync.Mutex
	targets []target
	known   map[string][]string // addresses by name, as last resolved
	next    int
	pass    int               // complete passes failed since the last connection that lasted; -1 before the first
	since   time.Time         // of the present connection
	causes  map[string]string // why the last attempt at each name failed
	trials  map[string]string // how far the last attempt at each has come
}

// settled is how long a connection must have lasted to reset the count of passes. Without it a server that grants sessions
// and drops them would be dialled in a tight loop.
const settled = time.Second

// parseServers splits, checks and completes Config.Servers.
func parseServers(servers []string) ([]string, error) {
	var names []string
	seen := map[string]bool{}
	for _, entry := range servers {
		for _, s := range strings.Split(entry, ",") {
			name, err := parseServer(strings.TrimSpace(s))
			if err != nil {
				return nil, err
			}
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return nil, errors.New("recipes: Config.Servers is empty: name at least one server, as host:2181")
	}
	return names, nil
}

func parseServer(s string) (string, error) {
	switch {
	case s == "":
		return "", errors.New("recipes: Config.Servers has an empty name: want host or host:port")
	case strings.Contains(s, "://"):
		return "", fmt.Errorf("recipes: server %q: want host:port without a scheme", s)
	case strings.Contains(s, "/"):
		host, root, _ := strings.Cut(s, "/")
		return "", fmt.Errorf("recipes: server %q: a chroot suffix is not supported; use %q and begin every path with /%s", s, host, root)
	}
	// IPv6 addresses come first: their colons do not separate a port.
	if ip, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return net.JoinHostPort(ip.String(), "2181"), nil
	}
	if !strings.Contains(s, ":") {
		return s + ":2181", nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", fmt.Errorf("recipes: server %q: want host:port, or [address]:port for IPv6: %w", s, err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
		return "", fmt.Errorf("recipes: server %q: want a host and a port from 1 to 65535", s)
	}
	return s, nil
}

func newHosts(live context.Context, names []string, resolve func(context.Context, string) ([]string, error)) *hosts {
	return &hosts{
		names: names, resolve: resolve, live: live, hurry: func() (time.Duration, bool) { return 0, false },
		pass: -1, known: map[string][]string{}, causes: map[string]string{}, trials: map[string]string{},
	}
}

// Init ignores its argument, the names as go-zookeeper rewrites them: it breaks IPv6 addresses without a port.
func (h *hosts) Init([]string) error { return nil }

// Len returns the number of names. go-zookeeper never asks.
func (h *hosts) Len() int { return len(h.names) }

// Next moves on to the next address. The first pass after a lost connection starts at once. Each further pass begins with
// retryStart = true, on which go-zookeeper sleeps for a second and then, only then, checks whether it was closed. So
// once the session is over retryStart must always be true. While there is a session to lose it is always false: with a session
// timeout of 4 s a lease lasts 2 s, half of which go-zookeeper would sleep away. Then guard.pause waits between the passes.
func (h *hosts) Next() (server string, retryStart bool) {
	if h.live.Err() != nil {
		return h.names[0], true
	}
	most, _ := h.hurry() // before h.mu: it takes the session's mu, under which the session calls size
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.since.IsZero() && time.Since(h.since) >= settled {
		h.pass = -1
	}
	h.since = time.Time{} // when Next is called the connection is gone
	if h.pass < 0 || h.next == len(h.targets)-1 {
		h.startPass(cmp.Or(most, time.Second))
	} else {
		h.next++
	}
	return h.targets[h.next].addr, h.pass > 0 && h.next == 0 && most == 0
}

// startPass resolves the names, with mu released and for no longer than most, and puts the address used last at the
// end: it has just failed. Only go-zookeeper's loop calls Next, so nothing else changes targets and next meanwhile. mu is
// released for the readers, and because addresses takes it.
func (h *hosts) startPass(most time.Duration) {
	var last target
	if len(h.targets) > 0 {
		last = h.targets[h.next]
	}
	h.mu.Unlock()
	fresh := h.lookup(most)
	h.mu.Lock()
	if i := slices.Index(fresh, last); i >= 0 {
		fresh = append(slices.Delete(fresh, i, i+1), last)
	}
	h.targets, h.next = fresh, 0
	h.pass++
}

// Connected notes that a session was granted on the present address.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since = time.Now()
}

// lookup resolves all names, for at most a second and at most most, and shuffles the result to spread clients over the servers.
func (h *hosts) lookup(most time.Duration) []target {
	found := make([][]target, len(h.names))
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(h.live, min(most, time.Second))
	defer cancel()
	for i, name := range h.names {
		found[i] = []target{{name, name}} // written before the goroutine below begins, which may overwrite it
		host, port, err := net.SplitHostPort(name)
		if _, noIP := netip.ParseAddr(host); h.resolve == nil || err != nil || noIP == nil {
			continue
		}
		wg.Go(func() {
			// A name that has never resolved stays as it is: dialling it reports the resolver's error as the cause.
			if ips := h.addresses(ctx, host); len(ips) > 0 {
				found[i] = found[i][:0]
				for _, ip := range ips {
					found[i] = append(found[i], target{name, net.JoinHostPort(ip, port)})
				}
			}
		})
	}
	wg.Wait()
	var all []target
	for _, t := range found {
		all = append(all, t...)
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// addresses resolves a name. Name servers may be behind the same broken network: when they do not answer in time, the
// addresses they gave last are still the best we have. "No such host" is an answer and counts.
func (h *hosts) addresses(ctx context.Context, host string) []string {
	ips, err := h.resolve(ctx, host)
	h.mu.Lock()
	defer h.mu.Unlock()
	var dns *net.DNSError
	if err != nil && !(errors.As(err, &dns) && dns.IsNotFound) { // nil if it has never resolved
		return h.known[host]
	}
	h.known[host] = ips
	return ips
}

// current is the target that Next returned last, the number of its pass (from 0), and whether it is the first of that pass.
func (h *hosts) current() (t target, pass int, first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.targets[h.next], h.pass, h.next == 0
}

// all lists the addresses of the present pass.
func (h *hosts) all() []target {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.targets)
}

// size is the number of addresses in the present pass; 1 before the first pass, because budget divides by it.
func (h *hosts) size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(1, len(h.targets))
}

// blame remembers why the last attempt at a server failed.
func (h *hosts) blame(t target, cause string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.causes[t.name] = cause
}

// trying remembers how far an attempt has come, for the report of a caller that gives up before it fails.
func (h *hosts) trying(t target, stage string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trials[t.name] = stage
}

// report lists the servers, each with its last cause: the body of ErrUnreachable's text.
func (h *hosts) report() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	parts := make([]string, len(h.names))
	for i, name := range h.names {
		parts[i] = name + ": " + cmp.Or(h.causes[name], h.trials[name], "not tried yet")
	}
	return strings.Join(parts, "; ")
}
