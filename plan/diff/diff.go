package diff

import (
	"cmp"
	"slices"
	"sync"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/kind"
)

// pairing says which nodes continue under another address or at another path, see match.go.
type pairing struct {
	byAddr  map[plan.Addr]*plan.Node // desired; nil for an address that is declared twice
	imports map[string]*plan.Import  // by the path of a declaration
	refused map[string]bool          // declarations whose import is refused: nothing is planned for them
	known   func() *knownAddrs       // the declared addresses, collected when a Reason needs them
}

// Compare compares the tree that was read with the declared one. The tree current may
// be nil or empty, the tree desired must not be nil. Compare changes neither tree. The
// result depends only on the arguments.
//
// It never fails: problems are in Plan.Problems.
func Compare(current, desired *plan.Tree, opts plan.Options) *plan.Plan {
	p, s := begin(current, desired, opts)
	m := pair(p, s)
	decide(p, s, m)
	var planned map[plan.Addr]bool
	if len(s.Opts.Targets) > 0 {
		planned = limitToTargets(p, s, m)
	}
	warnLost(p, s)
	compareOutputs(p, s, planned)
	keepOccupied(p, s)
	checkMass(p, s)
	warnDraining(p)
	warnUnseen(p, s)
	listDrift(p, s)
	warnVacated(p, s)
	warnContainers(p)
	checkListings(p, s)
	checkCrowds(p, s)
	checkUntracked(p)
	access.PlanOwn(p, s)
	access.WarnUncompared(p, s)
	findUnsealed(p, s)
	sortAll(p)
	pinAll(p, s)
	noteLeft(p, s)
	finish(p, s)
	return p
}

// begin sorts both trees by path, and says whose the root is.
func begin(current, desired *plan.Tree, opts plan.Options) (*plan.Plan, *access.Sides) {
	if current == nil {
		current = &plan.Tree{}
	}
	p := &plan.Plan{
		Ensemble: desired.Ensemble, Root: desired.Root, Stack: desired.Stack, Index: current.IndexPin, Destroys: current.Destroys,
		Destroy: opts.Destroy, Drain: opts.Drain.Milliseconds(), Unread: current.Unread,
	}
	s := &access.Sides{
		Current: current, Intent: desired.Intent, Given: desired.Nodes, Opts: opts,
		Want: make(map[string]*plan.Node, len(desired.Nodes)), Have: make(map[string]*plan.Node, len(current.Nodes)),
	}
	if p.Index.Path == "" {
		p.Index = plan.Pin{Path: record.IndexPath(p.Root, p.Stack), Absent: true}
	}
	if len(opts.Identities) == 0 {
		access.Tell(p, problem.Error, problem.Identities, &plan.Node{Path: p.Root}, "No identity is given",
			"Options.Identities is empty, so nothing can be said of the rights that the plan leaves us. Give those of the client, as apply.Begin does: every client has one.")
	}
	fillMaps(p, s, desired)
	access.Stand(p, s)
	dropUntrusted(p, s)
	findGone(p, s)
	return p, s
}

// pair finds the nodes that continue under another address or at another path.
func pair(p *plan.Plan, s *access.Sides) *pairing {
	m := &pairing{byAddr: map[plan.Addr]*plan.Node{}, imports: map[string]*plan.Import{}, refused: map[string]bool{}}
	m.known = sync.OnceValue(func() *knownAddrs { return collectKnown(s) })
	if !s.Opts.Destroy {
		for _, n := range s.Desired {
			_, twice := m.byAddr[n.Addr]
			m.byAddr[n.Addr] = n
			if twice {
				m.byAddr[n.Addr] = nil // two declarations have this address, so neither continues a node
			}
		}
		adoptions(p, s, m)
	}
	return m
}

// decide chooses the action of each path.
func decide(p *plan.Plan, s *access.Sides, m *pairing) {
	chooseActions(p, s, m)
	link(p)
	if !s.Opts.Destroy {
		checkParents(p, s)
		access.CheckDeclared(p, s)
	}
	if len(s.Opts.Replace) > 0 {
		checkUnused(p, "replacement", s.Opts.Replace, addrs(p, s, true))
	}
	if len(s.Opts.ForceBreak) > 0 {
		checkForced(p, s)
	}
}

