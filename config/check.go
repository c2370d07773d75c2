package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/locktree/locktree/config/internal/static"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// spot is the place of a znode.
type spot struct {
	on   *ensembleBlock
	path string
}

// checkNodes are the rules between nodes: one znode, one declaration; somebody
// may use it; it is on an ensemble.
func checkNodes(e *evaluation) {
	first := map[spot]*instance{}
	bare := map[*ensembleBlock]*instance{}
	for _, i := range e.instances {
		if i.path != "" && i.ensemble != nil {
			w := spot{i.ensemble, i.path}
			if other := first[w]; other != nil {
				duplicatePath(e, other, i)
			} else {
				first[w] = i
			}
		}
		if i.ensemble != nil && i.policy == nil && !i.failed && bare[i.ensemble] == nil {
			bare[i.ensemble] = i
		}
	}
	checkHomes(e)
	for _, name := range e.Names["ensemble"] {
		d := e.Named["ensemble"][name]
		on := ensembleValue(e.of(d).value)
		if i := bare[on]; i != nil && len(on.ownACL()) == 0 && on.Access == nil && !e.of(d).failed {
			e.Errorf(i.decl.Head, "Nobody would own this node",
				"%s has no access list and inherits none from a namespace, and ensemble.%s has neither admins nor an auth block whose identity could get all rights. "+
					"Declare admins there, set acl = acl.NAME on its namespace, or declare one that lets everybody in with allow_world = true.", i.addr, name)
		}
	}
}

func duplicatePath(e *evaluation, first, second *instance) {
	at := second.decl.Head
	if second.addr.Block() == first.addr.Block() {
		e.Errorf(at, "Duplicate path", "%s and %s would both be the znode %s. Use each.key in name.", first.addr, second.addr, second.path)
	} else {
		e.Errorf(at, "Duplicate path", "%s would be the znode %s, which is already %s at %s. Set name = ... on one of them.",
			second.addr, second.path, first.addr, e.Where(first.decl.Head))
	}
}

// checkHomes reports nodes without an ensemble.
func checkHomes(e *evaluation) {
	homeless := e.Nodes
	if len(homeless) == 0 && len(e.instances) > 0 {
		homeless = []*static.Node{e.instances[0].decl}
	}
	if len(homeless) > 0 && len(e.Names["ensemble"]) == 0 && !e.Incomplete {
		e.Errorf(homeless[0].Head, "No ensemble", "No ensemble is declared for the nodes: add ensemble \"main\" { servers = [\"HOST:PORT\"] }.")
	}
}

// trees returns the ensembles with what is declared on them.
func trees(e *evaluation, stack string) []*Ensemble {
	var blocks []*ensembleBlock
	var out []*Ensemble
	drafts := map[*ensembleBlock]*plan.Draft{}
	for _, name := range slices.Sorted(maps.Keys(e.Named["ensemble"])) {
		on := ensembleValue(e.of(e.Named["ensemble"][name]).value)
		drafts[on] = plan.NewTree(stack, on.Root)
		drafts[on].Tree.Ensemble = name
		made := ensembleOf(on)
		made.Tree = drafts[on].Tree
		blocks, out = append(blocks, on), append(out, made)
	}
	checkRoots(e, blocks)
	own := map[*ensembleBlock]kind.List{}
	for _, on := range blocks {
		own[on] = on.ownACL() // hashes passwords: once, and not for each node
	}
	// In the order of the tree, in which a node is put behind those before it.
	byPath := slices.SortedFunc(slices.Values(e.instances), func(a, b *instance) int { return strings.Compare(a.path, b.path) })
	origins := map[*static.Node]string{} // one text for all instances of a block
	for _, i := range byPath {
		if origins[i.decl] == "" {
			origins[i.decl] = e.Where(i.decl.Head)
		}
		if _, err := drafts[i.ensemble].Add(i.addr, i.params, i.planNode(origins[i.decl], own[i.ensemble])); err != nil {
			e.Errorf(i.decl.Head, "No node", "%s This is a bug in locktree: please report it.", plan.Sentence(err.Error()))
		}
	}
	if len(e.moves)+len(e.imports)+len(e.removals) > 0 {
		have := declaredBy(e)
		for i, on := range blocks {
			out[i].Tree.Intent = intentOf(e, on, have)
		}
	}
	for i, on := range blocks {
		tree := out[i].Tree
		tree.Intent.Access, tree.EnsembleID = on.Access, on.ID
		for _, other := range out {
			if other.Tree != tree {
				tree.Intent.Elsewhere = append(tree.Intent.Elsewhere, other.Tree)
			}
		}
	}
	return out
}

// checkRoots refuses ensembles one of which would take the other one's nodes for its own: both have the mark of the stack.
func checkRoots(e *evaluation, all []*ensembleBlock) {
	for i, on := range all {
		for _, other := range all[:i] {
			shared := slices.IndexFunc(on.Servers, func(s string) bool { return slices.Contains(other.Servers, s) })
			if shared >= 0 && (kind.Below(on.Root, other.Root) || kind.Below(other.Root, on.Root)) {
				e.Errorf(on.DeclRange, "Ensembles overlap", "ensemble %q keeps its nodes below %s and ensemble %q below %s, both on %s, so each would remove what is declared for the other. "+
					"Give them roots that are not inside each other, or declare everything for one of them.", on.Name, on.Root, other.Name, other.Root, on.Servers[shared])
				break
			}
		}
	}
}
