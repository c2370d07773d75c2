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
	on   *Ensemble
	path string
}

// checkNodes are the rules between nodes: one znode, one declaration; somebody
// may use it; it is on an ensemble.
func (e *evaluation) checkNodes() {
	first := map[spot]*instance{}
	bare := map[*Ensemble]*instance{}
	for _, i := range e.instances {
		if i.path != "" && i.ensemble != nil {
			w := spot{i.ensemble, i.path}
			if other := first[w]; other != nil {
				e.own(i.addr, func() { e.duplicatePath(other, i) })
			} else {
				first[w] = i
			}
		}
		if i.ensemble != nil && i.policy == nil && !i.failed && bare[i.ensemble] == nil {
			bare[i.ensemble] = i
		}
	}
	e.checkHomes()
	for _, name := range e.names["ensemble"] {
		d := e.named["ensemble"][name]
		on := ensembleValue(e.of(d).value)
		if i := bare[on]; i != nil && len(on.ownACL()) == 0 && on.access == nil && !e.of(d).failed {
			e.errorf(i.decl.head, "Nobody would own this node",
				"%s has no access list and inherits none from a namespace, and ensemble.%s has neither admins nor an auth block whose identity could get all rights. "+
					"Declare admins there, set acl = acl.NAME on its namespace, or declare one that lets everybody in with allow_world = true.", i.addr, name)
		}
	}
}

func (e *evaluation) duplicatePath(first, second *instance) {
	at := second.decl.head
	if second.addr.Block() == first.addr.Block() {
		e.errorf(at, "Duplicate path", "%s and %s would both be the znode %s. Use each.key in name.", first.addr, second.addr, second.path)
	} else {
		e.errorf(at, "Duplicate path", "%s would be the znode %s, which is already %s at %s. Set name = ... on one of them.",
			second.addr, second.path, first.addr, e.where(first.decl.head))
	}
}

// checkHomes reports nodes without an ensemble.
func (e *evaluation) checkHomes() {
	homeless := e.nodes
	if len(homeless) == 0 && len(e.instances) > 0 {
		homeless = []*nodeDecl{e.instances[0].decl}
	}
	if len(homeless) > 0 && len(e.names["ensemble"]) == 0 && !e.incomplete {
		e.errorf(homeless[0].head, "No ensemble", "No ensemble is declared for the nodes: add ensemble \"main\" { servers = [\"HOST:PORT\"] }.")
	}
}

// trees returns the ensembles with what is declared on them.
func (e *evaluation) trees(stack string) []*Ensemble {
	var out []*Ensemble
	drafts := map[*Ensemble]*plan.Draft{}
	for _, name := range slices.Sorted(maps.Keys(e.named["ensemble"])) {
		on := ensembleValue(e.of(e.named["ensemble"][name]).value)
		drafts[on] = plan.NewTree(stack, on.Root)
		on.Tree = drafts[on].Tree
		on.Tree.Ensemble = name
		out = append(out, on)
	}
	e.checkRoots(out)
	own := map[*Ensemble]kind.List{}
	for _, on := range out {
		own[on] = on.ownACL() // hashes passwords: once, and not for each node
	}
	// In the order of the tree, in which a node is put behind those before it.
	byPath := slices.SortedFunc(slices.Values(e.instances), func(a, b *instance) int { return strings.Compare(a.path, b.path) })
	origins := map[*nodeDecl]string{} // one text for all instances of a block
	for _, i := range byPath {
		if origins[i.decl] == "" {
			origins[i.decl] = e.where(i.decl.head)
		}
		if _, err := drafts[i.ensemble].Add(i.addr, i.params, i.planNode(origins[i.decl], own[i.ensemble])); err != nil {
			e.errorf(i.decl.head, "No node", "%s This is a bug in locktree: please report it.", plan.Sentence(err.Error()))
		}
	}
	if len(e.moves)+len(e.imports)+len(e.removals) > 0 {
		have := e.declared()
		for _, on := range out {
			on.Tree.Intent = e.intentOf(on, have)
		}
	}
	nodeless := map[plan.Addr]bool{}
	for _, m := range e.moduleAddrs {
		nodeless[m.instance] = false
	}
	for _, block := range e.barren {
		nodeless[block] = true
	}
	for _, on := range out {
		on.Tree.Intent.Nodeless = nodeless
		on.Tree.Intent.Access, on.Tree.EnsembleID = on.access, on.id
		for _, other := range out {
			if other != on {
				on.Tree.Intent.Elsewhere = append(on.Tree.Intent.Elsewhere, other.Tree)
			}
		}
	}
	return out
}

// checkRoots refuses ensembles one of which would take the other one's nodes for its own: both have the mark of the stack.
func (e *evaluation) checkRoots(all []*Ensemble) {
	for i, on := range all {
		for _, other := range all[:i] {
			shared := slices.IndexFunc(on.Servers, func(s string) bool { return slices.Contains(other.Servers, s) })
			if shared >= 0 && (kind.Below(on.Root, other.Root) || kind.Below(other.Root, on.Root)) {
				e.errorf(on.DeclRange, "Ensembles overlap", "ensemble %q keeps its nodes below %s and ensemble %q below %s, both on %s, so each would remove what is declared for the other. "+
					"Give them roots that are not inside each other, or declare everything for one of them.", on.Name, on.Root, other.Name, other.Root, on.Servers[shared])
				break
			}
		}
	}
}
