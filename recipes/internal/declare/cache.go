package declare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// Client keeps what the declarations of one client's sessions have in common. Its zero value is ready but for Authenticated.
type Client struct {
	Authenticated func() bool // it has identities besides world:anyone
	MaxDecls      int         // how many are kept, if not MaxDeclarations: tests have few

	mu     sync.Mutex
	pins   map[string]int // calls under way that need the declaration, by lock node
	newest *Session
}

// Session keeps the declarations read in one session; they end with it.
type Session struct {
	c *Client
	s *session.Session

	// Client.mu guards these.
	decls   declarations
	loading map[string]chan struct{} // closed when it has been read
}

// Begin notes that s is the newest session.
func (c *Client) Begin(s *session.Session) *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest = &Session{c: c, s: s, decls: declarations{}, loading: map[string]chan struct{}{}}
	return c.newest
}

// End forgets all declarations, for a client that is used no more.
func (e *Session) End() {
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	clear(e.decls)
}

// Needs begins a call that needs declarations.
func (c *Client) Needs() *Needs { return &Needs{c: c} }

// MaxDeclarations bounds how many declarations a client keeps (and watches) that no call under way needs; beyond it the
// next lock opened pushes out another one, which costs that one a read more. One that is needed would be read again at
// once, and push out another: they would chase each other for as long as the calls last.
const MaxDeclarations = 4096

// Needs are the paths whose declarations a call needs, with those of the marks on its way. Once they are read they are not pushed
// out until it ends. If calls need more than the bound allows, each goes with the last call that needs it.
// (TestWaitingForMoreLocksThanDeclarationsAreKeptIsQuiet)
type Needs struct {
	c     *Client
	paths []string
}

func (n *Needs) Add(path string) {
	if slices.Contains(n.paths, path) {
		return
	}
	n.paths = append(n.paths, path)
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if n.c.pins == nil {
		n.c.pins = map[string]int{}
	}
	n.c.pins[path]++
}

func (n *Needs) End() {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	for _, path := range n.paths {
		if n.c.pins[path]--; n.c.pins[path] > 0 {
			continue
		}
		delete(n.c.pins, path)
		if e := n.c.newest; e != nil && !e.decls.trim(n.c.MaxDecls, n.c.pins) {
			e.decls.drop(path)
		}
	}
}

// declarations are those of an epoch, by lock node. clientState.mu guards them, so their methods are called with mu held.
type declarations map[string]*Declaration

// trim pushes out a declaration that is not pinned if there are more than limit, or MaxDeclarations if that is 0. It looks at a
// few only, which are others each time (a map is walked from a random place), and reports false when all of these are pinned.
func (all declarations) trim(limit int, pins map[string]int) bool {
	if len(all) <= cmp.Or(limit, MaxDeclarations) {
		return true
	}
	looked := 0
	for path := range all {
		if pins[path] == 0 {
			all.drop(path)
			return true
		}
		if looked++; looked == 16 {
			break
		}
	}
	return false
}

// Outdated drops d, which a server has said is not what the node holds.
func (e *Session) Outdated(d *Declaration) {
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	if kept := e.decls[d.Path]; kept != nil && kept.w == d.w { // d may be a copy: see open
		e.decls.drop(d.Path)
	}
}

// drop forgets a declaration. Its users hear of that by dropped: their watch is stopped.
func (all declarations) drop(path string) {
	if d := all[path]; d != nil {
		d.w.Remove()
		close(d.dropped)
		delete(all, path)
	}
}

// Of returns the declaration of q's lock, checked against what the program opens, reading it only when it is
// not known or has changed. Errors: ErrNotProvisioned, ErrKindMismatch, ErrDraining, ErrMoved, a SpelledError of a key that is somewhere else, or what reading it gave.
func (e *Session) Of(ctx context.Context, q *Name) (*Declaration, error) {
	if q.Wrong != nil {
		return nil, q.Wrong
	}
	d, err := e.declaration(ctx, q.DeclaredAt())
	if key, unknown := e.isKey(ctx, q, d, err); key != nil || unknown != nil {
		if unknown != nil {
			return nil, unknown
		}
		return nil, key
	}
	// Once: if somebody deletes it again in between, it is not there.
	if znode.IsNoNode(err) && q.Params != nil && q.Create {
		if err = createTree(ctx, e.s, q.Path, q.Kind, q.CreateACL); err == nil {
			d, err = e.declaration(ctx, q.Path)
		}
	}
	if znode.IsNoNode(err) {
		return nil, fmt.Errorf("%w: %s does not exist; declare it and run apply%s: %w", ErrNotProvisioned, q.DeclaredAt(), q.missing(), err)
	}
	if err != nil {
		return nil, err
	}
	if q.Family == "" {
		return d.open(q.Kind, q.Params)
	}
	if d, err = d.openKeys(q.Kind); err == nil {
		err = q.misspelled(d)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// isKey looks whether q names the node of a key, if that has no declaration of its own.
func (e *Session) isKey(ctx context.Context, q *Name, d *Declaration, err error) (*SpelledError, error) {
	switch {
	case q.Family != "":
		return nil, nil
	case znode.IsNoNode(err):
		return e.keyOf(ctx, q)
	case err != nil || d.payload != nil || !errors.Is(d.why, kind.ErrForeign):
		return nil, nil
	}
	if d.keyless.Load() {
		return nil, nil
	}
	key, err := e.keyOf(ctx, q)
	switch {
	case key != nil:
		e.Outdated(d) // of a node that goes with its last contender nothing is kept
	case err == nil:
		d.keyless.Store(true)
	}
	return key, err
}

// declaration returns what is known about the node, reading it if need be. Callers of one path share one read.
func (e *Session) declaration(ctx context.Context, path string) (*Declaration, error) {
	st := e.c
	for {
		st.mu.Lock()
		if d := e.decls[path]; d != nil && !d.Stale() {
			st.mu.Unlock()
			return d, nil
		}
		reading := e.loading[path]
		if reading == nil {
			break // with mu held: what follows is this caller's to read
		}
		st.mu.Unlock()
		select {
		case <-reading: // with an error, perhaps: the next round finds nothing, and one of those who waited reads itself
		case <-ctx.Done():
			return nil, fmt.Errorf("recipes: lock %s: %w", path, znode.WhyEnded(ctx))
		}
	}
	reading := make(chan struct{})
	e.loading[path] = reading
	st.mu.Unlock()

	d, err := e.readDeclaration(ctx, path)

	st.mu.Lock()
	defer st.mu.Unlock()
	delete(e.loading, path)
	close(reading)
	e.decls.drop(path) // a stale one
	if err != nil {
		return nil, err
	}
	d.keys = d.ofKeys()
	e.decls[path] = d
	e.decls.trim(st.MaxDecls, st.pins)
	return d, nil
}

// Kept is how many declarations are kept.
func (c *Client) Kept() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newest == nil {
		return 0
	}
	return len(c.newest.decls)
}

// Pinned are the paths whose declarations must be kept.
func (c *Client) Pinned() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.pins))
}
