// Package lockview renders locks and their queues: a stack's tree ([Status]), the locks below a path ([Locks]), what doctor found
// ([Checkup]), and the removal of a holder ([Eviction]). The page takes the words for a lock from here, too: [Use], [Exceeded].
//
// It relies on package inspect for all facts, reads nothing itself, and says so where a part was not read.
//
//	out.Show(lockview.Locks{Ensembles: []lockview.LocksOf{{Ensemble: "main", Snapshot: snap}}, NowMs: now.UnixMilli()})
package lockview

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/kind"
)

func (s Status) WriteText(h *view.Human) {
	for i, tree := range s.Trees {
		if i > 0 {
			h.Out.Printf("\n")
		}
		h.Out.Printf("%s  %s  stack %s\n\n", h.Out.Paint(view.Bold)(view.Clean(tree.Ensemble)), view.Clean(s.Servers[i]), view.Clean(tree.Stack))
		h.Out.Printf("%s\n", view.Clean(tree.Root))
		locks, gaps := s.reports(i), read.Gaps(tree, s.Declared[i])
		shown := s.Filter.pick(locks, time.UnixMilli(s.NowMs))
		b := branch{unread: tree.Unread, seen: seen{s.look(i), time.UnixMilli(s.NowMs)}}
		b.children(s.rootOf(tree, shown, gaps), "")
		n := 0
		for line := range strings.Lines(view.Table(func(w io.Writer) { fmt.Fprint(w, b.rows.String()) })) {
			h.Out.Printf("%s\n%s", strings.TrimRight(line, " \n"), b.queues[n])
			n++
		}
		closed := len(Closed(gaps))
		h.Out.Printf("\n%s%s.\n", s.Filter.tally(shown, locks), notSeen(len(gaps)-closed, closed))
		if text := Unasked(s.look(i)); text != "" && slices.ContainsFunc(shown, (*inspect.Report).Busy) {
			h.Out.Printf("%s\n", text)
		}
		deadlocks(h, waitsFor(locks))
		warn := h.Out.Paint(view.Yellow)
		switch c := s.Drift[i].Summary(); {
		case !s.Drift[i].Applyable():
			h.Out.Printf("%s\n", warn(`The configuration cannot be applied as it is. Run "locktree plan" to see why.`))
		case c != plan.Counts{}:
			h.Out.Printf("%s\n", warn(fmt.Sprintf(`Differs from the configuration: %d to add, %d to change, %d to destroy. Run "locktree plan" to see what.`, c.Add, c.Change, c.Destroy)))
		}
	}
	for _, u := range s.Lost {
		h.Out.Printf("\n")
		showUnknown(h, u.Ensemble, u.Servers, view.Brief(u.Err))
	}
}

// twig is a node of the printed tree: a provisioned node, a gap, or a child of a namespace that this stack does not own.
type twig struct {
	path string
	node *inspect.Report // nil for a gap, and for nodes of other stacks or programs
	gap  *read.Gap
	subs []*twig
}

// rootOf puts every path below its nearest ancestor that is shown. With a filter, it leaves out gaps and the nodes of others: a
// filter selects only locks.
func (s Status) rootOf(tree *plan.Tree, nodes []*inspect.Report, gaps []read.Gap) *twig {
	root := &twig{path: tree.Root}
	all := []*twig{}
	for _, n := range nodes {
		all = append(all, &twig{path: n.Path, node: n})
	}
	if s.Filter == (Filter{}) {
		for i := range gaps {
			all = append(all, &twig{path: gaps[i].Path, gap: &gaps[i]})
		}
		for _, path := range unmanaged(tree, gaps) {
			all = append(all, &twig{path: path})
		}
	}
	slices.SortFunc(all, func(a, b *twig) int { return strings.Compare(a.path+"/", b.path+"/") })
	open := []*twig{root}
	for _, t := range all {
		for len(open) > 1 && !strings.HasPrefix(t.path, open[len(open)-1].path+"/") {
			open = open[:len(open)-1]
		}
		parent := open[len(open)-1]
		parent.subs = append(parent.subs, t)
		open = append(open, t)
	}
	return root
}

// branch prints twigs: a table of names, types and uses. The queue of a lock is a table of its own, so it widens no column of the
// tree.
type branch struct {
	seen   seen
	unread map[string]int // see [plan.Tree]
	rows   strings.Builder
	queues []string // below each row
}

