package declare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// Declaration is the data of a lock's node, kept for each client and path. It has no goroutine. After its watch has fired, the
// next use reads the node again. A waiter also waits for this watch.
type Declaration struct {
	Path    string
	payload *kind.Payload                // nil if the node has no declaration
	why     error                        // why payload is nil
	w       *session.Watch               // fires when the node must be read again
	Changed <-chan struct{}              // closed when the node must be read again
	dropped chan struct{}                // see Dropped
	brought *atomic.Pointer[Declaration] // the copy that open made for the last handle that brought parameters of its own

	Kind       *kind.Kind  // the kind of Params
	Place      *kind.Place // the place in a declared order; nil if there is none
	Params     kind.Params
	Since      time.Time // the time when a job's schedule was declared, by the ensemble's clock
	ACL        []zk.ACL  // the access list of the nodes of holders and waiters
	shared     []zk.ACL  // the value of ACL if the declaration has no access list for contenders
	Wire       string
	MaxWaiters int // max_waiters; 0 is no bound

	revision
	familyParts
}

// revision identifies the last write to the node's data.
type revision struct {
	Version int32
	Mzxid   int64
}

// familyParts has the parts of a declaration that concern families of locks.
type familyParts struct {
	keys    *Declaration      // for a family: the declaration that holds for each of its keys
	family  *kind.KeyedParams // for a key: the parameters of its family
	nodeACL []zk.ACL          // for a key: the access list of its node
	keyless *atomic.Bool      // for a node without a declaration: true once the node is known not to be the node of a key
}

// Dropped is closed when the client no longer keeps this declaration.
func (d *Declaration) Dropped() <-chan struct{} { return d.dropped }

// Stale reports whether the node may have another declaration by now.
func (d *Declaration) Stale() bool {
	select {
	case <-d.Changed:
		return true
	case <-d.dropped:
		return true
	default:
		return false
	}
}

// open checks the declaration against the kind that the program expects, and completes it with the program's parameters.
func (d *Declaration) open(k *kind.Kind, brought kind.Params) (*Declaration, error) {
	if d.payload == nil {
		// The program's parameters serve for a node that has no declaration. They replace no declaration that is damaged or too
		// new for us, because other programs obey it.
		if brought == nil || !errors.Is(d.why, kind.ErrForeign) {
			return nil, errs.Errorf("%w: %s has no declaration that this program can read; declare it and run apply, or pass WithParams: %w",
				ErrNotProvisioned, d.Path, d.why)
		}
		// Make a copy, because all callers of this client share the declaration, and another caller may give other parameters.
		// The copy shares the watch and the channel dropped. A handle's parameters are always the same object.
		if own := d.brought.Load(); own != nil && own.Params == brought {
			return own, nil
		}
		own := *d
		own.set(brought, nil)
		d.brought.Store(&own)
		return &own, nil
	}
	if d.Kind != k {
		return nil, d.mismatch(k.Name, d.Kind.Name)
	}
	if err := d.refusal(); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Declaration) mismatch(want, got string) error {
	return fmt.Errorf("%w: %s is declared as %s by %s, this program opens it as %s",
		ErrKindMismatch, d.Path, got, kind.Visible(d.payload.Owner.String()), want)
}

// refusal returns an error if the lock grants nothing new, otherwise nil.
func (d *Declaration) refusal() error {
	if d.payload.State == kind.StateActive {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrDraining, d.Path)
}

// set fills in the fields of d from the parameters.
func (d *Declaration) set(p kind.Params, childACL kind.List) {
	d.Kind, d.Params, d.ACL, d.Wire, d.Place = p.Kind(), p, d.shared, kind.WireCurator, kind.PlaceOf(p)
	if childACL != nil {
		d.ACL = znode.ToZK(childACL)
	}
	// The fields are found by name, because each kind has its own.
	for _, f := range p.Fields() {
		switch v := f.Get().(type) {
		case string:
			if f.Name == "wire" && v != "" {
				d.Wire = v
			}
		case int:
			if f.Name == "max_waiters" {
				d.MaxWaiters = v
			}
		}
	}
}

