package servers

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
	"sync/atomic"
	"time"
)

// Server is one address of the ensemble.
type Server struct {
	Name  string // as in Config.Servers; certificates are verified against it
	Addr  string // the host:port to dial, as a name may stand for several; "" if it is not known which servers Name stands for
	Entry string // the entry of Config.Servers that stands for Name, if it differs: see service
	Told  bool   // another server named this server, and Config.Servers does not, so it gets no client certificate
}

// Rotation is the servers of one session. It keeps names, resolves them again on each pass over the list, and goes on with the
// other names when one name does not resolve.
type Rotation struct {
	roster *Roster
	Book   *Book
	live   context.Context // ends when the session must not connect again
	// How many complete passes have failed since the last connection that lasted; -1 before the first. Only Next and Restart use it.
	pass int

	mu      sync.Mutex
	names   []string // the list of the present pass
	targets []Server
	at      int               // the index of the present target
	causes  map[string]string // why the last attempt at each name failed
	trials  map[string]string // how far the last attempt at each name has come
}

// Roster is the list of servers of a Client, each once. The list is replaced as a whole, and never changed.
type Roster struct{ names atomic.Pointer[[]string] }

func NewRoster(names []string) *Roster {
	r := new(Roster)
	r.Replace(names)
	return r
}

// Replace sets the list. Sessions use it from their next attempt on.
func (r *Roster) Replace(names []string) { r.names.Store(&names) }

// Book resolves names for a Client. When a lookup fails, the last addresses of a name are still the best we have. Name servers
// may be behind the same broken network, and a headless service of Kubernetes has no address while none of its pods is ready. The
// log says when a name begins to fail, and when it resolves again.
type Book struct {
	resolve  func(ctx context.Context, host string) ([]string, error)   // nil: names are dialled as they are
	services func(ctx context.Context, name string) ([]*net.SRV, error) // looks up SRV records
	log      func(level slog.Level, text string, args ...any)           // must not block: it is called with locks held

	mu    sync.Mutex
	known map[string]resolvedName
}

// NewBook returns a Book that looks up addresses with resolve, and SRV records with services. If resolve is nil, names are
// dialled as they are. If services is nil, Go's default resolver is asked.
func NewBook(resolve func(context.Context, string) ([]string, error), services func(context.Context, string) ([]*net.SRV, error), log func(slog.Level, string, ...any)) *Book {
	if services == nil {
		services = func(ctx context.Context, name string) ([]*net.SRV, error) {
			_, records, err := net.DefaultResolver.LookupSRV(ctx, "", "", name)
			return records, err
		}
	}
	return &Book{resolve: resolve, services: services, log: log, known: map[string]resolvedName{}}
}

// resolvedName has the name servers' answer about a name.
type resolvedName struct {
	addresses []address // the last addresses that the name servers gave
	err       error     // why the last lookup failed; nil if it succeeded
}

// address is one address that a name stands for.
type address struct {
	at   string // an address, or host:port of a service
	rank uint16 // the lower, the earlier it is tried
}

