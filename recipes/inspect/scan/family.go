package scan

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/internal/family"
	"github.com/locktree/locktree/recipes/inspect/internal/node"
	"github.com/locktree/locktree/recipes/kind"
)

const (
	// familyReads bounds the requests of a look for the keys of a family. The requests for the family's own node do not count. Nor do
	// the listings of its directories if there is only one look.
	familyReads = 190
	// dirReads is how many directories of a family with fanout are listed in a look, unless there is only one look.
	dirReads = 100
	// The four-letter word dump shows the nodes of all keys that have contenders; only a listing of the directories shows the other nodes.
	// So while dump lists the contenders, the directories are listed only every listEvery looks.
	listEvery = 16
	// firstFew is how many contenders are read in each queue of a key: the first ones, which hold the lock or have waited for longest.
	firstFew = 8
	// The report of a key is kept for keptFor looks, which bounds the memory. If dump shows no change, a key is read again after againAfter
	// looks.
	keptFor, againAfter = 64, 32
)

// familyState is what a Scanner remembers of a family.
type familyState struct {
	*family.Family
	keys  map[string]*keyNode // by path
	turn  int                 // the index of the directory that is listed next
	looks int
}

// keyNode is the node of a key.
type keyNode struct {
	path    string
	sign    uint64          // a hash of the contenders in the node, from the word dump; 0: there were none
	waiters int             // the number of waiters at the last look
	report  *inspect.Report // nil if the key was not read lately, or has changed since
	read    int             // the number of the look that read the key
	longest bool            // at the last look, this key had been held for longest
	closed  bool            // we may not read the node
	gone    bool
}

// takeRequest takes one of the requests that a look at a family may still send; false if none is left.
func (r *round) takeRequest(left *atomic.Int64) bool { return r.readsLeft() > 0 && left.Add(-1) >= 0 }

// updateFamily does for a family what update does for other entries. The keys take turns. Keys that have waiters, or seem to have some,
// come first.
func (r *round) updateFamily(ctx context.Context, e *entry, stat *zk.Stat) error {
	f := e.keyed
	var left atomic.Int64
	left.Store(familyReads)
	in := &inspect.Report{Path: e.path, Kind: kind.Keyed, Payload: e.payload, Keys: &inspect.Keys{}}
	if err := r.listKeys(ctx, e, stat, &left); err != nil {
		return err
	}
	f.looks++
	f.meet(e, in, r)
	due := f.readingOrder(r)
	err := node.Together(node.MaxReads, len(due), func(i int) error {
		if left.Load() <= 0 || r.readsLeft() <= 0 {
			return nil
		}
		return r.readKey(ctx, f, due[i], &left)
	})
	if err != nil {
		return err
	}
	f.count(in.Keys, r)
	e.show(in)
	return nil
}

// listKeys lists the nodes of keys.
func (r *round) listKeys(ctx context.Context, e *entry, stat *zk.Stat, left *atomic.Int64) error {
	f, own := e.keyed, e.dir(e.path)
	again := !r.dumped() || f.looks%listEvery == 0
	if again {
		if _, err := r.list(ctx, own, stat); err != nil {
			return err
		}
	}
	dirs := slices.DeleteFunc(e.payload.Children(), func(name string) bool { return !slices.Contains(own.names, name) })
	n := min(dirReads, len(dirs))
	switch {
	case r.dumped() && again:
		f.turn = 0
	case r.dumped():
		n = min(n, max(0, len(dirs)-f.turn))
	case r.s.once:
		n = len(dirs)
	}
	due := make([]*directory, n)
	for i := range due {
		due[i] = e.dir(kind.JoinPath(e.path, dirs[(f.turn+i)%len(dirs)]))
	}
	f.turn += n
	return node.Together(node.MaxReads, n, func(i int) error {
		if !r.s.once && !r.takeRequest(left) {
			return nil
		}
		_, err := r.listQueue(ctx, due[i], false)
		return err
	})
}

