package apply

import (
	"context"
	"slices"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// visit reads some nodes, nil for those that do not exist, and the paths of the children of the namespaces of ours among them.
//
// The requests for a node are executed at different moments. That does no harm: the pins have the versions from
// the first request, and an apply compares those again. A node that is deleted in between is absent.
func (r *reader) visit(ctx context.Context, paths []string) (nodes []*plan.Node, children []string, err error) {
	var rest recipes.Reads
	for _, path := range paths {
		if _, named := slices.BinarySearch(r.names, path); named {
			uses(&rest, path, r.share.desired.Find(path))
		}
	}
	first, then := r.s.ReadAhead(ctx, recipes.Reads{Get: paths}), r.s.ReadAhead(ctx, rest)
	nodes = make([]*plan.Node, len(paths))
	for i, path := range paths {
		if nodes[i], err = r.get(ctx, first, path); err != nil {
			return nil, nil, err
		}
	}
	for i, n := range nodes {
		var below []string
		if n != nil && n.Live.Trouble != plan.TroubleUnreadable {
			if nodes[i], below, err = r.complete(ctx, then, n); err != nil {
				return nil, nil, err
			}
		}
		children = append(children, below...)
	}
	return nodes, children, nil
}

// uses adds to reads what complete reads of a node of ours, except the directories of a family, which are many.
func uses(reads *recipes.Reads, path string, n *plan.Node) {
	reads.GetACL = append(reads.GetACL, path)
	if k := n.Kind(); k != nil {
		for _, part := range k.Children {
			reads.GetACL = append(reads.GetACL, kind.JoinPath(path, part))
		}
	}
}
