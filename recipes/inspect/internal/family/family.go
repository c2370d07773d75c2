// Package family knows the nodes of a family of keyed locks, and which of them is the node of a key.
//
//	f := family.New(path, payload)    // nil: the payload declares no family
//	key, ok := f.KeyAt(node)
//
// Only [Above] sends requests.
package family

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// Family is a family of keyed locks.
type Family struct {
	Path   string
	Params *kind.KeyedParams
	Key    *kind.Payload // the declaration of each key's lock
}

// New returns nil if p does not declare a family.
func New(path string, p *kind.Payload) *Family {
	if p == nil {
		return nil
	}
	params, ok := p.Params.(*kind.KeyedParams)
	if !ok {
		return nil
	}
	key := *p
	key.Params = kind.Keyed.Key(params)
	return &Family{path, params, &key}
}

// Kind is the kind of each key's lock.
func (f *Family) Kind() *kind.Kind { return f.Key.Params.Kind() }

// KeyAt returns the key whose node is at path; false if path cannot be the node of a key. A nil family has no keys.
func (f *Family) KeyAt(path string) (key string, ok bool) {
	if f == nil {
		return "", false
	}
	if key, ok = kind.ParseKeyName(kind.BaseName(path)); !ok {
		return "", false
	}
	at, err := f.Params.Path(f.Path, key)
	return key, err == nil && at == path
}

// Has reports whether path is the node of a key.
func (f *Family) Has(path string) bool {
	_, ok := f.KeyAt(path)
	return ok
}

// NodeOf returns the node of the key whose contenders are in dir; "" if there is none.
func (f *Family) NodeOf(dir string) string {
	for _, q := range f.Kind().Queues {
		path := dir
		if q.Child != "" {
			if path = kind.ParentPath(dir); kind.BaseName(dir) != q.Child {
				continue
			}
		}
		if f.Has(path) {
			return path
		}
	}
	return ""
}

// MostAbove is the largest distance from a queue of a key up to the node of its family. The key's own node and a directory of fanout can
// be between them.
const MostAbove = 3

// Above reads the nodes above path, and returns the family that path belongs to; nil if there is none.
func Above(ctx context.Context, s *session.Session, path string, count func()) (*Family, error) {
	for at, n := kind.ParentPath(path), 0; at != "/" && n < MostAbove; at, n = kind.ParentPath(at), n+1 {
		count()
		data, _, err := s.Get(ctx, at)
		switch {
		case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrNoNode):
			continue
		case err != nil:
			return nil, err
		}
		if p, err := kind.Decode(data); err == nil {
			return New(at, p), nil
		}
	}
	return nil, nil
}
