package inspect

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// Keys is how the keys of a family are used. A look reads a bounded number of them, and each count says of which keys it is. The
// directories of a family with fanout take turns, so without dump InUse may be some looks old.
type Keys struct {
	InUse  int // the nodes of keys, without those that are known to be empty
	Queues int // of InUse, those of which it is known how many hold and how many wait: all of them if dump lists the contenders
	Waited int // of Queues, those for which somebody waits
	Looked int // of Queues, those whose holders and first waiters were read: who they are, and since when they have been there
	Empty  int // nodes in which nobody was when they were read: a crash left them; the servers or the next user delete them
	Closed int // nodes that may not be read
	// Busiest is the key of Queues with the most waiters, nil if nobody waits; Longest is the key of Looked that has been held for
	// the longest, nil if no holder was read.
	Busiest, Longest *Report
	Read             []*Report // the keys of Looked
	// Listed are those of Dirs directories of the family that were listed so far. Both are 0 if all keys in use are known.
	Listed, Dirs int
}

// idle reports whether nobody uses a key, as far as is known.
func (k *Keys) idle() bool { return k == nil || k.InUse+k.Empty == 0 && k.Listed == k.Dirs }

// family is a family of keyed locks, and the declaration of each key.
type family struct {
	path   string
	params *kind.KeyedParams
	key    *kind.Payload
}

// newFamily returns nil if p does not declare a family.
func newFamily(path string, p *kind.Payload) *family {
	if p == nil {
		return nil
	}
	params, ok := p.Params.(*kind.KeyedParams)
	if !ok {
		return nil
	}
	key := *p
	key.Params = kind.Keyed.Key(params)
	return &family{path, params, &key}
}

// kind is that of each key.
func (f *family) kind() *kind.Kind { return f.key.Params.Kind() }

// keyAt returns the key whose node is at path; false if there can be none. A nil family has no keys.
func (f *family) keyAt(path string) (key string, ok bool) {
	if f == nil {
		return "", false
	}
	if key, ok = kind.ParseKeyName(kind.BaseName(path)); !ok {
		return "", false
	}
	at, err := f.params.Path(f.path, key)
	return key, err == nil && at == path
}

// has reports whether path is the node of a key.
func (f *family) has(path string) bool {
	_, ok := f.keyAt(path)
	return ok
}

// nodeOf returns the node of the key whose contenders are in dir; "" if there is none.
func (f *family) nodeOf(dir string) string {
	for _, q := range f.kind().Queues {
		path := dir
		if q.Child != "" {
			if path = kind.ParentPath(dir); kind.BaseName(dir) != q.Child {
				continue
			}
		}
		if f.has(path) {
			return path
		}
	}
	return ""
}

// report returns an empty report of the key at path.
func (f *family) report(path string) *Report {
	key, _ := f.keyAt(path)
	return &Report{Path: path, Kind: f.kind(), Payload: f.key, Family: f.path, Key: key}
}

// mostAbove is how far above the node of a key's queue that of its family is at most: the key's own and a directory of fanout
// are between them.
const mostAbove = 3

// familyAbove reads the nodes above path, and returns the family of which path is a node; nil if there is none.
func familyAbove(ctx context.Context, s *session.Session, path string, count func()) (*family, error) {
	for at, n := kind.ParentPath(path), 0; at != "/" && n < mostAbove; at, n = kind.ParentPath(at), n+1 {
		count()
		data, _, err := s.Get(ctx, at)
		switch {
		case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrNoNode):
			continue
		case err != nil:
			return nil, err
		}
		if p, err := kind.Decode(data); err == nil {
			return newFamily(at, p), nil
		}
	}
	return nil, nil
}

// since is since when the first of them holds or waits; zero if that is not known.
func since(cs []Contender) (first time.Time) {
	for _, c := range cs {
		if at := cmp.Or(c.Held, c.Since); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}
