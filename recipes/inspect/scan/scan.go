package scan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/internal/evidence"
	"github.com/locktree/locktree/recipes/inspect/internal/family"
	"github.com/locktree/locktree/recipes/inspect/words"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// Snapshot is what a Scanner saw in one look.
type Snapshot struct {
	At    time.Time         // when the look began
	Took  time.Duration     // how long the look took
	Zxid  int64             // the newest transaction that a server reported
	Dump  bool              // the four-letter word dump listed the contenders; otherwise their directories were read
	Locks []*inspect.Report // sorted by path; a report that has not changed is the same pointer as in the snapshot before
	// Sessions are all sessions that the servers list, by id; if they list none, those of holders and waiters.
	Sessions map[int64]*words.Session
	Servers  []words.Server
	// Certificates are the certificates of the connection; none if it is not encrypted. Package check judges them.
	Certificates []session.Certificate
	Unasked      []words.Unasked // the servers that did not tell all their connections: while there are any, no session counts as away
	Waits        *inspect.Waits  // see WaitsFor; Waits has the first 200 waiters of a queue, and up to 200 later ones whose session is in another lock too
	Unread       []Unread        // what could not be read, by path
	Cut          bool            // some nodes below the prefix were left out: there are too many, or their paths are very long
	Empty        []Empty         // what remains of undeclared locks; only Look with a Prefix fills this field
	Pending      int             // nodes whose turn has not come yet, because of Options.Reads: their reports are older, or missing
	Cost         struct {
		Reads     int   // requests on the connection
		Words     int   // four-letter words, each a connection of its own
		WordBytes int64 // the length of the answers to these words
	}
}

// Unread is a node that is declared, or below the prefix, and could not be read.
type Unread struct {
	Path string
	Err  error
}

// Missing reports whether the node does not exist, or has no declaration.
func (u Unread) Missing() bool {
	return errors.Is(u.Err, zk.ErrNoNode) || errors.Is(u.Err, kind.ErrForeign)
}

// Options say what a Scanner looks at.
type Options struct {
	// Declared are the paths of declared locks.
	Declared []string
	// Prefix, unless it is empty, is a tree whose locks the Scanner looks at: the declared ones, and those that their contenders
	// reveal. "/" is everything.
	Prefix string
	// Reads limits a look: after so many requests it reads no further node, except declared locks that were never read; 0 means no limit.
	// Nodes in use and changed nodes come first; the rest take turns.
	Reads int
	// Silence ends a look with an error when the servers have sent nothing for so long; 0: a look lasts until ctx ends.
	Silence time.Duration
	// Sessions are sessions that Look describes in addition to those of the contenders that it finds.
	Sessions []int64
}

// maxNodes bounds the nodes below a prefix that are looked at.
const maxNodes = 100_000

// Scanner looks at the same locks repeatedly, and asks only for changes. If the server of its session allows the four-letter word dump, the
// answer to dump lists the contenders of all queues. The cost of a look then grows with the number of contenders, not with the number of
// locks. Without dump, the Scanner compares the stats of the directories (pzxid) with those of the last look. In both cases the Scanner
// also reads the stats of all nodes again, a few in each look. So it finds a changed declaration, and a foreign child of an idle lock.
// While a queue does not change, the Scanner reads the nodes of its contenders again once a minute at most.
//
// A Scanner is safe for use by several goroutines, one look at a time.
type Scanner struct {
	source session.Source
	opts   Options
	words  *words.Asker
	seed   maphash.Seed

	once    bool // there is only one look, so nothing can wait for its turn
	look    sync.Mutex
	entries map[string]*entry
	looks   int
	order   []*entry                      // in the order of paths
	turn    int                           // the index, in the slice order, of the entry that had the last turn
	fresh   []*entry                      // the entries that are not read yet
	walked  int                           // the number of entries that were found below the prefix
	cut     int                           // the last round of turns that left out a node; 0: no round did
	rounds  int                           // rounds of turns, counted from 1
	queues  map[string]bool               // the names of sub-nodes in which a kind has its contenders
	above   atomic.Pointer[family.Family] // the family whose nodes include the prefix; nil if there is none
	signs   atomic.Int64                  // changes whenever a server has sent something
	far     [2]atomic.Int64               // how many nodes this look has looked at, and how many are known to be due
}

