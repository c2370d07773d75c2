package apply

import (
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
)

// Pruned is what became of the nodes that Prune was given.
type Pruned struct {
	Removed int
	Used    []string // paths of those that were used again, or have gone, since they were seen
}

// pruneTogether is how many nodes are deleted concurrently.
const pruneTogether = 16

// Prune deletes nodes that programs left, each only as it was seen: not one that somebody has used since. ZooKeeper itself deletes no
// node with a child. It looks at each node before it deletes it, which takes two requests. The error is the first one; the others are
// deleted all the same, unless ctx ends.
func Prune(ctx context.Context, c *recipes.Client, left []inspect.Empty) (out Pruned, err error) {
	s, err := c.Session(ctx)
	if err != nil {
		return out, err
	}
	var mu sync.Mutex
	var deleting sync.WaitGroup
	free := make(chan struct{}, pruneTogether)
	for _, e := range left {
		free <- struct{}{}
		deleting.Go(func() {
			defer func() { <-free }()
			removed, failed := prune(ctx, s, e)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case failed != nil && err == nil:
				err = failed
			case failed != nil:
			case removed:
				out.Removed++
			default:
				out.Used = append(out.Used, e.Path)
			}
		})
	}
	deleting.Wait()
	return out, err
}

// prune deletes the nodes of one lock; false if it is not as it was seen.
func prune(ctx context.Context, s *recipes.Session, e inspect.Empty) (bool, error) {
	var ops []any
	for i, n := range e.Nodes {
		stat, err := s.Exists(ctx, n.Path)
		if err != nil {
			return false, err
		}
		inside := 0
		if i == len(e.Nodes)-1 {
			inside = i
		}
		if stat == nil || stat.Czxid != n.Czxid || stat.Pzxid != n.Pzxid || stat.Version != n.Version || int(stat.NumChildren) != inside {
			return false, nil
		}
		ops = append(ops, &zk.DeleteRequest{Path: n.Path, Version: n.Version})
	}
	_, err := s.Multi(ctx, ops...)
	if errors.Is(err, zk.ErrNotEmpty) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) {
		return false, nil
	}
	if err != nil {
		return false, &NodeError{Op: "delete", Path: e.Path, Why: bare(err), Err: err}
	}
	return true, nil
}
