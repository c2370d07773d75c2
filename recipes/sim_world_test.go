package recipes_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/zktest"
)

// simWorld is one schedule being played in one bubble of fake time.
type simWorld struct {
	*lab
	plan     *schedule
	born     time.Time
	follower *zktest.Replica
	clients  []*simClient
	locks    []simMember
	dirs     []string // where contenders stand

	mu       sync.Mutex
	believed map[*simGrant]bool // granted, not known to be over
	standing map[*simGrant]bool // their nodes were there when last looked at
	spoiled  map[string]time.Time
	stamps   int64
	history  []event
	wrong    []string
	ids      int
	store    map[string]uint64 // fenced: the highest token seen, by lock
	highest  map[string]uint64 // exclusive token, by lock
	excused  bool              // false only to prove that the checks find something
	declared map[string]*simDeclaration
	observed string // who the newest observation says leads
	stats    simStats
	foreign  map[int64]bool  // the czxids of nodes of keys that stock libraries have made
	rivals   map[*rival]bool // granted, not known to be over
}

type simStats struct {
	virtual                                time.Duration
	asked, grants, losses, faults, refused int
	stale                                  int    // writes the fenced store refused
	seen                                   int    // answers to who leads
	late                                   int    // requests with which a thread of a server stood still
	rivals                                 [3]int // grants of rivals, by habit
}

// simClient is the place of a client: who closes it dials the next.
type simClient struct {
	harness.Cutter
	w      *simWorld
	number int

	mu  sync.Mutex
	now *recipes.Client

	books []*tally // of the clients it had

	restarting chan struct{} // full while somebody does; a mutex would stop fake time for the next one
}

// simGrant is one lease, with what is known about it.
type simGrant struct {
	id      int
	client  int
	lease   *recipes.Lease
	parts   []*simPart // one; of a multi-lock, one a member
	session int64
	token   uint64 // of what has no permits; else the first permit's
	at      int64  // stamp: it was granted

	spoiledAt time.Time // when an administrator, or a server that broke its word, ended it behind its holder's back
	leaving   bool      // its holder is exchanging it: it has agreed to its end
	over      bool      // given back
	goneAt    time.Time // when one of its nodes was first missed
}

// simPart is what a lease has of one lock.
type simPart struct {
	lock   string
	recipe simRecipe
	nodes  []string
	shared bool
	n      int   // permits
	seen   int64 // stamp: its nodes were there
	gone   bool
}

// nodes are all of them.
func (g *simGrant) nodes() (all []string) {
	for _, p := range g.parts {
		all = append(all, p.nodes...)
	}
	return all
}

// part is what a member's nodes, or the whole lease's, are of a lock.
func (w *simWorld) part(of simMember, nodes []string, shared bool) *simPart {
	p := &simPart{lock: of.path, recipe: of.recipe, shared: shared}
	for _, node := range nodes {
		if strings.HasPrefix(node, w.node(of.path)+"/") {
			p.nodes = append(p.nodes, node)
		}
	}
	p.n = len(p.nodes)
	return p
}

// declareAll declares the locks of the plan's recipe.
func (w *simWorld) declareAll() {
	w.locks = []simMember{{path: "/l", recipe: w.plan.recipe}}
	if w.plan.recipe == "multi" || w.plan.recipe == "world" {
		w.locks = simMembers[:]
	}
	for _, of := range w.locks {
		w.declareLock(of)
		if path := w.node(of.path); of.recipe == "semaphore" {
			w.dirs = append(w.dirs, path+"/leases", path+"/locks")
		} else {
			w.dirs = append(w.dirs, path)
		}
	}
}

