package tx

import (
	"cmp"
	"slices"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// together divides changes, which are in the order of execution, into units. Both ends of a lock's path that changes are in one unit,
// and so are locks that take each other's paths. A unit comes after the units that it needs.
//
// The units are the strongly connected components of what needs what, by Tarjan's algorithm: it finds those that are needed first.
func together(changes []*plan.Change) [][]*plan.Change {
	t := &tying{at: make(map[string]*plan.Change, len(changes)), inside: map[string][]*plan.Change{}, seen: map[*plan.Change]int{}, low: map[*plan.Change]int{}, done: map[*plan.Change]bool{}}
	for _, c := range changes {
		t.at[c.Path] = c
		if goes(c) {
			around := kind.ParentPath(c.Path)
			t.inside[around] = append(t.inside[around], c)
		}
	}
	for _, c := range changes {
		if t.seen[c] == 0 {
			t.visit(c)
		}
	}
	return t.units
}

type tying struct {
	at     map[string]*plan.Change
	inside map[string][]*plan.Change // by the path of a namespace: the nodes in it that go
	seen   map[*plan.Change]int      // when it was visited, from 1
	low    map[*plan.Change]int      // the first visited that it needs and that needs it
	done   map[*plan.Change]bool     // in a unit
	stack  []*plan.Change
	units  [][]*plan.Change
}

func (t *tying) visit(c *plan.Change) {
	t.seen[c] = len(t.seen) + 1
	t.low[c] = t.seen[c]
	t.stack = append(t.stack, c)
	for _, o := range t.needs(c) {
		if t.seen[o] == 0 {
			t.visit(o)
		}
		if !t.done[o] {
			t.low[c] = min(t.low[c], t.low[o])
		}
	}
	if t.low[c] < t.seen[c] {
		return
	}
	i := slices.Index(t.stack, c)
	unit := slices.Clone(t.stack[i:])
	t.stack = t.stack[:i]
	for _, o := range unit {
		t.done[o] = true
	}
	slices.SortFunc(unit, func(a, b *plan.Change) int { return cmp.Compare(a.Path, b.Path) })
	t.units = append(t.units, unit)
}

// needs are the changes that come before a change, or with it: a node goes after what is in it and comes after what is around it.
func (t *tying) needs(c *plan.Change) (out []*plan.Change) {
	if goes(c) {
		out = slices.Clone(t.inside[c.Path])
	}
	if around := t.at[kind.ParentPath(c.Path)]; around != nil && around.Action != plan.Delete && c.After != nil {
		out = append(out, around)
	}
	for _, other := range c.Tied() {
		if o := t.at[other]; o != nil {
			out = append(out, o)
		}
	}
	return out
}

// goes reports whether the node that is there is deleted.
func goes(c *plan.Change) bool { return c.Action == plan.Delete || c.Anew() }
