package apply

import (
	"context"
	"time"

	"github.com/locktree/locktree/plan"
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
}

// Run applies the plan. A plan without changes does nothing and needs no lock.
//
// Cancelling ctx stops it before the transaction is sent; afterwards the
// transaction is seen through (its outcome is found out with a context of its
// own), and the access lists that are left are noted for the next apply.
func (x *Executor) Run(ctx context.Context, p *plan.Plan) (*Result, error) { return x.run(ctx, p) }

// Read reads the live tree of desired's stack below desired's root: its index,
// every node the index or desired names, and everything inside the stack's
// namespaces. It sends no write. The tree is of one version of the index: when an
// apply finishes in between, it reads again; a [*MovedError] says that it gave up.
//
// Hand edits during the read may or may not be seen; what a plan relied on is
// verified again by the apply.
func Read(ctx context.Context, s *recipes.Session, desired *plan.Tree) (*plan.Tree, error) {
	return read(ctx, s, desired)
}
