package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// spot is the place of a znode.
type spot struct {
	e    *Ensemble
	path string
}

// checkNodes are the rules between nodes: one znode, one declaration; somebody
// may use it; it is on an ensemble.
func (m *module) checkNodes() {
	first := map[spot]*instance{}
	bare := map[*Ensemble]*instance{}
	for _, i := range m.instances {
		if i.path != "" && i.ensemble != nil {
			w := spot{i.ensemble, i.path}
			if other := first[w]; other != nil {
				if i.addr.Block() == other.addr.Block() {
					m.errorf(i.decl.head, "Duplicate path", "%s and %s would both be the znode %s. Use each.key in name.", other.addr, i.addr, i.path)
				} else {
					m.errorf(i.decl.head, "Duplicate path", "%s would be the znode %s, which is already %s at %s. Set name = ... on one of them.",
						i.addr, i.path, other.addr, m.where(other.decl.head))
				}
			} else {
				first[w] = i
			}
		}
		if i.ensemble != nil && i.policy == nil && !i.failed && bare[i.ensemble] == nil {
			bare[i.ensemble] = i
		}
	}
	homeless := m.nodes
	if len(homeless) == 0 && len(m.instances) > 0 {
		homeless = []*nodeDecl{m.instances[0].decl}
	}
	if len(homeless) > 0 && len(m.names["ensemble"]) == 0 && !m.incomplete {
		m.errorf(homeless[0].head, "No ensemble", "No ensemble is declared for the nodes: add ensemble \"main\" { servers = [\"HOST:PORT\"] }.")
	}
	for _, name := range m.names["ensemble"] {
		d := m.named["ensemble"][name]
		e := ensembleValue(d.value)
		if i := bare[e]; i != nil && len(e.Auth) == 0 && e.access == nil && !d.failed {
			m.errorf(i.decl.head, "Nobody would own this node",
				"%s has no access list and inherits none from a namespace, and ensemble.%s has neither admins nor an auth block whose identity could get all rights. "+
					"Declare admins there, set acl = acl.NAME on its namespace, or declare one that lets everybody in with allow_world = true.", i.addr, name)
		}
	}
}

// severalEnsembles reports whether the configuration declares more than one.
func (m *module) severalEnsembles() bool {
	for m.parent != nil {
		m = m.parent
	}
	return len(m.names["ensemble"]) > 1
}

// trees returns the ensembles with what is declared on them.
func (m *module) trees(stack string) []*Ensemble {
	var out []*Ensemble
	for _, name := range slices.Sorted(maps.Keys(m.named["ensemble"])) {
		e := ensembleValue(m.named["ensemble"][name].value)
		e.Tree = &plan.Tree{Ensemble: name, Root: e.Root, Stack: stack}
		out = append(out, e)
	}
	m.checkRoots(out)
	own := map[*Ensemble][]kind.ACL{}
	for _, e := range out {
		own[e] = e.ownACL() // hashes passwords: once, and not for each node
	}
	var last *nodeDecl
	origin := "" // one text for all instances of a block, which follow each other
	for _, i := range m.instances {
		if i.decl != last {
			last, origin = i.decl, m.where(i.decl.head)
		}
		t := i.ensemble.Tree
		t.Nodes = append(t.Nodes, i.planNode(stack, origin, own[i.ensemble]))
	}
	for _, e := range out {
		slices.SortFunc(e.Tree.Nodes, func(a, b *plan.Node) int { return strings.Compare(a.Path, b.Path) })
	}
	if len(m.moves)+len(m.pathMoves)+len(m.imports)+len(m.removals) > 0 {
		have := m.declared()
		for _, e := range out {
			e.Tree.Intent = m.intentOf(e, have)
		}
	}
	for _, e := range out {
		e.Tree.Intent.Access = e.access
	}
	for _, e := range out {
		for _, other := range out {
			if other != e {
				e.Tree.Intent.Elsewhere = append(e.Tree.Intent.Elsewhere, other.Tree)
			}
		}
	}
	return out
}

// checkRoots refuses ensembles one of which would take the other one's nodes for its own: both have the mark of the stack.
func (m *module) checkRoots(all []*Ensemble) {
	for i, e := range all {
		for _, other := range all[:i] {
			shared := slices.IndexFunc(e.Servers, func(s string) bool { return slices.Contains(other.Servers, s) })
			if shared >= 0 && (kind.Below(e.Root, other.Root) || kind.Below(other.Root, e.Root)) {
				m.errorf(e.DeclRange, "Ensembles overlap", "ensemble %q keeps its nodes below %s and ensemble %q below %s, both on %s, so each would remove what is declared for the other. "+
					"Give them roots that are not inside each other, or declare everything for one of them.", e.Name, e.Root, other.Name, other.Root, e.Servers[shared])
				break
			}
		}
	}
}
