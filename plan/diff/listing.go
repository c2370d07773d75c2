package diff

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/recipes/kind"
)

// MaxListing is how long the names in a namespace may be together, as a server sends them. Servers send a listing of any
// length in one reply; clients do not read one of any length: this library's read 16 MiB unless they are told otherwise
// (recipes.Config.MaxReply). Our own reads are longer, so that what exists already can be planned and destroyed.
const MaxListing = 16<<20 - 4096

// javaListing is what Java clients and ZooKeeper's own shell read in one reply (jute.maxbuffer), without the stat and what is around it.
const javaListing = 1<<20 - 1 - 100

// contenderName is the length of a contender's name in a listing: `_c_`, a UUID, `-lock-` and ten digits, behind the length itself. A
// listing that our clients read has 284,000 of them, and one that Java clients read 17,700.
const contenderName = 4 + 3 + 36 + 6 + 10

// checkListings finds namespaces that grow to a length at which nobody could list them any more, and whatever has become too long for others.
func checkListings(p *plan.Plan, s *access.Sides) {
	length, nodes, grows := map[string]int{}, map[string]int{}, map[string]bool{}
	add := func(path string) (at string) {
		at = kind.ParentPath(path)
		length[at] += 4 + len(path) - len(kind.JoinPath(at, "")) // its name, and that one's length
		nodes[at]++
		return at
	}
	for c := range p.Each() {
		if c.After == nil {
			continue
		}
		if at := add(c.Path); c.Before == nil {
			grows[at] = true
		}
	}
	for _, path := range s.Current.Unmanaged {
		add(path)
	}
	var wide []string
	for at := range length {
		if length[at] > javaListing {
			wide = append(wide, at)
		}
	}
	slices.Sort(wide)
	for _, at := range wide {
		n := &plan.Node{Path: at}
		if s.Want[at] != nil {
			n = s.Want[at]
		}
		if !grows[at] || length[at] <= MaxListing {
			access.Tell(p, plan.Warning, plan.ProblemListing, n, "Java clients cannot list a namespace",
				fmt.Sprintf("%s has %d nodes, whose names are %d bytes together. This library reads up to %d bytes, but Java clients and ZooKeeper's shell only up to %d "+
					"(jute.maxbuffer), so that they cannot list the namespace. Divide the nodes among several namespaces, or give them shorter names.", at, nodes[at], length[at], MaxListing, javaListing))
			continue
		}
		access.Tell(p, plan.Error, plan.ProblemListing, n, "Too many nodes in one namespace",
			fmt.Sprintf("%s would have %d nodes, whose names are %d bytes together. A listing is one reply, and clients read up to %d bytes of it, "+
				"so that nobody could list the namespace any more. Divide the nodes among several namespaces, or give them shorter names.", at, nodes[at], length[at], MaxListing))
	}
}

// checkCrowds finds locks, and directories of families, with more children than Java clients can list. Their names were not all read: they
// count as contenders, or as keys of that length.
func checkCrowds(p *plan.Plan, s *access.Sides) {
	for c := range p.Each() {
		if c.Before == nil || c.After == nil || c.Before.Live == nil || c.Before.Kind() == nil || c.Before.Kind().Container {
			continue
		}
		most := c.Before.Live.Children
		for _, part := range c.Before.Live.Parts {
			most = max(most, part.Children)
		}
		if most*contenderName <= javaListing {
			continue
		}
		next := "End the programs that need not wait, or declare max_waiters."
		if c.Before.Kind().Key != nil {
			next = "Spread the keys over directories: fanout, which replaces the family when no key is in use."
		}
		n := &plan.Node{Addr: c.Addr, Path: c.Path}
		if want := s.Want[c.Path]; want != nil { // else it moves away from there
			n.Origin = want.Origin
		}
		access.Tell(p, plan.Warning, plan.ProblemListing, n, "Java clients cannot list a lock",
			fmt.Sprintf("%s has a node with %d children. A listing of more than about %d is longer than Java clients and ZooKeeper's shell read (jute.maxbuffer), "+
				"so that programs of Curator cannot take part, and one of more than about %d longer than this library reads. %s", c.Path, most, javaListing/contenderName/100*100, MaxListing/contenderName/1000*1000, next))
	}
}
