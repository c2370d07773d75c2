package plan

import (
	"fmt"

	"github.com/locktree/locktree/recipes/kind"
)

// ServerKind is what the servers of an ensemble are.
type ServerKind string

// The kinds of servers.
const (
	ZooKeeper ServerKind = ""
	Keeper    ServerKind = "keeper" // ClickHouse Keeper
)

// checkKept refuses access lists of which a ClickHouse Keeper would drop a part without a word. Whoever is named there would have no
// rights, and the plan would find a difference for ever.
func (d *sides) checkKept() {
	if d.current.Servers != Keeper {
		return
	}
	for _, n := range d.desired {
		d.kept(n, "the access list of "+string(n.Addr), n.ACL)
		d.kept(n, "the access list of the contenders of "+string(n.Addr), n.Payload.ChildACL)
	}
	if access := d.intent.Access; access != nil {
		d.kept(&Node{Addr: EnsembleAddr(d.p.Ensemble), Path: d.p.Root}, "the list of administrators and readers", access.List())
	}
}

func (d *sides) kept(n *Node, where string, list kind.List) {
	for _, a := range list {
		switch a.Scheme {
		case "world", "auth", "digest":
			continue
		}
		d.problem(Error, ProblemScheme, n, "ClickHouse Keeper drops a part of this access list",
			fmt.Sprintf("The servers are a ClickHouse Keeper, which would drop %s from %s without a word: it keeps entries of the schemes world, auth and digest only. Declare a principal with a digest instead.", a, where))
		return // one is enough to know what to do
	}
}
