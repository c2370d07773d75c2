package read

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
)

// Tries is how often Tree reads at most. It starts over if an apply finished meanwhile.
const Tries = 5

// Tree reads the live tree of desired's stack below desired's root: its record, every node
// that the record or desired names, and the contents of the stack's namespaces. Where others
// may create nodes, or another configuration has its root, Tree only counts the contents. It
// sends no write. The tree belongs to one version of the record: if an apply finishes in
// between, Tree starts over; a [*failure.MovedError] means that it gave up.
//
// Edits by hand during the read may or may not be seen; the apply verifies again what
// a plan relied on.
//
// If desired pins the id of the ensemble, an ensemble with another one is a [*failure.WrongEnsembleError], and nothing else is
// read.
func Tree(ctx context.Context, s *direct.Session, desired *plan.Tree) (*plan.Tree, error) {
	return new(Tally).Tree(ctx, s, desired)
}

// Tree is the function [Tree], and counts the nodes that it reads.
func (t *Tally) Tree(ctx context.Context, s *direct.Session, desired *plan.Tree) (*plan.Tree, error) {
	path := record.IndexPath(desired.Root, desired.Stack)
	for range Tries {
		tree, err := Record(ctx, s, desired)
		if err != nil {
			return nil, err
		}
		tree.Frame, tree.Unread = []plan.Framed{}, map[string]int{}
		r := newReader(s, t, tree, desired)
		t.begin(len(r.names))
		if err := r.walk(ctx, desired); err != nil {
			return nil, err
		}
		r.collect()
		if err := readLock(ctx, s, tree); err != nil {
			return nil, err
		}
		// Every apply writes the record, in the transaction that changes the rest. If it is the same as before the first read, no
		// apply finished in between, and the tree is of one state. This proves nothing about edits by hand, nor about what an apply
		// writes outside of its transactions: access lists, and the states of draining locks. Comparing only the version would not
		// be enough: a record that was destroyed and created again may have the same version, but not the same czxid.
		again, err := s.Exists(ctx, path)
		if err != nil {
			return nil, refusal.Read(path, err)
		}
		if PinOf(path, "", again) == tree.IndexPin {
			return tree, nil
		}
	}
	return nil, &failure.MovedError{Path: path, Tries: Tries}
}

// Record reads the stack's record alone: a tree without nodes.
func Record(ctx context.Context, s *direct.Session, desired *plan.Tree) (*plan.Tree, error) {
	if err := rightEnsemble(ctx, s, desired); err != nil {
		return nil, err
	}
	// A follower may not have seen yet what the last apply committed, which would look deleted.
	if err := s.Sync(ctx, "/"); err != nil {
		return nil, refusal.Read("/", err)
	}
	tree := &plan.Tree{Ensemble: desired.Ensemble, Root: desired.Root, Stack: desired.Stack}
	if err := readIndex(ctx, s, tree); err != nil {
		return nil, err
	}
	return tree, nil
}

// PinOf returns the pin of a node from its stat. A nil stat stands for an absent node.
func PinOf(path string, addr plan.Addr, stat *zk.Stat) plan.Pin {
	if stat == nil {
		return plan.Pin{Path: path, Addr: addr, Absent: true}
	}
	return plan.Pin{Path: path, Addr: addr, Czxid: stat.Czxid, Version: stat.Version, Aversion: stat.Aversion}
}

// readLock reads the apply lock: its contenders' access list and its data version. Servers before 3.8.4 and 3.9.2 tell the version
// even to clients without READ.
func readLock(ctx context.Context, s *direct.Session, tree *plan.Tree) (err error) {
	path := record.LockPath(tree.Root, tree.Stack)
	data, stat, err := s.Get(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case errors.Is(err, zk.ErrNoAuth):
		tree.Destroys, err = Destroys(ctx, s, tree.Root, tree.Stack)
		return err
	case err != nil:
		return refusal.Read(path, err)
	}
	tree.Destroys = stat.Version
	if p, err := kind.Decode(data); err == nil {
		tree.Contenders = p.ChildACL
	}
	return nil
}

