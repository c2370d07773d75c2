package recipes

import "github.com/locktree/locktree/recipes/internal/lock"

// What package lock defines.
var (
	ErrHeld          = lock.ErrHeld
	ErrLockOrder     = lock.ErrLockOrder
	ErrWouldDeadlock = lock.ErrWouldDeadlock
)
