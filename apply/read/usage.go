package read

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// MaxDescribed is how many contenders of one lock are read, besides permits; a plan names a few and counts
// the rest.
const MaxDescribed = 32

// readUsage fills in the structural children and contenders of a lock. For a family it looks at some keys.
func (r *reader) readUsage(ctx context.Context, s *direct.Session, n *plan.Node) error {
	if n.Kind().Key != nil {
		return r.family(ctx, n)
	}
	return r.contenders(ctx, s, n, MaxDescribed)
}

// contenders fills in the structural children and the contenders of a lock that is no family, and describes at most limit of
// them.
//
// It needs few requests, because it does this for every lock of a tree: one for each part, and none for
// an idle mutex, whose number of children came with its data. Contenders are listed and read only if
// there are more children than parts.
func (r *reader) contenders(ctx context.Context, s *direct.Session, n *plan.Node, limit int) error {
	k := n.Kind()
	lists := map[string][]string{} // children by queue directory, "" for the lock itself
	for _, name := range k.Children {
		part, err := r.part(ctx, s, n.Path, name)
		if err == nil && !part.Absent && name == k.Record {
			part, err = r.record(ctx, s, n.Path, part)
		}
		if err == nil && part.Children > 0 {
			lists[name], err = childrenOf(ctx, r.s, kind.JoinPath(n.Path, name))
		}
		if err != nil {
			return err
		}
		n.Live.Parts = append(n.Live.Parts, part)
	}
	if n.Live.Children > present(n.Live.Parts) {
		names, err := childrenOf(ctx, r.s, n.Path)
		if err != nil {
			return err
		}
		lists[""] = without(names, k.Children)
	}
	line, junk := listQueues(n, lists)
	if len(line)+len(junk) == 0 {
		return nil
	}
	if err := r.describe(ctx, n, line, limit); err != nil {
		return err
	}
	n.Live.Usage = sortUsage(n, line, junk)
	return nil
}

func present(parts []plan.Part) (n int) {
	for _, p := range parts {
		if !p.Absent {
			n++
		}
	}
	return n
}

func without(names, structural []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(structural, name) })
}

func (r *reader) part(ctx context.Context, s *direct.Session, path, name string) (plan.Part, error) {
	path = kind.JoinPath(path, name)
	// The answer to this request has the stat, too: list, versions and number of children.
	acl, stat, err := s.GetACL(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return plan.Part{Name: name, Absent: true}, nil
	}
	if err != nil {
		return plan.Part{}, refusal.Read(path, err)
	}
	return plan.Part{
		Name: name, Czxid: stat.Czxid, Version: stat.Version, Aversion: stat.Aversion,
		Children: int(stat.NumChildren), ACL: r.share.list(wire.FromZK(acl)), Data: stat.DataLength > 0,
	}, nil
}

// record adds to a part the data that users of the lock write there, and its present version.
func (r *reader) record(ctx context.Context, s *direct.Session, path string, part plan.Part) (plan.Part, error) {
	data, stat, err := s.Get(ctx, kind.JoinPath(path, part.Name))
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return plan.Part{Name: part.Name, Absent: true}, nil
	case err != nil:
		return part, refusal.Read(kind.JoinPath(path, part.Name), err)
	}
	part.Version, part.Written, part.Record, part.CreatedMs = stat.Version, true, data, stat.Ctime
	return part, nil
}

// childrenOf lists a node; one that is gone has no children.
func childrenOf(ctx context.Context, s *direct.Session, path string) ([]string, error) {
	names, _, err := s.Children(ctx, path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, refusal.Read(path, err)
	}
	return names, nil
}

// Contents lists what programs have in a lock: its contenders, and in a family everything except the directories. Children come
// before their parent.
func Contents(ctx context.Context, s *direct.Session, n *plan.Node) (all []string, err error) {
	if n.Kind().Key != nil {
		return familyContents(ctx, s, n)
	}
	dirs, parts := []string{n.Path}, []string(nil) // nodes whose children may be contenders, and children that are not contenders
	for _, part := range n.Live.Parts {
		if parts = append(parts, part.Name); !part.Absent {
			dirs = append(dirs, kind.JoinPath(n.Path, part.Name))
		}
	}
	for _, dir := range dirs {
		names, err := childrenOf(ctx, s, dir)
		if err != nil {
			return nil, err
		}
		if dir == n.Path {
			names = without(names, parts)
		}
		for _, name := range names {
			all = append(all, kind.JoinPath(dir, name))
		}
	}
	return all, nil
}

// entry is one contender, before it goes into a Usage.
type entry struct {
	kind.Party
	dir   string
	seen  kind.Seen
	queue int  // index in the Queues of its kind
	gone  bool // its node was deleted after its queue was listed
}

// listQueues lists the contenders of all queues of a lock. The queue that decides who holds the lock comes first.
//
// It comes first because describe reads only a limited number, and people ask for the holders, who are in it.
func listQueues(n *plan.Node, lists map[string][]string) (line []entry, junk []string) {
	k := n.Kind()
	for i, q := range k.Queues {
		queue, others := kind.SortContenders(lists[q.Child])
		delete(lists, q.Child)
		dir := q.Dir(n.Path)
		for _, c := range queue {
			line = append(line, entry{dir: dir, queue: i, seen: kind.Seen{Contender: c},
				Party: kind.Party{Path: kind.JoinPath(dir, c.Name), Name: c.Name, Shared: c.Shared}})
		}
		junk = append(junk, others...)
	}
	for _, names := range lists { // children where this kind has no queue
		junk = append(junk, names...)
	}
	slices.Sort(junk)
	return line, junk
}

