package plan

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

// A plan that deletes more than massShare percent of the nodes in a namespace, and at
// least massLeast of them, is most often a mistake: a wrong variable file, an empty map,
// another directory. The root counts as a namespace.
const massShare, massLeast = 30, 5

// checkMass finds namespaces of which too much would be deleted, only the outermost ones.
//
// Every node counts in each namespace around it. The share alone would stop the deletion of one
// lock of two, the number alone that of five of ten thousand; together they are octoDNS's idea of an
// unsafe plan. The deletion of a tombstone does not count, nor does an import: nobody loses a
// lock by them.
func (d *selection) checkMass() {
	if d.opts.Destroy || d.opts.AllowMassDestroy {
		return
	}
	total, gone := map[string]int{}, map[string]int{}
	for c := range d.p.Each() {
		if c.Before == nil || c.Tombstone && c.Action != Update || c.Importing != "" {
			continue
		}
		for p := c.Path; p != d.p.Root && p != "/"; {
			p = kind.ParentPath(p)
			total[p]++
			if c.Action == Delete {
				gone[p]++
			}
		}
	}
	var paths []string
	for p, n := range gone {
		if n >= massLeast && 100*n > massShare*total[p] && (p == d.p.Root || under(p, d.p.Root)) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	for i, p := range paths {
		if slices.ContainsFunc(paths[:i], func(q string) bool { return under(p, q) }) { // sorted: it is before what it contains
			continue
		}
		n := &Node{Path: p}
		if have := d.have[p]; have != nil {
			n.Addr = have.Addr
		}
		d.problem(Error, ProblemMassDestroy, n, "Most of a namespace would be destroyed",
			fmt.Sprintf("%d of the %d nodes in %s would be deleted. If that is intended, plan again with -allow-mass-destroy.", gone[p], total[p], p))
	}
}
