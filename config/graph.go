package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// edges are everything d waits for.
func (d *decl) edges() []edge {
	var out []edge
	for _, a := range d.attrs {
		verb := "refers to"
		if d.isModule() {
			verb = fmt.Sprintf("in its argument %q refers to", a.name)
		}
		for _, to := range a.deps {
			out = append(out, edge{to, verb})
		}
	}
	return append(out, d.after...)
}

// order returns the declarations so that each is behind what it waits for,
// and reports every cycle. Members of cycles are marked failed and are where
// they may.
func (m *module) order() []*decl {
	sorted := make([]*decl, 0, len(m.all))
	for _, c := range m.components() {
		m.checkCycle(c)
		sorted = append(sorted, c...)
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
	steps := round(first, inside)
	if steps == nil {
		return // one member that does not refer to itself, as nearly all are
	}
	modules := ""
	for _, d := range component {
		d.failed = true
		if d.isModule() {
			modules = ", because a module is evaluated as a whole, once all of its arguments are known"
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)", first.addr, m.where(first.head))
	for i, s := range steps {
		delete(inside, s.to)
		switch left := len(steps) - cycleStart - cycleEnd; {
		case s.to == first:
			fmt.Fprintf(&b, " %s %s itself", s.why, first.addr)
		case i >= cycleStart && i < len(steps)-cycleEnd && left > 1:
			if i == cycleStart {
				fmt.Fprintf(&b, " leads through %d more to", left)
			}
		case i == len(steps)-cycleEnd && left > 1:
			fmt.Fprintf(&b, " %s (%s), which", s.to.addr, m.where(s.to.head))
		default:
			fmt.Fprintf(&b, " %s %s (%s), which", s.why, s.to.addr, m.where(s.to.head))
		}
	}
	fmt.Fprintf(&b, ". No order of evaluation exists%s: take one of these references out", modules)
	if modules != "" {
		b.WriteString(", or move what it needs into a module of its own")
	}
	b.WriteString(".")
	if rest := len(inside); rest > 0 {
		fmt.Fprintf(&b, " The same cycle holds %d more.", rest)
	}
	at := first.head
	for _, a := range first.attrs {
		if slices.Contains(a.deps, steps[0].to) {
			at = a.expr.Range()
			break
		}
	}
	m.errorf(at, "Dependency cycle", "%s", b.String())
}

// earliest is where a cycle is shown.
func earliest(ds []*decl) *decl {
	return slices.MinFunc(ds, func(a, b *decl) int {
		return cmp.Or(strings.Compare(a.head.Filename, b.head.Filename), cmp.Compare(a.head.Start.Byte, b.head.Start.Byte))
	})
}

// round returns the steps of a shortest way from a declaration through others back to it, by breadth first search; nil
// when there is none.
func round(first *decl, inside map[*decl]bool) (steps []edge) {
	came := map[*decl]edge{} // the last step of the way to a declaration: from whom, why
	for queue := []*decl{first}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, e := range at.edges() {
			_, known := came[e.to]
			switch {
			case e.to == first:
				steps = []edge{e}
				for ; at != first; at = came[at].to {
					steps = append(steps, edge{at, came[at].why})
				}
				slices.Reverse(steps)
				return steps
			case inside[e.to] && !known:
				came[e.to] = edge{at, e.why}
				queue = append(queue, e.to)
			}
		}
	}
	return nil
}
