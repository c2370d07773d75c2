package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// edges are everything d waits for.
func (d *decl) edges() []edge {
	var out []edge
	for _, a := range d.attrs {
		for _, to := range a.deps {
			out = append(out, edge{to, "refers to"})
		}
	}
	if d.output != nil {
		out = append(out, d.call.outputEdges(d)...)
	}
	return append(out, d.after...)
}

// order returns the declarations so that each stands behind what it waits for,
// and reports every cycle. Members of cycles are marked failed and stand where
// they may.
//
// One round of splitting is enough. It takes away the edge from an output to the rest
// of its module and puts edges to some of the inputs in its place, for all of which the
// rest waits as well: so no declaration reaches another one that it did not reach before,
// and what is on a circle afterwards was on one before. An output on such a circle was
// set apart in the first round already; what is left are cycles, which are reported.
func (m *module) order() []*decl {
	components := m.components()
	if splitCalls(components) {
		components = m.components()
	}
	sorted := make([]*decl, 0, len(m.all))
	for _, c := range components {
		m.checkCycle(c)
		sorted = append(sorted, c...)
	}
	for i, d := range sorted {
		d.rank = i
	}
	return sorted
}

// components are the strongly connected ones, each behind those it waits for.
//
// It is Tarjan's algorithm (Depth-first search and linear graph algorithms, 1972), which
// finds all cycles in one pass, with a stack of its own: a chain of a million locals would
// exhaust Go's. A component is complete when the search leaves the first member it met, and by
// then everything that member waits for is in this component or was found before: that is
// why the order in which they are found is the order of evaluation, without a second sort.
// TestOrderAgainstBruteForce compares it with the definition.
func (m *module) components() [][]*decl {
	type frame struct {
		d    *decl
		outs []edge
		next int
	}
	number, low := map[*decl]int{}, map[*decl]int{}
	onPath := map[*decl]bool{}
	var path []*decl
	var found [][]*decl
	var frames []frame
	enter := func(d *decl) {
		number[d] = len(number) + 1
		low[d] = number[d]
		path, onPath[d] = append(path, d), true
		frames = append(frames, frame{d: d, outs: d.edges()})
	}
	leave := func(d *decl) {
		if low[d] != number[d] {
			return
		}
		start := len(path) - 1
		for path[start] != d {
			start--
		}
		component := slices.Clone(path[start:])
		path = path[:start]
		for _, c := range component {
			onPath[c] = false
		}
		found = append(found, component)
	}
	for _, root := range m.all {
		if number[root] == 0 {
			enter(root)
		}
		for len(frames) > 0 {
			f := &frames[len(frames)-1] // not to be used behind enter, which may move it
			if f.next < len(f.outs) {
				to := f.outs[f.next].to
				f.next++
				switch {
				case number[to] == 0:
					enter(to)
				case onPath[to]:
					low[f.d] = min(low[f.d], number[to])
				}
				continue
			}
			d := f.d
			frames = frames[:len(frames)-1]
			if len(frames) > 0 {
				up := frames[len(frames)-1].d
				low[up] = min(low[up], low[d])
			}
			leave(d)
		}
	}
	return found
}

// Of a long cycle only so many steps are named, at its start and at its end.
const cycleStart, cycleEnd = 4, 2

// checkCycle reports a strongly connected component that is a cycle: more than
// one member, or one that refers to itself.
func (m *module) checkCycle(component []*decl) {
	inside := map[*decl]bool{}
	for _, d := range component {
		inside[d] = true
	}
	first := earliest(component)
	steps := way(first, first, func(d *decl) []edge {
		return slices.DeleteFunc(d.edges(), func(e edge) bool { return !inside[e.to] })
	})
	if steps == nil {
		return // one member that does not refer to itself, as nearly all are
	}
	for _, d := range component {
		d.failed = true
		if d.call != nil {
			d.call.block.failed = true // what it is worth cannot be told
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)", first.addr, m.where(first.head))
	from := first
	var round []link
	for _, s := range steps {
		delete(inside, s.to)
		round = append(round, links(from, s, "")...)
		from = s.to
	}
	for i, l := range round {
		switch left := len(round) - cycleStart - cycleEnd; {
		case l.at == first:
			fmt.Fprintf(&b, " %s %s itself", l.why, first.addr)
		case i >= cycleStart && i < len(round)-cycleEnd && left > 1:
			if i == cycleStart {
				fmt.Fprintf(&b, " leads through %d more to", left)
			}
		case i == len(round)-cycleEnd && left > 1:
			fmt.Fprintf(&b, " %s%s (%s), which", l.in, l.at.addr, m.where(l.at.head))
		default:
			fmt.Fprintf(&b, " %s %s%s (%s), which", l.why, l.in, l.at.addr, m.where(l.at.head))
		}
	}
	b.WriteString(". No order of evaluation exists: take one of these references out.")
	// The parts of a module block are in there for the block, which a person has written.
	maps.DeleteFunc(inside, func(d *decl, _ bool) bool { return d.call != nil && d.call.block != d })
	if rest := len(inside); rest > 0 {
		fmt.Fprintf(&b, " %d more declarations are caught in the same cycle.", rest)
	}
	m.add(&hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Dependency cycle", Detail: b.String(), Subject: &first.head})
}

// earliest is where a cycle is shown: in the configuration rather than in a module.
func earliest(ds []*decl) *decl {
	best := ds[0]
	for _, d := range ds[1:] {
		a, b := d.head, best.head
		switch inside := d.output != nil; {
		case inside != (best.output != nil):
			if !inside {
				best = d
			}
		case a.Filename < b.Filename || a.Filename == b.Filename && a.Start.Byte < b.Start.Byte:
			best = d
		}
	}
	return best
}

// way returns the steps of a shortest way between two declarations, or back to the
// same, by breadth first search; nil when there is none.
func way(from, to *decl, edges func(*decl) []edge) []edge {
	came := map[*decl]edge{} // the last step of the way to a declaration: from whom, why
	queue := []*decl{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, e := range edges(at) {
			if e.to == to {
				return wayBack(from, at, e, came)
			}
			if _, known := came[e.to]; !known {
				came[e.to] = edge{at, e.why}
				queue = append(queue, e.to)
			}
		}
	}
	return nil
}

func wayBack(d, at *decl, last edge, came map[*decl]edge) []edge {
	steps := []edge{last}
	for at != d {
		from := came[at]
		steps = append(steps, edge{at, from.why})
		at = from.to
	}
	for i, j := 0, len(steps)-1; i < j; i, j = i+1, j-1 {
		steps[i], steps[j] = steps[j], steps[i]
	}
	return steps
}
