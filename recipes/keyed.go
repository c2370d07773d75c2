package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/locktree/locktree/recipes/internal/znode"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/kind"
)

// Keyed is a family of locks, one for each key: for each order, say, or each user. Only the family is declared. The node of a key
// is created with its first contender and deleted with its last, in the same transactions, so a lock that is free costs what a
// declared one costs, and a key that nobody uses leaves nothing behind. What a crash leaves is an empty container node, which
// ZooKeeper deletes by itself within a minute or so. (A ClickHouse Keeper has no containers: there it stays until the key is used
// again.)
//
// A key is any UTF-8 string of up to 512 bytes, the empty one too. [kind.KeyedParams.Path] says which node it has. Keys are compared
// byte by byte: "é" can be spelled in two ways, which are two keys.
//
// A Keyed is a handle: cheap, immutable, and safe for any number of goroutines. The locks that it returns are handles like any
// other, and the options are those of their kind. The declaration of the family is read and watched once, for all of its keys.
type Keyed struct {
	c    *Client
	path string
	opts []Option
}

// Keyed returns a handle on the family of locks at path. Nothing is sent: what is declared there is found when a key is locked. The
// options are for all locks of the handle; WithParams and WithCreate are none of them, because a family has to be declared.
func (c *Client) Keyed(path string, opts ...Option) *Keyed {
	return &Keyed{c: c, path: path, opts: slices.Clone(opts)}
}

// Path returns the family's path.
func (k *Keyed) Path() string { return k.path }

// Mutex returns a handle on the lock of a key, in a family of mutexes. Its Path is the node of the key in a family without
// directories; the lease knows in which directory it is.
func (k *Keyed) Mutex(key string) *Mutex { return &Mutex{k.queue(kind.Mutex, key, false)} }

// RWMutex returns a handle on the lock of a key, in a family of read-write locks.
func (k *Keyed) RWMutex(key string) *RWMutex {
	return &RWMutex{k.queue(kind.RWLock, key, true), k.queue(kind.RWLock, key, false)}
}

// Semaphore returns a handle on the lock of a key, in a family of semaphores.
func (k *Keyed) Semaphore(key string) *Semaphore {
	return &Semaphore{k.queue(kind.Semaphore, key, false)}
}

// Lock waits for the mutexes of the keys: all or none, in one transaction, as a MultiLock of them does if there are several. ctx
// bounds the wait. Errors are those of Mutex.Lock, and ErrKeyTooLong and ErrKeyForeign.
func (k *Keyed) Lock(ctx context.Context, keys ...string) (*Lease, error) {
	return k.lock(ctx, keys, false)
}

// TryLock takes the mutexes of the keys if nobody is ahead in any of them; otherwise it returns a *HeldError.
func (k *Keyed) TryLock(ctx context.Context, keys ...string) (*Lease, error) {
	return k.lock(ctx, keys, true)
}

// Do runs fn while the mutexes of the keys are held; see Mutex.Do.
func (k *Keyed) Do(ctx context.Context, fn func(context.Context, *Lease) error, keys ...string) error {
	return do(ctx, func(ctx context.Context) (*Lease, error) { return k.lock(ctx, keys, false) }, fn)
}

func (k *Keyed) lock(ctx context.Context, keys []string, try bool) (*Lease, error) {
	if len(keys) == 1 {
		return k.queue(kind.Mutex, keys[0], false).lock(ctx, 0, try)
	}
	members := make([]member, len(keys))
	for i, key := range keys {
		members[i] = member{q: k.queue(kind.Mutex, key, false)}
	}
	return (&MultiLock{k.c, members}).lock(ctx, try)
}

// queue is the way into the queue of a key, as in a family without directories: see queue.at.
func (k *Keyed) queue(of *kind.Kind, key string, shared bool) *queue {
	q := k.c.queue(of, k.path, shared, k.opts)
	if q.wrong != nil {
		return q
	}
	q.family, q.name = k.path, key
	path, err := new(kind.KeyedParams).Path(k.path, key)
	switch {
	case len(key) > kind.MaxKey:
		q.wrong = fmt.Errorf("%w: in %s: %w", ErrKeyTooLong, k.path, err)
	case err != nil:
		q.wrong = fmt.Errorf("recipes: in %s: %w", k.path, err)
	case q.opts.params != nil || q.opts.create:
		q.wrong = fmt.Errorf("recipes: %s: WithParams and WithCreate are not for keys: declare the family and run apply", k.path)
	}
	q.path, q.key = path, leaseKey{k.c, path}
	return q
}

// declaredAt is the node whose declaration says what the lock is.
func (q *queue) declaredAt() string {
	if q.family != "" {
		return q.family
	}
	return q.path
}

// at is the queue of q's key where the family's declaration says that it is.
func (q *queue) at(family *kind.KeyedParams) *queue {
	if q.fanout == family.Fanout {
		return q
	}
	path, err := family.Path(q.family, q.name)
	if err != nil { // what is wrong with a key was found when the handle was made
		return q
	}
	at := *q
	at.path, at.key, at.fanout = path, leaseKey{q.c, path}, family.Fanout
	return &at
}

