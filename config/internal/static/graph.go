package static

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// edge is one reason to wait for another declaration.
type edge struct {
	To  *Decl
	why string    // "refers to"
	at  hcl.Range // of the expression; of the block when there is none
}

// Edges are everything that one of the declarations waits for.
func (r *Declarations) Edges(d *Decl) []edge {
	var out []edge
	for _, a := range d.Attrs {
		verb := "refers to"
		if d.IsModule() {
			verb = fmt.Sprintf("refers in its argument %q to", a.Name)
		}
		for _, to := range r.RefersTo(a).Deps {
			out = append(out, edge{to, verb, a.Expr.Range()})
		}
	}
	for _, to := range d.inside {
		out = append(out, edge{to, "is inside", d.Head})
	}
	return out
}

// ordering sorts declarations by a depth-first search.
type ordering struct {
	*reading
	sorted []*Decl
	path   []edge        // the declarations under visit, each with the reason to visit the next one
	place  map[*Decl]int // where on the path, counted from 1; -1 for what is sorted
	cyclic map[*Decl]bool
}

// order returns the declarations so that each comes after everything it waits for, and reports cycles. The members of
// a cycle are marked broken. Of cycles that share a declaration one is reported.
func (r *reading) order() []*Decl {
	o := &ordering{reading: r, place: map[*Decl]int{}, cyclic: map[*Decl]bool{}}
	for _, d := range r.All {
		if o.place[d] == 0 {
			o.visit(d)
		}
	}
	return o.sorted
}

func (o *ordering) visit(d *Decl) {
	depth := len(o.path)
	o.path = append(o.path, edge{To: d})
	o.place[d] = depth + 1
	for _, e := range o.Edges(d) {
		o.path[depth] = edge{d, e.why, e.at}
		switch at := o.place[e.To]; {
		case at == 0:
			o.visit(e.To)
		case at > 0:
			o.cycle(o.path[at-1:])
		}
	}
	o.path = o.path[:depth]
	o.place[d] = -1
	o.sorted = append(o.sorted, d)
}

// Of a long cycle only this many steps are named, at its start and at its end.
const cycleStart, cycleEnd = 5, 2

func (o *ordering) cycle(steps []edge) {
	known, module := false, false
	for _, s := range steps {
		known = known || o.cyclic[s.To]
		s.To.Broken, o.cyclic[s.To] = true, true
		module = module || s.To.IsModule()
	}
	if known {
		return
	}
	var b strings.Builder
	for i, s := range steps {
		switch left := len(steps) - cycleStart - cycleEnd; {
		case left > 1 && i == cycleStart:
			fmt.Fprintf(&b, "%d more declarations, the last of which %s ", left, steps[len(steps)-cycleEnd-1].why)
		case left > 1 && i > cycleStart && i < len(steps)-cycleEnd:
		case i == 0:
			fmt.Fprintf(&b, "%s (%s) %s ", s.To.Addr, o.Where(s.To.Head), s.why)
		default:
			fmt.Fprintf(&b, "%s (%s), which %s ", s.To.Addr, o.Where(s.To.Head), s.why)
		}
	}
	back := steps[0].To.Addr
	if len(steps) == 1 {
		back = "itself"
	}
	next := "Remove one of these references."
	if module {
		next = "A module is evaluated as a whole, when all of its arguments are known: remove one of these references, or move what it needs into a module of its own."
	}
	o.Errorf(steps[0].at, "Dependency cycle", "%s%s. %s", b.String(), back, next)
}