// OfKey reports whether d is the declaration of a family's keys.
func (d *Declaration) OfKey() bool { return d.family != nil }

// Cache has what the declarations of one client's sessions share. Its zero value is ready.
type Cache struct {
	sharedParts
	newest *Reader
}

// sharedParts is the part of a Cache that all its Readers use.
type sharedParts struct {
	MaxDecls int // the number of declarations that are kept; 0 = MaxDeclarations (tests set less)

	mu   sync.Mutex     // also guards the declarations of each Reader
	pins map[string]int // the number of calls under way that need the declaration, by lock node
}

// Reader reads and keeps the declarations of one session, until the session ends.
type Reader struct {
	*sharedParts
	s *session.Session

	decls   declarations
	loading map[string]chan struct{} // by path: closed when the declaration has been read
}

// Begin makes the Reader of s, the newest session.
func (c *Cache) Begin(s *session.Session) *Reader {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest = &Reader{sharedParts: &c.sharedParts, s: s, decls: declarations{}, loading: map[string]chan struct{}{}}
	return c.newest
}

// End forgets all declarations: the session has ended, and perhaps the client is never used again.
func (e *Reader) End() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.decls)
}

// MaxDeclarations bounds the declarations that a client keeps and watches, beside those of calls under way. Beyond this bound,
// each lock that is opened pushes out the declaration of another lock, which costs a read. Calls under way are exempt: otherwise
// each call would read its declaration again at once, and push out that of another call.
const MaxDeclarations = 4096

// Pins keeps the declarations that a call needs until the call ends. If calls need more than MaxDeclarations declarations, each
// declaration is dropped with the last call that needs it (TestWaitingForMoreLocksThanDeclarationsAreKeptIsQuiet).
type Pins struct {
	In    *Cache
	paths []string
}

func (n *Pins) Add(path string) {
	if slices.Contains(n.paths, path) {
		return
	}
	n.paths = append(n.paths, path)
	n.In.mu.Lock()
	defer n.In.mu.Unlock()
	if n.In.pins == nil {
		n.In.pins = map[string]int{}
	}
	n.In.pins[path]++
}

func (n *Pins) End() {
	n.In.mu.Lock()
	defer n.In.mu.Unlock()
	for _, path := range n.paths {
		if n.In.pins[path]--; n.In.pins[path] > 0 {
			continue
		}
		delete(n.In.pins, path)
		if e := n.In.newest; e != nil && !e.decls.trim(n.In.MaxDecls, n.In.pins) {
			e.decls.drop(path)
		}
	}
}

// declarations has the declarations of a session, by lock node. The mutex of sharedParts guards them, so callers of the methods
// hold it.
type declarations map[string]*Declaration

// trim pushes out one declaration without a pin if there are more than the parameter limit; 0 = MaxDeclarations. It looks at only
// a few declarations, from a random place in the map. It returns false if all of these have pins.
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

// Outdated drops d, because a server has shown that the node has other data.
func (e *Reader) Outdated(d *Declaration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if kept := e.decls[d.Path]; kept != nil && kept.w == d.w { // d may be a copy: see open
		e.decls.drop(d.Path)
	}
}

// drop forgets a declaration and stops its watch. It closes the channel dropped for the users of the declaration.
func (all declarations) drop(path string) {
	if d := all[path]; d != nil {
		d.w.Remove()
		close(d.dropped)
		delete(all, path)
	}
}

