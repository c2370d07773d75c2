package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// An index that would not fit into a transaction beside the changes is kept in
// parts, children of the index node. Each contains the entries of a range of paths,
// like a leaf of a B-tree, so that changes to neighbours rewrite one part. The
// index node itself contains the list of the parts and is written by every
// transaction: its version stands for all of them.
//
// So a part that is only read need not be checked: an apply relies on the version of the index node.
// A part is written with its own version, which detects a part that somebody changed by hand.
//
// A part contains the paths from its First to the next part's. Parts are searched by path and
// never by address: an address says nothing about the order of nodes, and changes when a block is
// renamed.

const (
	// shardAbove is the size above which an index is kept in parts, in bytes. The
	// transaction that splits one node into parts writes all of them. If the limit were
	// larger, servers with a small jute.maxbuffer could at some point accept neither the
	// node nor the parts, and the stack could not grow any more.
	shardAbove = 64 << 10
	// shardMax is the size above which a part is cut into pieces of half that size.
	shardMax = 64 << 10
)

// Shard is a part of an index.
type Shard struct {
	Name    string `json:"name"`              // of the node, below the index
	First   string `json:"first"`             // it holds the paths from here to the next part's
	Version int32  `json:"version,omitempty"` // of its data as it was read; not stored
	// Absent: it is gone. Lost: its data makes no sense. Neither is stored.
	Absent bool `json:"absent,omitempty"`
	Lost   bool `json:"lost,omitempty"`
}

