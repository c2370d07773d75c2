package read

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
)

// Verify checks every node that the plan relied on and every lock that it would delete, unless these are
// still to be drained. It writes nothing. If the plan no longer fits, the error is a [*failure.StaleError] or an
// [*failure.InUseError]; any other error is one of reading.
func Verify(ctx context.Context, s *direct.Session, p *plan.Plan) error {
	if err := s.Sync(ctx, "/"); err != nil {
		return refusal.Read("/", err)
	}
	pins := append(reachable(p.Pins), p.Index)
	paths, absent := make([]string, len(pins)), map[string]bool{}
	for i, pin := range pins {
		paths[i], absent[pin.Path] = pin.Path, pin.Absent
	}
	stats, err := readStats(ctx, s, paths, absent)
	if err != nil {
		return err
	}
	var diffs []failure.Difference
	for _, want := range pins {
		if d, ok := compare(want, stats[want.Path]); !ok {
			diffs = append(diffs, d)
		}
	}
	// The czxid of a record reveals a destroy. An absent record looks the same before the first apply and
	// after a destroy (TestAPlanCanBeAppliedOnceAlsoAfterADestroy).
	if p.Index.Absent {
		n, err := Destroys(ctx, s, p.Root, p.Stack)
		if err != nil {
			return err
		}
		if n != p.Destroys {
			diffs = append(diffs, failure.Difference{Path: p.Index.Path, What: "applied and destroyed since", Want: p.Index, Got: p.Index})
		}
	}
	if len(diffs) > 0 {
		slices.SortFunc(diffs, func(a, b failure.Difference) int { return cmp.Compare(a.Path, b.Path) })
		return &failure.StaleError{Differences: diffs}
	}
	if p.Drain > 0 {
		return nil
	}
	return Idle(ctx, s, p, stats)
}

// SameHistory checks that the record was written by the apply that the plan saw. Servers restored from a backup count
// through the same versions again, with different data; the id of an apply never comes again.
func SameHistory(ctx context.Context, s *direct.Session, p *plan.Plan) error {
	if p.Applied == "" {
		return nil
	}
	now, err := HeadAt(ctx, s, p.Index.Path)
	if err != nil || now.Of(p.Applied) {
		return err
	}
	return &failure.StaleError{Differences: []failure.Difference{{
		Path: p.Index.Path, What: "written by another apply, as after a restore from a backup", Want: p.Index, Got: now.Pin,
	}}}
}

// reachable leaves out nodes that are absent because their parent is absent: a first apply
// of a thousand locks in one namespace checks only the namespace. If one of them had
// appeared, its parent would have appeared too, and the parent is checked.
func reachable(pins []plan.Pin) []plan.Pin {
	absent := map[string]bool{}
	var out []plan.Pin
	for _, p := range pins { // sorted: parents come first
		if p.Absent {
			absent[p.Path] = true
			if absent[kind.ParentPath(p.Path)] {
				continue
			}
		}
		out = append(out, p)
	}
	return out
}

// compare says how a node has changed, the strongest change first. Only the czxid reveals a node that was
// created again: it may have any version, and the same data.
func compare(want plan.Pin, stat *zk.Stat) (failure.Difference, bool) {
	got := PinOf(want.Path, want.Addr, stat)
	if want.Written && stat != nil {
		got.Version, got.Written = want.Version, true
	}
	if got == want {
		return failure.Difference{}, true
	}
	d := failure.Difference{Addr: want.Addr, Path: want.Path, Want: want, Got: got}
	switch {
	case got.Absent:
		d.What = "deleted"
	case want.Absent:
		d.What = "created"
	case got.Czxid != want.Czxid:
		d.What = "deleted and created again"
	case got.Version != want.Version:
		d.What = "data changed"
	default:
		d.What = "access list changed"
	}
	if stat != nil && d.What != "access list changed" { // the servers do not note the time of that change
		d.ModifiedMs = stat.Mtime
	}
	return d, false
}

// Idle returns an error for the first lock that the plan would delete while it is in use. stats are the stats of the nodes and of
// their structural children.
//
// This check comes early, before anything is written. Later the transaction itself is refused as long
// as anybody is there.
func Idle(ctx context.Context, s *direct.Session, p *plan.Plan, stats map[string]*zk.Stat) error {
	var busy []*plan.Change
	for c := range p.Each() {
		if !c.NeedsIdle() || c.Break {
			continue
		}
		in, err := Used(ctx, s, c, stats, "")
		if err != nil {
			return err
		}
		if in != "" {
			busy = append(busy, c)
		}
	}
	if len(busy) == 0 {
		return nil
	}
	usage, err := Usage(ctx, s, busy[0].Before)
	if err != nil {
		return err
	}
	return failure.InUseBy(usage, busy...)
}

