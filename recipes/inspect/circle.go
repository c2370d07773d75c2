package inspect

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/locktree/locktree/recipes/kind"
)

// Circle is a deadlock of goroutines. A party of it is what one goroutine has, and not, as for [WaitsFor], what a session has: its
// contender says for what those wait who hold it (see kind.Holder).
type Circle struct {
	Steps Deadlock // begins with the wait that is to end
	// Ends is the wait that is to end: of those that a contender tells of, in this circle and the others that it is connected with, the
	// youngest whose caller sees the circle too. A wait is as old as its place in the queue; one that has none, because it is behind
	// another's, as the write that tells of it. Whoever sees the same contenders finds the same.
	Ends  kind.Wait
	Holds Contender // what the goroutine holds that waits so
	// Guessed means that it goes through a client of another library. What one of its sessions holds, and what it waits for, may be
	// the work of different threads.
	Guessed bool
	nodes   []Contender
}

// Same reports whether nothing has happened to any contender of the circle.
func (c *Circle) Same(other *Circle) bool {
	return c != nil && other != nil && c.Ends == other.Ends && slices.EqualFunc(c.nodes, other.nodes, func(a, b Contender) bool {
		return a.Path == b.Path && a.Token == b.Token && a.Written == b.Written
	})
}

// Front is [Lock], but reads only the first contenders of each queue, most of them.
func Front(ctx context.Context, c provider, path string, most int) (*Report, error) {
	return lock(ctx, c, path, most)
}

// FindCircle returns the circle that the goroutine is part of that holds the contender at path node; nil if there is none in the reports.
//
// Contenders of Curator and go-zookeeper do not tell of waits: all of one session are one party, as for WaitsFor. Those of kazoo,
// and candidates of elections, are parties each for itself, unless they tell. One that was asked back is about to go, and holds nobody up.
func FindCircle(node string, locks ...*Report) *Circle {
	g := &waitGraph{parties: map[partyKey]*party{}, said: &said{locks: map[string]*Report{}, seen: map[string]place{}, named: map[string]bool{}}}
	for _, in := range locks {
		g.said.locks[in.Path] = in
		for c := range in.contenders {
			g.said.seen[c.Path] = place{in: in, c: c}
			for _, w := range c.Waits {
				g.said.named[w.Node] = true
			}
		}
	}
	for _, in := range locks {
		g.add(in)
	}
	for _, in := range locks {
		for c := range in.contenders {
			g.tells(in, c)
		}
	}
	g.settle()
	at, ok := g.said.seen[node]
	if !ok {
		return nil
	}
	return g.circle(g.party(at.in, *at.c))
}

// said tells parties apart by what contenders say.
type said struct {
	locks map[string]*Report // by path
	seen  map[string]place   // by path
	named map[string]bool    // the contenders that are named as waiting
}

// place is a contender, and the lock in whose queue it is.
type place struct {
	in *Report
	c  *Contender
}

// key is the party of c. What one transaction has made is one: a set, or several permits.
func (s *said) key(in *Report, c Contender) partyKey {
	plain := in.Guessed || slices.ContainsFunc(in.Kind.Queues, func(q kind.Queue) bool { return q.Plain })
	switch {
	case c.Session == 0 || c.Token == 0 || c.Revoked:
	case c.Host != "":
		return partyKey{session: c.Session, txn: c.Token}
	case !plain && (c.Writer == "curator" || c.Writer == "go-zookeeper"):
		return partyKey{session: c.Session}
	}
	return partyKey{node: c.Path}
}

// skips reports whether nothing follows from the wait of c: nobody has read it, nor named it.
func (s *said) skips(c Contender) bool {
	return s != nil && (c.Revoked || c.Token == 0 && !s.named[c.Path])
}

// tells adds the waits that c tells of, as far as they last.
func (g *waitGraph) tells(in *Report, c *Contender) {
	if len(c.Waits) == 0 || c.Revoked {
		return
	}
	who := g.party(in, *c)
	for _, w := range c.Waits {
		at, ok := g.said.seen[w.Node]
		if !ok {
			continue
		}
		e := &waitEdge{Wait: Wait{Lock: at.in.Path, Waiter: *at.c}, who: who, says: c}
		i := slices.IndexFunc(g.edges, func(e *waitEdge) bool { return e.says == nil && e.Waiter.Path == w.Node })
		switch {
		case w.Behind:
			e.Waiter.Since = time.Time{} // that of another
			e.Held, e.held = []Contender{*at.c}, []*party{g.party(at.in, *at.c)}
		case i < 0: // it was granted
			continue
		default:
			e.Any, e.Behind, e.Held, e.behind, e.held = g.edges[i].Any, g.edges[i].Behind, g.edges[i].Held, g.edges[i].behind, g.edges[i].held
		}
		if e.Waiter.Token, e.born = w.Token, w.Token; w.Behind { // the contender may not have been read
			e.born = c.Written
		}
		who.waits, g.edges = append(who.waits, e), append(g.edges, e)
	}
}

