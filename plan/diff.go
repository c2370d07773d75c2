package plan

import (
	"cmp"
	"slices"
)

// A plan is made in phases, each of which is a type that holds what is known from then on. A phase begins when the one before it is
// complete. Everything that cannot or should not be done becomes a Problem, in any phase.

// sides are what exists and what is declared, without declarations that make no sense.
type sides struct {
	current *Tree
	desired []*Node          // sorted, legal, each path once
	given   []*Node          // all that is declared, even wrongly
	want    map[string]*Node // desired, by path
	have    map[string]*Node // current, by path
	pending []PendingACL     // lists that an interrupted apply had yet to set
	intent  Intent
	opts    Options
	gone    map[string]bool // declared nodes that the last apply left, and that are not there
	p       *Plan
}

// pairing is what continues under another address or at another path. See move.go and import.go.
type pairing struct {
	*sides
	byAddr  map[Addr]*Node     // desired; nil for an address that is declared twice
	imports map[string]*Import // by the path of a declaration
	refused map[string]bool    // declarations whose import is refused: nothing is planned for them
}

// decisions are the changes of all paths, in p.Changes.
type decisions struct {
	*pairing
	breaks map[Addr]bool // addresses whose contenders are deleted with them
	known  *known        // nil until a reason needs it
}

// selection is what is left of the decisions. See scope.go.
type selection struct {
	*decisions
	planned map[Addr]bool // blocks, by their address, of which something is planned with Targets
}

// Diff compares the tree that was read with the declared one. current may be nil or
// empty, desired must not be nil. Neither is changed. The result depends only on the
// arguments.
//
// It never fails: problems are in Plan.Problems.
func Diff(current, desired *Tree, opts Options) *Plan {
	d := newSides(current, desired, opts).pair().decide().choose()
	d.lost()
	d.outputs()
	d.keepOccupied()
	d.checkMass()
	d.draining()
	d.unseen()
	d.drift()
	d.vacated()
	d.containers()
	d.listings()
	d.crowds()
	d.crowded()
	(&frame{sides: d.sides}).plan()
	d.uncompared()
	d.unsealed()
	d.order()
	d.pins()
	d.left()
	return d.finish()
}

// newSides sorts both trees by path.
func newSides(current, desired *Tree, opts Options) *sides {
	if current == nil {
		current = &Tree{}
	}
	d := &sides{
		current: current, intent: desired.Intent, given: desired.Nodes, opts: opts,
		want: make(map[string]*Node, len(desired.Nodes)), have: make(map[string]*Node, len(current.Nodes)),
		p: &Plan{
			Ensemble: desired.Ensemble, Root: desired.Root, Stack: desired.Stack, Index: current.IndexPin, Destroys: current.Destroys,
			Destroy: opts.Destroy, Drain: opts.Drain.Milliseconds(), Unread: current.Unread,
		},
	}
	if d.p.Index.Path == "" {
		d.p.Index = Pin{Path: IndexPath(d.p.Root, d.p.Stack), Absent: true}
	}
	if len(opts.Identities) == 0 {
		d.problem(Error, ProblemIdentities, &Node{Path: d.p.Root}, "Nobody is named who applies",
			"Options.Identities is empty, so nothing can be said of the rights that the plan leaves us. Give those of the client, as apply.Begin does: every client has one.")
	}
	d.index(desired)
	d.stand()
	d.dropUntrusted()
	d.missing()
	return d
}

func (d *sides) pair() *pairing {
	m := &pairing{sides: d, byAddr: map[Addr]*Node{}, imports: map[string]*Import{}, refused: map[string]bool{}}
	if !d.opts.Destroy {
		for _, n := range d.desired {
			_, twice := m.byAddr[n.Addr]
			m.byAddr[n.Addr] = n
			if twice {
				m.byAddr[n.Addr] = nil // which one is meant cannot be told
			}
		}
		m.adoptions()
	}
	return m
}

// decide chooses the action of each path.
func (d *pairing) decide() *decisions {
	x := &decisions{pairing: d, breaks: map[Addr]bool{}}
	for _, a := range d.opts.ForceBreak {
		x.breaks[Addr(a)] = true
	}
	x.changes()
	x.link()
	if !d.opts.Destroy {
		d.checkParents()
		(&accessCheck{sides: d.sides}).checkAccess()
	}
	if len(d.opts.Replace) > 0 {
		d.unused("replacement", d.opts.Replace, d.addrs(true))
	}
	d.forced()
	return x
}

// choose takes out what was not asked for.
func (d *decisions) choose() *selection {
	x := &selection{decisions: d, planned: map[Addr]bool{}}
	x.limit()
	return x
}

