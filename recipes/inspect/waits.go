package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// Waits is the wait-for graph of several locks. See WaitsFor.
type Waits struct {
	All       []Wait     // every waiting contender, by lock and place
	Deadlocks []Deadlock // cycles, which waiting cannot resolve
}

// Wait is one waiting contender and those in its way.
type Wait struct {
	Lock   string // the lock's path
	Waiter Contender
	Behind []Contender // waiters ahead of it: all of them come first
	Held   []Contender // holders that exclude it
	Any    bool        // one of Held leaving may be enough: permits of a semaphore
}

// Deadlock is a cycle of contenders: each waits for the next, the last for the first.
type Deadlock []Step

// Step is one party of a Deadlock.
type Step struct {
	Who   string // its own name for itself; failing that, its session or its node
	Owner int64  // its session; 0 if none owns it
	Holds string // the lock that the previous party waits for
	Ahead bool   // it does not hold that lock, but is ahead in its queue
	Waits string // the lock that it waits for itself
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

// WaitsFor combines the reports of several locks of one ensemble. It takes all contenders of one session for one party. A program that does
// unrelated things under one Client may therefore seem to hold one lock while it waits for another, and appear in a Deadlock that does not
// exist. No party waits for itself. The reports may also be of different moments; a real deadlock is still there at the next look.
func WaitsFor(locks ...*Report) *Waits {
	g := &waitGraph{parties: map[partyKey]*party{}}
	for _, in := range locks {
		g.add(in)
	}
	out := &Waits{}
	for _, e := range g.edges {
		out.All = append(out.All, e.Wait)
	}
	g.settle()
	out.Deadlocks = g.deadlocks()
	return out
}

// partyKey is the session, or the node if no session owns the contender.
type partyKey struct {
	session int64
	node    string
}

// party is a session, or a node without one, with the result of settle.
type party struct {
	key   partyKey
	name  string
	free  bool // will go on sooner or later
	waits []*waitEdge
	next  *party // the party it waits for, once it is known to be stuck
	step  Step   // only Waits: the lock for which it waits for next
	ahead bool   // next is ahead of it in the queue, and does not hold the lock
}

// waitEdge is a Wait with the parties of its contenders.
type waitEdge struct {
	Wait
	who          *party
	behind, held []*party
}

type waitGraph struct {
	parties map[partyKey]*party
	order   []*party // as they were met, so that the same reports give the same answer
	edges   []*waitEdge
}

// party returns the party that c belongs to, the owner of its session. The first ID found is its name.
func (g *waitGraph) party(in *Report, c Contender) *party {
	key := partyKey{session: c.Session}
	if c.Session == 0 {
		key.node = c.Path
	}
	p := g.parties[key]
	if p == nil {
		p = &party{key: key}
		g.parties[key], g.order = p, append(g.order, p)
	}
	if p.name == "" {
		p.name = c.ID
	}
	return p
}

func (p *party) who() string {
	switch {
	case p.name != "":
		return p.name
	case p.key.session != 0:
		return fmt.Sprintf("session %#x", p.key.session)
	}
	return kind.BaseName(p.key.node)
}

// add adds the waits of one lock. Readers do not wait for readers.
func (g *waitGraph) add(in *Report) {
	inTheWay := func(of Contender, all []Contender) []Contender {
		var out []Contender
		for _, c := range all {
			if !of.Shared || !c.Shared {
				out = append(out, c)
			}
		}
		return out
	}
	for i, c := range in.Waiters {
		e := &waitEdge{who: g.party(in, c), Wait: Wait{Lock: in.Path, Waiter: c, Any: in.Kind != nil && in.Kind.Permits != nil,
			Behind: inTheWay(c, in.Waiters[:i]), Held: inTheWay(c, in.Holders)}}
		for _, b := range e.Behind {
			e.behind = append(e.behind, g.party(in, b))
		}
		for _, h := range e.Held {
			e.held = append(e.held, g.party(in, h))
		}
		e.who.waits = append(e.who.waits, e)
		g.edges = append(g.edges, e)
	}
}

// blocker returns a party that keeps the wait from ending, given those known to go on; nil if there is none. All those ahead
// must go first. All holders must leave too, except where one permit may be enough: then one holder that goes on suffices. A
// waiter may need several permits, but a Report does not show that, so a deadlock over several may be missed.
func (e *waitEdge) blocker() (p *party, ahead bool) {
	stuck := func(q *party) bool { return q != e.who && !q.free }
	if i := slices.IndexFunc(e.held, stuck); i >= 0 && (!e.Any || !slices.ContainsFunc(e.held, func(q *party) bool { return !stuck(q) })) {
		return e.held[i], false
	}
	if i := slices.IndexFunc(e.behind, stuck); i >= 0 {
		return e.behind[i], true
	}
	return nil, false
}

// settle marks the parties that will go on, beginning with those that do not wait, until nothing changes. The rest are in a cycle or wait
// for one: each of them waits for another one of the rest, and there are finitely many. A party goes on only if all its waits end: it may
// need each of them before it gives back what it holds.
func (g *waitGraph) settle() {
	for again := true; again; {
		again = false
		for _, p := range g.order {
			if p.free || slices.ContainsFunc(p.waits, func(e *waitEdge) bool { b, _ := e.blocker(); return b != nil }) {
				continue
			}
			p.free, again = true, true
		}
	}
	for _, p := range g.order {
		for _, e := range p.waits {
			if b, ahead := e.blocker(); b != nil && p.next == nil {
				p.next, p.ahead, p.step = b, ahead, Step{Waits: e.Lock}
			}
		}
	}
}

// deadlocks follows, from every party that is stuck, the party it waits for. Each such walk ends in a cycle; each cycle is returned once.
func (g *waitGraph) deadlocks() []Deadlock {
	var out []Deadlock
	// A walk that meets its own steps has found a cycle. One that meets an earlier walk has found nothing new, because that
	// one went on to its end. Each party has one next, so no two cycles share a party.
	seen := map[*party]int{} // the walk that came by, counted from 1
	for walk, start := range g.order {
		p := start
		for p.next != nil && seen[p] == 0 {
			seen[p] = walk + 1
			p = p.next
		}
		if p.next == nil || seen[p] != walk+1 {
			continue
		}
		var d Deadlock
		// The party before p in the cycle waits for the lock that p holds.
		before := p
		for before.next != p {
			before = before.next
		}
		for q := p; len(d) == 0 || q != p; before, q = q, q.next {
			d = append(d, Step{Who: q.who(), Owner: q.key.session, Holds: before.step.Waits, Ahead: before.ahead, Waits: q.step.Waits})
		}
		out = append(out, d)
	}
	return out
}
