package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// Waits says who waits for whom over several locks. See WaitsFor.
type Waits struct {
	All       []Wait     // every contender that waits, by lock and place
	Deadlocks []Deadlock // circles; nobody in one can go on by waiting
}

// Wait is one contender that waits, and who is in its way.
type Wait struct {
	Lock   string // the lock's path
	Waiter Contender
	Behind []Contender // waiters ahead of it, all of whom come first
	Held   []Contender // holders it cannot be beside
	Any    bool        // one of Held leaving may be enough: permits of a semaphore
}

// Deadlock is a circle of contenders: each waits for the next, the last for the first.
type Deadlock []Step

// Step is one party of a Deadlock.
type Step struct {
	Who   string // as it calls itself; else its session or its node
	Owner int64  // its session; 0 when nobody's
	Holds string // the lock the one before it waits for
	Ahead bool   // it does not hold that lock, but is ahead in its queue
	Waits string // the lock it waits for itself
}

// String is the circle in a line: "deadlock: A holds x waits y, B holds y waits x".
func (d Deadlock) String() string {
	steps := make([]string, len(d))
	for i, s := range d {
		verb := "holds"
		if s.Ahead {
			verb = "is ahead in"
		}
		steps[i] = fmt.Sprintf("%s %s %s waits %s", s.Who, verb, s.Holds, s.Waits)
	}
	return "deadlock: " + strings.Join(steps, ", ")
}

// WaitsFor puts together what Lock saw of locks of one ensemble. Contenders of one session are taken for one party:
// a program that does unrelated things under one Client can look as if it held one lock while it waits for another,
// and so be part of a Deadlock that is none. Nobody is said to wait for itself. The inspections are not of one moment
// either; a real deadlock is still there at the next look.
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
	out.Deadlocks = g.circles()
	return out
}

// partyKey is the session; of a contender nobody's session owns, its node.
type partyKey struct {
	session int64
	node    string
}

// party is somebody who holds and waits, and how settle sees him.
type party struct {
	key   partyKey
	name  string
	free  bool // goes on sooner or later
	waits []*waitEdge
	next  *party // who keeps it, once it is known to be stuck
	step  Step   // what it is to next's circle: only Waits, and what next is to it
	ahead bool
}

// waitEdge is a Wait with the parties of its contenders.
type waitEdge struct {
	Wait
	who          *party
	behind, held []*party
}

type waitGraph struct {
	parties map[partyKey]*party
	order   []*party // as they were met: the same inspections give the same answer
	edges   []*waitEdge
}

// party is who c is part of: whoever owns its session. The first name that it gives itself counts.
func (g *waitGraph) party(c Contender) *party {
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

// add takes the waits of one lock. Readers do not keep readers waiting.
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
		e := &waitEdge{who: g.party(c), Wait: Wait{Lock: in.Path, Waiter: c, Any: in.Kind != nil && in.Kind.Permits != nil,
			Behind: inTheWay(c, in.Waiters[:i]), Held: inTheWay(c, in.Holders)}}
		for _, b := range e.Behind {
			e.behind = append(e.behind, g.party(b))
		}
		for _, h := range e.Held {
			e.held = append(e.held, g.party(h))
		}
		e.who.waits = append(e.who.waits, e)
		g.edges = append(g.edges, e)
	}
}

// blocker is who keeps the wait from ending, given who is known to go on; nil when nobody does. All those ahead must go
// first. Of the holders all must leave, too, except where one permit may do: then one that goes on is enough. That a
// waiter may need several permits, a Report does not tell; so a deadlock over several may be missed.
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

// settle marks who goes on, beginning with those who wait for nobody, until nothing changes. Whoever is left is in a
// circle or waits for one: each of them is kept by one that is left too, and there are finitely many. A party goes on
// only if all its waits end: it may need each of them to get to the point where it gives back what it holds.
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

// circles follows from everybody who is stuck one of those who keep it there: that ends in a circle, each found once.
func (g *waitGraph) circles() []Deadlock {
	var out []Deadlock
	// A walk that meets its own steps has found a circle; one that meets an earlier walk's has found nothing new, as that
	// went on to its end. Each party has one next, so two circles have nobody in common.
	seen := map[*party]int{} // the walk that came by
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
		// p's own place in the circle is told by whoever waits for it, the last one of the round.
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
