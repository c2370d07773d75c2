package view

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

func (s Status) text(h *Human) {
	for i, tree := range s.Trees {
		if i > 0 {
			h.out.printf("\n")
		}
		h.out.printf("%s  %s  stack %s\n\n", h.out.paint(bold)(clean(tree.Ensemble)), clean(s.Servers[i]), clean(tree.Stack))
		h.out.printf("%s\n", clean(tree.Root))
		locks, gaps := s.reports(i), tree.Gaps(s.Declared[i])
		shown := s.Filter.of(locks, time.UnixMilli(s.NowMs))
		b := branch{unread: tree.Unread, seen: seen{s.look(i), time.UnixMilli(s.NowMs)}}
		b.children(s.rootOf(tree, shown, gaps), "")
		h.out.printf("%s", b.text())
		closed := len(Closed(gaps))
		h.out.printf("\n%s%s.\n", s.Filter.tally(shown, locks), notSeen(len(gaps)-closed, closed))
		if text := Unasked(s.look(i)); text != "" && slices.ContainsFunc(shown, (*inspect.Report).Busy) {
			h.out.printf("%s\n", text)
		}
		h.deadlocks(waitsFor(locks))
		if line := driftLine(s.Drift[i]); line != "" {
			h.out.printf("%s\n", h.out.paint(yellow)(line))
		}
	}
	for _, u := range s.Lost {
		h.out.printf("\n")
		h.unknown(u.Ensemble, u.Servers, Brief(u.Err))
	}
}

// unknown is what is shown of an ensemble of which nothing is known.
func (h *Human) unknown(ensemble, servers, why string) {
	h.out.printf("%s  %s\n\n%s\n", h.out.paint(bold)(ensemble), servers, h.out.paint(red)(clean(why)))
}

// twig is a node of the printed tree: a provisioned node, a gap, or a child of a
// namespace that this stack does not own.
type twig struct {
	path string
	node *inspect.Report // nil for a gap, and for what this stack does not own
	gap  *plan.Gap
	subs []*twig
}

// rootOf hangs every path below its nearest ancestor that is shown. What is no lock passes no filter.
func (s Status) rootOf(tree *plan.Tree, nodes []*inspect.Report, gaps []plan.Gap) *twig {
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

// branch prints twigs: a table of names, types and uses. The queue of a lock is a table of its own, and widens no column of that one.
type branch struct {
	seen
	unread map[string]int // see [plan.Tree]
	rows   strings.Builder
	queues []string // below each row
}

func (b *branch) text() string {
	var out strings.Builder
	i := 0
	for line := range strings.Lines(table(func(w io.Writer) { fmt.Fprint(w, b.rows.String()) })) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n" + b.queues[i])
		i++
	}
	return out.String()
}

// table aligns the lines of write by their tabs.
func table(write func(io.Writer)) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	write(w)
	_ = w.Flush()
	return out.String()
}

func (b *branch) children(t *twig, indent string) {
	for i, sub := range t.subs {
		tee, bar := "├── ", "│   "
		if i == len(t.subs)-1 {
			tee, bar = "└── ", "    "
		}
		label := name(strings.TrimPrefix(strings.TrimPrefix(sub.path, t.path), "/"))
		if sub.node == nil && sub.gap == nil { // of others: it does not widen the column of ours much
			label = shortened(label, maxName/2)
		}
		fmt.Fprintf(&b.rows, "%s%s%s\n", indent+tee, label, b.describe(sub))
		b.queues = append(b.queues, table(func(w io.Writer) {
			if sub.node != nil && (inUse(sub.node) || sub.node.Job != nil) {
				b.writeQueue(w, indent+bar+"    ", sub.node)
			}
		}))
		b.children(sub, indent+bar)
	}
}

// describe has as many tabs for each twig.
func (b *branch) describe(t *twig) string {
	n := t.node
	switch {
	case t.gap != nil:
		return "\t" + t.gap.Type + "\t" + gapText(t.gap)
	case n == nil:
		return "\t\tnot managed by this stack"
	case n.Kind.Container && b.unread[t.path] > 0:
		return fmt.Sprintf("\t%s\topen to others: %d %s not read", n.Kind.Name, b.unread[t.path], plural(b.unread[t.path], "node", "nodes"))
	case n.Kind.Container:
		return "\t" + n.Kind.Name + "\t"
	}
	text := "\t" + typeOf(n) + "\t" + Use(n) + SlotsUse(n, b.at)
	if state := n.Payload.State; state != kind.StateActive && state != "" {
		text += ", " + string(state)
	}
	return text
}

// inUse reports whether there is anything in the lock, foreign nodes included.
func inUse(in *inspect.Report) bool { return in.Busy() || len(in.Junk) > 0 }

// driftLine says in one line whether the tree matches the configuration.
func driftLine(p *plan.Plan) string {
	switch c := p.Summary(); {
	case !p.Applyable():
		return `The configuration cannot be applied as it is. Run "locktree plan" to see why.`
	case c != plan.Counts{}:
		return fmt.Sprintf(`Differs from the configuration: %d to add, %d to change, %d to destroy. Run "locktree plan" to see what.`, c.Add, c.Change, c.Destroy)
	default:
		return ""
	}
}

// gapText says why nothing is known of a node.
func gapText(g *plan.Gap) string {
	switch g.Trouble {
	case "":
		return "missing"
	case plan.TroubleUnreadable:
		return "cannot be read: we do not have READ on it"
	}
	return clean("cannot be read: " + g.Detail)
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
func Closed(gaps []plan.Gap) (paths []string) {
	for _, g := range gaps {
		if g.Trouble != "" {
			paths = append(paths, g.Path)
		}
	}
	return paths
}

// FirstFew names the first three, and counts the rest.
func FirstFew(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// unmanaged are the children of namespaces that this stack does not own, without its own that cannot be read.
func unmanaged(tree *plan.Tree, gaps []plan.Gap) []string {
	return slices.DeleteFunc(slices.Clone(tree.Unmanaged), func(path string) bool {
		return slices.ContainsFunc(gaps, func(g plan.Gap) bool { return g.Path == path })
	})
}