// meet notes which nodes of keys exist, and which contenders the word dump shows in them.
func (f *familyState) meet(e *entry, in *inspect.Report, r *round) {
	known := f.keys
	f.keys = make(map[string]*keyNode, len(known))
	note := func(path string) *keyNode {
		n := f.keys[path]
		if n == nil {
			if n = known[path]; n == nil {
				n = &keyNode{path: path}
			}
			f.keys[path] = n
		}
		return n
	}
	fanned := e.payload.Children()
	for _, d := range e.dirs {
		if d.listed && len(fanned) > 0 && d.path != e.path {
			in.Keys.Listed++
		}
		for _, name := range d.names {
			path := kind.JoinPath(d.path, name)
			if f.Has(path) {
				note(path)
			} else if d.path != e.path || !slices.Contains(fanned, name) {
				in.Junk = append(in.Junk, path)
			}
		}
	}
	if in.Keys.Dirs = len(fanned); r.dumped() || in.Keys.Listed >= in.Keys.Dirs {
		in.Keys.Listed, in.Keys.Dirs = 0, 0
	}
	if !r.dumped() {
		return
	}
	signs := map[string]uint64{} // hashes of the contenders in the nodes of keys, from the word dump
	for dir, names := range r.told.Owners {
		if !strings.HasPrefix(dir, f.Path+"/") {
			continue
		}
		if path := f.NodeOf(dir); path != "" {
			signs[path] += r.s.sign(dir, names)
		}
	}
	for path, n := range f.keys {
		if n.sign != 0 && signs[path] == 0 {
			n.sign, n.report, n.waiters = 0, nil, 0 // its contenders have gone
		}
	}
	for path, sign := range signs {
		n := note(path)
		if n.sign != sign {
			n.sign, n.report = sign, nil
			n.waiters = len(f.byName(path, r).Waiters)
		}
	}
}

// byName makes a key's report from nothing but the names of its contenders, which the word dump lists. In a semaphore, the first contenders
// count as holders, as many as there are permits. byName misses a permit that was granted before the number of permits was lowered: only
// the nodes' data would show that permit.
func (f *familyState) byName(path string, r *round) *inspect.Report {
	in := reportOf(f.Family, path)
	var limit []byte
	if in.Kind.Permits != nil {
		limit = kind.Holder{Limit: in.Kind.Permits(in.Payload.Params)}.Encode()
	}
	lines := make([][]inspect.Contender, len(in.Kind.Queues))
	for i, q := range in.Kind.Queues {
		dir := q.Dir(path)
		line, _ := kind.SortContenders(slices.Collect(maps.Keys(r.told.Owners[dir])))
		for _, k := range line {
			c := node.NewContender(dir, k, nil, nil)
			c.Session, c.Data = r.told.Owners[dir][k.Name], limit
			lines[i] = append(lines[i], c)
		}
	}
	in.Holders, in.Waiters = node.Judge(in.Kind, in.Payload.Params, lines)
	for c := range in.Contenders {
		c.Data = nil
	}
	return in
}

// readingOrder returns the nodes in the order in which they are read: first the nodes with waiters and the node held for longest, then
// unread nodes, then the others in turn. A node that dump shows unchanged counts as one of the others, and is left out for againAfter
// looks.
func (f *familyState) readingOrder(r *round) []*keyNode {
	rank := func(n *keyNode) int {
		switch {
		case n.report != nil && r.dumped():
		case n.waiters > 0 || n.longest:
			return -1
		case n.report == nil:
			return 0
		}
		return n.read + 1
	}
	var all []*keyNode
	for _, n := range f.keys {
		if n.report == nil || !r.dumped() || f.looks-n.read >= againAfter {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b *keyNode) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.waiters, a.waiters), cmp.Compare(a.path, b.path))
	})
	return all[:min(len(all), familyReads)]
}

