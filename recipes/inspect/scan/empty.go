package scan

import (
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect/internal/moment"
	"github.com/locktree/locktree/recipes/kind"
)

// Empty is a node that programs left of an undeclared lock: it has no data, it had contenders or other locks in it, and it has none now.
// The sub-nodes of a semaphore belong to it.
type Empty struct {
	Path string
	// Before is a time when the node was already empty: another node was made or written then, in a later transaction than the
	// end of the last child. Servers keep no time of that end. It is zero if no node tells.
	Before time.Time
}

// empties finds the nodes below the prefix that programs left. A node that never had a child is none: nothing says what it is for.
func (s *Scanner) empties() (out []Empty) {
	if s.opts.Prefix == "" || s.above.Load() != nil { // the nodes of a family are its own
		return nil
	}
	seen := s.moments()
	for _, e := range s.order {
		if last, ok := e.left(); ok {
			out = append(out, Empty{Path: e.path, Before: moment.After(seen, last)})
		}
	}
	return out
}

// left reports whether an entry is empty, and the last transaction that made or deleted a child of the node or of a sub-node.
func (e *entry) left() (last int64, ok bool) {
	if e.asked || e.stat == nil || !errors.Is(e.why, kind.ErrForeign) || !bare(e.stat) {
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
		if d.stat == nil { // it is not there
			continue
		}
		if !bare(d.stat) || d.stat.NumChildren > 0 {
			return 0, false
		}
		used = used || d.stat.Cversion > 0
		dirs++
		last = max(last, d.stat.Pzxid)
	}
	return last, used && dirs == int(e.stat.NumChildren)
}

// bare reports whether a node has no data, and belongs to no session.
func bare(stat *zk.Stat) bool { return stat.DataLength == 0 && stat.EphemeralOwner == 0 }

// moments are those that the stats of all nodes tell.
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