// Destroys reads the data version of the apply lock, for [plan.Tree].Destroys. It is 0 if there is no lock yet.
func Destroys(ctx context.Context, s *direct.Session, root, stack string) (int32, error) {
	stat, err := s.Exists(ctx, record.LockPath(root, stack))
	if err != nil {
		return 0, refusal.Read(record.LockPath(root, stack), err)
	}
	if stat == nil {
		return 0, nil
	}
	return stat.Version, nil
}

// reader is one pass over the tree.
//
// It follows three leads. In the root, and in our namespaces where only administrators create nodes, each node's data says which
// stack owns it. The paths of the configuration lead to the declared nodes, and the record names nodes that no mark leads to. So
// a node is found as long as one of the three still leads to it. Other stacks and programs may keep thousands of nodes in the
// same root: a node without our mark is read once and not entered (TestForeignNeighboursAreNeitherReadNorListed).
type reader struct {
	s     *direct.Session
	tally *Tally
	tree  *plan.Tree
	seen  map[string]*plan.Node // by path; nil values are paths known to be absent
	names []string              // the paths of the configuration and of the record, sorted
	share sharing
	used  string // of a family: the node of a key that is known to be in use; "" if none is
	walks bool   // it only walks the tree, and does not read named paths outside of the walk

	mu        sync.Mutex
	illegible []*plan.Node // see [plan.Tree]
}

func newReader(s *direct.Session, t *Tally, tree, desired *plan.Tree) *reader {
	r := &reader{s: s, tally: t, tree: tree, seen: make(map[string]*plan.Node, len(desired.Nodes)), share: sharing{desired: desired}}
	r.names = r.namedPaths(desired)
	return r
}

func (r *reader) ours(n *plan.Node) bool {
	return n != nil && n.Payload != nil && n.Payload.Owner.Stack == r.tree.Stack && !n.Live.Ephemeral
}

// walk reads level by level: the children of the root, then those of every namespace of ours in which only administrators may
// create nodes, then named nodes elsewhere.
func (r *reader) walk(ctx context.Context, desired *plan.Tree) error {
	names, _, err := r.s.Children(ctx, r.tree.Root)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return refusal.Read(r.tree.Root, err)
	}
	rootThere := err == nil
	if rootThere {
		if err := r.frame(ctx, desired); err != nil {
			return err
		}
	}
	var level []string
	for _, name := range names {
		path := kind.JoinPath(r.tree.Root, name)
		if path != record.ScaffoldPath(r.tree.Root) && path != "/zookeeper" {
			level = append(level, path)
		}
	}
	r.walks = true
	if err := r.descend(ctx, level); err != nil {
		return err
	}
	r.walks = false
	if err := r.descend(ctx, r.missedPaths(rootThere)); err != nil {
		return err
	}
	if len(desired.Intent.Imports) == 0 {
		return nil
	}
	return r.readImports(ctx, desired)
}

// missedPaths lists the named paths that the walk cannot have met: their parent exists but is not ours, or is not walked into, so
// its children were not listed. A child of an absent node is absent without asking.
//
// r.names is sorted, so a parent comes before its children. The children of a namespace of ours were all visited, so a child that
// was not seen is absent. Below a lock of ours are only contenders and parts, so the walk does not visit them, and a named path
// there counts as absent. If a node exists at such a path and the lock is to become a namespace, the transaction cannot delete the
// lock: it fails with NotEmpty.
func (r *reader) missedPaths(rootThere bool) []string {
	var out []string
	for _, path := range r.names {
		if _, ok := r.seen[path]; ok {
			continue
		}
		parent := kind.ParentPath(path)
		p, known := r.seen[parent]
		_, unread := r.tree.Unread[parent]
		switch {
		case parent == r.tree.Root || !rootThere && strings.HasPrefix(path, r.tree.Root+"/"), known && (p == nil || r.ours(p) && !unread):
			r.seen[path] = nil
		default:
			out = append(out, path)
		}
	}
	return out
}