// readKey reads the first contenders of a key. If the requests are used up before the end, readKey drops what it has read.
func (r *round) readKey(ctx context.Context, f *familyState, n *keyNode, left *atomic.Int64) error {
	in := reportOf(f.Family, n.path)
	lines := make([][]inspect.Contender, len(in.Kind.Queues))
	missing := 0
	for i, q := range in.Kind.Queues {
		dir := q.Dir(n.path)
		owners := r.told.Owners[dir]
		names := slices.Collect(maps.Keys(owners))
		if n.sign == 0 {
			if !r.takeRequest(left) {
				return nil
			}
			r.count()
			var err error
			switch names, _, err = r.live.Children(ctx, dir); {
			case errors.Is(err, zk.ErrNoNode):
				missing++
			case errors.Is(err, zk.ErrNoAuth):
				n.closed = true
				return nil
			case err != nil:
				return err
			}
		}
		line, junk := kind.SortContenders(names)
		in.Junk = append(in.Junk, node.Junk(in.Kind, n.path, dir, junk)...)
		for place, k := range line {
			c := node.NewContender(dir, k, nil, nil)
			if place < firstFew {
				if !r.takeRequest(left) {
					return nil
				}
				r.count()
				read, err := node.ReadContender(ctx, r.live, dir, k)
				switch {
				case err != nil:
					return err
				case read == nil:
					continue
				}
				c = *read
			}
			c.Session = cmp.Or(c.Session, owners[k.Name])
			lines[i] = append(lines[i], c)
		}
	}
	n.closed = false
	if missing == len(lines) {
		if !r.takeRequest(left) {
			return nil
		}
		r.count()
		stat, err := r.live.Exists(ctx, n.path)
		if n.gone = err == nil && stat == nil; n.gone || err != nil {
			return err
		}
	}
	in.Holders, in.Waiters = node.Judge(in.Kind, in.Payload.Params, lines)
	n.report, n.read, n.waiters = in, f.looks, len(in.Waiters)
	return nil
}

// count fills in the counts of k, and forgets the nodes that have gone.
func (f *familyState) count(k *inspect.Keys, r *round) {
	maps.DeleteFunc(f.keys, func(_ string, n *keyNode) bool { return n.gone })
	var busiest, longest *keyNode
	for _, path := range slices.Sorted(maps.Keys(f.keys)) {
		n := f.keys[path]
		n.longest = false
		if f.looks-n.read > keptFor {
			n.report = nil
		}
		fresh := n.report != nil && (r.dumped() || n.read == f.looks)
		switch known := n.sign != 0 || fresh; {
		case n.report != nil && !n.report.Busy() && (n.sign == 0 || n.read == f.looks):
			k.Empty++
			continue
		case n.closed:
			k.Closed++
		case !known && r.dumped(): // dump shows no contender in this listed node, so the node waits for its turn to be read
			continue
		case known:
			k.Queues++
		}
		if k.InUse++; n.closed || n.sign == 0 && !fresh {
			continue
		}
		if n.waiters > 0 {
			k.Waited++
			if busiest == nil || n.waiters > busiest.waiters {
				busiest = n
			}
		}
		if !fresh {
			continue
		}
		k.Looked++
		k.Read = append(k.Read, n.report)
		if at := earliestTime(n.report.Holders); !at.IsZero() && (longest == nil || at.Before(earliestTime(longest.report.Holders))) {
			longest = n
		}
	}
	if longest != nil {
		longest.longest, k.Longest = true, longest.report
	}
	if busiest == nil {
		return
	}
	if k.Busiest = busiest.report; k.Busiest == nil {
		k.Busiest = f.byName(busiest.path, r)
	}
}

// familyAbove returns the family to which the node of e belongs; nil if the node belongs to none. It searches only above the prefix: below
// the prefix, the Scanner enters no family.
func (r *round) familyAbove(ctx context.Context, e *entry, look bool) (*family.Family, error) {
	if e.payload == nil && look && e.path == r.s.opts.Prefix {
		of, err := family.Above(ctx, r.live, e.path, r.count)
		if err != nil {
			return nil, err
		}
		// If the family has not changed, the stored pointer stays.
		if old := r.s.above.Load(); of == nil || old == nil || of.Path != old.Path || of.Key.Gen != old.Key.Gen {
			r.s.above.Store(of)
		}
	}
	of := r.s.above.Load()
	if e.payload != nil || !of.Has(e.path) {
		return nil, nil
	}
	return of, nil
}

// reportOf returns an empty report of the key at path.
func reportOf(f *family.Family, path string) *inspect.Report {
	key, _ := f.KeyAt(path)
	return &inspect.Report{Path: path, Kind: f.Kind(), Payload: f.Key, Family: f.Path, Key: key}
}

// earliestTime is the time from which the first of the contenders holds or waits; zero if that is not known.
func earliestTime(cs []inspect.Contender) (first time.Time) {
	for _, c := range cs {
		if at := cmp.Or(c.Held, c.Since); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}
