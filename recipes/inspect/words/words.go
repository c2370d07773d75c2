package words

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/session/servers"
	"github.com/locktree/locktree/recipes/kind"
)

// Server is one server of the ensemble, as it answered the four-letter words.
type Server struct {
	Name        string   // from this client's configuration or the ensemble's; the name may resolve to several servers
	Here        bool     // our session is connected to this server
	Version     string   // such as "3.9.4"; "" if the server does not say
	Mode        string   // "leader", "follower", "observer", "standalone", "read-only"; "" if the server does not say
	Zxid        int64    // the newest transaction that the server knows; 0 if it does not say
	Connections int      // the clients' connections that cons lists; -1 if cons has no answer
	Forbids     []string // words that the server does not allow
	Error       string   // why the server did not answer, or not completely
	lists       bool     // all connections of the server are known
}

// Session is one client session, as the servers' four-letter words describe it.
type Session struct {
	ID      int64
	Address string        // where the session's client connects from; "" when unknown
	Timeout time.Duration // 0 when unknown
	// Away: every server of the ensemble listed its connections, twice, and this session has none. The session may be connected all the
	// same, to an observer that the ensemble's configuration does not name.
	Away bool
	// Expires is when the leader will end the session if it hears nothing from the client; zero when unknown. Expires is a time of this
	// machine's clock. It may be up to about a tick early; calibrate says how late it may be. Silent is how long the leader had not heard
	// from the client when the leader was asked.
	Expires time.Time
	Silent  time.Duration
	Nodes   int // ephemeral nodes of all kinds
	Bytes   int // the length of the paths of these nodes: closing the session is one transaction that names all of them
}

const (
	wordFor   = 10 * time.Second // the longest time for one word, plus the same time for each further wordBytes of the answer
	wordBytes = 40 << 10
	maxAnswer = 64 << 20 // the longest answer: a million contenders
	maxLine   = 1 << 20  // no path is longer
	// memberFor is wordFor for a server that only the ensemble's configuration names, not this client's. Its answer gets the same
	// further time for each wordBytes.
	memberFor = 2 * time.Second
	// leaderEvery is the shortest time between two dumps of the leader: a dump costs the leader more than other servers.
	leaderEvery = 5 * time.Second
	// retryWords is the pause before a server is asked again for a word that it forbids. The same pause follows a word without an answer,
	// if only the ensemble's configuration names the server.
	retryWords = time.Minute
)

// Asker asks the servers, and remembers from one look to the next what does not change or is expensive to ask.
type Asker struct {
	heard    func()
	failed   map[string]failure  // by server and word
	led      time.Time           // when the leader was asked for its dump
	expires  map[int64]time.Time // when sessions expire, by this machine's clock
	timeouts map[int64]time.Duration
}

// New returns an Asker that calls the function heard whenever a server has sent something, or was given up.
func New(heard func()) *Asker { return &Asker{heard: heard, failed: map[string]failure{}} }

// failure is why a word is not asked again for a while.
type failure struct {
	at  time.Time
	err error
}

// Answers are the servers' answers in one look.
type Answers struct {
	Owners   map[string]map[string]int64 // the sessions of contenders, by directory and name; nil: no server lists them
	Sessions map[int64]*Session
	Servers  []Server
	Unasked  []Unasked
	Reads    int   // requests on the connection
	Asked    int   // words
	Bytes    int64 // the length of the answers

	mu        sync.Mutex
	connected map[int64]Session // the sessions that cons lists
}

