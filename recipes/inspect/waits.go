package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// Waits is the wait-for graph of several locks. See WaitsFor.
type Waits struct {
	All       []Wait     // every waiting contender, in the order of the locks and of their queues
	Deadlocks []Deadlock // cycles, which waiting cannot resolve
}

// Wait is one waiting contender, with the contenders in its way.
type Wait struct {
	Lock   string // the lock's path
	Waiter Contender
	Behind []Contender // waiters ahead of Waiter: all of them come first
	Held   []Contender // holders that exclude Waiter
	Any    bool        // the lock is a semaphore: the wait may end when one of Held leaves
}

// Deadlock is a cycle of contenders: each waits for the next, the last for the first.
type Deadlock []Step

// Step is one party of a Deadlock.
type Step struct {
	Who   string // the name that the party gives itself; if it gives none, its session or its node
	Owner int64  // the party's session; 0 if it has none
	Holds string // the lock that the party holds or is ahead in; the previous party waits for this lock
	Ahead bool   // the party does not hold the lock Holds, but is ahead in its queue
	Waits string // the lock that the party waits for
}

// String returns the cycle in one line: "deadlock: A holds x and waits for y; B holds y and waits for x".
func (d Deadlock) String() string {
	steps := make([]string, len(d))
	for i, s := range d {
		steps[i] = s.String()
	}
	return "deadlock: " + strings.Join(steps, "; ")
}

// String returns "A holds x and waits for y".
func (s Step) String() string {
	verb := "holds"
	if s.Ahead {
		verb = "is ahead in"
	}
	return fmt.Sprintf("%s %s %s and waits for %s", s.Who, verb, s.Holds, s.Waits)
}

// WaitsFor combines the reports of several locks of one ensemble. It takes all contenders of one session for one party. So a program that
// does unrelated things under one Client may seem to wait for one lock while it holds another. The program then appears in a Deadlock that
// does not exist. No party waits for itself. The reports may also be of different moments; a real deadlock is still there at the next look.
func WaitsFor(locks ...*Report) *Waits {
	g := &waitGraph{names: map[party]string{}, waits: map[party][]Wait{}}
	for _, in := range locks {
		g.add(in)
	}
	g.settle()
	return &Waits{g.all, g.deadlocks()}
}

// party is a session, or the node of a contender without a session.
type party struct {
	session int64
	node    string
}

func partyOf(c Contender) party {
	if c.Session != 0 {
		return party{session: c.Session}
	}
	return party{node: c.Path}
}

type waitGraph struct {
	all   []Wait
	names map[party]string // the first ID that a contender of the party gives
	order []party          // the parties that wait, in the order of the reports, so that equal reports give equal answers
	waits map[party][]Wait // the waits of the parties that may be stuck
}

// step says why a party cannot go on: the lock that it waits for, and the next party, which is in its way.
type step struct {
	next  party
	lock  string
	ahead bool // the party next is ahead in the queue, and does not hold the lock
}

func (g *waitGraph) name(p party) string {
	switch {
	case g.names[p] != "":
		return g.names[p]
	case p.session != 0:
		return "session " + kind.SessionID(p.session)
	}
	return kind.BaseName(p.node)
}

// add adds the waits of one lock. Readers do not wait for readers.
func (g *waitGraph) add(in *Report) {
	inTheWay := func(of Contender, all []Contender) (out []Contender) {
		for _, c := range all {
			if !of.Shared || !c.Shared {
				out = append(out, c)
			}
		}
		return out
	}
	for _, c := range slices.Concat(in.Waiters, in.Holders) {
		g.names[partyOf(c)] = cmp.Or(g.names[partyOf(c)], c.ID)
	}
	for i, c := range in.Waiters {
		w := Wait{Lock: in.Path, Waiter: c, Any: in.Kind != nil && in.Kind.Permits != nil,
			Behind: inTheWay(c, in.Waiters[:i]), Held: inTheWay(c, in.Holders)}
		p := partyOf(c)
		if g.waits[p] == nil {
			g.order = append(g.order, p)
		}
		g.all, g.waits[p] = append(g.all, w), append(g.waits[p], w)
	}
}

// blocker returns a party that keeps the wait from ending; false if there is none. A party that can go on is no longer in g.waits. For the
// wait to end, all contenders ahead must go first. All holders must leave too; if one permit may be enough (Any), one holder that can leave
// suffices. A waiter may need several permits, but blocker assumes that it needs one. So it may miss a deadlock over several permits.
func (g *waitGraph) blocker(w Wait) (step, bool) {
	stuck := func(c Contender) bool { return partyOf(c) != partyOf(w.Waiter) && g.waits[partyOf(c)] != nil }
	goesOn := func(c Contender) bool { return !stuck(c) }
	if i := slices.IndexFunc(w.Held, stuck); i >= 0 && (!w.Any || !slices.ContainsFunc(w.Held, goesOn)) {
		return step{partyOf(w.Held[i]), w.Lock, false}, true
	}
	if i := slices.IndexFunc(w.Behind, stuck); i >= 0 {
		return step{partyOf(w.Behind[i]), w.Lock, true}, true
	}
	return step{}, false
}

// nextStep returns the first step that keeps a party from going on; false if there is none. A party goes on only if all its waits end: it
// may need each of these locks before it gives back what it holds.
func (g *waitGraph) nextStep(p party) (step, bool) {
	for _, w := range g.waits[p] {
		if s, ok := g.blocker(w); ok {
			return s, true
		}
	}
	return step{}, false
}

// settle forgets the waits of parties that will go on, until nothing changes. The parties that are left are in a cycle, or wait for a
// cycle: each of them waits for another party that is left, and their number is finite.
func (g *waitGraph) settle() {
	for left := -1; left != len(g.waits); {
		left = len(g.waits)
		for _, p := range g.order {
			if _, stuck := g.nextStep(p); !stuck {
				delete(g.waits, p)
			}
		}
	}
}

// deadlocks starts a walk at every party that is stuck. The walk goes from each party to the party that it waits for, so it ends in a
// cycle. Each cycle is returned once.
func (g *waitGraph) deadlocks() (out []Deadlock) {
	// A walk that meets its own steps has found a cycle. A walk that meets an earlier walk has found nothing new, because the earlier walk
	// went on to its end. Each party has one next party, so no two cycles share a party.
	seen := map[party]int{} // the number of the walk that came by a party, counted from 1; 0 if no walk did
	for walk, p := range g.order {
		if g.waits[p] == nil {
			continue
		}
		var path []party
		for seen[p] == 0 {
			path, seen[p] = append(path, p), walk+1
			s, _ := g.nextStep(p)
			p = s.next
		}
		if seen[p] != walk+1 {
			continue
		}
		cycle := path[slices.Index(path, p):]
		before, _ := g.nextStep(cycle[len(cycle)-1])
		var d Deadlock
		for _, q := range cycle {
			s, _ := g.nextStep(q)
			d = append(d, Step{Who: g.name(q), Owner: q.session, Holds: before.lock, Ahead: before.ahead, Waits: s.lock})
			before = s
		}
		out = append(out, d)
	}
	return out
}