// spelledError says that the lock which a handle names is that of a key: the handle names its node, or does not know its
// directory. follow acts on it.
type spelledError struct{ was, is *queue }

func (e *spelledError) Error() string {
	return fmt.Sprintf("recipes: %s is a key of %s, at %s", e.was.path, e.is.family, e.is.path)
}

// keyOf is the handle q, on the node of a key of a family.
func (q *queue) keyOf(path string, family *kind.KeyedParams) *spelledError {
	name, ok := kind.ParseKeyName(kind.BaseName(q.path))
	if !ok {
		return nil
	}
	if node, err := family.Path(path, name); err != nil || node != q.path {
		return nil
	}
	is := *q
	is.family, is.name, is.fanout = path, name, family.Fanout
	is.opts.params, is.opts.create = nil, false // the family is declared
	return &spelledError{q, &is}
}

// above are the nodes that may be the family of a key's node: the one above it, or with directories the one above that.
func above(path string) []string {
	parent := kind.ParentPath(path)
	return []string{parent, kind.ParentPath(parent)}
}

// keyOf looks whether a node that has no declaration of its own is that of a key. Nothing is kept of what it reads: if there is a
// family, its declaration is read again as such.
func (e *epoch) keyOf(ctx context.Context, q *queue) (*spelledError, error) {
	for _, path := range above(q.path) {
		var data []byte
		err := znode.Retry(ctx, e.S, znode.Unanswered, func() (err error) {
			data, _, err = e.S.Get(ctx, path)
			return err
		})
		if err != nil {
			if errors.Is(err, zk.ErrNoAuth) || znode.IsNoNode(err) { // who may not read a declaration cannot use it
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

// elsewhere is the error of a lock that is known to be somewhere else than q says: it has moved, or is that of a key. Its caller needs
// neither a request nor a place in the local queue.
func (st *clientState) elsewhere(q *queue) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.epoch == nil {
		return nil
	}
	all := st.epoch.decls
	d := all[q.declaredAt()]
	switch {
	case d == nil && q.family == "":
		for _, path := range above(q.path) {
			if d := all[path]; d != nil && d.keys != nil && !d.stale() {
				if e := q.keyOf(path, d.keys.family); e != nil {
					return e
				}
			}
		}
	case d == nil || d.payload == nil || d.stale():
	case d.keys != nil && q.family != "":
		return q.misspelled(d.keys)
	}
	return nil
}

// misspelled is the error of a key whose path is another one by its family's declaration.
func (q *queue) misspelled(d *declaration) error {
	if d.family == nil {
		return nil
	}
	if is := q.at(d.family); is != q {
		return &spelledError{q, is}
	}
	return nil
}

// respell makes a handle's member the one at the path that its key has.
func (a *acquisition) respell(e *spelledError) {
	members := slices.Clone(a.members)
	for i, m := range members {
		if m.q == e.was {
			members[i].q = e.is
		}
	}
	a.want(members)
}

// ofKeys is the declaration that holds for each key of a family; nil for other kinds.
func (d *declaration) ofKeys() *declaration {
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
	if keys.nodeACL = keys.acl; d.payload.ChildACL == nil {
		keys.nodeACL = keyNodeACL(d.shared)
	}
	return &keys
}

// openKeys is open for the locks of keys.
func (d *declaration) openKeys(k *kind.Kind) (*declaration, error) {
	switch {
	case d.payload == nil:
		return nil, fmt.Errorf("%w: %s has no declaration that this program can read; declare it as a family of locks and run apply: %w",
			ErrNotProvisioned, d.path, d.why)
	case d.keys == nil:
		return nil, d.mismatch("the family of a key", d.payload.Params.Kind().Name)
	case d.keys.params.Kind() != k:
		return nil, d.mismatch(fmt.Sprintf("a family of the kind %s", k), fmt.Sprintf("a family of the kind %s", d.keys.params.Kind()))
	}
	if err := d.refuses(); err != nil {
		return nil, err
	}
	return d.keys, nil
}

// keyNode is that of the key, for a place in a queue; nil where q is no key's. Who goes to a gate does so because of contenders.
func (q *queue) keyNode(d *declaration, in kind.Queue) *znode.Parent {
	if d.family == nil {
		return nil
	}
	n := &znode.Parent{Of: d.ofFamily(), Foreign: d.family.Foreign == "true" || d.payload.ChildACL == nil, Dirs: []string{q.path}}
	for _, child := range q.kind.Children { // the gate is the last: only who has to wait makes it
		n.Dirs = append(n.Dirs, kind.JoinPath(q.path, child))
	}
	n.Made, n.Need = make([]bool, len(n.Dirs)), len(n.Dirs)
	switch {
	case in.Gate:
		n.Rival = true
		for i := range n.Need - 1 {
			n.Made[i] = true
		}
	case n.Need > 1:
		n.Need--
	}
	return n
}

// ofFamily is what the nodes of keys need of it.
func (d *declaration) ofFamily() *znode.Family {
	return &znode.Family{Path: d.path, Version: d.version, Acl: d.acl, NodeACL: d.nodeACL, Declares: d.payload.ChildACL}
}
