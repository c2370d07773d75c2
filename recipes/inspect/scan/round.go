package scan

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/internal/evidence"
	"github.com/locktree/locktree/recipes/inspect/internal/family"
	"github.com/locktree/locktree/recipes/inspect/internal/node"
	"github.com/locktree/locktree/recipes/inspect/words"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// round is one look of a Scanner.
type round struct {
	s       *Scanner
	live    *session.Session
	told    *words.Answers
	sums    map[*entry]uint64 // for each lock, a hash of its contenders, from the word dump
	reads   atomic.Int64
	reserve int          // the reads that are kept back for the entries whose turn it is
	begun   atomic.Int64 // nodes whose check has begun; each costs at least one read
	pending int

	mu    sync.Mutex
	found []string // nodes that may contain locks
}

const (
	// lookers is how many nodes are looked at concurrently.
	lookers = 64
	// turnReads limits the nodes that have their turn in a look: the look takes no further node once their estimated requests reach
	// turnReads. checkReads bounds the locks in use that a look checks without dump.
	turnReads, checkReads = 64, 192
	// notesEvery is how soon an unchanged contender is read again, because its program may have written into its node.
	notesEvery = time.Minute
)

// run looks at the entries that have changed, at the new ones, and, in turn, at the rest.
func (r *round) run(ctx context.Context) error {
	s := r.s
	var changed []*entry
	if r.dumped() {
		r.sums = s.sums(r.told.Owners)
	}
	for _, e := range s.order {
		if e.read && (r.dumped() && e.sign != r.sums[e] || (!r.dumped() || e.keyed != nil) && e.report.Busy()) {
			changed = append(changed, e)
		}
	}
	slices.SortStableFunc(changed, func(a, b *entry) int { return a.look - b.look })
	if !r.dumped() && len(changed) > checkReads {
		changed, r.pending = changed[:checkReads], len(changed)-checkReads
	}
	if !r.dumped() {
		// With this reserve, idle locks have their turn even if more locks are in use than the bound allows.
		r.reserve = s.opts.Reads / 4
	}
	if err := r.lookAtAll(ctx, changed, false); err != nil {
		return err
	}
	if err := r.lookAtNew(ctx); err != nil {
		return err
	}
	r.reserve = 0
	err := r.lookAtAll(ctx, r.nextTurns(), true)
	r.discover()
	r.pending += len(s.fresh)
	return err
}

// count counts a request. The number of requests under way is bounded, so each new request is a sign that a server has answered an earlier
// one.
func (r *round) count() {
	r.reads.Add(1)
	r.s.signs.Add(1)
}

func (r *round) dumped() bool { return r.told.Owners != nil }

// lookAtNew looks at the new entries, and then at the nodes to which the new entries lead.
func (r *round) lookAtNew(ctx context.Context) error {
	s := r.s
	if e := s.entries[s.opts.Prefix]; e != nil && !e.read { // the declaration of the prefix says whether the nodes below it belong to a family
		if err := r.lookAtAll(ctx, []*entry{e}, false); err != nil {
			return err
		}
	}
	for {
		fresh := slices.DeleteFunc(s.fresh, func(e *entry) bool { return e.read })
		s.fresh = nil
		// First the entries in use, then those that Options name.
		slices.SortStableFunc(fresh, func(a, b *entry) int { return r.rank(a) - r.rank(b) })
		err := r.lookAtAll(ctx, fresh, false)
		left := slices.DeleteFunc(fresh, func(e *entry) bool { return e.read || e.gone })
		r.discover()
		if r.dumped() { // a node that turned out to be no lock may contain locks
			r.sums = s.sums(r.told.Owners)
		}
		more := len(s.fresh) > 0
		s.fresh = append(left, s.fresh...)
		if err != nil || !more || r.readsLeft() <= 0 {
			return err
		}
	}
}

// discover adds an entry for each node that was found.
func (r *round) discover() {
	for _, path := range r.found {
		if r.s.entries[path] == nil {
			r.s.discover(path)
		}
	}
	r.found = nil
}

func (r *round) rank(e *entry) int {
	switch {
	case r.sums[e] != 0, e.leads:
		return 0
	case e.asked:
		return 1
	}
	return 2
}

// readsLeft is the number of reads left.
func (r *round) readsLeft() int {
	if r.s.opts.Reads == 0 {
		return 1 << 30
	}
	return r.s.opts.Reads - r.reserve - int(max(r.begun.Load(), r.reads.Load()))
}