// sortUsage separates holders from waiters.
func sortUsage(n *plan.Node, line []entry, junk []string) *kind.Usage {
	line = slices.DeleteFunc(line, func(e entry) bool { return e.gone })
	queues := make([][]kind.Seen, len(n.Kind().Queues))
	for _, e := range line {
		queues[e.queue] = append(queues[e.queue], e.seen)
	}
	u := &kind.Usage{Junk: junk}
	// The entries are in the order of their queues.
	for i, v := range slices.Concat(n.Kind().Judge(n.Payload.Params, queues)...) {
		e := line[i]
		if e.Permits = v.Permits; v.Holds {
			e.Candidate = n.Kind().Kept && e.Held.IsZero()
			u.Holders = append(u.Holders, e.Party)
		} else {
			u.Waiters = append(u.Waiters, e.Party)
		}
	}
	return u
}

// describe reads who the contenders are, up to the limit. The others are known only by their places. If a semaphore is no family,
// describe reads all its permits: their number may have changed, so a place does not prove a grant. In a family, only the first
// contenders of each key are read, and a permit that is not read counts as granted.
func (r *reader) describe(ctx context.Context, n *plan.Node, line []entry, limit int) error {
	var reads direct.Reads
	var told []*entry
	k := n.Kind()
	for i := range line {
		e := &line[i]
		// A gate is a queue that grants nothing; its first contender may already be in the deciding queue. So describe reads that
		// contender's session. A client that is first in the gate holds nothing yet, even if it has nodes in the deciding queue.
		first := k.Queues[e.queue].Gate && (i == 0 || line[i-1].queue != e.queue)
		if i < limit || limit == MaxDescribed && k.Permits != nil && !k.Queues[e.queue].Gate || first {
			told = append(told, e)
			reads.Get = append(reads.Get, e.Path)
		}
	}
	ahead := r.s.ReadAhead(ctx, reads)
	for _, e := range told {
		data, stat, err := ahead.Get(ctx, e.Path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			e.gone = true
			continue
		case errors.Is(err, zk.ErrNoAuth):
			continue // its name is all we know
		case err != nil:
			return refusal.Read(n.Path, err)
		}
		e.Party = inspect.NewContender(e.dir, e.seen.Contender, data, stat)
		e.seen.Session, e.seen.Data, e.Data = e.Session, data, nil
	}
	return nil
}

// readImports completes what was read of nodes that are to be imported. They say nothing about themselves, so the declaration says
// what their children mean.
//
// A contender of a semaphore stands in another place than one of a mutex: without a kind, children are only children. A released
// node (removed with destroy = false) still contains its declaration. That one counts, because its users read it.
func (r *reader) readImports(ctx context.Context, desired *plan.Tree) error {
	for _, imp := range desired.Intent.Imports {
		n := r.seen[imp.Path]
		if n == nil || r.ours(n) {
			continue
		}
		as := n.Payload
		if want := desired.Find(imp.Path); as == nil && want != nil {
			as = want.Payload
		}
		if as == nil {
			continue
		}
		acl, _, err := r.s.GetACL(ctx, imp.Path)
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
			continue
		case err != nil:
			return refusal.Read(imp.Path, err)
		}
		n.ACL = wire.FromZK(acl)
		if as.Params.Kind().Container { // the namespace must not be another stack's root
			if _, err := Alone(ctx, r.s, imp.Path, r.tree.Stack); err != nil {
				return err
			}
			continue
		}
		// Use a copy: the node itself must not get the payload, which would give it an owner.
		live := *n.Live
		tmp := &plan.Node{Path: imp.Path, Payload: as, Live: &live}
		if err := r.readUsage(ctx, r.s, tmp); err != nil {
			return err
		}
		n.Live = tmp.Live
	}
	return nil
}

// Gap is a node that the stack has, or should have, and that a read did not find or could not read.
type Gap struct {
	Path string
	// Addr and Type are those of the declaration; "" if the path is not declared.
	Addr plan.Addr
	Type string
	// Trouble says why it cannot be read; "" if it is missing, or contains no declaration.
	Trouble plan.Trouble
	Detail  string
}

// Gaps returns what is missing from a tree that was read, by path: nodes that cannot be read, and declared ones that do
// not exist, if the stack was ever applied. Without them the rest looks complete.
func Gaps(t, desired *plan.Tree) []Gap {
	var out []Gap
	known := map[string]Gap{}
	for _, want := range desired.Nodes {
		g := Gap{Path: want.Path, Addr: want.Addr, Type: want.Kind().Name}
		known[want.Path] = g
		if n := t.Find(want.Path); t.Index != nil && (n == nil || n.Live != nil && n.Live.Trouble == plan.TroubleForeign) {
			out = append(out, g)
		}
	}
	for _, n := range t.Nodes {
		if n.Live != nil && n.Live.Trouble != "" && n.Live.Trouble != plan.TroubleForeign {
			g := known[n.Path]
			g.Path, g.Trouble, g.Detail = n.Path, n.Live.Trouble, n.Live.Detail
			out = append(out, g)
		}
	}
	if t.Index == nil { // any node that cannot be read may be the stack's
		for _, path := range t.Unreadable {
			if t.Find(path) == nil {
				out = append(out, Gap{Path: path, Trouble: plan.TroubleUnreadable})
			}
		}
	}
	slices.SortFunc(out, func(a, b Gap) int { return cmp.Compare(a.Path, b.Path) })
	return out
}
