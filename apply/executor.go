package apply

import (
	"time"

	"github.com/locktree/locktree/recipes"
)

// Executor carries out plans. Client is required, the rest may be zero.
type Executor struct {
	Client *recipes.Client
	// Events is called for every event, one at a time, from the goroutine of Run.
	Events func(Event)
	// LockTimeout is how long to wait for the apply lock; 0 does not wait.
	LockTimeout time.Duration
	// Operation, Who and Version are written into the apply lock for others to read.
	Operation, Who, Version string

	held *held // by Lock, for the next Run
}