// finish cuts the plan into its transactions.
func (d *selection) finish() *Plan {
	// If all pending lists are set there is nothing to finish: the apply was interrupted just
	// before it cleared the note, and the next apply that writes will clear it.
	if x := d.current.Index; x != nil && len(x.Pending) > 0 && len(d.p.ACLSteps())+len(d.p.keySteps()) > 0 {
		d.p.Resumes = x.Apply
	}
	d.p.measure()
	return d.p
}

// index fills the maps and sorts out what is declared wrongly.
func (d *sides) index(desired *Tree) {
	for _, n := range d.current.Nodes {
		d.have[n.Path] = n
	}
	d.p.prior.Named = d.intent.Access.administrators()
	if x := d.current.Index; x != nil {
		d.pending = x.Pending
		d.p.prior.Extra, d.p.prior.Key, d.p.prior.Untracked = x.Extra, x.Key, d.unreadablePaths(x.Untracked)
	}
	nodes := slices.Clone(desired.Nodes)
	slices.SortStableFunc(nodes, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Addr, b.Addr))
	})
	for _, n := range nodes {
		if !d.declaredWell(n) {
			continue
		}
		d.want[n.Path] = n
		d.desired = append(d.desired, n)
	}
}

func (d *sides) paths() []string {
	out := make([]string, 0, len(d.have)+len(d.want))
	for p := range d.have {
		out = append(out, p)
	}
	for p := range d.want {
		if d.have[p] == nil {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// ours reports whether the node carries this stack's marker.
//
// An ephemeral node is never ours, whatever its data says: an apply creates none, so somebody has
// copied the marker, and the node will end with its session (TestEphemeralNodeIsNeverOurs).
func (d *sides) ours(n *Node) bool {
	return n != nil && n.Payload != nil && n.Payload.Owner.Stack == d.p.Stack && (n.Live == nil || !n.Live.Ephemeral)
}

// order sorts into the order of execution. A path is a proper prefix of its
// descendants', so plain string order puts parents first.
func (d *selection) order() {
	slices.SortStableFunc(d.p.Changes, func(a, b Change) int {
		da, db := a.Action == Delete, b.Action == Delete
		switch {
		case da && db:
			return cmp.Compare(b.Path, a.Path)
		case da:
			return -1
		case db:
			return 1
		default:
			return cmp.Compare(a.Path, b.Path)
		}
	})
	// Errors first.
	slices.SortStableFunc(d.p.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.Code, b.Code))
	})
}

// Ensemble is one ensemble of a stack: what exists there, what is declared for it, and who we are there.
type Ensemble struct {
	Servers          []string // on which it was read
	Current, Desired *Tree
	Identities       []Identity // ours on these servers
}

// DiffAll compares the ensembles of one stack, each as [Diff] does, with its own identities instead of those in opts.
func DiffAll(all []Ensemble, opts Options) []*Plan {
	out := make([]*Plan, len(all))
	for i, e := range all {
		one := opts
		one.Identities, one.Elsewhere = e.Identities, owned(all, i)
		out[i] = Diff(e.Current, e.Desired, one)
		out[i].Servers = e.Servers
	}
	onlyUnmatched(out)
	return out
}

// owned is what the stack has on all ensembles but one. A lock that is no longer declared can only be named there, for
// example to break it by force.
func owned(all []Ensemble, but int) []*Tree {
	var out []*Tree
	for i, e := range all {
		if i == but {
			continue
		}
		mine := &Tree{}
		for _, n := range e.Current.Nodes {
			if n.Payload != nil && n.Payload.Owner.Stack == e.Desired.Stack {
				mine.Nodes = append(mine.Nodes, &Node{Addr: n.owned(), Payload: n.Payload})
			}
		}
		out = append(out, mine)
	}
	return out
}

// onlyUnmatched reports an address that matches nothing only if it matches on no ensemble, and only once. That targets are in
// effect is also said once.
func onlyUnmatched(plans []*Plan) {
	matched := func(like Problem) bool {
		return slices.ContainsFunc(plans, func(p *Plan) bool {
			return !slices.ContainsFunc(p.Problems, func(q Problem) bool {
				return q.Code == like.Code && q.Addr == like.Addr && q.Summary == like.Summary
			})
		})
	}
	for i, p := range plans { // the first is compared with the others as they are
		p.Problems = slices.DeleteFunc(slices.Clone(p.Problems), func(q Problem) bool {
			return q.Code == ProblemTarget && (i > 0 || matched(q)) || q.Code == ProblemTargeted && i > 0
		})
	}
}
