package survey

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect/internal/evidence"
	"github.com/locktree/locktree/recipes/inspect/internal/node"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// maxLooks is how many nodes are read concurrently. A server answers the requests of a connection one after another, so the walk would
// hardly be faster with more.
const maxLooks = 32

// visitedNode is one node of a walk.
type visitedNode struct {
	node.Node
	acl    kind.List // nil if we may not read the access list
	closed bool      // we may not read the node
	misfit *evidence.Misfit

	inside []*visitedNode
	found  *Found // the result of a survey
}

// walk reads a subtree level by level, the nodes of a level concurrently. In the same tree it reaches the same nodes each time, even if
// it stops at the bound o.Most.
type walk struct {
	o Surveyor
	s *session.Session

	seen    int
	cut     bool    // there are more nodes than o.Most
	misfits []error // one error for each node that holds parts of two types of locks
}

// readTree reads the node at path and everything below it. Nodes that vanish meanwhile are left out.
func (w *walk) readTree(ctx context.Context, path string) (*visitedNode, error) {
	top, err := w.look(ctx, path)
	if err != nil {
		return nil, err
	}
	for level := []*visitedNode{top}; len(level) > 0; {
		if level, err = w.readLevel(ctx, level); err != nil {
			return nil, err
		}
	}
	return top, nil
}

// readLevel reads the children of the nodes of one level, and returns them as the next level.
func (w *walk) readLevel(ctx context.Context, level []*visitedNode) ([]*visitedNode, error) {
	var paths []string
	var parents []*visitedNode
	for _, n := range level {
		if m := n.misfit; m != nil && !m.Part {
			w.misfits = append(w.misfits, fmt.Errorf("%s: %w", kind.Visible(n.Path), m))
		}
		if n.closed || !w.o.judge(n) {
			continue
		}
		for _, name := range slices.Sorted(slices.Values(n.Children)) {
			if path := kind.JoinPath(n.Path, name); !evidence.Reserved(path) {
				paths, parents = append(paths, path), append(parents, n)
			}
		}
	}
	if most := max(w.o.Most-w.seen, 0); len(paths) > most {
		w.cut, paths = true, paths[:most]
	}
	read := make([]*visitedNode, len(paths))
	err := node.Together(maxLooks, len(paths), func(i int) (err error) {
		if read[i], err = w.look(ctx, paths[i]); errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return err
	})
	w.seen += len(paths)
	var next []*visitedNode
	for i, n := range read {
		if n != nil {
			parents[i].inside, next = append(parents[i].inside, n), append(next, n)
		}
	}
	return next, err
}

// look reads one node, and its contenders if it is a lock. A node that we may not read is no error.
func (w *walk) look(ctx context.Context, path string) (*visitedNode, error) {
	read, err := node.Read(ctx, w.s, path)
	if err == nil && path != "/" { // the root cannot be a lock
		err = read.Recognise(ctx, w.s)
	}
	if errors.Is(err, zk.ErrNoAuth) {
		return &visitedNode{Node: node.Node{Path: path}, closed: true}, nil
	}
	var m *evidence.Misfit
	if errors.As(err, &m) {
		return &visitedNode{Node: *read, misfit: m}, nil
	}
	if err != nil {
		return nil, err
	}
	acl, _, _ := w.s.GetACL(ctx, path)
	return &visitedNode{Node: *read, acl: node.List(acl)}, nil
}