// Parse splits, checks and completes Config.Servers.
func Parse(servers []string) ([]string, error) {
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
	if name, ok := service(s); ok {
		if name == "" || strings.ContainsAny(name, "/: ") {
			return "", fmt.Errorf("recipes: server %q: want the name of SRV records, as in dns-srv://_zookeeper._tcp.example.com", s)
		}
		return s, nil
	}
	switch {
	case s == "":
		return "", errors.New("recipes: Config.Servers has an empty name: want host or host:port")
	case strings.Contains(s, "://"):
		return "", fmt.Errorf("recipes: server %q: want host:port without a scheme, or dns-srv:// and the name of SRV records", s)
	case strings.Contains(s, "/"):
		host, root, _ := strings.Cut(s, "/")
		return "", fmt.Errorf("recipes: server %q: a chroot suffix is not supported; use %q and begin every path with /%s", s, host, root)
	}
	if err := refuseAmbiguous(s); err != nil {
		return "", err
	}
	// Check for an IPv6 address first: its colons do not separate a port.
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

// service is the name of the SRV records that an entry of Config.Servers stands for. The spelling is that of connect strings for
// Java clients since 3.10 (ZOOKEEPER-4956).
func service(entry string) (name string, ok bool) { return strings.CutPrefix(entry, "dns-srv://") }

// Service is the name of the SRV records that named the server; ok is false for a server that the configuration names.
func (t Server) Service() (name string, ok bool) { return service(t.Entry) }

// refuseAmbiguous refuses an IPv6 address without brackets whose last group may be meant as a port: "::1:2181" is also the
// address 0:0:0:0:0:0:1:2181.
func refuseAmbiguous(s string) error {
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

func NewRotation(live context.Context, roster *Roster, book *Book) *Rotation {
	return &Rotation{roster: roster, names: *roster.names.Load(), Book: book, live: live, pass: -1, causes: map[string]string{}, trials: map[string]string{}}
}

// Next moves on to the next address. It returns the number of the pass (from 0), and whether the address is the first of that
// pass. Each pass resolves the names, for no longer than limit. It ends with the address that was used last, because that has
// just failed. A new list begins a new count of passes. Only stayConnected calls it, so only that goroutine changes names,
// targets and at.
func (h *Rotation) Next(limit time.Duration) (t Server, pass int, first bool) {
	names, targets, at := *h.roster.names.Load(), h.targets, h.at+1
	if !slices.Equal(names, h.names) {
		h.pass = -1
	}
	if h.pass < 0 || at == len(targets) {
		var last Server
		if len(targets) > 0 {
			last = targets[h.at]
		}
		targets, at = h.lookup(names, cmp.Or(limit, time.Second)), 0
		if i := slices.Index(targets, last); i >= 0 {
			targets = append(slices.Delete(targets, i, i+1), last)
		}
		h.pass++
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.names, h.targets, h.at = names, targets, at
	return targets[at], h.pass, at == 0
}

// Restart begins a new count of passes, because the last connection lasted.
func (h *Rotation) Restart() { h.pass = -1 }

// lookup resolves all names, within a second and within limit, and shuffles the result to spread clients over the servers. SRV
// records with a lower priority come first; their weights are ignored.
func (h *Rotation) lookup(names []string, limit time.Duration) (all []Server) {
	type ranked struct {
		Server
		rank uint16
	}
	found := make([][]ranked, len(names))
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(h.live, min(limit, time.Second))
	defer cancel()
	for i, entry := range names {
		wg.Go(func() {
			name, isService := service(entry)
			if !isService {
				for _, addr := range h.addresses(ctx, entry) {
					found[i] = append(found[i], ranked{Server{Name: entry, Addr: addr}, 0})
				}
				return
			}
			for _, s := range h.Book.look(ctx, name, h.Book.lookService) {
				for _, addr := range h.addresses(ctx, s.at) {
					found[i] = append(found[i], ranked{Server{Name: s.at, Addr: addr, Entry: entry}, s.rank})
				}
			}
			if found[i] == nil { // the attempt to connect reports why
				found[i] = []ranked{{Server{Name: entry}, 0}}
			}
		})
	}
	wg.Wait()
	flat := slices.Concat(found...)
	rand.Shuffle(len(flat), func(i, j int) { flat[i], flat[j] = flat[j], flat[i] })
	slices.SortStableFunc(flat, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	for _, t := range flat {
		all = append(all, t.Server)
	}
	return all
}

// addresses returns the addresses to dial for host:port.
func (h *Rotation) addresses(ctx context.Context, name string) (all []string) {
	host, port, err := net.SplitHostPort(name)
	if _, noIP := netip.ParseAddr(host); h.Book.resolve == nil || err != nil || noIP == nil {
		return []string{name}
	}
	for _, ip := range h.Book.look(ctx, host, h.Book.lookHost) {
		all = append(all, net.JoinHostPort(ip.at, port))
	}
	if all == nil { // a name that has never resolved stays as it is: dialling it reports the resolver's error as the cause
		all = []string{name}
	}
	return all
}

// Lookup returns the addresses of a host and the host itself; only the host if name servers do not answer within ctx.
func (b *Book) Lookup(ctx context.Context, host string) []string {
	if _, err := netip.ParseAddr(host); err != nil && b.resolve != nil {
		if ips, err := b.resolve(ctx, host); err == nil {
			return append(ips, host)
		}
	}
	return []string{host}
}

func (b *Book) lookHost(ctx context.Context, host string) (all []address, err error) {
	ips, err := b.resolve(ctx, host)
	for _, ip := range ips {
		all = append(all, address{at: ip})
	}
	return all, err
}

func (b *Book) lookService(ctx context.Context, name string) (all []address, err error) {
	records, err := b.services(ctx, name)
	for _, r := range records { // with an error the resolver may still return valid records
		if host := strings.TrimSuffix(r.Target, "."); host != "" { // a service that is not there has the target "."
			all = append(all, address{net.JoinHostPort(host, strconv.Itoa(int(r.Port))), r.Priority})
		}
	}
	switch {
	case len(all) > 0:
		return all, nil
	case err == nil:
		err = errors.New("there are no SRV records of that name")
	}
	return nil, err
}

// look asks the name servers for the addresses of a name. It returns nil if the name has never had an address.
func (b *Book) look(ctx context.Context, name string, ask func(ctx context.Context, name string) ([]address, error)) []address {
	found, err := ask(ctx, name)
	b.mu.Lock()
	before := b.known[name]
	if errors.Is(ctx.Err(), context.Canceled) { // the session has ended: that says nothing of the name
		b.mu.Unlock()
		return before.addresses
	}
	if err != nil {
		found = before.addresses
	}
	b.known[name] = resolvedName{found, err}
	b.mu.Unlock()
	var at []string
	for _, a := range found {
		at = append(at, a.at)
	}
	switch {
	case len(before.addresses) == 0: // if the name still does not resolve, the report says why
	case err != nil && before.err == nil:
		b.log(slog.LevelWarn, "a name does not resolve; the addresses that it had last are tried", "name", name, "addresses", at, "cause", err)
	case err == nil && before.err != nil:
		b.log(slog.LevelInfo, "a name resolves again", "name", name, "addresses", at)
	}
	return found
}

// failure says why a name does not resolve, and whether its last addresses are tried; "" if the name resolves.
func (b *Book) failure(name string) (why string, tried bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.known[name]
	if known.err == nil {
		return "", false
	}
	return known.err.Error(), len(known.addresses) > 0
}

// Unknown says why it is not known which servers an entry stands for.
func (h *Rotation) Unknown(t Server) string {
	name, _ := service(t.Name)
	why, _ := h.Book.failure(name)
	return why
}

// Listed reports whether the list of servers, as it is now, has a server.
func (h *Rotation) Listed(t Server) bool {
	return slices.Contains(*h.roster.names.Load(), cmp.Or(t.Entry, t.Name))
}

// Current is the server that Next returned last.
func (h *Rotation) Current() Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.targets[h.at]
}

// All lists the addresses of the present pass.
func (h *Rotation) All() []Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.targets)
}

// Size is the number of addresses in the present pass; 1 before the first pass, because budget divides by it.
func (h *Rotation) Size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(1, len(h.targets))
}

