package recipes_test

import (
	"context"
	"errors"

	"github.com/locktree/locktree/recipes"
)

// left enters the end of a lease whose nodes nobody waits for.
func (w *simWorld) left(worker int, g *simGrant, called int64) {
	err := recipes.ErrReleasePending
	if why := context.Cause(g.lease.Context()); errors.Is(why, recipes.ErrLost) {
		err = why
	}
	w.released(worker, g, err, called)
}
