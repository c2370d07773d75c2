package plan

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

// MaxListing is how long the names in a namespace may be together, as a server sends them. Servers send a listing of any
// length in one reply; clients do not read one of any length: this library's read 16 MiB unless they are told otherwise
// (recipes.Config.MaxReply). Our own reads are longer, so that what exists already can be planned and destroyed.
const MaxListing = 16<<20 - 4096

// listings finds namespaces that grow to a length at which nobody could list them any more.
func (d *selection) listings() {
	length, nodes, grows := map[string]int{}, map[string]int{}, map[string]bool{}
	add := func(path string) (at string) {
		at = kind.ParentPath(path)
		length[at] += 4 + len(path) - len(kind.JoinPath(at, "")) // its name, and that one's length
		nodes[at]++
		return at
	}
	for c := range d.p.Each() {
		if c.After == nil {
			continue
		}
		if at := add(c.Path); c.Before == nil {
			grows[at] = true
		}
	}
	for _, path := range d.current.Unmanaged {
		add(path)
	}
	var wide []string
	for at := range grows {
		if length[at] > MaxListing {
			wide = append(wide, at)
		}
	}
	slices.Sort(wide)
	for _, at := range wide {
		n := &Node{Path: at}
		if d.want[at] != nil {
			n = d.want[at]
		}
		d.problem(Error, ProblemListing, n, "Too many nodes in one namespace",
			fmt.Sprintf("%s would have %d nodes, whose names are %d bytes together. A listing is one reply, and clients read up to %d bytes of it, "+
				"so that nobody could list the namespace any more. Divide the nodes among several namespaces, or give them shorter names.", at, nodes[at], length[at], MaxListing))
	}
}
