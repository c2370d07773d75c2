package recipes

import (
	"context"
	"fmt"

	"github.com/locktree/locktree/recipes/kind"
)

// Want is what a caller of [Client.Take] wants of a lock.
type Want struct {
	Shared  bool // with others that want the same, where the kind has readers
	Permits int  // how many, where the kind has permits
	Try     bool // now, or not at all
}

// Take takes the lock at path as one of kind k. It is for programs that serve locks of any kind, as "locktree exec" does;
// others use the recipe of the kind, which says what it does. inspect.Lock tells which kind a lock is of. Errors are those of
// Mutex.Lock.
func (c *Client) Take(ctx context.Context, k *kind.Kind, path string, want Want, opts ...Option) (*Lease, error) {
	if k == nil || k.Container {
		return nil, fmt.Errorf("%w: %s is not a lock (%s)", ErrKindMismatch, path, k)
	}
	if k.Permits == nil {
		want.Permits = 0
	}
	return c.queue(k, path, want.Shared, opts).lock(ctx, want.Permits, want.Try)
}