// AddShard adds the entries of part i of [Index].Shards, which was read, to the index. version is
// that of the part's data. The error is a [*DamagedError]. JSON of another form counts as a part
// without entries: the nodes it listed are then found by their own marks to be missing from the
// index, and adding them writes the part again.
func (x *Index) AddShard(i int, data []byte, version int32) error {
	var doc struct {
		Res map[string]IndexEntry `json:"res"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return &DamagedError{What: "index", Field: "shards." + x.Shards[i].Name, Err: err}
	}
	if x.Resources == nil {
		x.Resources = map[string]IndexEntry{}
	}
	maps.Copy(x.Resources, doc.Res)
	x.Shards[i].Version = version
	return nil
}

// ledger is the content of an index as the transactions of a plan change it.
type ledger struct {
	base   string // path of the index node
	whole  bool   // the index is in one node: there is one leaf, without a node of its own
	shards []*leaf
	paths  map[string]string // by key: the path that has it, across all parts
	next   int               // number of the next new part
}

type leaf struct {
	Shard
	stored bool                  // its node exists
	res    map[string]IndexEntry // by key
	size   int                   // estimate
	dirty  bool                  // it differs, or may differ, from what is stored: flush writes it
	// written: flush has written it, so that it has no entry of a node that no longer exists.
	written bool
}

func entryOf(n *Node) IndexEntry {
	return IndexEntry{Path: n.Path, Type: n.Kind().Name, Gen: n.Payload.Gen}
}

// weigh estimates the size of an entry as JSON. The 60 bytes are for field names, punctuation and generation.
func weigh(key string, e IndexEntry) int { return len(key) + len(e.Path) + len(e.Type) + 60 }

// find returns the part to which a path belongs, making one if there is none. A path before the first
// part belongs to that one, whose range then begins there. The part itself need not be written for
// that: First is in the index node, and every transaction writes it.
func (l *ledger) find(path string) *leaf {
	i := sort.Search(len(l.shards), func(i int) bool { return l.shards[i].First > path })
	if i == 0 {
		if len(l.shards) > 0 {
			l.shards[0].First = path
			return l.shards[0]
		}
		l.next++
		l.shards = []*leaf{{Shard: Shard{Name: shardName(l.next), First: path}, res: map[string]IndexEntry{}}}
		return l.shards[0]
	}
	return l.shards[i-1]
}

func shardName(n int) string { return fmt.Sprintf("%06d", n) }

// put adds an entry. A node that had the same key until now, and whose unit has not come yet, stays in the index under a
// key with its path: an apply may end before its unit.
//
// drop does not update paths, so paths only says where to look; the part knows whether the entry still
// exists and has that path. The new key cannot be in use: it ends in the path, and a path has one
// entry. So this recursion is one step deep.
func (l *ledger) put(key string, e IndexEntry) {
	if before, taken := l.paths[key]; taken && before != e.Path {
		if old, there := l.find(before).res[key]; there && old.Path == before {
			l.drop(key, before)
			l.put(key+standsAt+before, old)
		}
	}
	if l.paths == nil {
		l.paths = map[string]string{}
	}
	l.paths[key] = e.Path
	s := l.find(e.Path)
	if old, ok := s.res[key]; ok {
		s.size -= weigh(key, old)
	}
	s.res[key], s.dirty = e, true
	s.size += weigh(key, e)
}

// drop removes the entry of a path, unless another path has the key by now.
func (l *ledger) drop(key, path string) {
	s := l.find(path)
	s.dirty = true
	if e, ok := s.res[key]; ok && e.Path == path {
		s.size -= weigh(key, e)
		delete(s.res, key)
	}
}

// flush cuts parts that have become too large, and returns the operations that store
// what changed. After them the ledger describes what is stored.
func (l *ledger) flush(acl []kind.ACL) (ops []Op, err error) {
	if l.whole {
		return nil, nil
	}
	var out []*leaf
	for _, s := range l.shards {
		out = append(out, l.cut(s)...)
	}
	// In place: the parts kept are never more than those visited.
	l.shards = out[:0]
	for _, s := range out {
		path := kind.JoinPath(l.base, s.Name)
		// An empty part is deleted, otherwise a stack that shrinks would keep all parts it ever had.
		// Its range falls to the part before it, or with the first part to the next (see find).
		if len(s.res) == 0 {
			if s.stored {
				ops = append(ops, Op{Kind: OpDelete, Path: path, Version: s.Version})
			}
			continue
		}
		l.shards = append(l.shards, s)
		if !s.dirty {
			continue
		}
		data, err := json.Marshal(map[string]any{"locktree": IndexFormat, "res": s.res})
		if err != nil {
			return nil, err
		}
		if s.stored {
			ops = append(ops, Op{Kind: OpSet, Path: path, Data: data, Version: s.Version})
			s.Version++
		} else {
			ops = append(ops, Op{Kind: OpCreate, Path: path, Data: data, ACL: acl})
			s.Version = 0
		}
		s.stored, s.dirty, s.written = true, false, true
	}
	return ops, nil
}

// cut splits a part by the order of the paths; the first piece keeps the node.
//
// The pieces have half the maximum size, so that a stack that grows in one place does not cut at each
// apply. The first piece keeps the beginning of the range, so together the pieces cover the same range.
// A path has one entry, so the order is total.
func (l *ledger) cut(s *leaf) []*leaf {
	if s.size <= shardMax {
		return []*leaf{s}
	}
	keys := slices.SortedFunc(maps.Keys(s.res), func(a, b string) int { return strings.Compare(s.res[a].Path, s.res[b].Path) })
	first := &leaf{Shard: s.Shard, stored: s.stored, res: map[string]IndexEntry{}, dirty: true}
	out := []*leaf{first}
	at := first
	for _, k := range keys {
		e := s.res[k]
		if at.size > shardMax/2 {
			l.next++
			at = &leaf{Shard: Shard{Name: shardName(l.next), First: e.Path}, res: map[string]IndexEntry{}, dirty: true}
			out = append(out, at)
		}
		at.res[k] = e
		at.size += weigh(k, e)
	}
	return out
}

// write fills the index node: with the entries, or with the list of its parts.
func (l *ledger) write(x *Index) {
	if l.whole {
		for _, s := range l.shards {
			x.Resources = maps.Clone(s.res)
		}
		return
	}
	x.Shards = make([]Shard, len(l.shards))
	for i, s := range l.shards {
		x.Shards[i] = Shard{Name: s.Name, First: s.First}
	}
}

// newLedger takes the parts as they were read.
func newLedger(base string, shards []Shard) *ledger {
	l := &ledger{base: base}
	shards = slices.SortedFunc(slices.Values(shards), func(a, b Shard) int { return strings.Compare(a.First, b.First) })
	for _, s := range shards {
		l.shards = append(l.shards, &leaf{Shard: s, stored: !s.Absent, res: map[string]IndexEntry{}})
		// New parts get numbers above all existing ones, including those that this plan deletes: in
		// one transaction a name must never be both deleted and created.
		if n, err := strconv.Atoi(s.Name); err == nil {
			l.next = max(l.next, n)
		}
	}
	return l
}

// clean marks everything as stored: the entries put so far are those in the nodes. Parts that are
// missing or make no sense contain none of them and stay dirty; clean returns their size.
func (l *ledger) clean() (n int) {
	for _, s := range l.shards {
		if s.dirty = !s.stored || s.Lost; s.dirty {
			n += s.size
		}
	}
	return n
}
