package recipes

import (
	"context"
	"fmt"

	"github.com/locktree/locktree/recipes/kind"
)

// Want is how a caller of [Client.Take] wants to hold the lock.
type Want struct {
	Shared  bool // as a reader, if the kind has readers
	Permits int  // how many, if the kind has permits
	Try     bool // fail at once instead of waiting
}

// Take takes the lock at path as a lock of kind k. It is for programs that handle locks of any kind, as "locktree
// exec" does; others use the recipe of the kind and its documentation. inspect.Lock returns the kind of a lock.
// Errors are those of Mutex.Lock.
func (c *Client) Take(ctx context.Context, k *kind.Kind, path string, want Want, opts ...Option) (*Lease, error) {
	if k == nil || k.Container || len(k.Queues) == 0 {
		return nil, fmt.Errorf("%w: %s is not a lock (%s)", ErrKindMismatch, path, k)
	}
	if k.Permits == nil {
		want.Permits = 0
	}
	return c.queue(k, path, want.Shared && k.Queues[0].Shared != nil, opts).lock(ctx, want.Permits, want.Try)
}