// finish cuts the plan into its transactions.
func finish(p *plan.Plan, s *access.Sides) {
	// If all pending lists are set there is nothing to finish: the apply was interrupted just
	// before it cleared the note, and the next apply that writes will clear it.
	relists := slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return len(c.FormerLists) > 0 })
	if x := s.Current.Index; x != nil && len(x.Pending) > 0 && (relists || len(p.ACLSteps()) > 0) {
		p.Resumes = x.Apply
	}
	tx.Measure(p)
}

// fillMaps fills the maps and sorts out what is declared wrongly.
func fillMaps(p *plan.Plan, s *access.Sides, desired *plan.Tree) {
	for _, n := range s.Current.Nodes {
		s.Have[n.Path] = n
	}
	p.Before.Named = access.Administrators(s.Intent.Access)
	if x := s.Current.Index; x != nil {
		s.Pending = x.Pending
		p.Before.Extra, p.Before.Key, p.Before.Untracked = x.Extra, x.Key, unreadablePaths(s, x.Untracked)
	}
	nodes := slices.Clone(desired.Nodes)
	slices.SortStableFunc(nodes, func(a, b *plan.Node) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Addr, b.Addr))
	})
	for _, n := range nodes {
		if !declaredWell(p, s, n) {
			continue
		}
		s.Want[n.Path] = n
		s.Desired = append(s.Desired, n)
	}
}

// allPaths returns the paths of both trees, sorted.
func allPaths(s *access.Sides) []string {
	out := make([]string, 0, len(s.Have)+len(s.Want))
	for p := range s.Have {
		out = append(out, p)
	}
	for p := range s.Want {
		if s.Have[p] == nil {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// sortAll sorts into the order of execution. A path is a proper prefix of its
// descendants', so plain string order puts parents first.
func sortAll(p *plan.Plan) {
	slices.SortStableFunc(p.Changes, func(a, b plan.Change) int {
		da, db := a.Action == plan.Delete, b.Action == plan.Delete
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
	slices.SortStableFunc(p.Problems, func(a, b plan.Problem) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.Code, b.Code))
	})
}

// Ensemble is one ensemble of a stack: what exists there, what is declared for it, and who we are there.
type Ensemble struct {
	Servers          []string // the servers that were asked when Current was read
	Current, Desired *plan.Tree
	Identities       kind.List // ours on these servers
}

// CompareAll compares the ensembles of one stack, each as [Compare] does, with its own identities instead of those in opts.
func CompareAll(all []Ensemble, opts plan.Options) []*plan.Plan {
	out := make([]*plan.Plan, len(all))
	for i, e := range all {
		one := opts
		one.Identities, one.Elsewhere = e.Identities, ownedElsewhere(all, i)
		out[i] = Compare(e.Current, e.Desired, one)
		out[i].Servers = e.Servers
	}
	onlyUnmatched(out)
	return out
}

// ownedElsewhere is what the stack has on all ensembles but one. The address of a lock that is no longer declared is known only
// from these trees; an operator may name it to break the lock by force.
func ownedElsewhere(all []Ensemble, but int) []*plan.Tree {
	var out []*plan.Tree
	for i, e := range all {
		if i == but {
			continue
		}
		mine := &plan.Tree{}
		for _, n := range e.Current.Nodes {
			if n.Payload != nil && n.Payload.Owner.Stack == e.Desired.Stack {
				mine.Nodes = append(mine.Nodes, &plan.Node{Addr: n.Owned(), Payload: n.Payload})
			}
		}
		out = append(out, mine)
	}
	return out
}

// A plan has a problem for each address of its options that matches nothing on its ensemble. If the address matches on another
// ensemble, onlyUnmatched drops the problem. If it matches on none, only the first plan keeps the problem. The warning about
// targets also stays only there.
func onlyUnmatched(plans []*plan.Plan) {
	matched := func(like plan.Problem) bool {
		return slices.ContainsFunc(plans, func(p *plan.Plan) bool {
			return !slices.ContainsFunc(p.Problems, func(q plan.Problem) bool {
				return q.Code == like.Code && q.Addr == like.Addr && q.Summary == like.Summary
			})
		})
	}
	for i, p := range plans { // change the first plan first, while the other plans still have the problems that it is compared with
		p.Problems = slices.DeleteFunc(slices.Clone(p.Problems), func(q plan.Problem) bool {
			return q.Code == problem.Target && (i > 0 || matched(q)) || q.Code == problem.Targeted && i > 0
		})
	}
}