// send sends a word to a server, unless the same word failed there lately, and counts the cost.
func (a *Asker) send(ctx context.Context, live *session.Session, at askedServer, word string, h *Answers, hear func(io.Reader) error) error {
	key := at.Name + " " + at.Addr + " " + word
	h.mu.Lock()
	last := a.failed[key]
	h.mu.Unlock()
	if time.Since(last.at) < retryWords {
		return last.err
	}
	most := wordFor
	if at.Told {
		most = memberFor
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begun, over := time.Now(), time.AfterFunc(most, func() { cancel(context.DeadlineExceeded) })
	defer over.Stop()
	defer a.heard()
	in := &io.LimitedReader{N: maxAnswer}
	err := live.Aside(ctx, at.Server, []byte(word), func(r io.Reader) error {
		in.R = readerFunc(func(b []byte) (int, error) {
			n, err := r.Read(b)
			over.Reset(time.Until(begun.Add(most + wordFor*time.Duration((maxAnswer-in.N)/wordBytes))))
			a.heard()
			return n, err
		})
		return hear(in)
	})
	if in.N == 0 {
		err = fmt.Errorf("the answer to %s is longer than %d bytes", word, maxAnswer)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Asked++
	h.Bytes += maxAnswer - in.N
	if errors.Is(err, errForbidden) || err != nil && at.Told {
		a.failed[key] = failure{time.Now(), err}
	}
	return err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// askedServer is a server that gets the questions of an Asker.
type askedServer struct {
	servers.Server
	here bool // our session is connected to this server
}

// Ask asks every server for its state and its connections. It asks the server that our session is connected to for the contenders of the
// whole ensemble.
func (a *Asker) Ask(ctx context.Context, live *session.Session) (*Answers, error) {
	h := &Answers{Sessions: map[int64]*Session{}, connected: map[int64]Session{}}
	var peers []askedServer
	standalone := false
	here := live.At()
	for _, p := range live.Servers() {
		peers = append(peers, askedServer{p, p == here})
	}
	a.meetAll(ctx, live, peers, h)
	for _, at := range h.Servers {
		standalone = standalone || at.Here && at.Mode == "standalone"
	}
	if !standalone {
		others := a.otherServers(ctx, live, h)
		a.meetAll(ctx, live, others, h)
		peers = append(peers, others...)
	}
	for i, p := range peers {
		at := &h.Servers[i]
		leads := at.Mode == "leader" && time.Since(a.led) >= leaderEvery
		if !p.here && !leads {
			continue
		}
		var d *dump
		err := a.send(ctx, live, p, "dump", h, func(r io.Reader) (err error) {
			d, err = parseDump(r)
			return err
		})
		if err != nil {
			at.noteFailure("dump", err)
			continue
		}
		if d.sets {
			a.calibrate(live, d)
		}
		if p.here {
			h.Owners, h.Sessions = d.owners, d.sessions
		}
	}
	for _, at := range h.Servers {
		if !at.lists {
			h.Unasked = append(h.Unasked, at.whyUnasked())
		}
	}
	a.settle(h)
	return h, ctx.Err()
}

// meetAll asks servers what they are and who is connected to them.
func (a *Asker) meetAll(ctx context.Context, live *session.Session, peers []askedServer, h *Answers) {
	met := make([]Server, len(peers))
	var asking sync.WaitGroup
	for i, p := range peers {
		asking.Go(func() { met[i] = a.meet(ctx, live, p, h) })
	}
	asking.Wait()
	h.Servers = append(h.Servers, met...)
}

// meet asks one server what it is and who is connected to it.
func (a *Asker) meet(ctx context.Context, live *session.Session, p askedServer, h *Answers) Server {
	at := Server{Name: kind.Visible(p.Name), Here: p.here, Connections: -1}
	all := a.describe(ctx, live, p, h, &at)
	n := 0
	err := a.send(ctx, live, p, "cons", h, func(r io.Reader) (err error) {
		n, err = parseCons(r, func(id int64, addr string, timeout time.Duration) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.connected[id] = Session{ID: id, Address: addr, Timeout: timeout}
		})
		return err
	})
	if err != nil {
		at.noteFailure("cons", err)
		return at
	}
	// The word cons lists the connections of the port that we asked, and srvr counts the connections of all ports. Some connections may
	// have ended between the two answers.
	at.Connections, at.lists = n, all > 0 && (n >= all || n >= a.describe(ctx, live, p, h, &at))
	if !at.lists {
		at.Error = cmp.Or(at.Error, fmt.Sprintf("it lists %d of its %d connections: the others have just begun or ended, or are at another port, with or without TLS", n, all))
	}
	return at
}

// describe asks a server what it is, and returns how many connections it counts; 0 if it does not say.
func (a *Asker) describe(ctx context.Context, live *session.Session, p askedServer, h *Answers, at *Server) (connections int) {
	err := a.send(ctx, live, p, "srvr", h, func(r io.Reader) (err error) {
		connections, err = at.describe(r)
		return err
	})
	if err != nil {
		at.noteFailure("srvr", err)
		return 0
	}
	return connections
}

// noteFailure notes that a word was not answered. A server that only forbids cons gets no Error.
func (s *Server) noteFailure(word string, err error) {
	if errors.Is(err, errForbidden) {
		s.Forbids = append(s.Forbids, word)
		err = fmt.Errorf("%s: %w", word, err)
	}
	if word != "cons" || !errors.Is(err, errForbidden) {
		s.Error = cmp.Or(s.Error, kind.Visible(err.Error()))
	}
}

// calibrate converts the leader's times, in a zone that may be unknown here, into this machine's time. The list has our own session, and
// the leader has heard from our client within the last T/3 (T is the session timeout). So our session expires T after that contact, rounded
// up to a whole tick; a tick is at most T/2. If the leader says that our session ends T to 2T from now, calibrate takes the clocks as
// equal. The leader then says at most 2T, and our session really ends no sooner than 2T/3 from now. So a time is at most 4T/3 late. Otherwise calibrate shifts all times so that our session ends T from now. A time is then at most T/3 late.
// If the leader's clock is behind ours, the shift corrects that, so no session seems silent because of it. If our server is a follower, the
// leader may hear from our client half a tick later: the numbers here leave that out. A server that does not list our session leads another
// ensemble.
func (a *Asker) calibrate(live *session.Session, d *dump) {
	own, ok := d.expires[live.ID()]
	if !ok {
		return
	}
	a.led = time.Now()
	t, skew := live.Timeout(), time.Duration(0)
	if off := own.Sub(a.led) - t; off < 0 || off > t {
		skew = off
	}
	a.expires = make(map[int64]time.Time, len(d.expires))
	for id, at := range d.expires {
		a.expires[id] = at.Add(-skew)
	}
}

// settle combines what this look and earlier ones revealed of the sessions. It takes two looks to find that a session is away, because the
// servers' lists are not of the same moment.
func (a *Asker) settle(h *Answers) {
	if time.Since(a.led) > 2*leaderEvery { // no leader answered, and the last answer is too old
		a.expires = nil
	}
	timeouts := make(map[int64]time.Duration, len(h.Sessions))
	for id, c := range h.connected {
		if x := h.Sessions[id]; x != nil {
			x.Address, x.Timeout = c.Address, c.Timeout
		} else if h.Owners == nil { // only cons has answered
			h.Sessions[id] = &c
		}
	}
	for id, x := range h.Sessions {
		old, known := a.timeouts[id]
		x.Timeout = cmp.Or(x.Timeout, old)
		timeouts[id] = x.Timeout
		x.Away = len(h.Unasked) == 0 && known && x.Address == ""
		if x.Expires = a.expires[id]; !x.Expires.IsZero() && x.Timeout > 0 {
			x.Silent = max(0, x.Timeout-x.Expires.Sub(a.led))
		}
	}
	a.timeouts = timeouts
}