// errNotReadOnly refuses a connection that could write.
var errNotReadOnly = errors.New("inspect: the connection of a Scanner must be one that refuses writes: set ReadOnly when dialling it")

// New returns a Scanner that uses the connection of c. The program must have dialled c with ReadOnly.
func New(c session.Source, opts Options) *Scanner {
	s := &Scanner{source: c, opts: opts, rounds: 1, seed: maphash.MakeSeed(), entries: map[string]*entry{}, queues: map[string]bool{}}
	s.words = words.New(func() { s.signs.Add(1) })
	for _, path := range opts.Declared {
		e := s.add(path)
		e.asked, e.lock = true, true
	}
	if opts.Prefix != "" {
		s.add(opts.Prefix).asked = true
	}
	for _, k := range kind.All() {
		for _, q := range k.Queues {
			s.queues[q.Child] = q.Child != ""
		}
	}
	return s
}

// add adds a node to be read.
func (s *Scanner) add(path string) *entry {
	e := s.entries[path]
	if e == nil {
		e = &entry{path: path}
		s.entries[path] = e
		s.order, s.fresh = append(s.order, e), append(s.fresh, e)
	}
	return e
}

// isBelowPrefix reports whether path is below the prefix.
func (s *Scanner) isBelowPrefix(path string) bool {
	return s.opts.Prefix != "" && kind.Below(path, s.opts.Prefix)
}

// Scan takes one look. An error means that there is no session, that the session was lost meanwhile, or that ctx ended. Errors of single
// nodes are in the snapshot.
func (s *Scanner) Scan(ctx context.Context) (*Snapshot, error) {
	s.look.Lock()
	defer s.look.Unlock()
	s.far[0].Store(0)
	s.far[1].Store(0)
	ctx, over := s.unlessSilent(ctx)
	defer over()
	live, err := session.Live(ctx, s.source)
	if err != nil {
		return nil, err
	}
	if !live.ReadOnly() {
		return nil, errNotReadOnly
	}
	snap := &Snapshot{At: time.Now()}
	told, err := s.words.Ask(ctx, live)
	if err != nil {
		return nil, lookError(ctx, live, err)
	}
	s.looks++
	r := &round{s: s, live: live, told: told}
	if err := r.run(ctx); err != nil {
		return nil, lookError(ctx, live, err)
	}
	s.sortEntries()
	snap.Dump, snap.Servers, snap.Unasked, snap.Sessions, snap.Cut = told.Owners != nil, told.Servers, told.Unasked, told.Sessions, s.leavesOut()
	snap.Cost.Reads, snap.Cost.Words, snap.Cost.WordBytes = int(r.reads.Load())+told.Reads, told.Asked, told.Bytes
	snap.Pending, snap.Certificates = r.pending, live.Certificates()
	s.show(snap)
	if s.once {
		snap.Empty = s.emptyNodes()
	}
	for _, at := range snap.Servers {
		snap.Zxid = max(snap.Zxid, at.Zxid)
	}
	snap.Zxid = max(snap.Zxid, live.Zxid())
	snap.Took = time.Since(snap.At)
	return snap, nil
}

// Progress is how far a look is.
type Progress struct {
	Looked, Of int   // how many nodes were looked at, of how many that are known to be due
	Signs      int64 // the number changes whenever a server has sent something
}

// Progress returns the progress of the look under way. It may be called at any time.
func (s *Scanner) Progress() Progress {
	return Progress{int(s.far[0].Load()), int(s.far[1].Load()), s.signs.Load()}
}

// silence is the error of a look that was given up because the servers sent nothing for so long.
type silence time.Duration

func (d silence) Error() string {
	return fmt.Sprintf("the servers have sent nothing for %v", time.Duration(d))
}