// nextTurns returns the entries whose turn is next, as many as may still be read.
func (r *round) nextTurns() (due []*entry) {
	s, most := r.s, min(r.readsLeft(), turnReads)
	for cost, n := 0, 0; n < len(s.order) && cost < most; n++ {
		if s.turn = (s.turn + 1) % len(s.order); s.turn == 0 {
			s.rounds++
		}
		e := s.order[s.turn]
		if !e.read || e.gone || e.whole == s.looks {
			continue
		}
		cost += max(1, len(e.dirs))
		if e.report != nil && time.Since(e.noted) >= notesEvery {
			cost += len(e.report.Holders) + len(e.report.Waiters)
		}
		if e.keyed != nil && e.report.Busy() {
			cost += familyReads
		}
		due = append(due, e)
	}
	return due
}

// lookAtAll looks at the entries of list, many at a time, until the reads are used up. Entries that Options name are read once in any
// case.
func (r *round) lookAtAll(ctx context.Context, list []*entry, deep bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.s.far[1].Add(int64(len(list)))
	work := make(chan *entry)
	var looking sync.WaitGroup
	for range min(lookers, len(list)) {
		looking.Go(func() {
			for e := range work {
				if err := r.check(ctx, e, deep); err != nil {
					cancel(err)
				}
				r.s.far[0].Add(1)
			}
		})
	}
	for _, e := range list {
		must := e.asked && !e.read
		if ctx.Err() != nil {
			break
		}
		if !must && r.readsLeft() <= 0 {
			if e.read {
				r.pending++
			}
			r.s.far[0].Add(1)
			continue
		}
		if e.look = r.s.looks; deep || !e.read || e.keyed != nil {
			e.whole = e.look
		}
		r.begun.Add(1)
		work <- e
	}
	close(work)
	looking.Wait()
	return context.Cause(ctx)
}

// check brings an entry up to date. An error means a problem of the connection, not of the node.
func (r *round) check(ctx context.Context, e *entry, deep bool) error {
	err := r.update(ctx, e, deep)
	var m *evidence.Misfit
	switch {
	case err == nil:
		e.err = nil
	case errors.Is(err, zk.ErrNoNode):
		e.gone, e.keyed = !e.asked, nil
		e.err, e.report, e.payload, e.mzxid, e.dirs = zk.ErrNoNode, nil, nil, 0, nil
	case errors.As(err, &m) && m.Part && !e.asked: // this node is part of a lock, and the lock's report shows it
		e.err, e.report = nil, nil
	case session.OutcomeOf(err) == session.OutcomeDefinite, m != nil:
		e.err, e.report, e.mzxid, e.dirs = err, nil, 0, nil
	default:
		return err
	}
	e.read, e.sign = true, r.sums[e]
	return nil
}

// update reads what may have changed in an entry: everything if deep is set, but only the contenders if dump showed that they have changed.
func (r *round) update(ctx context.Context, e *entry, deep bool) error {
	var stat *zk.Stat
	first := !e.read || e.dirs == nil
	if first || deep || !r.dumped() || e.keyed != nil {
		var err error
		if stat, err = r.declaration(ctx, e); err != nil {
			return err
		}
	}
	if e.keyed != nil {
		return r.updateFamily(ctx, e, stat)
	}
	in := &inspect.Report{Path: e.path, Payload: e.payload, Why: e.why}
	of, err := r.familyAbove(ctx, e, first || deep)
	if err != nil {
		return err
	}
	if of != nil {
		in = reportOf(of, e.path)
	}
	own, changed := e.dir(e.path), first
	if own.needsListing(in.Payload, stat, r.s.isBelowPrefix(e.path)) {
		new, err := r.list(ctx, own, stat)
		if err != nil {
			return err
		}
		changed = changed || new
	}
	found, err := evidence.Of(e.path, in.Payload, e.number, own.names, func(name string) ([]string, error) {
		d := e.dir(kind.JoinPath(e.path, name))
		_, err := r.listQueue(ctx, d, d.listed)
		return d.names, err
	})
	if err != nil {
		return err
	}
	in.Kind, in.Guessed = found.Kind, in.Payload == nil
	e.kazoo = found.Kazoo > 0 && in.Kind != nil
	if in.Kind == nil || in.Kind.Container {
		if e.report = nil; changed || r.s.leavesOut() { // nodes that were left out earlier, because there were too many, may fit now
			r.noteChildren(e.path, own.names)
		}
		return nil
	}
	dirs := []string{e.path + evidence.KazooQueue}
	if !e.kazoo {
		dirs = nil
		for _, q := range in.Kind.Queues {
			if q.Child != "" {
				dirs = append(dirs, q.Dir(e.path))
			}
		}
	}
	for _, dir := range dirs {
		if first && !r.s.once && r.dumped() && r.told.Owners[dir] == nil {
			continue // dump lists no contender in dir; a later turn reads dir, and shows children that are no contenders
		}
		new, err := r.listQueue(ctx, e.dir(dir), deep || !r.dumped() && !first)
		if err != nil {
			return err
		}
		changed = changed || new
	}
	changed = changed || e.report == nil || e.report.Payload != in.Payload
	notes := deep && time.Since(e.noted) >= notesEvery // whether to read the nodes of all contenders again
	if notes {
		e.noted = time.Now()
	} else if changed {
		// The entry's next turn reads all contenders again: a new holder may write its grant a little later.
		e.noted = time.Time{}
	}
	if !changed && !notes {
		return nil
	}
	listed := func(dir string) ([]string, error) { return e.dir(dir).names, nil }
	if in.Holders, in.Waiters, in.Junk, err = node.Contenders(e.path, found, listed, r.readerFor(ctx, e, notes)); err != nil {
		return err
	}
	if in.Kind == kind.Once {
		r.count()
		if in.Job, err = inspect.ReadJob(ctx, r.live, in.Path, in.Kind, e.payload); err != nil {
			return err
		}
	}
	if err := r.rereadGranted(ctx, e, in); err != nil {
		return err
	}
	e.show(in)
	return nil
}