// Of returns the declaration of q's lock, checked against the program's expectations. It reads only a declaration that is unknown
// or has changed. Errors: ErrNotProvisioned, ErrKindMismatch, ErrDraining, a *KeyPathError if q is a wrong name for a key's lock,
// or the error of the read.
func (e *Reader) Of(ctx context.Context, q *Name) (*Declaration, error) {
	if q.Wrong != nil {
		return nil, q.Wrong
	}
	d, err := e.declaration(ctx, q.DeclaredAt())
	undeclared := err == nil && d.payload == nil && errors.Is(d.why, kind.ErrForeign) && !d.keyless.Load()
	if q.Family == "" && (undeclared || znode.IsNoNode(err)) {
		switch key, unknown := e.keyOf(ctx, q); {
		case unknown != nil:
			return nil, unknown
		case key != nil:
			if undeclared {
				e.Outdated(d) // a key's node is deleted with its last contender
			}
			return nil, key
		case undeclared:
			d.keyless.Store(true)
		}
	}
	// The node is created only once. If another program deletes the node again, the error says that the node does not exist.
	if znode.IsNoNode(err) && q.Params != nil && q.Create {
		if err = createTree(ctx, e.s, q.Path, q.Kind, q.CreateACL); err == nil {
			d, err = e.declaration(ctx, q.Path)
		}
	}
	if znode.IsNoNode(err) {
		return nil, errs.Errorf("%w: %s does not exist; declare it and run apply%s: %w", ErrNotProvisioned, q.DeclaredAt(), q.missingOption(), err)
	}
	if err != nil {
		return nil, err
	}
	if q.Family == "" {
		return d.open(q.Kind, q.Params)
	}
	if d, err = d.openKeys(q.Kind); err == nil {
		err = q.keyPathChanged(d)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// declaration returns the node's declaration, and reads it if necessary. Callers with the same path share one read.
func (e *Reader) declaration(ctx context.Context, path string) (*Declaration, error) {
	for {
		e.mu.Lock()
		if d := e.decls[path]; d != nil && !d.Stale() {
			e.mu.Unlock()
			return d, nil
		}
		reading := e.loading[path]
		if reading == nil {
			break // mu stays locked: this caller reads
		}
		e.mu.Unlock()
		select {
		case <-reading: // if that read failed, one of the waiters reads
		case <-ctx.Done():
			return nil, errs.Errorf("recipes: lock %s: %w", path, retry.WhyEnded(ctx))
		}
	}
	reading := make(chan struct{})
	e.loading[path] = reading
	e.mu.Unlock()

	d, err := e.readDeclaration(ctx, path)

	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.loading, path)
	close(reading)
	e.decls.drop(path) // a stale declaration
	if err != nil {
		return nil, err
	}
	d.keys = d.ofKeys()
	e.decls[path] = d
	e.decls.trim(e.MaxDecls, e.pins)
	return d, nil
}

// Kept returns the number of declarations that are kept.
func (c *Cache) Kept() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newest == nil {
		return 0
	}
	return len(c.newest.decls)
}

// Pinned returns the paths whose declarations must be kept.
func (c *Cache) Pinned() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.pins))
}

// Name names a lock, for a handle.
type Name struct {
	Kind   *kind.Kind
	Path   string // the lock node
	Family string // of a key: the path of its family; "" for other locks
	Key    string // the key
	Fanout string // the fanout of the family when Path was computed
	Wrong  error  // the error of the handle, which each use returns

	Params    kind.Params // the parameters to use if the node has no declaration
	Create    bool        // create the node if it is missing
	CreateACL []zk.ACL    // the access list of the nodes that Create makes
}

// DeclaredAt returns the path of the node with the lock's declaration.
func (q *Name) DeclaredAt() string {
	if q.Family != "" {
		return q.Family
	}
	return q.Path
}

// atFamilyPath returns q with the path that the family's declaration gives its key.
func (q *Name) atFamilyPath(family *kind.KeyedParams) *Name {
	if q.Fanout == family.Fanout {
		return q
	}
	path, err := family.Path(q.Family, q.Key)
	if err != nil { // a wrong key was found when the handle was made
		return q
	}
	at := *q
	at.Path, at.Fanout = path, family.Fanout
	return &at
}

// KeyPathError says that the name in the field Was is not the right name of a key's lock. Either that name has the path of the
// key's node but no key, or the key has another path by now. The caller goes on with the field Is, the right name.
type KeyPathError struct{ Was, Is *Name }

func (e *KeyPathError) Error() string {
	return fmt.Sprintf("recipes: %s is a key of %s, at %s", e.Was.Path, e.Is.Family, e.Is.Path)
}