// unlessSilent returns a context that ends when the servers have sent nothing for Options.Silence.
func (s *Scanner) unlessSilent(ctx context.Context) (context.Context, func()) {
	d := s.opts.Silence
	if d == 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	tick := time.NewTicker(d / 16)
	go func() {
		defer tick.Stop()
		for signs, at := int64(-1), time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				if n := s.signs.Load(); n != signs {
					signs, at = n, now
				} else if now.Sub(at) >= d {
					cancel(silence(d))
					return
				}
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// lookError returns the error of a look. If the look failed because ctx ended, the error says why there is no connection. lookError sends
// nothing, because ctx has ended.
func lookError(ctx context.Context, live *session.Session, err error) error {
	var op *session.OpError
	var silent silence
	if errors.As(context.Cause(ctx), &silent) {
		err = silent
	} else if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	if _, now := live.Exists(ctx, "/"); errors.As(now, &op) && !errors.Is(op.Err, context.Canceled) {
		return op.Err
	}
	return err
}

// show puts the locks into the snapshot.
func (s *Scanner) show(snap *Snapshot) {
	snap.Locks = make([]*inspect.Report, 0, len(s.order))
	queues := []*inspect.Report{}
	stands := map[int64]int{} // in how many locks a session has contenders
	for _, e := range s.order {
		if s.semaphoreOf(e.path) != nil { // a kazoo queue: the semaphore's report has its contenders
			continue
		}
		switch {
		case e.err != nil:
			snap.Unread = append(snap.Unread, Unread{e.path, e.err})
		case e.lock && e.why != nil && e.report == nil: // neither the declaration nor the contenders show what this lock is
			snap.Unread = append(snap.Unread, Unread{e.path, e.why})
		}
		if e.report == nil {
			continue
		}
		snap.Locks = append(snap.Locks, e.report)
		for in := range e.report.Locks {
			if len(in.Waiters) > 0 {
				queues = append(queues, in)
			}
		}
		here := map[int64]bool{}
		for c := range e.report.Contenders {
			if !here[c.Session] && c.Session != 0 {
				here[c.Session] = true
				stands[c.Session]++
			}
			if c.Session != 0 && snap.Sessions[c.Session] == nil {
				snap.Sessions[c.Session] = &words.Session{ID: c.Session}
			}
		}
	}
	for i, in := range queues {
		queues[i] = shortQueue(in, stands)
	}
	snap.Waits = inspect.WaitsFor(queues...)
}

// maxGraph is how many waiters of a queue surely go into the wait-for graph, which has an edge for every pair. At most maxGraph
// others are added, because their sessions have contenders in other locks too.
const maxGraph = 200

// shortQueue keeps the first maxGraph waiters of a long queue. Of the later ones it keeps those whose session has a contender in another
// lock, until there are twice maxGraph in all. Even if all of these fit, the short list hides one type of cycle: one in which a reader
// waits for a writer that was left out. Each waiter except such a reader also waits for a holder directly, and shortQueue keeps all holders.
func shortQueue(in *inspect.Report, stands map[int64]int) *inspect.Report {
	if len(in.Waiters) <= maxGraph {
		return in
	}
	short := *in
	short.Waiters = slices.Clone(in.Waiters[:maxGraph])
	for _, c := range in.Waiters[maxGraph:] {
		if stands[c.Session] > 1 && len(short.Waiters) < 2*maxGraph {
			short.Waiters = append(short.Waiters, c)
		}
	}
	return &short
}

// sortEntries forgets the entries that have gone, and those that now belong to a family or to another lock. It keeps the rest in order.
func (s *Scanner) sortEntries() {
	kept := s.order[:0]
	families := slices.ContainsFunc(s.order, func(e *entry) bool { return e.keyed != nil })
	for _, e := range s.order {
		above := s.entries[kind.ParentPath(e.path)]
		if e.gone || !e.asked && (families && s.familyOf(e.path) != nil || above != nil && above.keepsIn(e.path)) {
			delete(s.entries, e.path)
			s.walked--
			continue
		}
		kept = append(kept, e)
	}
	clear(s.order[len(kept):])
	s.order = kept
	byPath := func(a, b *entry) int { return cmp.Compare(a.path, b.path) }
	if !slices.IsSortedFunc(s.order, byPath) {
		slices.SortFunc(s.order, byPath)
	}
}

// sums returns, for each entry, a hash of its contenders, from the answer to dump.
func (s *Scanner) sums(owners map[string]map[string]int64) map[*entry]uint64 {
	out := make(map[*entry]uint64, len(owners))
	for dir, names := range owners {
		if e := s.lockOf(dir, names); e != nil {
			out[e] += s.sign(dir, names)
		}
	}
	return out
}

// sign returns a hash of a directory's contenders, from the answer to dump. The hash is a sum, because the order of the contenders varies.
// The hash of an empty queue is 0.
func (s *Scanner) sign(dir string, names map[string]int64) (sum uint64) {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for name, owner := range names {
		h.Reset()
		_, _ = h.WriteString(dir)
		_, _ = h.WriteString(name)
		maphash.WriteComparable(&h, owner)
		sum += h.Sum64() | 1
	}
	return sum
}

// lockOf returns the lock whose contenders are in dir: the node at dir, or its parent if dir is a queue of the parent's kind. It returns
// nil if the Scanner does not look there.
func (s *Scanner) lockOf(dir string, names map[string]int64) *entry {
	if dir == "/" {
		return nil
	}
	if of := s.semaphoreOf(dir); of != nil {
		return of
	}
	if of := s.familyOf(dir); of != nil {
		return of
	}
	parent, queue := kind.ParentPath(dir), s.queues[kind.BaseName(dir)]
	above := s.entries[parent]
	switch e := s.entries[dir]; {
	case queue && above != nil && (!above.read || above.keepsIn(dir) || above.payload == nil && evidence.Proves(kind.BaseName(dir), slices.Collect(maps.Keys(names)))):
		return above
	case e != nil:
		return e
	case !s.isBelowPrefix(dir) || s.mayBeKey(dir):
		return nil
	case queue && above == nil && s.isBelowPrefix(parent):
		return s.discover(parent)
	}
	return s.discover(dir)
}

// semaphoreOf returns the kazoo semaphore whose queue is at path; nil if there is none.
func (s *Scanner) semaphoreOf(path string) *entry {
	if of, ok := strings.CutSuffix(path, evidence.KazooQueue); ok {
		if e := s.entries[of]; e != nil && e.report != nil && e.kazoo {
			return e
		}
	}
	return nil
}

// familyOf returns the family whose nodes include path; nil if there is none.
func (s *Scanner) familyOf(path string) *entry {
	for range family.MostAbove {
		if path = kind.ParentPath(path); path == "/" {
			break
		}
		if e := s.entries[path]; e != nil && e.keyed != nil {
			return e
		}
	}
	return nil
}

// mayBeKey reports whether path may be a node of a family that is not known yet. In this case the nodes above path are read first:
// otherwise each key would be taken for a lock.
func (s *Scanner) mayBeKey(path string) (unread bool) {
	for range family.MostAbove {
		if path = kind.ParentPath(path); path == "/" || !s.isBelowPrefix(path) {
			break
		}
		e := s.entries[path]
		if e == nil {
			e = s.discover(path)
		}
		if e != nil && !e.read && !e.gone {
			e.leads, unread = true, true
		}
	}
	return unread
}

// maxPath bounds the path of a node that Options do not name. Servers allow a path of a megabyte. We would keep such a path, and show it
// with the lock and with each change of the lock's holder.
const maxPath = 4096

// discover adds a node that Options do not name; nil if there are too many nodes, or the path is too long.
func (s *Scanner) discover(path string) *entry {
	if s.walked >= maxNodes || len(path) > maxPath {
		s.cut = s.rounds
		return nil
	}
	s.walked++
	return s.add(path)
}

// leavesOut reports whether nodes below the prefix were left out. It stays true until two complete rounds of turns have left out no node,
// because a single look can skip nodes.
func (s *Scanner) leavesOut() bool { return s.cut > 0 && s.rounds-s.cut < 3 }
