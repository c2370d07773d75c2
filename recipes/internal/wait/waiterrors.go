package wait

import "errors"

var (
	// ErrQueueFull: as many contenders wait as max_waiters allows.
	ErrQueueFull = errors.New("recipes: queue full")
	// ErrTooManyPermits: the call asked for more permits than are declared, perhaps since the number was lowered.
	ErrTooManyPermits = errors.New("recipes: too many permits")
)
