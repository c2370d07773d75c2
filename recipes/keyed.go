package recipes

import (
	"context"
	"fmt"
	"slices"

	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/kind"
)

// Keyed is a family of locks, one for each key, for example for each user. Only the family is declared. The transaction that
// creates a key's first contender also creates the key's node. The transaction that deletes the last contender also deletes the
// node; if that contender's client saw others before, a later request deletes the node. So locking an unused key takes as few
// round trips as locking a free declared lock. An unused key has no node. A crash leaves an empty container node, which ZooKeeper
// deletes by itself within a minute or so.
//
// A key is any UTF-8 string of up to 512 bytes, the empty string included. [kind.KeyedParams.Path] returns its node. Keys are
// compared byte by byte: Unicode can encode "é" in two ways, which are two keys.
//
// A Keyed is a handle: cheap, immutable, and safe for any number of goroutines. The locks that it returns are handles like any
// other. The declaration of the family is read and watched once, for all of its keys.
type Keyed struct {
	c    *Client
	path string
	opts []Option
}

// Keyed returns a handle on the family of locks at path. Nothing is sent: the declaration is read when a key is locked. The
// options apply to all locks of the handle. WithParams and WithCreate are refused, because a family must be declared.
func (c *Client) Keyed(path string, opts ...Option) *Keyed {
	return &Keyed{c: c, path: path, opts: slices.Clone(opts)}
}

// Mutex returns a handle on the lock of a key, in a family of mutexes. Its Path assumes a family without fanout directories.
// [Lease.Path] includes the directory.
func (k *Keyed) Mutex(key string) *Mutex { return &Mutex{k.queue(kind.Mutex, key, false)} }

// RWMutex returns a handle on the lock of a key, in a family of read-write locks.
func (k *Keyed) RWMutex(key string) *RWMutex {
	return &RWMutex{k.queue(kind.RWLock, key, true), k.queue(kind.RWLock, key, false)}
}

// Semaphore returns a handle on the lock of a key, in a family of semaphores.
func (k *Keyed) Semaphore(key string) *Semaphore {
	return &Semaphore{k.queue(kind.Semaphore, key, false)}
}

// Lock waits for the mutexes of the keys: all or none. Several keys are locked in one transaction, as a MultiLock does. ctx
// bounds the wait. Errors are those of Mutex.Lock, and ErrKeyTooLong and ErrKeyForeign.
func (k *Keyed) Lock(ctx context.Context, keys ...string) (*Lease, error) {
	return k.lock(ctx, keys, false)
}

// TryLock takes the mutexes of the keys if all are free. Otherwise it returns a *HeldError.
func (k *Keyed) TryLock(ctx context.Context, keys ...string) (*Lease, error) {
	return k.lock(ctx, keys, true)
}

// Do runs fn while the mutexes of the keys are held; see Mutex.Do.
func (k *Keyed) Do(ctx context.Context, fn func(context.Context, *Lease) error, keys ...string) error {
	return do(ctx, func(ctx context.Context) (*Lease, error) { return k.lock(ctx, keys, false) }, fn)
}

func (k *Keyed) lock(ctx context.Context, keys []string, try bool) (*Lease, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("recipes: %s: name at least one key", k.path)
	}
	if len(keys) == 1 {
		return k.queue(kind.Mutex, keys[0], false).lock(ctx, 0, try)
	}
	handles := make([]*handle, len(keys))
	for i, key := range keys {
		handles[i] = k.queue(kind.Mutex, key, false)
	}
	return (&MultiLock{k.c, handles}).lock(ctx, try)
}

// queue returns the handle of a key. The path assumes a family without fanout directories. A call that has read the declaration
// goes on with the path in the key's directory (declare.KeyPathError).
func (k *Keyed) queue(of *kind.Kind, key string, shared bool) *handle {
	q := k.c.handle(of, k.path, shared, k.opts)
	if q.Wrong != nil {
		return q
	}
	q.Family, q.Key = k.path, key
	path, err := new(kind.KeyedParams).Path(k.path, key)
	switch {
	case len(key) > kind.MaxKey:
		q.Wrong = errs.Errorf("%w: in %s: %w", ErrKeyTooLong, k.path, err)
	case err != nil:
		q.Wrong = errs.Errorf("recipes: in %s: %w", k.path, err)
	case q.Params != nil || q.Create:
		q.Wrong = fmt.Errorf("recipes: %s: WithParams and WithCreate are not for keys: declare the family and run apply", k.path)
	}
	q.Path = path
	q.Keyed()
	return q
}
