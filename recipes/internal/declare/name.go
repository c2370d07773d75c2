package declare

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// Name is how a handle names a lock.
type Name struct {
	Kind   *kind.Kind
	Path   string // the lock node
	Family string // of a key: the node of its family; "" for other locks
	Key    string // the key
	Fanout string // that of the declaration by which Path is where the node of the key is
	Wrong  error  // with how the handle was made; every use of it says so, before it sends anything

	Params    kind.Params // for a node without a declaration
	Create    bool        // it, where it is missing
	CreateACL []zk.ACL    // of what Create makes
}

// DeclaredAt is the node whose declaration says what the lock is.
func (q *Name) DeclaredAt() string {
	if q.Family != "" {
		return q.Family
	}
	return q.Path
}

// at is the queue of q's key where the family's declaration says that it is.
func (q *Name) at(family *kind.KeyedParams) *Name {
	if q.Fanout == family.Fanout {
		return q
	}
	path, err := family.Path(q.Family, q.Key)
	if err != nil { // what is wrong with a key was found when the handle was made
		return q
	}
	at := *q
	at.Path, at.Fanout = path, family.Fanout
	return &at
}

// SpelledError says that the lock which a handle names is that of a key: the handle names its node, or does not know its
// directory. follow acts on it.
type SpelledError struct{ Was, Is *Name }

func (e *SpelledError) Error() string {
	return fmt.Sprintf("recipes: %s is a key of %s, at %s", e.Was.Path, e.Is.Family, e.Is.Path)
}

// keyOf is the handle q, on the node of a key of a family.
func (q *Name) keyOf(path string, family *kind.KeyedParams) *SpelledError {
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
	return &SpelledError{q, &is}
}

// above are the nodes that may be the family of a key's node: the one above it, or with directories the one above that.
func above(path string) []string {
	parent := kind.ParentPath(path)
	return []string{parent, kind.ParentPath(parent)}
}

// keyOf looks whether a node that has no declaration of its own is that of a key. Nothing is kept of what it reads: if there is a
// family, its declaration is read again as such.
func (e *Session) keyOf(ctx context.Context, q *Name) (*SpelledError, error) {
	for _, path := range above(q.Path) {
		var data []byte
		err := znode.Retry(ctx, e.s, znode.Unanswered, func() (err error) {
			data, _, err = e.s.Get(ctx, path)
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
func (c *Client) Elsewhere(q *Name) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newest == nil {
		return nil
	}
	all := c.newest.decls
	d := all[q.DeclaredAt()]
	switch {
	case d == nil && q.Family == "":
		for _, path := range above(q.Path) {
			if d := all[path]; d != nil && d.keys != nil && !d.Stale() {
				if e := q.keyOf(path, d.keys.family); e != nil {
					return e
				}
			}
		}
	case d == nil || d.payload == nil || d.Stale():
	case d.keys != nil && q.Family != "":
		return q.misspelled(d.keys)
	}
	return nil
}

// misspelled is the error of a key whose path is another one by its family's declaration.
func (q *Name) misspelled(d *Declaration) error {
	if d.family == nil {
		return nil
	}
	if is := q.at(d.family); is != q {
		return &SpelledError{q, is}
	}
	return nil
}

// ofKeys is the declaration that holds for each key of a family; nil for other kinds.
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

// openKeys is open for the locks of keys.
func (d *Declaration) openKeys(k *kind.Kind) (*Declaration, error) {
	switch {
	case d.payload == nil:
		return nil, fmt.Errorf("%w: %s has no declaration that this program can read; declare it as a family of locks and run apply: %w",
			ErrNotProvisioned, d.Path, d.why)
	case d.keys == nil:
		return nil, d.mismatch("the family of a key", d.payload.Params.Kind().Name)
	case d.keys.Params.Kind() != k:
		return nil, d.mismatch(fmt.Sprintf("a family of the kind %s", k), fmt.Sprintf("a family of the kind %s", d.keys.Params.Kind()))
	}
	if err := d.refuses(); err != nil {
		return nil, err
	}
	return d.keys, nil
}

// KeyNode is that of the key, for a place in a queue; nil where q is no key's. Who goes to a gate does so because of contenders.
func (q *Name) KeyNode(d *Declaration, in kind.Queue) *znode.Parent {
	if d.family == nil {
		return nil
	}
	n := &znode.Parent{Of: d.OfFamily(), Foreign: d.family.Foreign == "true" || d.payload.ChildACL == nil, Dirs: []string{q.Path}}
	for _, child := range q.Kind.Children { // the gate is the last: only who has to wait makes it
		n.Dirs = append(n.Dirs, kind.JoinPath(q.Path, child))
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

// OfFamily is what the nodes of keys need of it.
func (d *Declaration) OfFamily() *znode.Family {
	return &znode.Family{Path: d.Path, Version: d.Version, Acl: d.ACL, NodeACL: d.nodeACL, Declares: d.payload.ChildACL}
}

// missing names the option that would have created a node that does not exist.
func (q *Name) missing() string {
	switch {
	case q.Create && q.Params == nil:
		return "; WithCreate also needs WithParams"
	case q.Params != nil && !q.Create:
		return ", or let WithCreate make it with those parameters"
	}
	return ""
}

// Present is the handle on the lock where it is by now, with the error of its declaration there.
func (e *Session) Present(ctx context.Context, q *Name) (*Name, error) {
	at, needs := q, e.c.Needs()
	defer needs.End()
	for {
		needs.Add(at.DeclaredAt())
		d, err := e.Of(ctx, at)
		if err == nil {
			err = at.misspelled(d)
		}
		var key *SpelledError
		if !errors.As(err, &key) {
			return at, err
		}
		at = key.Is
	}
}
