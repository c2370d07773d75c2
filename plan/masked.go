package plan

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

// uncompared says whose passwords the plan could not compare. Servers show the hashes of digests in an access list only to its
// administrators (FinalRequestProcessor, getACL). Without them, kind.List.Equal compares schemes, names and permissions.
func (d *sides) uncompared() {
	if d.opts.Destroy {
		return
	}
	var first *Node
	n := 0
	var who kind.List
	note := func(addr Addr, path string, list kind.List) {
		if !list.Masked() {
			return
		}
		if n++; first == nil {
			first = &Node{Addr: addr, Path: path}
		}
		who = append(who, slices.DeleteFunc(slices.Clone(list), func(a kind.ACL) bool { return !masked(a) })...)
	}
	for i := range d.current.Frame {
		f := &d.current.Frame[i]
		note(EnsembleAddr(d.p.Ensemble), f.Path, f.ACL)
	}
	for _, have := range d.current.Nodes {
		if want := d.want[have.Path]; want != nil && d.ours(have) {
			note(want.Addr, have.Path, have.ACL)
		}
	}
	if n == 0 {
		return
	}
	names := Names(who)
	slices.Sort(names)
	d.problem(Warning, ProblemAccess, first, "Passwords were not compared",
		fmt.Sprintf("ZooKeeper hides the password hashes of %s from this connection, in %d access list%s (%s first). This plan compared these entries by scheme and name, "+
			"so it does not show a password that has changed. Run the plan with the credentials of an administrator to compare them.",
			Few(slices.Compact(names), 10), n, plural(n), first.Path))
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