// declaration reads the node's data, unless its stat says that they have not changed.
func (r *round) declaration(ctx context.Context, e *entry) (*zk.Stat, error) {
	r.count()
	if e.mzxid != 0 {
		stat, err := r.live.Exists(ctx, e.path)
		if err != nil || stat != nil && stat.Mzxid == e.mzxid {
			return stat, err
		}
		if stat == nil {
			return nil, zk.ErrNoNode
		}
		r.count()
	}
	data, stat, err := r.live.Get(ctx, e.path)
	if err != nil {
		return nil, err
	}
	if r.s.once {
		e.stat = stat
	}
	// If the node was deleted and created again, its contenders may have the same names as before.
	if e.mzxid = stat.Mzxid; e.czxid != stat.Czxid {
		e.czxid, e.report, e.dirs = stat.Czxid, nil, nil
	}
	if e.number = nil; len(data) <= evidence.MaxDigits {
		e.number = data
	}
	if e.payload, e.why = kind.Decode(data); e.why != nil {
		e.payload = nil
	} else {
		e.payload.Read(stat.Mtime)
	}
	if e.keyed = nil; family.New(e.path, e.payload) != nil {
		e.keyed, e.dirs = &familyState{Family: family.New(e.path, e.payload)}, nil
	}
	return stat, nil
}

// noteChildren notes the children of a node that is not a lock: they may contain locks.
func (r *round) noteChildren(path string, names []string) {
	if !r.s.isBelowPrefix(path) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		child := kind.JoinPath(path, name)
		if _, contender := kind.ParseContender(name); !contender && !evidence.Reserved(child) {
			r.found = append(r.found, child)
		}
	}
}

// readerFor returns the reader of contenders for each directory of e. Unless deep is set, the reader does not read known contenders again.
func (r *round) readerFor(ctx context.Context, e *entry, deep bool) func(dir string) node.Reader {
	known := map[string]*inspect.Contender{}
	if e.report != nil {
		for c := range e.report.Contenders {
			known[c.Path] = c
		}
	}
	return func(dir string) node.Reader {
		owners := r.told.Owners[dir]
		return func(k kind.Contender) (*inspect.Contender, error) {
			old, owner := known[kind.JoinPath(dir, k.Name)], owners[k.Name]
			if old != nil && !deep && (owner == 0 || owner == old.Session) {
				return old, nil
			}
			r.count()
			c, err := node.ReadContender(ctx, r.live, dir, k)
			if c != nil && c.Session == 0 {
				c.Session = owner
			}
			return c, err
		}
	}
}

// rereadGranted reads again the contenders that waited at the last look and hold the lock now. Contenders of this library have noted in
// their nodes when they were granted.
func (r *round) rereadGranted(ctx context.Context, e *entry, in *inspect.Report) error {
	if e.report == nil {
		return nil
	}
	waited := map[string]time.Time{} // by path, since when
	for _, c := range e.report.Waiters {
		waited[c.Path] = c.Since
	}
	for i := range in.Holders {
		c := &in.Holders[i]
		since, was := waited[c.Path]
		if !was || !c.Held.IsZero() {
			continue
		}
		r.count()
		data, _, err := r.live.Get(ctx, c.Path)
		switch {
		case err == nil:
			node.Describe(c, data)
			c.Since = cmp.Or(c.Since, since)
		// A definite error says that the node has gone, or that we may not read it.
		case session.OutcomeOf(err) != session.OutcomeDefinite:
			return err
		}
	}
	return nil
}
