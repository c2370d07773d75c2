package recipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locktree/locktree/recipes/internal/znode"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// maxDeclarations bounds how many declarations a client keeps (and watches) that no call under way needs; beyond it the
// next lock opened pushes out another one, which costs that one a read more. One that is needed would be read again at
// once, and push out another: they would chase each other for as long as the calls last.
const maxDeclarations = 4096

// declaration is what the node of a lock says about it, kept per client and path. There is no goroutine behind it:
// a fired watch makes the next use read again, and who waits in a queue waits for the watch too.
type declaration struct {
	path    string
	payload *kind.Payload                // nil when the node carries none
	why     error                        // why not
	w       *session.Watch               // fires when it must be read again
	dropped chan struct{}                // closed when the client no longer keeps this declaration
	crowd   *crowd                       // of a semaphore, or of a family of them
	brought *atomic.Pointer[declaration] // what open made of it for the last handle that brought parameters

	params  kind.Params
	acl     []zk.ACL // of contenders
	shared  []zk.ACL // what acl is where nothing is declared
	wire    string
	waiters int // max_waiters

	revision
	familiar
}

// revision is the write that made the node's data what they are.
type revision struct {
	version int32
	mzxid   int64
	written time.Time // by the ensemble's clock
}

// familiar is what a declaration has to do with families of locks.
type familiar struct {
	keys    *declaration      // of a family: what holds for each of its keys
	family  *kind.KeyedParams // of what holds for each key: the family's
	nodeACL []zk.ACL          // of that too: the list of a key's node
	keyless *atomic.Bool      // of a node without a declaration: it was found not to be that of a key
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
// not known or has changed. Errors: ErrNotProvisioned, ErrKindMismatch, ErrDraining, ErrMoved, a spelledError of a key that is somewhere else, or what reading it gave.
func (e *epoch) declared(ctx context.Context, q *queue) (*declaration, error) {
	if q.wrong != nil {
		return nil, q.wrong
	}
	d, err := e.declaration(ctx, q.declaredAt())
	if key, unknown := e.isKey(ctx, q, d, err); key != nil || unknown != nil {
		if unknown != nil {
			return nil, unknown
		}
		return nil, key
	}
	// Once: if somebody deletes it again in between, it is not there.
	if znode.IsNoNode(err) && q.opts.params != nil && q.opts.create {
		if err = createTree(ctx, e.S, q.path, q.kind, q.opts.createACL); err == nil {
			d, err = e.declaration(ctx, q.path)
		}
	}
	if znode.IsNoNode(err) {
		return nil, fmt.Errorf("%w: %s does not exist; declare it and run apply%s: %w", ErrNotProvisioned, q.declaredAt(), q.opts.missing(), err)
	}
	if err != nil {
		return nil, err
	}
	if q.family == "" {
		return d.open(q.kind, q.opts.params)
	}
	if d, err = d.openKeys(q.kind); err == nil {
		err = q.misspelled(d)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// isKey looks whether q names the node of a key, if that has no declaration of its own.
func (e *epoch) isKey(ctx context.Context, q *queue, d *declaration, err error) (*spelledError, error) {
	switch {
	case q.family != "":
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
		e.outdated(d) // of a node that goes with its last contender nothing is kept
	case err == nil:
		d.keyless.Store(true)
	}
	return key, err
}

// open checks the declaration against the kind the program expects, and completes it with brought parameters.
func (d *declaration) open(k *kind.Kind, brought kind.Params) (*declaration, error) {
	if d.payload == nil {
		// Parameters stand in for a declaration that was never made, not for one that is damaged or too new for us: what
		// that says, others obey.
		if brought == nil || !errors.Is(d.why, kind.ErrForeign) {
			return nil, fmt.Errorf("%w: %s has no declaration that this program can read; declare it and run apply, or pass WithParams: %w",
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
		return nil, d.mismatch(k.Name, got.Name)
	}
	if err := d.refuses(); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *declaration) mismatch(want, got string) error {
	return fmt.Errorf("%w: %s is declared as %s by %s, this program opens it as %s",
		ErrKindMismatch, d.path, got, kind.Visible(d.payload.Owner.String()), want)
}

// refuses says why nothing new is granted; nil if it is.
func (d *declaration) refuses() error {
	switch {
	case d.payload.State == kind.StateActive:
		return nil
	case d.payload.State == kind.StateMoved:
		return fmt.Errorf("%w: %s is now %s", ErrMoved, d.path, kind.Visible(d.payload.MovedTo))
	}
	return fmt.Errorf("%w: %s", ErrDraining, d.path)
}

// set takes the parameters every kind has out of p.
func (d *declaration) set(p kind.Params, childACL kind.List) {
	d.params, d.acl, d.wire = p, d.shared, kind.WireCurator
	if childACL != nil {
		d.acl = znode.ToZK(childACL)
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
func (e *epoch) declaration(ctx context.Context, path string) (*declaration, error) {
	st := &e.c.state
	for {
		st.mu.Lock()
		if d := e.decls[path]; d != nil && !d.stale() {
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
	before := e.decls[path]
	e.decls.drop(path) // a stale one
	if err != nil {
		return nil, err
	}
	if before != nil {
		d.crowd = before.crowd
	}
	d.keys = d.ofKeys()
	e.decls[path] = d
	e.decls.trim(st.maxDecls, st.pins)
	return d, nil
}

// needs are the paths whose declarations a call needs, with those of the marks on its way. Once they are read they are not pushed
// out until it ends. If calls need more than the bound allows, each goes with the last call that needs it.
// (TestWaitingForMoreLocksThanDeclarationsAreKeptIsQuiet)
type needs struct {
	st    *clientState
	paths []string
}

func (n *needs) add(path string) {
	if slices.Contains(n.paths, path) {
		return
	}
	n.paths = append(n.paths, path)
	n.st.mu.Lock()
	defer n.st.mu.Unlock()
	if n.st.pins == nil {
		n.st.pins = map[string]int{}
	}
	n.st.pins[path]++
}

func (n *needs) end() {
	n.st.mu.Lock()
	defer n.st.mu.Unlock()
	for _, path := range n.paths {
		if n.st.pins[path]--; n.st.pins[path] > 0 {
			continue
		}
		delete(n.st.pins, path)
		if e := n.st.epoch; e != nil && !e.decls.trim(n.st.maxDecls, n.st.pins) {
			e.decls.drop(path)
		}
	}
}

// declarations are those of an epoch, by lock node. clientState.mu guards them, so their methods are called with mu held.
type declarations map[string]*declaration

// trim pushes out a declaration that is not pinned if there are more than limit, or maxDeclarations if that is 0. It looks at a
// few only, which are others each time (a map is walked from a random place), and reports false when all of these are pinned.
func (all declarations) trim(limit int, pins map[string]int) bool {
	if len(all) <= cmp.Or(limit, maxDeclarations) {
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

// outdated drops d, which a server has said is not what the node holds.
func (e *epoch) outdated(d *declaration) {
	e.c.state.mu.Lock()
	defer e.c.state.mu.Unlock()
	if kept := e.decls[d.path]; kept != nil && kept.w == d.w { // d may be a copy: see open
		e.decls.drop(d.path)
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

// readDeclaration reads what the node says, watches it until forget, and reads what its contenders are to be created with.
func (e *epoch) readDeclaration(ctx context.Context, path string) (*declaration, error) {
	// Both at once: the access list costs no round trip of its own, and may turn out not to be needed.
	var inherited []zk.ACL
	var notInherited error
	aside, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	reading.Go(func() { inherited, notInherited = e.c.inheritedACL(aside, e.S, path) })
	data, stat, w, err := znode.GetCalledPersistent(ctx, e.S, path, nil)
	if err != nil {
		cancel() // it would ask for the list as long as the session lives
	}
	reading.Wait()
	cancel()
	if err != nil {
		return nil, err
	}
	d := &declaration{path: path, revision: revision{stat.Version, stat.Mzxid, time.UnixMilli(stat.Mtime)}, w: w, dropped: make(chan struct{}),
		crowd: newCrowd(), brought: new(atomic.Pointer[declaration]), familiar: familiar{keyless: new(atomic.Bool)}}
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
func createTree(ctx context.Context, s *session.Session, path string, k *kind.Kind, acl []zk.ACL) error {
	err := createNode(ctx, s, path, acl)
	for _, child := range k.Children {
		if err == nil {
			err = createNode(ctx, s, kind.JoinPath(path, child), acl)
		}
	}
	return err
}

// createNode makes a node unless it is there, and its parents only where they are missing: a server looks at the rights
// before it looks whether a node exists, and those of the nodes on the way may not be ours.
func createNode(ctx context.Context, s *session.Session, path string, acl []zk.ACL) error {
	create := func() error {
		_, err := s.Create(ctx, path, nil, 0, acl)
		return err
	}
	err := znode.Retry(ctx, s, znode.Unanswered, create) // if it was applied, the next one finds the node
	if znode.IsNoNode(err) {
		if err = createNode(ctx, s, kind.ParentPath(path), acl); err == nil {
			err = znode.Retry(ctx, s, znode.Unanswered, create)
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
func (q *queue) complete(ctx context.Context, s *session.Session, err error) error {
	if !znode.IsNoNode(err) || q.opts.params == nil || !q.opts.create {
		return err
	}
	if err := createTree(ctx, s, q.path, q.kind, q.opts.createACL); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s lacked a node, which exists now", znode.ErrNotApplied, q.path)
}
