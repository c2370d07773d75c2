package plan

import "slices"

// known are the addresses of the configuration, on all ensembles.
type known struct {
	nodes map[Addr]bool // of nodes, and of modules and namespaces around one
	keyed map[Addr]bool // of blocks with for_each: whether it has elements does not matter
}

func (d *pairing) know() *known {
	k := &known{map[Addr]bool{}, map[Addr]bool{}}
	see := func(a Addr) {
		for !k.nodes[a] && a != "" {
			if k.nodes[a] = true; a.Base() != a {
				k.keyed[a.Base()] = true
			}
			a = a.Parent()
		}
	}
	for _, tree := range slices.Concat([]*Tree{{Nodes: d.given}}, d.intent.Elsewhere) {
		for _, n := range tree.Nodes {
			see(n.Addr)
		}
	}
	for a, barren := range d.intent.Nodeless {
		if barren {
			k.keyed[a] = true
			a = a.Parent()
		}
		see(a)
	}
	return k
}

// reason says why the node of an address is no longer declared here: by the outermost part of its present address that is not. It is
// "" for one that is declared.
func (d *decisions) reason(addr Addr) (code Reason, missing Addr) {
	if addr = d.intent.Rename(addr); d.byAddr[addr] != nil {
		return "", ""
	}
	if d.known == nil {
		d.known = d.know()
	}
	addr.steps(func(s step) bool {
		if missing = addr[:s.end]; d.known.nodes[missing] {
			missing = ""
			return true
		}
		block := missing.Base()
		switch {
		case d.known.keyed[block] && s.key != "":
			code = ReasonDeleteEachKey
		case d.known.keyed[block] || d.known.nodes[block]:
			code = ReasonDeleteWrongRepetition
		case s.typ == "module":
			code = ReasonDeleteNoModule
		default:
			code = ReasonDeleteNoConfig
		}
		return false
	})
	if missing == "" && !slices.ContainsFunc(d.given, func(n *Node) bool { return n.Addr == addr }) { // it may be declared wrongly here
		code = ReasonDeleteOtherEnsemble
	}
	return code, missing
}
