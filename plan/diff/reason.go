package diff

import (
	"slices"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
)

// known are the addresses of the configuration, on all ensembles.
type known struct {
	nodes map[plan.Addr]bool // of nodes, and of modules and namespaces around one
	keyed map[plan.Addr]bool // of blocks with for_each: whether it has elements does not matter
}

// knowAddrs collects them.
func knowAddrs(s *access.Sides) *known {
	k := &known{map[plan.Addr]bool{}, map[plan.Addr]bool{}}
	see := func(a plan.Addr) {
		for !k.nodes[a] && a != "" {
			if k.nodes[a] = true; a.Base() != a {
				k.keyed[a.Base()] = true
			}
			a = a.Parent()
		}
	}
	for _, tree := range slices.Concat([]*plan.Tree{{Nodes: s.Given}}, s.Intent.Elsewhere) {
		for _, n := range tree.Nodes {
			see(n.Addr)
		}
	}
	for a, barren := range s.Intent.Nodeless {
		if barren {
			k.keyed[a] = true
			a = a.Parent()
		}
		see(a)
	}
	return k
}

// reasonOf says why the node of an address is no longer declared here: by the outermost part of its present address that is not. It is
// "" for one that is declared.
func reasonOf(s *access.Sides, m *pairing, addr plan.Addr) (code plan.Reason, missing plan.Addr) {
	if addr = s.Intent.Rename(addr); m.byAddr[addr] != nil {
		return "", ""
	}
	known := m.known()
	for part := addr; part != ""; part = part.Parent() {
		if !known.nodes[part] {
			missing = part // the outermost one stays
		}
	}
	if missing != "" {
		block := missing.Base()
		_, keyed := missing.Key()
		switch {
		case known.keyed[block] && keyed:
			code = plan.ReasonDeleteEachKey
		case known.keyed[block] || known.nodes[block]:
			code = plan.ReasonDeleteWrongRepetition
		case missing.Type() == "module":
			code = plan.ReasonDeleteNoModule
		default:
			code = plan.ReasonDeleteNoConfig
		}
	}
	if missing == "" && !slices.ContainsFunc(s.Given, func(n *plan.Node) bool { return n.Addr == addr }) { // it may be declared wrongly here
		code = plan.ReasonDeleteOtherEnsemble
	}
	return code, missing
}
