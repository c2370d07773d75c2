package recipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

// maxDeclarations bounds how many declarations a client keeps (and watches) that no call under way needs; beyond it the
// next lock opened pushes out another one, which costs that one a read more. One that is needed would be read again at
// once, and push out another: they would chase each other for as long as the calls last.
const maxDeclarations = 4096

// declaration is what the node of a lock says about it, kept per client and path. There is no goroutine behind it:
// a fired watch makes the next use read again, and who waits in a queue waits for the watch too.
type declaration struct {
	s       *Session
	path    string
	version int32                        // of the node's data
	mzxid   int64                        // of the write that made it so
	payload *kind.Payload                // nil when the node carries none
	why     error                        // why not
	w       *session.Watch               // fires when it must be read again
	dropped chan struct{}                // closed when the client no longer keeps this declaration
	crowd   *crowd                       // of a semaphore
	brought *atomic.Pointer[declaration] // what open made of it for the last handle that brought parameters

	params  kind.Params
	acl     []zk.ACL // of contenders
	shared  []zk.ACL // what acl is where nothing is declared
	wire    string
	waiters int // max_waiters
}

// stale says that the node may have another declaration by now.
func (d *declaration) stale() bool {
	select {
	case <-d.w.C():
		return true
	case <-d.dropped:
		return true
	default:
		return false
	}
}

// declared returns the declaration of q's lock, checked against what the program opens, reading it only when it is
// not known or has changed. Errors: ErrNotProvisioned, ErrKindMismatch, ErrDraining, ErrMoved, or what reading it gave.
func (c *Client) declared(ctx context.Context, s *Session, q *queue) (*declaration, error) {
	if q.wrong != nil {
		return nil, q.wrong
	}
	d, err := c.declaration(ctx, s, q.path)
	// Once: if somebody deletes it again in between, it is not there.
	if isNoNode(err) && q.opts.params != nil && q.opts.create {
		if err = c.createTree(ctx, s, q.path, q.kind); err == nil {
			d, err = c.declaration(ctx, s, q.path)
		}
	}
	if isNoNode(err) {
		return nil, fmt.Errorf("%w: %s does not exist; declare it and run apply%s: %w", ErrNotProvisioned, q.path, q.opts.missing(), err)
	}
	if err != nil {
		return nil, err
	}
	return d.open(q.kind, q.opts.params)
}

// open checks the declaration against the kind the program expects, and completes it with brought parameters.
func (d *declaration) open(k *kind.Kind, brought kind.Params) (*declaration, error) {
	if d.payload == nil {
		// Parameters stand in for a declaration that was never made, not for one that is damaged or too new for us: what
		// that says, others obey.
		if brought == nil || !errors.Is(d.why, kind.ErrForeign) {
			return nil, fmt.Errorf("%w: %s carries no declaration this program can read; declare it and run apply, or bring parameters with WithParams: %w",
				ErrNotProvisioned, d.path, d.why)
		}
		// A copy: the declaration is shared by all callers of this client, and others may bring other parameters. The
		// watch, and what says that it was dropped, stay the shared ones. A handle's parameters are always the same object.
		if own := d.brought.Load(); own != nil && own.params == brought {
			return own, nil
		}
		own := *d
		own.set(brought, nil)
		d.brought.Store(&own)
		return &own, nil
	}
	if got := d.payload.Params.Kind(); got != k {
		return nil, fmt.Errorf("%w: %s is declared as %s by %s, this program opens it as %s",
			ErrKindMismatch, d.path, got, inspect.Visible(d.payload.Owner.String()), k)
	}
	switch d.payload.State {
	case kind.StateDraining:
		return nil, fmt.Errorf("%w: %s", ErrDraining, d.path)
	case kind.StateMoved:
		return nil, fmt.Errorf("%w: %s is now %s", ErrMoved, d.path, inspect.Visible(d.payload.MovedTo))
	}
	return d, nil
}

// set takes the parameters every kind has out of p.
func (d *declaration) set(p kind.Params, childACL []kind.ACL) {
	d.params, d.acl, d.wire = p, d.shared, kind.WireCurator
	if childACL != nil {
		d.acl = toZK(childACL)
	}
	// By name: the fields are the kind's, of which this needs to know no more.
	for _, f := range p.Fields() {
		switch v := f.Get().(type) {
		case string:
			if f.Name == "wire" && v != "" {
				d.wire = v
			}
		case int:
			if f.Name == "max_waiters" {
				d.waiters = v
			}
		}
	}
}

// declaration returns what is known about the node, reading it if need be. Callers of one path share one read.
func (c *Client) declaration(ctx context.Context, s *Session, path string) (*declaration, error) {
	st := &c.state
	for {
		st.mu.Lock()
		if d := st.decls[path]; d != nil && d.s == s && !d.stale() {
			st.mu.Unlock()
			return d, nil
		}
		reading := st.loading[path]
		if reading == nil {
			break // with mu held: what follows is this caller's to read
		}
		st.mu.Unlock()
		select {
		case <-reading: // with an error, perhaps: the next round finds nothing, and one of those who waited reads itself
		case <-ctx.Done():
			return nil, fmt.Errorf("recipes: lock %s: %w", path, whyEnded(ctx))
		}
	}
	if st.decls == nil {
		st.decls, st.loading = map[string]*declaration{}, map[string]chan struct{}{}
	}
	reading := make(chan struct{})
	st.loading[path] = reading
	st.mu.Unlock()

	st.janitor(s) // forgets the declaration with its session
	d, err := c.readDeclaration(ctx, s, path)

	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.loading, path)
	close(reading)
	before := st.decls[path]
	st.forget(path) // a stale one, or a lost session's
	switch {
	case err != nil:
		return nil, err
	case s.Err() != nil: // whoever would forget it may have been here
		return d, nil
	}
	if before != nil {
		d.crowd = before.crowd
	}
	st.decls[path] = d
	st.trim()
	return d, nil
}