// keyOf returns the name of q as a key of the family at path; nil if q is no key of that family.
func (q *Name) keyOf(path string, family *kind.KeyedParams) *KeyPathError {
	name, ok := kind.ParseKeyName(kind.BaseName(q.Path))
	if !ok {
		return nil
	}
	if node, err := family.Path(path, name); err != nil || node != q.Path {
		return nil
	}
	is := *q
	is.Family, is.Key, is.Fanout = path, name, family.Fanout
	is.Params, is.Create = nil, false // the family is declared
	return &KeyPathError{q, &is}
}

// familyPaths returns the paths that may be the family of a key's node: its parent or, if the family has a fanout, the parent of
// its parent.
func familyPaths(path string) []string {
	parent := kind.ParentPath(path)
	return []string{parent, kind.ParentPath(parent)}
}

// keyOf finds out whether a node without a declaration of its own is the node of a key. It keeps nothing: the family's
// declaration is read again through the new name.
func (e *Reader) keyOf(ctx context.Context, q *Name) (*KeyPathError, error) {
	for _, path := range familyPaths(q.Path) {
		var data []byte
		err := retry.Do(ctx, e.s, znode.Unanswered, func() (err error) {
			data, _, err = e.s.Get(ctx, path)
			return err
		})
		if err != nil {
			if errors.Is(err, zk.ErrNoAuth) || znode.IsNoNode(err) { // a node that is hidden from us, or missing, cannot be our family
				continue
			}
			return nil, err
		}
		if p, err := kind.Decode(data); err == nil {
			if family, ok := p.Params.(*kind.KeyedParams); ok {
				return q.keyOf(path, family), nil
			}
			return nil, nil
		}
	}
	return nil, nil
}

// Elsewhere returns a *KeyPathError if the cache shows that q is a wrong name for a key's lock. The call then learns that
// without a request, and without waiting for other goroutines.
func (c *Cache) Elsewhere(q *Name) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newest == nil {
		return nil
	}
	all := c.newest.decls
	d := all[q.DeclaredAt()]
	switch {
	case d == nil && q.Family == "":
		for _, path := range familyPaths(q.Path) {
			if d := all[path]; d != nil && d.keys != nil && !d.Stale() {
				if e := q.keyOf(path, d.keys.family); e != nil {
					return e
				}
			}
		}
	case d == nil || d.payload == nil || d.Stale():
	case d.keys != nil && q.Family != "":
		return q.keyPathChanged(d.keys)
	}
	return nil
}

// keyPathChanged returns a *KeyPathError if the family's declaration gives the key another path.
func (q *Name) keyPathChanged(d *Declaration) error {
	if d.family == nil {
		return nil
	}
	if is := q.atFamilyPath(d.family); is != q {
		return &KeyPathError{q, is}
	}
	return nil
}

// ofKeys returns the declaration that holds for each key of a family; nil for other kinds.
func (d *Declaration) ofKeys() *Declaration {
	if d.payload == nil {
		return nil
	}
	family, ok := d.payload.Params.(*kind.KeyedParams)
	if !ok {
		return nil
	}
	keys := *d
	keys.family = family
	keys.set(kind.Keyed.Key(family), d.payload.ChildACL)
	if keys.nodeACL = keys.ACL; d.payload.ChildACL == nil {
		keys.nodeACL = keyNodeACL(d.shared)
	}
	return &keys
}

// openKeys does for the locks of keys what the method open does for other locks.
func (d *Declaration) openKeys(k *kind.Kind) (*Declaration, error) {
	switch {
	case d.payload == nil:
		return nil, errs.Errorf("%w: %s has no declaration that this program can read; declare it as a family of locks and run apply: %w",
			ErrNotProvisioned, d.Path, d.why)
	case d.keys == nil:
		return nil, d.mismatch("the family of a key", d.Kind.Name)
	case d.keys.Kind != k:
		return nil, d.mismatch(fmt.Sprintf("a family of the kind %s", k), fmt.Sprintf("a family of the kind %s", d.keys.Kind))
	}
	if err := d.refusal(); err != nil {
		return nil, err
	}
	return d.keys, nil
}

