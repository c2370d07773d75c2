package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// maxLooks is how many nodes are read concurrently. A connection is served in order, so more would not hide more of the
// network's latency.
const maxLooks = 32

// node is one node of a walk.
type node struct {
	Report
	data     []byte
	stat     *zk.Stat
	acl      kind.List // with walk.acl, if we may read it
	children []string
	closed   bool // we may not read it
	misfit   *misfit

	inside []*node
	found  *Found // the result of a survey
}

// walk reads a subtree level by level, the nodes of a level concurrently. Which nodes it reaches depends only on the tree,
// even if it stops at the bound.
type walk struct {
	s     *session.Session
	most  int  // how many nodes it reads
	acl   bool // read access lists too
	enter func(*node) bool

	seen    int
	cut     bool    // there are more nodes
	misfits []error // of nodes that hold parts of two types of locks
}

// from reads the node at path and everything below it. Nodes that vanish meanwhile are left out.
func (w *walk) from(ctx context.Context, path string) (*node, error) {
	top, err := w.look(ctx, path)
	if err != nil {
		return nil, err
	}
	for level := []*node{top}; len(level) > 0; {
		if level, err = w.below(ctx, level); err != nil {
			return nil, err
		}
	}
	return top, nil
}

// below reads the level below some nodes.
func (w *walk) below(ctx context.Context, level []*node) ([]*node, error) {
	var paths []string
	var parents []*node
	for _, n := range level {
		if m := n.misfit; m != nil && !m.part {
			w.misfits = append(w.misfits, fmt.Errorf("%s: %w", kind.Visible(n.Path), m))
		}
		if n.closed || !w.enter(n) {
			continue
		}
		for _, name := range slices.Sorted(slices.Values(n.children)) {
			if n.Path == "/" && name == "zookeeper" || name == ".locktree" {
				continue // the server's own nodes, and the tool's
			}
			paths, parents = append(paths, kind.JoinPath(n.Path, name)), append(parents, n)
		}
	}
	if most := max(w.most-w.seen, 0); len(paths) > most {
		w.cut, paths = true, paths[:most]
	}
	read, errs := make([]*node, len(paths)), make([]error, len(paths))
	together(maxLooks, len(paths), func(i int) { read[i], errs[i] = w.look(ctx, paths[i]) })
	w.seen += len(paths)
	var next []*node
	for i, n := range read {
		switch err := errs[i]; {
		case err == nil:
			parents[i].inside = append(parents[i].inside, n)
			next = append(next, n)
		case !errors.Is(err, zk.ErrNoNode):
			return nil, err
		}
	}
	return next, nil
}

// look reads one node. It is no error if we may not read it.
func (w *walk) look(ctx context.Context, path string) (*node, error) {
	n, err := look(ctx, w.s, path)
	if errors.Is(err, zk.ErrNoAuth) {
		return &node{Report: Report{Path: path}, closed: true}, nil
	}
	var m *misfit
	if errors.As(err, &m) {
		n.misfit = m
		return n, nil
	}
	if err != nil || !w.acl {
		return n, err
	}
	if acl, _, err := w.s.GetACL(ctx, path); err == nil {
		n.acl = fromZK(acl)
	}
	return n, nil
}

func fromZK(in []zk.ACL) (out kind.List) {
	for _, a := range in {
		out = append(out, kind.ACL{Scheme: a.Scheme, ID: a.ID, Perms: kind.Perm(a.Perms)})
	}
	return out
}

// look reads one node, and its contenders if it is a lock.
func look(ctx context.Context, s *session.Session, path string) (*node, error) {
	n, err := readNode(ctx, s, path)
	if err != nil || path == "/" { // which cannot be a lock
		return n, err
	}
	return n, n.recognise(ctx, s)
}

func readNode(ctx context.Context, s *session.Session, path string) (*node, error) {
	data, stat, err := s.Get(ctx, path)
	if err != nil {
		return nil, err
	}
	children, _, err := s.Children(ctx, path)
	if err != nil {
		return nil, err
	}
	n := &node{Report: Report{Path: path}, data: data, stat: stat, children: children}
	if n.Payload, n.Why = kind.Decode(data); n.Why != nil {
		n.Payload = nil
	} else {
		n.Payload.Read(stat.Mtime)
	}
	return n, nil
}

// recognise finds out what the node is, and reads its contenders if it is a lock.
func (n *node) recognise(ctx context.Context, s *session.Session) error {
	params, err := n.classify(n.data, n.children, func(name string) ([]string, error) {
		names, _, err := s.Children(ctx, kind.JoinPath(n.Path, name))
		if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) {
			err = nil
		}
		return names, err
	})
	if err != nil {
		return err
	}
	if n.Kind == nil || n.Kind.Container {
		n.junk(n.Path, n.children)
		return nil
	}
	if err := n.read(ctx, s, params, n.children); err != nil {
		return err
	}
	n.Job, err = readJob(ctx, s, n.Path, n.Kind, n.Payload)
	return err
}

// together calls f for 0 to n-1, up to most calls at a time, and returns when all have returned.
func together(most, n int, f func(i int)) {
	free := make(chan struct{}, most)
	var calls sync.WaitGroup
	for i := range n {
		free <- struct{}{}
		calls.Go(func() {
			defer func() { <-free }()
			f(i)
		})
	}
	calls.Wait()
}
