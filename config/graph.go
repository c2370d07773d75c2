package config

import (
	"fmt"
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
	return append(out, d.after...)
}

// order returns the declarations so that each stands behind what it waits for,
// and reports every cycle. Members of cycles are marked failed and stand where
// they may.
//
// It is Tarjan's algorithm, which finds all cycles in one pass, with a stack of
// its own: a chain of a million locals would exhaust Go's.
func (m *module) order() []*decl {
	type frame struct {
		d    *decl
		outs []edge
		next int
	}
	number, low := map[*decl]int{}, map[*decl]int{}
	onPath := map[*decl]bool{}
	var path, sorted []*decl
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
		component := path[start:]
		path = path[:start]
		for _, c := range component {
			onPath[c] = false
		}
		m.checkCycle(component)
		sorted = append(sorted, component...)
	}
	for _, root := range m.all {
		if number[root] == 0 {
			enter(root)
		}
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
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
	return sorted
}

// checkCycle reports a strongly connected component that is a cycle: more than
// one member, or one that refers to itself.
func (m *module) checkCycle(component []*decl) {
	inside := map[*decl]bool{}
	for _, d := range component {
		inside[d] = true
	}
	first := earliest(component)
	steps := shortestCycle(first, inside)
	if steps == nil {
		return
	}
	for _, d := range component {
		d.failed = true
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)", first.addr, m.where(first.head))
	for _, s := range steps {
		if s.to == first {
			fmt.Fprintf(&b, " %s %s itself", s.why, s.to.addr)
		} else {
			fmt.Fprintf(&b, " %s %s (%s), which", s.why, s.to.addr, m.where(s.to.head))
		}
	}
	b.WriteString(". No order of evaluation exists: take one of these references out.")
	if rest := len(component) - len(steps); rest > 0 {
		fmt.Fprintf(&b, " %d more declarations are caught in the same cycle.", rest)
	}
	m.add(&hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Dependency cycle", Detail: b.String(), Subject: &first.head})
}

func earliest(ds []*decl) *decl {
	best := ds[0]
	for _, d := range ds[1:] {
		a, b := d.head, best.head
		if a.Filename < b.Filename || a.Filename == b.Filename && a.Start.Byte < b.Start.Byte {
			best = d
		}
	}
	return best
}

// shortestCycle returns the steps of a shortest way from d back to d, by breadth
// first search inside the component; nil when there is none.
func shortestCycle(d *decl, inside map[*decl]bool) []edge {
	came := map[*decl]edge{} // the last step of the way to a declaration: from whom, why
	queue := []*decl{d}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, e := range at.edges() {
			if !inside[e.to] {
				continue
			}
			if e.to == d {
				return wayBack(d, at, e, came)
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
