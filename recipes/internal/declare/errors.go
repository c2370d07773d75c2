package declare

import "errors"

var (
	// ErrNotProvisioned: the node does not exist or has no declaration. Declare and apply it, or give parameters
	// with WithParams.
	ErrNotProvisioned = errors.New("recipes: lock not provisioned")
	// ErrKindMismatch: the node is declared as another kind of lock. Nothing was written.
	ErrKindMismatch = errors.New("recipes: lock is of another kind")
	// ErrDraining: the declaration says that nothing new is granted. Holders keep what they have.
	ErrDraining = errors.New("recipes: lock is draining")
	// ErrMoved: the lock has another path now. Use the present path.
	ErrMoved = errors.New("recipes: lock has moved")
)
