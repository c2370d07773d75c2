package recipes

import "github.com/locktree/locktree/recipes/internal/wait"

// What package wait defines.
var (
	ErrQueueFull      = wait.ErrQueueFull
	ErrTooManyPermits = wait.ErrTooManyPermits
)
