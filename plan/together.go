package plan

import (
	"cmp"
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

// together divides changes, which are in the order of execution, into units. Both ends of a lock's path that changes are in one unit,
// and so are locks that take each other's paths. A unit comes after the units that it needs.
//
// The units are the strongly connected components of what needs what, by Tarjan's algorithm: it finds those that are needed first.
func together(changes []*Change) [][]*Change {
	t := &tying{at: make(map[string]*Change, len(changes)), inside: map[string][]*Change{}, seen: map[*Change]int{}, low: map[*Change]int{}, done: map[*Change]bool{}}
	for _, c := range changes {
		t.at[c.Path] = c
		if c.goes() {
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
	at     map[string]*Change
	inside map[string][]*Change // by the path of a namespace: the nodes in it that go
	seen   map[*Change]int      // when it was visited, from 1
	low    map[*Change]int      // the first visited that it needs and that needs it
	done   map[*Change]bool     // in a unit
	stack  []*Change
	units  [][]*Change
}

func (t *tying) visit(c *Change) {
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
	slices.SortFunc(unit, func(a, b *Change) int { return cmp.Compare(a.Path, b.Path) })
	t.units = append(t.units, unit)
}

// needs are the changes that come before a change, or with it: a node goes after what is in it and comes after what is around it.
func (t *tying) needs(c *Change) (out []*Change) {
	if c.goes() {
		out = slices.Clone(t.inside[c.Path])
	}
	if around := t.at[kind.ParentPath(c.Path)]; around != nil && around.Action != Delete && c.After != nil {
		out = append(out, around)
	}
	for _, other := range c.tied() {
		if o := t.at[other]; o != nil {
			out = append(out, o)
		}
	}
	return out
}

// goes reports whether the node that is there is deleted.
func (c *Change) goes() bool { return c.Action == Delete || c.anew() }
