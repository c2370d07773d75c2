package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is one address of the ensemble.
type Server struct {
	Name string // as in Config.Servers, against which certificates are verified
	Addr string // host:port, to dial: a name may stand for several
	Told bool   // not from Config.Servers: somebody else said that it is there, so it gets no client certificate
}

// hosts are the servers of one session. It keeps names, resolves them again on each pass over the list, and goes on with the
// others when one of them does not resolve.
type hosts struct {
	names []string
	book  *addressBook
	live  context.Context // ends when the session must not connect again
	pass  int             // complete passes failed since the last connection that lasted; -1 before the first; only next reads it

	mu      sync.Mutex
	targets []Server
	at      int               // the present one
	causes  map[string]string // why the last attempt at each name failed
	trials  map[string]string // how far the last attempt at each has come
}

// addressBook resolves names for a Client. When that fails the addresses that a name had last are still the best we have: name
// servers may be behind the same broken network, and a headless service of Kubernetes has no address while none of its pods is
// ready. The log says when a name begins to fail, and when it resolves again.
type addressBook struct {
	resolve func(ctx context.Context, host string) ([]string, error) // nil: names are dialled as they are
	log     *journal

	mu    sync.Mutex
	known map[string]resolved
}

// resolved is what the name servers say of a name.
type resolved struct {
	addresses []string // as they said last
	err       error    // why the last lookup failed; nil if it did not
}

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
	if err := ambiguous(s); err != nil {
		return "", err
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

// ambiguous refuses an IPv6 address without brackets whose last group may be meant as a port: "::1:2181" is also the address
// 0:0:0:0:0:0:1:2181, where nobody listens.
func ambiguous(s string) error {
	at := strings.LastIndexByte(s, ':')
	if at < 0 {
		return nil
	}
	host, port := s[:at], s[at+1:]
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.Is6() {
		return nil
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil
	}
	hint := ""
	if _, err := netip.ParseAddr(s); err == nil {
		hint = fmt.Sprintf(", or [%s]:2181 if all of it is the address", s)
	}
	return fmt.Errorf("recipes: server %q: the port of an IPv6 address needs brackets around the address: write [%s]:%s%s", s, host, port, hint)
}

func newHosts(live context.Context, names []string, book *addressBook) *hosts {
	return &hosts{names: names, book: book, live: live, pass: -1, causes: map[string]string{}, trials: map[string]string{}}
}

// next moves on to the next address. It returns the number of its pass (from 0), and whether it is the first of that pass. Each
// pass resolves the names, for no longer than most, and comes last to the address that was used last: it has just failed.
// Only stayConnected calls it, so nothing else changes targets and at.
func (h *hosts) next(most time.Duration) (t Server, pass int, first bool) {
	targets, at := h.targets, h.at+1
	if h.pass < 0 || at == len(targets) {
		var last Server
		if len(targets) > 0 {
			last = targets[h.at]
		}
		targets, at = h.lookup(cmp.Or(most, time.Second)), 0
		if i := slices.Index(targets, last); i >= 0 {
			targets = append(slices.Delete(targets, i, i+1), last)
		}
		h.pass++
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.targets, h.at = targets, at
	return targets[at], h.pass, at == 0
}

// restart begins a new count of passes, because the last connection lasted.
func (h *hosts) restart() { h.pass = -1 }

// lookup resolves all names, for at most a second and at most most, and shuffles the result to spread clients over the servers.
func (h *hosts) lookup(most time.Duration) []Server {
	found := make([][]Server, len(h.names))
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(h.live, min(most, time.Second))
	defer cancel()
	for i, name := range h.names {
		found[i] = []Server{{Name: name, Addr: name}} // written before the goroutine below begins, which may overwrite it
		host, port, err := net.SplitHostPort(name)
		if _, noIP := netip.ParseAddr(host); h.book.resolve == nil || err != nil || noIP == nil {
			continue
		}
		wg.Go(func() {
			// A name that has never resolved stays as it is: dialling it reports the resolver's error as the cause.
			if ips := h.book.addresses(ctx, host); len(ips) > 0 {
				found[i] = found[i][:0]
				for _, ip := range ips {
					found[i] = append(found[i], Server{Name: name, Addr: net.JoinHostPort(ip, port)})
				}
			}
		})
	}
	wg.Wait()
	var all []Server
	for _, t := range found {
		all = append(all, t...)
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// addresses returns those of a name; nil if it has never resolved.
func (b *addressBook) addresses(ctx context.Context, host string) []string {
	ips, err := b.resolve(ctx, host)
	b.mu.Lock()
	before := b.known[host]
	if errors.Is(ctx.Err(), context.Canceled) { // the session has ended: that says nothing of the name
		b.mu.Unlock()
		return before.addresses
	}
	if err != nil {
		ips = before.addresses
	}
	b.known[host] = resolved{ips, err}
	b.mu.Unlock()
	switch {
	case len(before.addresses) == 0: // if it still does not resolve, the report says why
	case err != nil && before.err == nil:
		b.log.write(slog.LevelWarn, "a name does not resolve; the addresses that it had last are tried", "name", host, "addresses", ips, "cause", err)
	case err == nil && before.err != nil:
		b.log.write(slog.LevelInfo, "a name resolves again", "name", host, "addresses", ips)
	}
	return ips
}

// failure says why a name whose last addresses are tried does not resolve; "" for others.
func (b *addressBook) failure(host string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.known[host]; known.err != nil && len(known.addresses) > 0 {
		return explain(known.err)
	}
	return ""
}

// current is the server that next returned last.
func (h *hosts) current() Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.targets[h.at]
}

// all lists the addresses of the present pass.
func (h *hosts) all() []Server {
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

// blame remembers why the last attempt at a server failed, and logs it unless the attempt before failed for the same reason.
func (h *hosts) blame(t Server, cause string) {
	h.mu.Lock()
	before := h.causes[t.Name]
	h.causes[t.Name] = cause
	h.mu.Unlock()
	if cause != before {
		h.book.log.write(slog.LevelWarn, "no connection", "server", t.Name, "cause", cause)
	}
}

// granted forgets why earlier attempts at a server failed: the next failure is news, also one for the same reason.
func (h *hosts) granted(t Server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.causes, t.Name)
	h.trials[t.Name] = "it granted the session"
}

// trying remembers how far an attempt has come, for the report of a caller that gives up before it fails.
func (h *hosts) trying(t Server, stage string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trials[t.Name] = stage
}

// report lists the servers, each with its last cause: the body of ErrUnreachable's text.
func (h *hosts) report() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	parts := make([]string, len(h.names))
	for i, name := range h.names {
		parts[i] = name + ": " + cmp.Or(h.causes[name], h.trials[name], "not tried yet")
		host, _, _ := net.SplitHostPort(name)
		if why := h.book.failure(host); why != "" {
			parts[i] += " (" + why + "; tried at its last addresses)"
		}
	}
	return strings.Join(parts, "; ")
}
