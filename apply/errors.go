package apply

import (
	"time"

	"github.com/locktree/locktree/plan"
)

// Nothing was written when Run returns one of the errors of this file, unless
// the error says otherwise. Test with errors.As; ZooKeeper's own errors are
// reached through Unwrap.

// ProblemsError: the plan itself says that it must not be applied.
type ProblemsError struct{ Problems []plan.Problem }

// StaleError: nodes the plan relied on changed since it was made.
type StaleError struct{ Differences []Difference }

// Difference is one node that is not as the plan saw it.
type Difference struct {
	Addr, Path string
	What       string // "data changed", "access list changed", "deleted", "created", "recreated"
	Want, Got  plan.Pin
	ModifiedMs int64 // when its data changed last, by the server's clock; 0 when unknown
}

// LockedError: another apply of this stack holds the apply lock. Info is nil when
// what the lock says cannot be read.
type LockedError struct {
	Info   *LockInfo
	Path   string
	Waited time.Duration
}

// InUseError: a lock that would be deleted or replaced has holders or waiters.
type InUseError struct {
	Addr, Path string
	Action     plan.Action
	Usage      *plan.Usage // nil when they left before they could be read
	Others     int         // how many more locks of the plan are in use
}

// ConflictError: the transaction was refused because a node changed after it was
// verified.
type ConflictError struct {
	Addr, Path string
	Op         plan.OpKind
	Err        error
}

// TooLargeError: the transaction is larger than a ZooKeeper server reads.
type TooLargeError struct{ Ops, Bytes, Limit int }

// NodeError: ZooKeeper refused an operation on a node, in a sentence with a next step.
type NodeError struct {
	Addr, Path string
	Op         string // "create", "set", "delete", "check", "set the access list of", "read"
	Why        string // what the answer means
	Next       string // what to do
	Err        error
}

// UnknownError: the connection was lost during the transaction and could not be
// restored, so that nobody can say whether it was committed. The next plan tells.
type UnknownError struct {
	ApplyID string
	Err     error
}

// ACLPhaseError: the transaction WAS committed, but access lists of existing
// nodes could not all be set. The rest is noted in the index: the next apply
// finishes.
type ACLPhaseError struct {
	ApplyID     string
	Done, Total int
	Err         error // why it stopped: a *NodeError or a *ConflictError
}

// VerifyError: the transaction WAS committed, but reading it back showed
// something else than what was written.
type VerifyError struct{ Differences []Difference }

// MovedError: the tree changed while it was read, again and again.
type MovedError struct {
	Path  string // of the index
	Tries int
}