// namedPaths are the paths of the configuration and of the record, sorted.
func (r *reader) namedPaths(desired *plan.Tree) []string {
	out := make([]string, 0, len(desired.Nodes))
	for _, n := range desired.Nodes {
		out = append(out, n.Path)
	}
	for _, imp := range desired.Intent.Imports {
		if kind.ValidatePath(imp.Path) == nil {
			out = append(out, imp.Path)
		}
	}
	if r.tree.Index != nil {
		for _, path := range r.tree.Index.Untracked {
			if kind.ValidatePath(path) == nil {
				out = append(out, path)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// descend visits nodes and the contents of namespaces, level by level. The nodes of a level are read
// concurrently, so that a tree costs as many round trips as it has levels.
func (r *reader) descend(ctx context.Context, level []string) error {
	var mu sync.Mutex
	for len(level) > 0 {
		var next []string
		err := batches(ctx, r.tally, len(level), func(ctx context.Context, first, end int) error {
			nodes, children, err := r.visit(ctx, level[first:end])
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for i, n := range nodes {
				path := level[first+i]
				if n != nil {
					path, level[first+i] = n.Path, "" // use the declaration's string for the path, so that the path is in memory once
				}
				r.seen[path] = n
			}
			next = append(next, children...)
			return nil
		})
		if err != nil {
			return err
		}
		level = next
	}
	return nil
}

// get reads what a node says about itself.
func (r *reader) get(ctx context.Context, s *direct.Session, path string) (*plan.Node, error) {
	data, stat, err := s.Get(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case errors.Is(err, zk.ErrNoAuth):
		return r.keepUnreadable(ctx, path)
	case err != nil:
		return nil, refusal.Read(path, err)
	}
	n := &plan.Node{Path: path, Live: liveOf(stat)}
	r.share.decode(n, data)
	if n.Payload != nil {
		n.Addr = plan.Addr(n.Payload.Owner.Addr)
		n.Payload.Read(stat.Mtime)
	}
	if _, named := slices.BinarySearch(r.names, path); !named && (n.Live.Trouble == plan.TroubleNewer || n.Live.Trouble == plan.TroubleDamaged) {
		r.cannotUnderstand(n, data)
	}
	return n, nil
}

// cannotUnderstand notes a node that may be ours. If its mark has another format or is damaged, the owner may still be readable.
func (r *reader) cannotUnderstand(n *plan.Node, data []byte) {
	var mark struct {
		Owner *kind.Owner `json:"owner"`
	}
	_ = json.Unmarshal(data, &mark) // if this fails, the owner is unknown
	if mark.Owner != nil {
		if n.Addr = plan.Addr(mark.Owner.Addr); mark.Owner.Stack != r.tree.Stack {
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.illegible = append(r.illegible, n)
}

// readRest reads the rest of a node: its access list and its children.
func (r *reader) readRest(ctx context.Context, s *direct.Session, n *plan.Node) (*plan.Node, []string, error) {
	// A plan needs neither the access list nor the contenders of such a node. If the node is to be imported, readImports reads
	// them.
	if !r.ours(n) {
		return n, nil, nil
	}
	acl, _, err := s.GetACL(ctx, n.Path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil, nil
	case err != nil:
		return nil, nil, refusal.Read(n.Path, err)
	}
	n.ACL = r.share.list(wire.FromZK(acl))
	n.Live.AsLeft = r.tree.Index.Left(n.Path, n.Payload, n.ACL)
	if n.Kind().Container {
		return r.list(ctx, n)
	}
	err = r.readUsage(ctx, s, n)
	if errors.Is(err, zk.ErrNoAuth) { // the refusal may be about one of its parts; without them the rest is of little use
		n, err = r.keepUnreadable(ctx, n.Path)
	}
	return n, nil, err
}

// keepUnreadable keeps a node that we may not read, because its existence matters. Servers before 3.8.4 and 3.9.2 tell everybody
// whether a node exists. Later ones require READ on a node that exists (ZOOKEEPER-2590), so a refusal proves that it exists, and no
// more.
func (r *reader) keepUnreadable(ctx context.Context, path string) (*plan.Node, error) {
	n := &plan.Node{Path: path, Live: &plan.Live{}}
	stat, err := r.s.Exists(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoAuth):
	case err != nil:
		return nil, refusal.Read(path, err)
	case stat == nil:
		return nil, nil
	default:
		n.Live = liveOf(stat)
	}
	n.Live.Trouble = plan.TroubleUnreadable
	return n, nil
}

// list returns the children of a namespace that is walked into. For a namespace that is not walked into, list only notes the
// number of children.
func (r *reader) list(ctx context.Context, n *plan.Node) (_ *plan.Node, names []string, err error) {
	if n.Live.Children == 0 {
		return n, nil, nil
	}
	walk := r.walks && !access.OthersCanCreate(r.tree, r.share.desired.Intent.Access, n.ACL)
	if walk {
		if names, err = childrenOf(ctx, r.s, n.Path); err != nil {
			return nil, nil, err
		}
	}
	if slices.Contains(names, ".locktree") { // another configuration of the same stack name may have its root here; its marks look like ours
		inner, err := r.s.Exists(ctx, record.IndexPath(n.Path, r.tree.Stack))
		if err != nil && !errors.Is(err, zk.ErrNoAuth) {
			return nil, nil, refusal.Read(n.Path, err)
		}
		walk = err == nil && inner == nil
	}
	if !walk {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.tree.Unread[n.Path] = n.Live.Children
		return n, nil, nil
	}
	for i, name := range names {
		names[i] = kind.JoinPath(n.Path, name)
	}
	return n, names, nil
}

func liveOf(stat *zk.Stat) *plan.Live {
	return &plan.Live{
		Czxid: stat.Czxid, Version: stat.Version, Aversion: stat.Aversion,
		Children: int(stat.NumChildren), DataLength: int(stat.DataLength), ModifiedMs: stat.Mtime, Ephemeral: stat.EphemeralOwner != 0,
	}
}

// decode classifies a node's data.
func decode(data []byte) (*kind.Payload, plan.Trouble, string) {
	p, err := kind.Decode(data)
	var newer *kind.VersionError
	switch {
	case err == nil:
		return p, "", ""
	case errors.Is(err, kind.ErrForeign):
		return nil, plan.TroubleForeign, ""
	case errors.As(err, &newer):
		return nil, plan.TroubleNewer, explain.Plain(err.Error())
	default:
		return nil, plan.TroubleDamaged, explain.Plain(err.Error())
	}
}

// isPart reports whether the lock above the node has it among its Parts already. A node inside a lock is visited only if the walk
// does not reach the lock and r.names has both paths. If the configuration declares the lock, it declares nothing inside
// it; the record or an import may still name the inner path.
func (r *reader) isPart(path string) bool {
	above := r.seen[kind.ParentPath(path)]
	return above != nil && slices.ContainsFunc(above.Live.Parts, func(p plan.Part) bool { return kind.JoinPath(above.Path, p.Name) == path })
}

// collect puts what was seen into the tree: nodes of ours, and others if they are
// named.
//
// If a child of our namespace is not ours, it is unmanaged, whoever owns it. As long as it exists, the namespace cannot be
// deleted.
func (r *reader) collect() {
	r.tree.Nodes = make([]*plan.Node, 0, len(r.seen))
	for path, n := range r.seen {
		if n == nil {
			continue
		}
		if at := kind.ParentPath(path); r.tree.Unread[at] > 0 {
			r.tree.Unread[at]--
		}
		_, named := slices.BinarySearch(r.names, path)
		if r.ours(n) || named && !r.isPart(path) {
			r.tree.Nodes = append(r.tree.Nodes, n)
		}
		if !r.ours(n) && r.ours(r.seen[kind.ParentPath(path)]) {
			r.tree.Unmanaged = append(r.tree.Unmanaged, path)
		}
		if n.Live.Trouble == plan.TroubleUnreadable && (named || r.ours(r.seen[kind.ParentPath(path)])) {
			r.tree.Unreadable = append(r.tree.Unreadable, path)
		}
	}
	r.tree.Illegible = r.illegible
	for _, nodes := range [][]*plan.Node{r.tree.Nodes, r.tree.Illegible} {
		slices.SortFunc(nodes, func(a, b *plan.Node) int { return cmp.Compare(a.Path, b.Path) })
	}
	slices.Sort(r.tree.Unmanaged)
	slices.Sort(r.tree.Unreadable)
}

// visit reads the nodes at the paths; a node that does not exist is nil. For each namespace of ours among the nodes, visit also
// returns the paths of its children.
//
// The requests for a node are executed at different moments. This does no harm: the pins have the versions from the first
// request, and an apply compares those again. A node that is deleted in between is absent.
func (r *reader) visit(ctx context.Context, paths []string) (nodes []*plan.Node, children []string, err error) {
	var rest direct.Reads
	for _, path := range paths {
		if _, named := slices.BinarySearch(r.names, path); named {
			addRest(&rest, path, r.share.desired.Find(path))
		}
	}
	first, then := r.s.ReadAhead(ctx, direct.Reads{Get: paths}), r.s.ReadAhead(ctx, rest)
	nodes = make([]*plan.Node, len(paths))
	for i, path := range paths {
		if nodes[i], err = r.get(ctx, first, path); err != nil {
			return nil, nil, err
		}
	}
	for i, n := range nodes {
		var below []string
		if n != nil && n.Live.Trouble != plan.TroubleUnreadable {
			if nodes[i], below, err = r.readRest(ctx, then, n); err != nil {
				return nil, nil, err
			}
		}
		children = append(children, below...)
	}
	return nodes, children, nil
}

// addRest adds to the batch the requests that the method readRest sends for a node of ours. It leaves out the many directories of
// a family.
func addRest(batch *direct.Reads, path string, n *plan.Node) {
	batch.GetACL = append(batch.GetACL, path)
	if k := n.Kind(); k != nil {
		for _, part := range k.Children {
			batch.GetACL = append(batch.GetACL, kind.JoinPath(path, part))
		}
	}
}

// Shown returns the list with the hashes that the servers show us, if they hid some when the plan was made.
func Shown(ctx context.Context, s *direct.Session, path string, planned kind.List) (kind.List, error) {
	if !planned.Masked() {
		return planned, nil
	}
	got, _, err := s.GetACL(ctx, path)
	return wire.FromZK(got), err
}

// A server answers a connection's requests in order. Sending many at once hides the network's latency, and saves both sides from
// waking up for each. Larger numbers help no further. If more than 1,000 requests of all clients wait, servers stop reading from
// everybody (globalOutstandingLimit).
const (
	readsPerWrite = 32 // paths whose reads are sent in one write (see forEach)
	writesAhead   = 4  // such writes that wait for their answers
)

// forEach calls f for every index of paths, several at a time, and returns the first error. The function requests returns the
// reads that f needs for the given paths. They are sent ahead. Any other request of f costs a round trip, for which the other
// calls wait. The first error ends the context of all calls. f must be safe for concurrent use. t counts the paths that are done.
func forEach(ctx context.Context, t *Tally, s *direct.Session, paths []string, requests func(paths []string) direct.Reads,
	f func(ctx context.Context, s *direct.Session, i int) error) error {
	return batches(ctx, t, len(paths), func(ctx context.Context, first, end int) error {
		ahead := s.ReadAhead(ctx, requests(paths[first:end]))
		for i := first; i < end; i++ {
			if err := f(ctx, ahead, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// Tally counts the nodes that are read, so that a caller can show the progress. It is safe for concurrent use.
type Tally struct{ done, all, least atomic.Int64 }

// Count returns how many nodes were read, and how many have to be read as far as is known. The second number grows with each level
// of the tree.
func (t *Tally) Count() (done, all int) {
	return int(t.done.Load()), int(max(t.all.Load(), t.least.Load()))
}

// begin counts from zero. The parameter least is a lower limit of the number of nodes to read.
func (t *Tally) begin(least int) {
	t.done.Store(0)
	t.all.Store(0)
	t.least.Store(int64(least))
}

// batches is like forEach, for an f that sends its own reads. f gets the range of indices from first to end-1.
func batches(ctx context.Context, t *Tally, n int, f func(ctx context.Context, first, end int) error) error {
	t.all.Add(int64(n))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writesAhead)
	for first := 0; first < n; first += readsPerWrite {
		end := min(first+readsPerWrite, n)
		g.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := f(ctx, first, end); err != nil {
				return cmp.Or(context.Cause(ctx), err) // an interrupt, or the first error, explains those after it
			}
			t.done.Add(int64(end - first))
			return nil
		})
	}
	return g.Wait()
}
