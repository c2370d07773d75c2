package recipes

import (
	"context"

	"github.com/locktree/locktree/recipes/internal/held"
)

// Detach returns a context with the values of ctx, but without its leases, deadline and cancellation. It is for work that a holder
// starts and does not wait for: with ctx itself, that work would end with the lease, and locking the same lock again would be
// ErrWouldDeadlock although another goroutine does it, which may wait.
func Detach(ctx context.Context) context.Context {
	return held.Detach(ctx)
}
