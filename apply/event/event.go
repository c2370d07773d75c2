// Package event has what an apply reports while it runs, as values, and its [Result].
//
//	show := func(e event.Event) {
//		switch e := e.(type) {
//		case event.Committed:
//			fmt.Println("applied as", e.ApplyID)
//		}
//	}
//	run, err := apply.Begin(ctx, client, desired, apply.Options{Events: show})
//
// The types of event.go are roughly in the order of an apply. The package relies on plan, failure and history for the fields, and
// does nothing.
package event

import (
	"time"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// Event is something that happened during an apply: a value of one of the types of this file.
type Event any

type (
	// LockWaiting: another apply of this stack is under way, and we wait for it. Info is
	// nil when its lock cannot be read.
	LockWaiting struct{ Info *failure.LockInfo }
	// LockAcquired: the apply lock is ours.
	LockAcquired struct{ Info failure.LockInfo }
	// Scaffolded: the root and the tool's own nodes were created.
	Scaffolded struct{ Paths []string }
	// Verified: every node that the plan relied on is still as the plan saw it.
	Verified struct{ Pins int }
	// ACLWidened: we had ADMIN on the node but lacked rights that the transaction needs,
	// and granted them to ourselves. The apply sets the plan's list later.
	ACLWidened struct {
		Addr plan.Addr
		Path string
	}
	// Draining: a lock that is to be deleted grants nothing new. The apply waits for its holders and waiters, or breaks them.
	Draining struct {
		Addr  plan.Addr
		Path  string
		Usage *kind.Usage // as the plan saw it
	}
	// Breaking: these contenders are deleted with their lock.
	Breaking struct {
		Addr  plan.Addr
		Path  string
		Usage *kind.Usage
	}
	// Started: the change goes into the transaction now.
	Started struct {
		Addr   plan.Addr
		Path   string
		Action plan.Action
	}
	// Left: these locks were to be created again, because their nodes may be ZooKeeper containers, which servers delete when empty. They
	// are in use, so they stay as they are. The next apply tries again.
	Left struct{ Addrs []plan.Addr }
	// Committed: the transaction is done. Resolved: its reply was lost, and its outcome
	// was determined by reading back.
	Committed struct {
		ApplyID    string
		Ops, Bytes int
		Resolved   bool
		Elapsed    time.Duration
		// Batch counts from 1 to Batches; a plan that fits has one transaction.
		Batch, Batches int
	}
	// Recorded: all transactions are done, and Entry is in the history. Entry is nil if the history does not exist or is closed to
	// us.
	Recorded struct {
		Entry *history.Entry
		Path  string // of the history
	}
	// Applied: the change is done. Changes of a transaction are done together.
	Applied struct {
		Addr    plan.Addr
		Path    string
		Action  plan.Action
		Elapsed time.Duration // of its transaction; if its list is set later, of all transactions and lists
	}
	// Failed: the transaction was refused because of this change, or its access list could
	// not be set.
	Failed struct {
		Addr   plan.Addr
		Path   string
		Action plan.Action
		Err    error
	}
	// ACLPhase: the apply begins to set Total access lists: on existing nodes, and on new nodes that still admit administrators
	// whom the plan removes.
	ACLPhase struct{ Total int }
	// ACLApplied: one of these lists is set.
	ACLApplied struct {
		Addr plan.Addr
		Path string
	}
	// Finished: the apply is done. Always the last event of an Apply without error.
	Finished struct{ Result Result }
)

// Result is what an apply did.
type Result struct {
	ApplyID    string // "" when there was nothing to do
	Counts     plan.Counts
	Ops, Bytes int // of all transactions, without the fencing checks, the history, and the guard of a new root
	// Transactions is how many were committed: 0 if there was nothing to commit, and usually 1. There are more if the plan has
	// batches, or if the servers refused a transaction as too long.
	Transactions int
	ACLs         int // access lists set after the transactions
	Outputs      []plan.Output
	Elapsed      time.Duration
}
