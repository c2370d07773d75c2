package inspect

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// Empty is what programs leave of a lock that nobody declared: a node without data in which there were contenders, or other locks,
// and nobody is now. Of a semaphore its sub-nodes belong to it.
type Empty struct {
	Path string
	// Before is a time at which it had been empty for a while: a node that was made or written at that time has a later transaction
	// id than the end of its last child. Servers keep no time of that end. Zero if no node that was seen tells.
	Before time.Time
	Nodes  []EmptyNode // what to delete, in this order
}

// EmptyNode is a node of an Empty as it was seen: whether it has changed since shows in its stat.
type EmptyNode struct {
	Path         string
	Version      int32
	Czxid, Pzxid int64
}

// empties finds the nodes below the prefix that programs left. A node that never had a child is none: nothing says what it is for.
func (s *Scanner) empties(seen []moment) (out []Empty) {
	if s.opts.Prefix == "" || s.above.Load() != nil { // the nodes of a family are its own
		return nil
	}
	for _, e := range s.order {
		if nodes := e.left(); len(nodes) > 0 {
			out = append(out, Empty{Path: e.path, Nodes: nodes})
		}
	}
	for i := range out {
		out[i].Before = earliest(seen, out[i].last())
	}
	return out
}

// left are the nodes of an entry that is empty; nil if it is not.
func (e *entry) left() []EmptyNode {
	if e.asked || e.stat == nil || !errors.Is(e.why, kind.ErrForeign) || !bare(e.stat) {
		return nil
	}
	if e.report == nil && e.stat.NumChildren == 0 && e.stat.Cversion > 0 {
		return []EmptyNode{emptyNode(e.path, e.stat)}
	}
	if e.report == nil || !e.report.Guessed || len(e.report.Kind.Children) == 0 || e.report.Busy() || len(e.report.Junk) > 0 {
		return nil
	}
	var nodes []EmptyNode
	used := false
	for _, d := range e.dirs[1:] {
		if d.stat == nil { // it is not there
			continue
		}
		if !bare(d.stat) || d.stat.NumChildren > 0 {
			return nil
		}
		used = used || d.stat.Cversion > 0
		nodes = append(nodes, emptyNode(d.path, d.stat))
	}
	if !used || len(nodes) != int(e.stat.NumChildren) {
		return nil
	}
	return append(nodes, emptyNode(e.path, e.stat))
}

// bare reports whether a node has no data, and belongs to no session.
func bare(stat *zk.Stat) bool { return stat.DataLength == 0 && stat.EphemeralOwner == 0 }

func emptyNode(path string, stat *zk.Stat) EmptyNode {
	return EmptyNode{path, stat.Version, stat.Czxid, stat.Pzxid}
}

// moment is a transaction of which the time is known.
type moment struct {
	zxid int64
	at   time.Time
}

// moments are those that the stats of all nodes tell.
func (s *Scanner) moments() (all []moment) {
	add := func(stat *zk.Stat) {
		if stat != nil {
			all = append(all, moment{stat.Mzxid, time.UnixMilli(stat.Mtime)}, moment{stat.Czxid, time.UnixMilli(stat.Ctime)})
		}
	}
	for _, e := range s.order {
		add(e.stat)
		for _, d := range e.dirs {
			add(d.stat)
		}
	}
	return fromThen(all)
}

// fromThen sorts moments by transaction, and gives each the earliest time of it and of all later ones.
func fromThen(all []moment) []moment {
	slices.SortFunc(all, func(a, b moment) int { return cmp.Compare(a.zxid, b.zxid) })
	for i := len(all) - 2; i >= 0; i-- {
		if all[i+1].at.Before(all[i].at) {
			all[i].at = all[i+1].at
		}
	}
	return all
}

// earliest is the earliest time of a transaction after zxid; zero if none is known.
func earliest(all []moment, zxid int64) time.Time {
	i, _ := slices.BinarySearchFunc(all, zxid+1, func(m moment, z int64) int { return cmp.Compare(m.zxid, z) })
	if i == len(all) {
		return time.Time{}
	}
	return all[i].at.UTC()
}

// EmptyKeys are the nodes of keys that were left in the family of a report of snap: if nobody uses any of its keys, all in which nobody
// is, else none. Servers delete most of them by themselves. It takes a request for each key, two more for that of a semaphore.
func (snap *Snapshot) EmptyKeys(ctx context.Context, c provider, family *Report) ([]Empty, error) {
	s, err := session.Live(ctx, c)
	if err != nil {
		return nil, err
	}
	look := &keysLook{s: s}
	if err := look.list(ctx, family.Path); err != nil || look.of == nil {
		return nil, err
	}
	left, errs := make([]*Empty, len(look.nodes)), make([]error, len(look.nodes))
	var used atomic.Bool
	together(maxReads, len(look.nodes), func(i int) {
		if used.Load() {
			return
		}
		if left[i], errs[i] = look.leftAt(ctx, look.nodes[i]); errs[i] == nil && left[i] == nil {
			used.Store(true)
		}
	})
	if err := errors.Join(errs...); err != nil || used.Load() {
		return nil, err
	}
	seen := fromThen(slices.Concat(snap.seen, look.seen))
	var out []Empty
	for _, e := range left {
		if len(e.Nodes) > 0 {
			e.Before = earliest(seen, e.last())
			out = append(out, *e)
		}
	}
	return out, nil
}

// leftAt looks whether the node of a key is empty; nil if it is not, without nodes if it is not there any more.
func (k *keysLook) leftAt(ctx context.Context, node string) (*Empty, error) {
	e := &Empty{Path: node}
	var inside []string
	if k.of.kind().Queues[0].Child != "" {
		names, _, err := k.s.Children(ctx, node)
		if errors.Is(err, zk.ErrNoNode) {
			return e, nil
		}
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(slices.Values(names)) {
			if inside = append(inside, kind.JoinPath(node, name)); !slices.Contains(k.of.kind().Children, name) {
				return nil, nil
			}
		}
	}
	for _, path := range append(inside, node) {
		stat, err := k.s.Exists(ctx, path)
		switch {
		case err != nil:
			return nil, err
		case stat == nil:
			return &Empty{Path: node}, nil
		case path == node && int(stat.NumChildren) != len(inside), path != node && stat.NumChildren > 0, !bare(stat):
			return nil, nil
		}
		k.mu.Lock()
		k.seen = append(k.seen, moment{stat.Czxid, time.UnixMilli(stat.Ctime)}, moment{stat.Mzxid, time.UnixMilli(stat.Mtime)})
		k.mu.Unlock()
		e.Nodes = append(e.Nodes, emptyNode(path, stat))
	}
	return e, nil
}

// last is the transaction in which the last child of the nodes came or went.
func (e *Empty) last() (zxid int64) {
	for _, n := range e.Nodes {
		zxid = max(zxid, n.Pzxid)
	}
	return zxid
}
