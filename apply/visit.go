package apply

import (
	"context"
	"slices"

	"github.com/go-zookeeper/zk"

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
	infers := r.infers()
	for _, path := range paths {
		if _, named := slices.BinarySearch(r.names, path); named && !infers {
			uses(&rest, path, r.share.desired.Find(path), true)
		}
	}
	first, then := r.s.ReadAhead(ctx, recipes.Reads{Get: paths}), r.s
	if !infers {
		then = r.s.ReadAhead(ctx, rest)
	}
	nodes = make([]*plan.Node, len(paths))
	for i, path := range paths {
		if nodes[i], err = r.get(ctx, first, path); err != nil {
			return nil, nil, err
		}
		if n := nodes[i]; infers && r.ours(n) {
			r.infer(ctx, n)
			uses(&rest, path, n, n.ACL == nil)
		}
	}
	if infers {
		then = r.s.ReadAhead(ctx, rest)
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
func uses(reads *recipes.Reads, path string, n *plan.Node, list bool) {
	if list {
		reads.GetACL = append(reads.GetACL, path)
	}
	if k := n.Kind(); k != nil {
		for _, part := range k.Children {
			reads.GetACL = append(reads.GetACL, kind.JoinPath(path, part))
		}
	}
}

// samples are the access lists of some nodes that a transaction created, as the servers show them to us.
//
// A node has only a sum of its list. But equal lists of one transaction are shown equally, whatever the servers make of them: the
// list of a node that has what its sum says is that of every other node whose sum it fits.
type samples struct {
	lists []kind.List
	asked int
}

// maxSamples bounds the round trips for the samples of a transaction, and the search for a list that fits.
const maxSamples = 8

// infers reports whether any list can be inferred.
func (r *reader) infers() bool { return r.tree.Index.KnowsLists() }

// infer fills in the access list of a node if that is known (see [plan.Lists]), from a sample or as one.
func (r *reader) infer(ctx context.Context, n *plan.Node) {
	if !r.tree.Index.Knows(n) {
		return
	}
	r.mu.Lock()
	known := r.samples[n.Live.Czxid]
	r.mu.Unlock()
	for _, n.ACL = range known.lists {
		if n.Live.AsLeft = r.tree.Index.Left(n); n.Live.AsLeft {
			return
		}
	}
	n.ACL = nil
	if known.asked >= maxSamples {
		return
	}
	acl, _, err := r.s.GetACL(ctx, n.Path)
	if err != nil {
		return // complete asks again, and says what is wrong
	}
	r.listed(n, acl)
	r.mu.Lock()
	defer r.mu.Unlock()
	known = r.samples[n.Live.Czxid]
	known.asked++
	if !slices.ContainsFunc(known.lists, func(l kind.List) bool { return slices.Equal(l, n.ACL) }) {
		known.lists = append(known.lists, n.ACL)
	}
	r.samples[n.Live.Czxid] = known
}

func (r *reader) listed(n *plan.Node, acl []zk.ACL) {
	n.ACL = r.share.list(fromZK(acl))
	n.Live.AsLeft = r.tree.Index.Left(n)
}

func stampOf(stat *zk.Stat) plan.Stamp {
	return plan.Stamp{Czxid: stat.Czxid, Ctime: stat.Ctime, Version: int64(stat.Version)}
}
