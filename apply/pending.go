package apply

import (
	"context"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
)

func (l LockInfo) text() string                                            { panic("pending") }
func (x *Executor) run(ctx context.Context, p *plan.Plan) (*Result, error) { panic("pending") }
func read(ctx context.Context, s *recipes.Session, desired *plan.Tree) (*plan.Tree, error) {
	panic("pending")
}
func (e *ProblemsError) Error() string { panic("pending") }
func (e *StaleError) Error() string    { panic("pending") }
func (e *LockedError) Error() string   { panic("pending") }
func (e *InUseError) Error() string    { panic("pending") }
func (e *ConflictError) Error() string { panic("pending") }
func (e *ConflictError) Unwrap() error { return e.Err }
func (e *TooLargeError) Error() string { panic("pending") }
func (e *NodeError) Error() string     { panic("pending") }
func (e *NodeError) Unwrap() error     { return e.Err }
func (e *UnknownError) Error() string  { panic("pending") }
func (e *UnknownError) Unwrap() error  { return e.Err }
func (e *ACLPhaseError) Error() string { panic("pending") }
func (e *ACLPhaseError) Unwrap() error { return e.Err }
func (e *VerifyError) Error() string   { panic("pending") }
func (e *MovedError) Error() string    { panic("pending") }