// hasChildren reports whether a lock has children besides its parts. Their numbers are in the stats, so nothing is listed for an
// idle lock, and nearly all locks are idle. A family with key nodes has children, even if no key is in use. Parts count as the
// plan saw them; if one came or went since, its pin does not match.
func hasChildren(c *plan.Change, stats map[string]*zk.Stat) bool {
	parts := present(c.Before.Live.Parts)
	if stat := stats[c.Path]; stat != nil && int(stat.NumChildren) > parts {
		return true
	}
	for _, part := range c.Before.Live.Parts {
		if stat := stats[kind.JoinPath(c.Path, part.Name)]; stat != nil && stat.NumChildren > 0 {
			return true
		}
	}
	return false
}

// Occupied returns the changes whose locks now have children besides their parts.
func Occupied(ctx context.Context, s *direct.Session, changes []*plan.Change) (busy []*plan.Change, err error) {
	var paths []string
	for _, c := range changes {
		paths = append(paths, nodes(c)...)
	}
	stats, err := readStats(ctx, s, paths, nil)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(changes, func(c *plan.Change) bool { return !hasChildren(c, stats) }), nil
}

// nodes returns the paths of the nodes of a lock, without its contenders.
func nodes(c *plan.Change) []string {
	paths := []string{c.Path}
	for _, part := range c.Before.Live.Parts {
		paths = append(paths, kind.JoinPath(c.Path, part.Name))
	}
	return paths
}

// Usage reads who uses a lock now; nil if they have left.
func Usage(ctx context.Context, s *direct.Session, n *plan.Node) (*kind.Usage, error) {
	stat, err := s.Exists(ctx, n.Path)
	if err != nil {
		return nil, refusal.Read(n.Path, err)
	}
	if stat == nil {
		return nil, nil
	}
	// Use the declaration that the plan saw: whatever the node's data is now, its children are those
	// of a lock of that kind.
	fresh := &plan.Node{Path: n.Path, Payload: n.Payload, Live: liveOf(stat)}
	r := &reader{s: s, tree: &plan.Tree{}, tally: &Tally{}}
	if n.Kind().Key != nil {
		if r.used, err = KeyInUse(ctx, s, n, leaveIt); err != nil {
			return nil, err
		}
	}
	if err := r.readUsage(ctx, s, fresh); err != nil {
		return nil, err
	}
	return fresh.Live.Usage, nil
}

// Free returns an error that names the holder of an apply lock, if there is one. If we may not look, queueing
// will tell.
func Free(ctx context.Context, s *direct.Session, path string) error {
	names, _, err := s.Children(ctx, path)
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) {
		return nil
	}
	if err != nil {
		return refusal.Read(path, err)
	}
	queue, _ := kind.SortContenders(names)
	if len(queue) == 0 {
		return nil
	}
	data, _, err := s.Get(ctx, kind.JoinPath(path, queue[0].Name))
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil // the holder has just left
	case err != nil && !errors.Is(err, zk.ErrNoAuth):
		return refusal.Read(path, err)
	}
	var contender struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(data, &contender) // another program's data has no such field
	return &failure.LockedError{Info: refusal.ParseInfo(contender.ID), Path: path}
}

// readStats reads the stats of nodes in parallel; absent ones have no entry. If the plan found a node absent and we may not look
// at it now, it has been created since (see reader.keepUnreadable). Its entry says no more than that. For any other node it is
// more likely that the credentials are wrong.
func readStats(ctx context.Context, s *direct.Session, paths []string, absent map[string]bool) (map[string]*zk.Stat, error) {
	found := make([]*zk.Stat, len(paths))
	err := forEach(ctx, &Tally{}, s, paths, func(paths []string) direct.Reads { return direct.Reads{Exists: paths} },
		func(ctx context.Context, s *direct.Session, i int) (err error) {
			found[i], err = s.Exists(ctx, paths[i])
			switch {
			case errors.Is(err, zk.ErrNoAuth) && absent[paths[i]]:
				found[i] = &zk.Stat{}
			case err != nil:
				return refusal.Read(paths[i], err)
			}
			return nil
		})
	stats := make(map[string]*zk.Stat, len(paths))
	for i, stat := range found {
		if stat != nil {
			stats[paths[i]] = stat
		}
	}
	return stats, err
}

// StatsToIdle reads the stats of the locks that must be idle, and of their parts.
func StatsToIdle(ctx context.Context, s *direct.Session, p *plan.Plan) (map[string]*zk.Stat, error) {
	var paths []string
	for c := range p.Each() {
		if c.NeedsIdle() {
			paths = append(paths, nodes(c)...)
		}
	}
	return readStats(ctx, s, paths, nil)
}
