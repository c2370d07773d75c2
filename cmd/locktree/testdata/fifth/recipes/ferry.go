package recipes

import (
	"context"

	"github.com/locktree/locktree/recipes/kind"
)

// Ferry is a lock that neighbours in the queue hold together.
type Ferry struct{ q *handle }

// Ferry returns a handle on the ferry at path; see Client.Mutex.
func (c *Client) Ferry(path string, opts ...Option) *Ferry {
	return &Ferry{c.handle(kind.Ferry, path, false, opts)}
}

// Lock waits for a seat. See Mutex.Lock.
func (f *Ferry) Lock(ctx context.Context) (*Lease, error) { return f.q.lock(ctx, 0, false) }

// TryLock takes a seat if its boat is there. Otherwise it returns a *HeldError.
func (f *Ferry) TryLock(ctx context.Context) (*Lease, error) { return f.q.lock(ctx, 0, true) }

func (f *Ferry) handle() *handle { return f.q }