// Blame remembers why the last attempt at a server failed, and logs it unless the attempt before failed for the same reason.
func (h *Rotation) Blame(t Server, cause string) {
	h.mu.Lock()
	before := h.causes[t.Name]
	h.causes[t.Name] = cause
	h.mu.Unlock()
	if cause != before {
		h.Book.log(slog.LevelWarn, "no connection", "server", t.Name, "cause", cause)
	}
}

// Granted forgets why earlier attempts at a server failed: the next failure is news, also one for the same reason.
func (h *Rotation) Granted(t Server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.causes, t.Name)
	h.trials[t.Name] = "it granted the session"
}

// Trying remembers how far an attempt has come, for the report of a caller that gives up before the attempt fails.
func (h *Rotation) Trying(t Server, stage string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trials[t.Name] = stage
}

// Report lists the servers, each with its last cause: the body of ErrUnreachable's text.
func (h *Rotation) Report() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var parts []string
	say := func(name, looked string) {
		part := name + ": " + cmp.Or(h.causes[name], h.trials[name], "not tried yet")
		if why, tried := h.Book.failure(looked); tried {
			part += " (" + why + "; tried at its last addresses)"
		}
		parts = append(parts, part)
	}
	for _, entry := range h.names {
		name, isService := service(entry)
		if !isService {
			host, _, _ := net.SplitHostPort(entry)
			say(entry, host)
			continue
		}
		said := map[string]bool{}
		for _, t := range h.targets {
			if t.Entry == entry && !said[t.Name] {
				said[t.Name] = true
				say(t.Name, name)
			}
		}
		if len(said) == 0 {
			say(entry, "")
		}
	}
	return strings.Join(parts, "; ")
}
