package scan

import (
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect/internal/moment"
	"github.com/locktree/locktree/recipes/kind"
)

// Empty is what remains of an undeclared lock: a node without data that had contenders or locks in it, and has none now. The empty
// sub-nodes of a semaphore are not listed by themselves: they count as part of its node.
type Empty struct {
	Path string
	// Before is a time at which the node was already empty. Servers keep no time of a deletion, so Before is the time of the first known
	// write after the last child was deleted. It is zero if no such write is known.
	Before time.Time
}

// emptyNodes finds the empty nodes that programs left below the prefix. It leaves out a node that never had a child, because nothing says
// what the node is for.
func (s *Scanner) emptyNodes() (out []Empty) {
	if s.opts.Prefix == "" || s.above.Load() != nil { // the empty nodes of a family belong to its keys
		return nil
	}
	seen := s.moments()
	for _, e := range s.order {
		if last, ok := e.emptySince(); ok {
			out = append(out, Empty{Path: e.path, Before: moment.After(seen, last)})
		}
	}
	return out
}

// emptySince reports whether an entry is empty, and the last transaction that made or deleted a child of the node or of a sub-node.
func (e *entry) emptySince() (last int64, ok bool) {
	if e.asked || e.stat == nil || !errors.Is(e.why, kind.ErrForeign) || !isBare(e.stat) {
		return 0, false
	}
	if e.report == nil && e.stat.NumChildren == 0 && e.stat.Cversion > 0 {
		return e.stat.Pzxid, true
	}
	if e.report == nil || !e.report.Guessed || len(e.report.Kind.Children) == 0 || e.report.Busy() || len(e.report.Junk) > 0 {
		return 0, false
	}
	last, dirs, used := e.stat.Pzxid, 0, false
	for _, d := range e.dirs[1:] {
		if d.stat == nil { // the sub-node does not exist
			continue
		}
		if !isBare(d.stat) || d.stat.NumChildren > 0 {
			return 0, false
		}
		used = used || d.stat.Cversion > 0
		dirs++
		last = max(last, d.stat.Pzxid)
	}
	return last, used && dirs == int(e.stat.NumChildren)
}

// isBare reports whether a node has no data, and belongs to no session.
func isBare(stat *zk.Stat) bool { return stat.DataLength == 0 && stat.EphemeralOwner == 0 }

// moments returns the transactions with a known time, from the stats of all nodes.
func (s *Scanner) moments() (all []moment.Moment) {
	add := func(stat *zk.Stat) {
		if stat != nil {
			all = append(all, moment.Moment{Zxid: stat.Mzxid, At: time.UnixMilli(stat.Mtime)}, moment.Moment{Zxid: stat.Czxid, At: time.UnixMilli(stat.Ctime)})
		}
	}
	for _, e := range s.order {
		add(e.stat)
		for _, d := range e.dirs {
			add(d.stat)
		}
	}
	return moment.Sort(all)
}
