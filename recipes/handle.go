package recipes

import (
	"cmp"
	"context"
	"errors"

	"github.com/locktree/locktree/recipes/internal/declare"
	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/lock"
	"github.com/locktree/locktree/recipes/internal/wait"
	"github.com/locktree/locktree/recipes/kind"
)

// A handle is behind each Mutex, Election and so on of a program. It has everything that does not change between calls.
type handle struct {
	c *Client
	lock.Handle
}

// withLock returns q with w in place of its lock.Handle.
func (q *handle) withLock(w *lock.Handle) *handle {
	if w == &q.Handle {
		return q
	}
	now := *q
	now.Handle = *w
	return &now
}

// atPresentPath returns the handle with the lock's current path. The error is what the declaration at that path gives, such as
// ErrDraining.
func (q *handle) atPresentPath(ctx context.Context, e *lock.SessionState) (*handle, error) {
	w, err := e.Present(ctx, &q.Handle)
	return q.withLock(w), err
}

// failingHandle returns a handle whose every use fails with the error in the parameter wrong.
func (c *Client) failingHandle(path string, wrong error) *handle {
	return &handle{c: c, Handle: lock.Handle{C: &c.state, Handle: wait.Handle{Name: declare.Name{Kind: kind.Mutex, Path: path, Wrong: wrong}}}}
}

func (c *Client) handle(k *kind.Kind, path string, shared bool, opts []Option) *handle {
	q := &handle{c: c, Handle: lock.Handle{C: &c.state, Handle: wait.Handle{Name: declare.Name{Kind: k, Path: path}, Shared: shared}}}
	q.Keyed()
	o, wrong := collect(opts, k)
	q.ID = cmp.Or(o.id, c.cfg.ID)
	q.Reentrant, q.MaxWait, q.MaxRelease = o.reentrant, o.maxWait, o.maxRelease
	q.Wrong, q.Params, q.Create, q.CreateACL = wrong, o.params, o.create, o.createACL
	if path == "/" {
		q.Wrong = errors.New("the root of the tree is no lock; name a node below it")
	}
	if q.Wrong != nil {
		q.Wrong = errs.Errorf("recipes: %s %s: %w", k, path, q.Wrong)
	}
	if err := kind.ValidatePath(path); err != nil {
		q.Wrong = errs.Errorf("recipes: %s: %w", k, err) // ValidatePath's error already quotes the path
	}
	return q
}
