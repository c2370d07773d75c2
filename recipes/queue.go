package recipes

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/internal/wait"

	"github.com/locktree/locktree/recipes/internal/declare"

	"github.com/locktree/locktree/recipes/kind"
)

// queue is one handle's way into one queue: everything that does not change from one acquisition to the next.
type queue struct {
	c *Client
	wait.Handle
	ctxKey held.Key // by which contexts find its leases
	key    any      // the same
	opts   options
}

func (c *Client) queue(k *kind.Kind, path string, shared bool, opts []Option) *queue {
	q := &queue{c: c, Handle: wait.Handle{Name: declare.Name{Kind: k, Path: path}, Shared: shared}}
	q.keyed()
	q.opts, q.Wrong = collect(opts, k)
	q.Id = cmp.Or(q.opts.id, c.cfg.ID)
	q.Params, q.Create, q.CreateACL = q.opts.params, q.opts.create, q.opts.createACL
	if path == "/" {
		q.Wrong = errors.New("the root of the tree is no lock; name a node below it")
	}
	if q.Wrong != nil {
		q.Wrong = fmt.Errorf("recipes: %s %s: %w", k, path, q.Wrong)
	}
	if err := kind.ValidatePath(path); err != nil {
		q.Wrong = fmt.Errorf("recipes: %s: %w", k, err) // it quotes the path
	}
	return q
}

// named is the handle by another name of its lock.
func (q *queue) named(n *declare.Name) *queue {
	at := *q
	at.Name = *n
	at.keyed()
	return &at
}

// localKey names the local queue of the goroutines that want the same. Readers leave theirs when they are granted: see
// share.go.
func (q *queue) localKey() string {
	if q.Shared {
		return q.Path + "\x00" // no path of ZooKeeper's
	}
	return q.Path
}

// keyed sets the key of its path.
func (q *queue) keyed() {
	q.ctxKey = held.Key{Of: q.c, Path: q.Path}
	q.key = q.ctxKey
}
