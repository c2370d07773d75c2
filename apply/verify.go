package apply

import (
	"cmp"
	"context"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// verify looks at every node the plan relied on and at every lock it would
// delete, unless these have still to be drained. It writes nothing. The error is a [*StaleError] or a [*InUseError].
func verify(ctx context.Context, s *recipes.Session, p *plan.Plan) error {
	if err := s.Sync(ctx, "/"); err != nil {
		return readError("/", err)
	}
	pins := append(reachable(p.Pins), p.Index)
	paths, absent := make([]string, len(pins)), map[string]bool{}
	for i, pin := range pins {
		paths[i], absent[pin.Path] = pin.Path, pin.Absent
	}
	stats, err := existing(ctx, s, paths, absent)
	if err != nil {
		return err
	}
	var diffs []Difference
	for _, want := range pins {
		if d, ok := compare(want, stats[want.Path]); !ok {
			diffs = append(diffs, d)
		}
	}
	// An index that is there tells of a destroy by its own czxid. One that is absent looks the
	// same before the first apply and behind a destroy (TestAPlanCanBeAppliedOnceAlsoAfterADestroy).
	if p.Index.Absent {
		n, err := destroys(ctx, s, p.Root, p.Stack)
		if err != nil {
			return err
		}
		if n != p.Destroys {
			diffs = append(diffs, Difference{Path: p.Index.Path, What: "applied and destroyed since", Want: p.Index, Got: p.Index})
		}
	}
	if len(diffs) > 0 {
		slices.SortFunc(diffs, func(a, b Difference) int { return cmp.Compare(a.Path, b.Path) })
		return &StaleError{Differences: diffs}
	}
	if p.Drain > 0 {
		return nil
	}
	return idle(ctx, s, p, stats)
}

// sameHistory looks whether the index is the work of the apply that the plan saw. Servers that are restored from a backup
// count versions again that were there before, with other data behind them; the id of an apply never comes again.
func sameHistory(ctx context.Context, s *recipes.Session, p *plan.Plan) error {
	if p.Applied == "" {
		return nil
	}
	now, err := readHead(ctx, s, p.Index.Path)
	if err != nil || now.of(p.Applied) {
		return err
	}
	return &StaleError{Differences: []Difference{{
		Path: p.Index.Path, What: "written by another apply, as after a restore from a backup", Want: p.Index, Got: now.pin,
	}}}
}

// reachable leaves out what is absent because its parent is: a first apply of a
// thousand locks in one namespace asks for the namespace alone.
// Should one of them appear all the same, its parent has, and that one is asked for.
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

// compare says what became of a node, the strongest first: one that was made anew may have
// any version, and its data may be the same. The czxid alone tells.
func compare(want plan.Pin, stat *zk.Stat) (Difference, bool) {
	got := pinOf(want.Path, want.Addr, stat)
	if got == want {
		return Difference{}, true
	}
	d := Difference{Addr: want.Addr, Path: want.Path, Want: want, Got: got}
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
	if stat != nil {
		d.ModifiedMs = stat.Mtime
	}
	return d, false
}

// idle reports the first lock of the plan that would be deleted while somebody is
// in it. stats are of the nodes and of their structural children.
//
// It is a courtesy, done before anything is written: the transaction is refused while anybody
// is there, whoever came since.
func idle(ctx context.Context, s *recipes.Session, p *plan.Plan, stats map[string]*zk.Stat) error {
	var first *InUseError
	for i := range p.Changes {
		c := &p.Changes[i]
		if !c.NeedsIdle() || c.Break {
			continue
		}
		if !occupied(c, stats) {
			continue
		}
		if first != nil {
			first.Others++
			continue
		}
		usage, err := readUsage(ctx, s, c.Before)
		if err != nil {
			return err
		}
		first = inUse(c, usage)
	}
	return errorOrNil(first)
}

// occupied goes by numbers of children, which a stat has: no list is read of locks that are
// idle, which nearly all are. Parts are counted as the plan saw them; one that came or went
// since is a pin that does not fit.
func occupied(c *plan.Change, stats map[string]*zk.Stat) bool {
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

// readUsage reads who uses a lock now; nil when they left meanwhile.
func readUsage(ctx context.Context, s *recipes.Session, n *plan.Node) (*plan.Usage, error) {
	stat, err := s.Exists(ctx, n.Path)
	if err != nil {
		return nil, readError(n.Path, err)
	}
	if stat == nil {
		return nil, nil
	}
	// By the declaration the plan saw: whatever stands in the node by now, its children are those
	// of a lock of that kind.
	fresh := &plan.Node{Path: n.Path, Payload: n.Payload, Live: liveOf(stat)}
	r := &reader{s: s, tree: &plan.Tree{}}
	if err := r.use(ctx, fresh); err != nil {
		return nil, err
	}
	return fresh.Live.Usage, nil
}