// KeyNode returns the node of the key that q names, for a place in queue; nil if q is no key. In a semaphore's queue of waiters (the gate),
// the result says that others were seen (SeenOthers), because a call waits there only behind other contenders.
func (q *Name) KeyNode(d *Declaration, queue kind.Queue) *znode.KeyNode {
	if d.family == nil {
		return nil
	}
	n := &znode.KeyNode{Family: d.OfFamily(), Foreign: d.family.Foreign == "true" || d.payload.ChildACL == nil, Dirs: []string{q.Path}}
	for _, child := range q.Kind.Children { // the gate is the last child: only a waiter creates it
		n.Dirs = append(n.Dirs, kind.JoinPath(q.Path, child))
	}
	n.Made, n.Needed = make([]bool, len(n.Dirs)), len(n.Dirs)
	switch {
	case queue.Gate:
		n.SeenOthers = true
		for i := range n.Needed - 1 {
			n.Made[i] = true
		}
	case n.Needed > 1:
		n.Needed--
	}
	return n
}

// OfFamily returns what the nodes of keys take from the family's declaration.
func (d *Declaration) OfFamily() *znode.Family {
	return &znode.Family{Path: d.Path, Version: d.Version, ACL: d.ACL, NodeACL: d.nodeACL, Declares: d.payload.ChildACL}
}

// missingOption names the option that would have created a node that does not exist.
func (q *Name) missingOption() string {
	switch {
	case q.Create && q.Params == nil:
		return "; WithCreate also needs WithParams"
	case q.Params != nil && !q.Create:
		return ", or let WithCreate make it with those parameters"
	}
	return ""
}

// Present returns the name with the lock's current path. The error is that of the declaration at that path.
func (c *Cache) Present(ctx context.Context, e *Reader, q *Name) (*Name, error) {
	at, needs := q, Pins{In: c}
	defer needs.End()
	for {
		needs.Add(at.DeclaredAt())
		d, err := e.Of(ctx, at)
		if err == nil {
			err = at.keyPathChanged(d)
		}
		var key *KeyPathError
		if !errors.As(err, &key) {
			return at, err
		}
		at = key.Is
	}
}

// createTree creates what is missing of the node, its parents and the children that its kind needs, for WithCreate.
func createTree(ctx context.Context, s *session.Session, path string, k *kind.Kind, acl []zk.ACL) error {
	err := CreateNode(ctx, s, path, acl)
	for _, child := range k.Children {
		if err == nil {
			err = CreateNode(ctx, s, kind.JoinPath(path, child), acl)
		}
	}
	return err
}