// pin keeps the declaration at path, once it is read, from being pushed out until unpin. If more are pinned than the bound
// allows, each goes as its last call ends. (TestWaitingForMoreLocksThanDeclarationsAreKeptIsQuiet)
func (st *clientState) pin(path string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.pins == nil {
		st.pins = map[string]int{}
	}
	st.pins[path]++
}

func (st *clientState) unpin(path string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.pins[path]--; st.pins[path] > 0 {
		return
	}
	delete(st.pins, path)
	if !st.trim() {
		st.forget(path)
	}
}

// trim pushes out a declaration that is not pinned if there are too many; st.mu is held. It looks at a few only, which
// are others each time (a map is walked from a random place), and reports false when all of these are pinned.
func (st *clientState) trim() bool {
	if len(st.decls) <= cmp.Or(st.maxDecls, maxDeclarations) {
		return true
	}
	looked := 0
	for path := range st.decls {
		if st.pins[path] == 0 {
			st.forget(path)
			return true
		}
		if looked++; looked == 16 {
			break
		}
	}
	return false
}

// outdated drops d, which a server has said is not what the node holds.
func (st *clientState) outdated(d *declaration) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if kept := st.decls[d.path]; kept != nil && kept.w == d.w { // d may be a copy: see open
		st.forget(d.path)
	}
}

// forget drops a declaration; st.mu is held. Its users hear of that by dropped: their watch is stopped.
func (st *clientState) forget(path string) {
	if d := st.decls[path]; d != nil {
		d.w.Remove()
		close(d.dropped)
		delete(st.decls, path)
	}
}

// readDeclaration reads what the node says, watches it until forget, and reads what its contenders are to be created with.
func (c *Client) readDeclaration(ctx context.Context, s *Session, path string) (*declaration, error) {
	// Both at once: the access list costs no round trip of its own, and may turn out not to be needed.
	var inherited []zk.ACL
	var notInherited error
	aside, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	reading.Go(func() { inherited, notInherited = c.inheritedACL(aside, s, path) })
	data, stat, w, err := getCalledPersistent(ctx, s, path, nil)
	if err != nil {
		cancel() // it would ask for the list as long as the session lives
	}
	reading.Wait()
	cancel()
	if err != nil {
		return nil, err
	}
	d := &declaration{s: s, path: path, version: stat.Version, mzxid: stat.Mzxid, w: w, dropped: make(chan struct{}),
		crowd: newCrowd(), brought: new(atomic.Pointer[declaration])}
	d.payload, d.why = kind.Decode(data)
	if d.why != nil {
		d.payload = nil // it may be half of one
	}
	if d.payload == nil || d.payload.ChildACL == nil {
		// Only now does it matter whether that worked.
		if d.shared = inherited; notInherited != nil {
			w.Remove()
			return nil, notInherited
		}
	}
	if d.payload == nil {
		return d, nil
	}
	d.set(d.payload.Params, d.payload.ChildACL)
	return d, nil
}

// createTree makes the node, its parents and the children its kind needs, where they are missing, for WithCreate.
func (c *Client) createTree(ctx context.Context, s *Session, path string, k *kind.Kind) error {
	err := createNode(ctx, s, path)
	for _, child := range k.Children {
		if err == nil {
			err = createNode(ctx, s, kind.JoinPath(path, child))
		}
	}
	return err
}

// createNode makes a node unless it is there, and its parents only where they are missing: a server looks at the rights
// before it looks whether a node exists, and those of the nodes on the way may not be ours.
func createNode(ctx context.Context, s *Session, path string) error {
	create := func() error {
		_, err := s.Create(ctx, path, nil, 0, zk.WorldACL(zk.PermAll))
		return err
	}
	err := retry(ctx, s, unanswered, create) // if it was applied, the next one finds the node
	if isNoNode(err) {
		if err = createNode(ctx, s, kind.ParentPath(path)); err == nil {
			err = retry(ctx, s, unanswered, create)
		}
	}
	if errors.Is(err, zk.ErrNoAuth) { // there, perhaps, and hidden from us: see Session.Exists
		if stat, unknown := s.Exists(ctx, path); stat != nil || errors.Is(unknown, zk.ErrNoAuth) {
			return nil
		}
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// complete makes, with WithCreate, what err, a NoNode, says is missing of the layout: another try may succeed then,
// as errNotApplied says. (declared looks at the lock node only, whose children may be missing.)
func (q *queue) complete(ctx context.Context, s *Session, err error) error {
	if !isNoNode(err) || q.opts.params == nil || !q.opts.create {
		return err
	}
	if err := q.c.createTree(ctx, s, q.path, q.kind); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s lacked a node, which exists now", errNotApplied, q.path)
}