// newSimWorld starts the servers and dials the clients.
func newSimWorld(t *testing.T, plan *schedule) *simWorld {
	var brand []zktest.Option
	if plan.keyed {
		brand = append(brand, zktest.WithReapInterval(plan.timeout/2))
	}
	w := &simWorld{
		lab: &lab{harness.NewLab(t, append(brand, zktest.WithTickTime(plan.tick), zktest.WithLatency(plan.latency))...)}, plan: plan,
		born: time.Now(), believed: map[*simGrant]bool{}, standing: map[*simGrant]bool{}, spoiled: map[string]time.Time{},
		store: map[string]uint64{}, highest: map[string]uint64{}, excused: true,
		declared: map[string]*simDeclaration{}, foreign: map[int64]bool{}, rivals: map[*rival]bool{},
	}
	if plan.replica {
		w.follower = w.Srv.Replica()
	}
	w.declareAll()
	// Every request that any client sends is an occasion to look: a grant that waited is preceded by one.
	w.Srv.Inject(func(r zktest.Request) bool {
		if *simTrace {
			fmt.Printf("seed %d, %v, session %x: %s %s (%d)\n", plan.seed, time.Since(w.born), r.Session&0xff, r.Op, r.Path, r.Xid)
		}
		if r.Op != "ping" {
			w.inspect()
		}
		return false
	}, zktest.Fault{})
	for i := range plan.clients {
		c := &simClient{w: w, number: i, restarting: make(chan struct{}, 1)}
		c.Next = w.wire
		require.NoError(t, c.redial(t.Context()))
		w.clients = append(w.clients, c)
	}
	return w
}

// wire dials the server or its follower, by name.
func (w *simWorld) wire(ctx context.Context, network, address string) (net.Conn, error) {
	if w.follower != nil && strings.HasPrefix(address, "follower") {
		return w.follower.DialContext(ctx, network, address)
	}
	return w.Srv.DialContext(ctx, network, address)
}

// redial gives the place a new client.
func (c *simClient) redial(ctx context.Context) error {
	cfg := recipes.Config{
		Servers: []string{"leader"}, Dialer: c.Dial, SessionTimeout: c.w.plan.timeout, ID: fmt.Sprint(c.number),
		ConnectTimeout: c.w.plan.timeout, LoseOnSuspect: c.w.plan.clients[c.number].suspect,
	}
	if only := c.w.plan.clients[c.number].server; only != "" {
		cfg.Servers = []string{only}
	} else if c.w.follower != nil {
		cfg.Servers = append(cfg.Servers, "follower")
	}
	books := newTally()
	if c.number%2 == 0 { // the others have no Observer, as most programs
		cfg.Observer = books.Observe
	}
	// No system calls: the bubble's machine never sleeps.
	next, err := recipes.Dial(seam.With(ctx, seam.Seams{Slept: func() time.Duration { return 0 }}), cfg)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.books = next, append(c.books, books)
	return nil
}

func (c *simClient) client() *recipes.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// session is the id of the client's newest session; it may be lost.
func (c *simClient) session() int64 {
	return c.client().Newest().ID()
}

func (c *simClient) lost() bool {
	return c.client().Newest().State() == session.StateLost
}

// violated notes that an invariant does not hold.
func (w *simWorld) violated(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blame(format, args...)
}

// blame is violated for who holds mu.
func (w *simWorld) blame(format string, args ...any) {
	if len(w.wrong) < 20 {
		w.wrong = append(w.wrong, fmt.Sprintf("at %v: ", time.Since(w.born))+fmt.Sprintf(format, args...))
	}
}

// stamp orders events within the process; mu is held.
func (w *simWorld) stamp() int64 {
	w.stamps++
	return w.stamps
}

func (w *simWorld) now() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stamp()
}

// spoil notes that what exists under these names (nodes, or sessions) ends by a hand its holders cannot know of
// before they are told. It must be called before that happens.
func (w *simWorld) spoil(names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		if _, known := w.spoiled[name]; !known {
			w.spoiled[name] = time.Now()
		}
	}
	for g := range w.believed {
		w.excuse(g)
	}
}

// excuse applies what is spoiled to a grant; mu is held.
func (w *simWorld) excuse(g *simGrant) {
	if !w.excused || !g.spoiledAt.IsZero() {
		return
	}
	for _, name := range append(g.nodes(), sessionName(g.session)) {
		if at, ok := w.spoiled[name]; ok {
			g.spoiledAt = at
		}
	}
}

func sessionName(id int64) string { return fmt.Sprintf("session %#x", uint64(id)) }