// blockers are all the parties that keep the wait from ending: see blocker.
func (e *waitEdge) blockers() (held, behind []*party) {
	if p, ahead := e.blocker(); p == nil {
		return nil, nil
	} else if !ahead {
		held = slices.DeleteFunc(slices.Clone(e.held), func(q *party) bool { return q == e.who || q.free })
	}
	return held, slices.DeleteFunc(slices.Clone(e.behind), func(q *party) bool { return q == e.who || q.free })
}

// move is a step from a party to one that it waits for.
type move struct {
	by    *waitEdge
	to    *party
	ahead bool
}

// moves are the steps that lead on from p.
func (p *party) moves() (all []move) {
	for _, e := range p.waits {
		held, behind := e.blockers()
		for _, q := range held {
			all = append(all, move{e, q, false})
		}
		for _, q := range behind {
			all = append(all, move{e, q, true})
		}
	}
	return all
}

// reach is how the parties are reached that those of from lead to, by the fewest steps. That somebody waits who does not tell of it
// is known only of the locks that were read, if not of all (nil).
func reach(from []move, read map[string]bool) map[*party]move {
	found := map[*party]move{}
	for len(from) > 0 {
		next := from[0]
		from = from[1:]
		if _, known := found[next.to]; known || read != nil && next.by.says == nil && !read[next.by.Lock] {
			continue
		}
		found[next.to] = next
		from = append(from, next.to.moves()...)
	}
	return found
}

// sees reports whether p finds that it is in a circle, when it reads along its own chain.
func (g *waitGraph) sees(p *party) bool {
	read := map[string]bool{}
	var todo []string
	leads := func(lock string) {
		if !read[lock] {
			read[lock], todo = true, append(todo, lock)
		}
	}
	for _, at := range g.said.seen {
		if g.party(at.in, *at.c) == p {
			leads(at.in.Path)
		}
	}
	for _, e := range p.waits {
		leads(e.Lock)
	}
	for len(todo) > 0 {
		in := g.said.locks[todo[0]]
		todo = todo[1:]
		for c := range in.contenders {
			for _, w := range c.Waits {
				if at, ok := g.said.seen[w.Node]; ok {
					leads(at.in.Path)
				}
			}
		}
	}
	_, back := reach(p.moves(), read)[p]
	return back
}

// circle finds out who is in circles that are connected with p, and chooses among those who see that. All of these wait for each other,
// so any of them finds the same.
func (g *waitGraph) circle(p *party) *Circle {
	from := reach(p.moves(), nil)
	if _, back := from[p]; !back {
		return nil
	}
	in := map[*party]bool{}
	var ends *waitEdge
	guessed := false
	for q := range from {
		if _, back := reach(q.moves(), nil)[p]; !back {
			continue
		}
		in[q], guessed = true, guessed || q.key.txn == 0 && q.key.node == ""
		for _, m := range q.moves() {
			if _, back := reach([]move{m}, nil)[q]; back && m.by.says != nil && (ends == nil || m.by.younger(ends)) && g.sees(q) {
				ends = m.by
			}
		}
	}
	if ends == nil {
		return nil
	}
	out := &Circle{Ends: kind.Wait{Lock: ends.Lock, Node: ends.Waiter.Path, Token: ends.Waiter.Token}, Holds: *ends.says, Guessed: guessed}
	out.Steps = ends.steps()
	for _, at := range g.said.seen {
		if in[g.party(at.in, *at.c)] {
			out.nodes = append(out.nodes, *at.c)
		}
	}
	slices.SortFunc(out.nodes, func(a, b Contender) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// younger says whose wait ends rather than that of other.
func (e *waitEdge) younger(other *waitEdge) bool {
	return cmp.Or(cmp.Compare(e.born, other.born), cmp.Compare(e.says.Token, other.says.Token), cmp.Compare(e.says.Path, other.says.Path)) > 0
}

// steps are those of the shortest circle that begins with the wait.
func (e *waitEdge) steps() (d Deadlock) {
	var first []move
	for _, m := range e.who.moves() {
		if m.by == e {
			first = append(first, m)
		}
	}
	found := reach(first, nil)
	var path []move
	for at := found[e.who]; ; at = found[at.by.who] {
		path = append(path, at)
		if at.by == e {
			break
		}
	}
	slices.Reverse(path)
	for i, m := range path {
		before := path[(i+len(path)-1)%len(path)]
		s := Step{Who: m.by.who.who(), Owner: m.by.who.key.session, Holds: before.by.Lock, Ahead: before.ahead, Waits: m.by.Lock, Since: m.by.Waiter.Since}
		for _, h := range append(slices.Clone(before.by.Held), before.by.Behind...) {
			if m.by.says != nil && h.Path == m.by.says.Path || m.by.says == nil && h.Session == s.Owner && s.Owner != 0 {
				s.Held = cmp.Or(h.Held, h.Since)
			}
		}
		d = append(d, s)
	}
	return d
}