// CreateNode creates a node unless it exists. If parents are missing, CreateNode creates them and then tries the node again. It
// tries the node first, because we may have no right to create the parents. A server would then refuse to create them, even if
// they exist.
func CreateNode(ctx context.Context, s *session.Session, path string, acl []zk.ACL) error {
	create := func() error {
		_, err := s.Create(ctx, path, nil, 0, acl)
		return err
	}
	err := retry.Do(ctx, s, znode.Unanswered, create) // if a try with a lost reply was applied, the next try finds the node
	if znode.IsNoNode(err) {
		if err = CreateNode(ctx, s, kind.ParentPath(path), acl); err == nil {
			err = retry.Do(ctx, s, znode.Unanswered, create)
		}
	}
	if errors.Is(err, zk.ErrNoAuth) { // the node may exist, and be hidden from us: see Session.Exists
		if stat, unknown := s.Exists(ctx, path); stat != nil || errors.Is(unknown, zk.ErrNoAuth) {
			return nil
		}
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// Complete creates the missing nodes of the layout, if err is a NoNode and the lock is opened with WithCreate. It then returns
// ErrNotApplied, because another try may succeed. The method Of reads only the lock's node, so its children may be missing.
func (q *Name) Complete(ctx context.Context, s *session.Session, err error) error {
	if !znode.IsNoNode(err) || q.Params == nil || !q.Create {
		return err
	}
	if err := createTree(ctx, s, q.Path, q.Kind, q.CreateACL); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s lacked a node, which exists now", znode.ErrNotApplied, q.Path)
}

// Package recipes documents these errors.
var (
	ErrNotProvisioned = errors.New("recipes: lock not provisioned")
	ErrKindMismatch   = errors.New("recipes: lock is of another kind")
	ErrDraining       = errors.New("recipes: lock is draining")
)

// readDeclaration reads and watches the node, and reads the node's access list, from which the access list of contenders is made.
func (e *Reader) readDeclaration(ctx context.Context, path string) (*Declaration, error) {
	// The node and its access list are read at the same time, so that the list costs no round trip of its own. Perhaps the list
	// is not needed.
	var inherited []zk.ACL
	var notInherited error
	aside, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		notInherited = retry.Do(aside, e.s, znode.Unanswered, func() (err error) {
			inherited, _, err = e.s.GetACL(aside, path)
			return err
		})
	})
	data, stat, w, err := znode.GetCalledPersistent(ctx, e.s, path, nil)
	if err != nil {
		cancel() // otherwise the goroutine might ask for the access list as long as the session lives
	}
	reading.Wait()
	cancel()
	if err != nil {
		return nil, err
	}
	d := &Declaration{Path: path, revision: revision{stat.Version, stat.Mzxid}, w: w, Changed: w.C(), dropped: make(chan struct{}),
		brought: new(atomic.Pointer[Declaration]), familyParts: familyParts{keyless: new(atomic.Bool)}}
	d.payload, d.why = kind.Decode(data)
	if d.why != nil {
		d.payload = nil // Decode may have returned a part of a payload
	} else {
		d.payload.Read(stat.Mtime)
		d.Since = time.UnixMilli(d.payload.Since)
	}
	if d.payload == nil || d.payload.ChildACL == nil {
		// In ZooKeeper a node inherits no access list. If the contenders of a restricted lock were open to all, any client could
		// end a grant or feign a grant. A change of the node's list alone is noticed at the next read.
		if notInherited != nil && !errors.Is(notInherited, zk.ErrNoAuth) {
			w.Remove()
			return nil, notInherited
		}
		d.shared = ContendersACL(inherited, e.s.Authenticated())
	}
	if d.payload == nil {
		return d, nil
	}
	d.set(d.payload.Params, d.payload.ChildACL)
	return d, nil
}

// ContendersACL makes the ACL of contenders from the ACL of their lock node; the parameter node is nil if that ACL is hidden from
// us. Identities that may contend (CREATE) may read and write contenders. Identities that may read the lock may read contenders.
// If all clients may use the lock, its contenders are open to all, as Curator's and kazoo's are.
func ContendersACL(node []zk.ACL, authenticated bool) []zk.ACL {
	// CREATE and DELETE are the rights to contend, READ is the right to look.
	const use, look = zk.PermCreate | zk.PermDelete, zk.PermRead
	var acl []zk.ACL
	if authenticated {
		acl = zk.AuthACL(zk.PermAll) // ourselves, by all of our identities
	}
	for _, e := range node {
		var perms int32
		switch {
		case e.Scheme == "world" && e.Perms&use == use:
			return zk.WorldACL(zk.PermAll)
		case e.Scheme == "digest" && strings.HasSuffix(e.ID, ":x"):
			// A server shows digests to administrators only; an entry with "x" in its place would admit no client.
			continue
		case e.Perms&zk.PermCreate != 0:
			perms = zk.PermRead | zk.PermWrite
		default:
			perms = e.Perms & look
		}
		if perms |= e.Perms & zk.PermAdmin; perms != 0 {
			acl = append(acl, zk.ACL{Perms: perms, Scheme: e.Scheme, ID: e.ID})
		}
	}
	if len(acl) == 0 {
		// We were admitted by an entry that we cannot see, perhaps by our address. Heartbeats and waiters need READ.
		return zk.WorldACL(look)
	}
	return acl
}

// keyNodeACL makes the ACL of the nodes of keys from the ACL of contenders: identities that may contend may create and delete
// contenders there.
func keyNodeACL(contenders []zk.ACL) []zk.ACL {
	node := slices.Clone(contenders)
	for i, e := range node {
		if e.Perms&zk.PermWrite != 0 {
			node[i].Perms |= zk.PermCreate | zk.PermDelete
		}
	}
	return node
}