func (b *branch) children(t *twig, indent string) {
	for i, sub := range t.subs {
		tee, bar := "├── ", "│   "
		if i == len(t.subs)-1 {
			tee, bar = "└── ", "    "
		}
		label := view.Cell(strings.TrimPrefix(strings.TrimPrefix(sub.path, t.path), "/"))
		if sub.node == nil && sub.gap == nil { // a node of others must not widen our column much
			label = view.Shorten(label, 40)
		}
		fmt.Fprintf(&b.rows, "%s%s%s\n", indent+tee, label, b.describe(sub))
		b.queues = append(b.queues, view.Table(func(w io.Writer) {
			if sub.node != nil && (inUse(sub.node) || sub.node.Job != nil) {
				b.seen.writeQueue(w, indent+bar+"    ", sub.node)
			}
		}))
		b.children(sub, indent+bar)
	}
}

// describe returns the same number of tabs for every twig.
func (b *branch) describe(t *twig) string {
	n := t.node
	switch {
	case t.gap != nil:
		return "\t" + t.gap.Type + "\t" + gapText(t.gap)
	case n == nil:
		return "\t\tnot managed by this stack"
	case n.Kind.Container && b.unread[t.path] > 0:
		return fmt.Sprintf("\t%s\topen to others: %d %s not read", n.Kind.Name, b.unread[t.path], view.PluralWord(b.unread[t.path], "node", "nodes"))
	case n.Kind.Container:
		return "\t" + n.Kind.Name + "\t"
	}
	text := "\t" + typeOf(n) + "\t" + Use(n) + SlotsUse(n, b.seen.at)
	if state := n.Payload.State; state != kind.StateActive && state != "" {
		text += ", " + string(state)
	}
	return text
}

// inUse reports whether there is anything in the lock, foreign nodes included.
func inUse(in *inspect.Report) bool { return in.Busy() || len(in.Junk) > 0 }

// gapText says why nothing is known of a node.
func gapText(g *read.Gap) string {
	switch g.Trouble {
	case "":
		return "missing"
	case plan.TroubleUnreadable:
		return "cannot be read: we do not have READ on it"
	}
	return view.Clean("cannot be read: " + g.Detail)
}

// notSeen ends a line that counts what was seen.
func notSeen(missing, closed int) (text string) {
	if missing > 0 {
		text += fmt.Sprintf(", %d missing", missing)
	}
	if closed > 0 {
		text += fmt.Sprintf(", %d cannot be read", closed)
	}
	return text
}

// Closed are the paths of the gaps that exist but cannot be read.
func Closed(gaps []read.Gap) (paths []string) {
	for _, g := range gaps {
		if g.Trouble != "" {
			paths = append(paths, g.Path)
		}
	}
	return paths
}

// unmanaged returns the children of the stack's namespaces that the stack does not own. It omits the gaps, which are unreadable
// nodes of the stack.
func unmanaged(tree *plan.Tree, gaps []read.Gap) []string {
	return slices.DeleteFunc(slices.Clone(tree.Unmanaged), func(path string) bool {
		return slices.ContainsFunc(gaps, func(g read.Gap) bool { return g.Path == path })
	})
}

// Status is the live trees and how they differ from the configuration.
type Status struct {
	Trees    []*plan.Tree
	Declared []*plan.Tree // per tree, what is declared there
	Drift    []*plan.Plan // per tree, what would put the configuration in force
	Servers  []string     // per tree, where it was read from
	// Looks has for each tree what the servers said about the sessions of holders and waiters, and the families of keyed locks. It
	// is nil for a tree with neither, or if the servers were not asked.
	Looks  []*scan.Snapshot
	Lost   view.Lost // the ensembles without a tree
	Filter Filter
	NowMs  int64
}

// look returns what the servers said about tree i; nil if they were not asked.
func (s Status) look(i int) *scan.Snapshot {
	if s.Looks == nil {
		return nil
	}
	return s.Looks[i]
}

// reports converts the provisioned nodes of a tree into reports of package inspect.
func (s Status) reports(i int) (out []*inspect.Report) {
	families := map[string]*inspect.Report{}
	if look := s.look(i); look != nil {
		for _, in := range look.Locks {
			families[in.Path] = in
		}
	}
	for _, n := range s.Trees[i].Nodes {
		if n.Payload == nil {
			continue
		}
		in := families[n.Path]
		if in == nil {
			in = &inspect.Report{Path: n.Path, Kind: n.Kind(), Payload: n.Payload, Job: jobOf(n)}
			if n.Live != nil && n.Live.Usage != nil {
				in.Holders, in.Waiters, in.Junk = n.Live.Usage.Holders, n.Live.Usage.Waiters, n.Live.Usage.Junk
			}
		}
		out = append(out, in)
	}
	return out
}
