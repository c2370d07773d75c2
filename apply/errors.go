package apply

import (
	"fmt"
	"strings"
	"time"

	"github.com/locktree/locktree/plan"
)

// Nothing was written when Run returns one of the errors of this file, unless
// the error says otherwise. Test with errors.As; ZooKeeper's own errors are
// reached through Unwrap.
//
// They are told apart by what a person can do next: plan again (Stale, Conflict), wait (Locked,
// InUse, Moved), apply again (ACLPhase, Partial, Closed), look (Unknown, Verify), change something
// (Problems, TooLarge, Node).

// ProblemsError: the plan itself says that it must not be applied.
type ProblemsError struct{ Problems []plan.Problem }

func (e *ProblemsError) Error() string {
	var lines []string
	for _, same := range plan.Fold(e.Problems) {
		switch p := same[0]; {
		case p.Severity != plan.Error:
		case len(same) > 1:
			lines = append(lines, fmt.Sprintf("%s: %s (and %d more)", p.Summary, p.Detail, len(same)-1))
		default:
			lines = append(lines, p.Summary+": "+p.Detail)
		}
	}
	return "apply: the plan cannot be applied: " + strings.Join(lines, "; ")
}

// StaleError: nodes the plan relied on changed since it was made. Locked says that it was
// made under the apply lock: no apply did that, but somebody by hand.
type StaleError struct {
	Differences []Difference
	Locked      bool
}

// Difference is one node that is not as the plan saw it.
type Difference struct {
	Addr, Path string // Addr is "" for the stack's index: another apply has finished
	// What is "created", "deleted", "deleted and created again", "data changed" or
	// "access list changed"; of a [VerifyError], a clause.
	What       string
	Want, Got  plan.Pin
	ModifiedMs int64 // when its data changed last, by the server's clock; 0 when unknown
}

// String writes "namespace.a.mutex.b (/locks/a/b): data changed, version 3 -> 4".
func (d Difference) String() string {
	who := d.Path
	if d.Addr != "" {
		who = d.Addr + " (" + d.Path + ")"
	}
	s := who + ": " + d.What
	if d.Want.Version != d.Got.Version && !d.Want.Absent && !d.Got.Absent {
		s += fmt.Sprintf(", version %d -> %d", d.Want.Version, d.Got.Version)
	}
	if d.ModifiedMs > 0 {
		s += ", last at " + time.UnixMilli(d.ModifiedMs).UTC().Format(time.RFC3339)
	}
	return s
}

func (e *StaleError) Error() string {
	return "apply: the plan is stale: " + list(e.Differences) + ". Nothing was written: make a new plan"
}

// list names the first few.
func list(diffs []Difference) string {
	const room = 5
	var out []string
	for i, d := range diffs {
		if i == room {
			out = append(out, fmt.Sprintf("and %d more", len(diffs)-room))
			break
		}
		out = append(out, d.String())
	}
	return strings.Join(out, "; ")
}

// LockedError: another apply of this stack holds the apply lock. Info is nil when
// what the lock says cannot be read.
type LockedError struct {
	Info   *LockInfo
	Path   string
	Waited time.Duration
}

func (e *LockedError) Error() string {
	who := "somebody"
	if e.Info != nil {
		who = fmt.Sprintf("%s (%s, since %s, apply %s)", e.Info.Who, e.Info.Operation, e.Info.Created.UTC().Format(time.RFC3339), e.Info.ID)
	}
	waited := ""
	if e.Waited >= time.Second {
		waited = " after " + e.Waited.Round(time.Second).String()
	}
	return fmt.Sprintf("apply: the apply lock %s is held by %s%s. It goes by itself when that apply ends or its program dies: "+
		"wait for it, or allow a longer lock timeout", e.Path, who, waited)
}

// InUseError: a lock that would be deleted, replaced or moved has holders or waiters.
type InUseError struct {
	Addr, Path string
	Action     plan.Action
	Usage      *plan.Usage // nil when they left before they could be read
	Reason     plan.Reason // of the action
	Others     int         // how many more locks of the plan are in use
}

func (e *InUseError) Error() string {
	what, more := "cannot be deleted", ""
	switch e.Action {
	case plan.Replace:
		what = "cannot be replaced"
	case plan.Update:
		what = "cannot be moved"
	}
	if e.Others > 0 {
		more = fmt.Sprintf(" (%d more locks of this plan are in use)", e.Others)
	}
	who := e.Usage.String()
	if !e.Usage.Busy() {
		who = "contenders that have left meanwhile"
	}
	or := ""
	if e.Reason == plan.ReasonReplaceACL {
		or = `, or take acl_change = "replace" out of its lifecycle block to have its access list set in place`
	}
	return fmt.Sprintf("apply: %s (%s) %s: it has %s%s. Nothing was written: apply again when it is idle%s", e.Addr, e.Path, what, who, more, or)
}

// ConflictError: the transaction was refused because a node changed after it was
// verified. Addr is "" for the stack's index.
type ConflictError struct {
	Addr, Path string
	Op         plan.OpKind
	Why        string
	Err        error
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("apply: %s: %s while the apply was under way. Nothing was written: make a new plan", named(e.Addr, e.Path), e.Why)
}

func (e *ConflictError) Unwrap() error { return e.Err }

func named(addr, path string) string {
	if addr == "" {
		return path
	}
	return addr + " (" + path + ")"
}

// TooLargeError: the transaction is larger than a ZooKeeper server reads, and holds
// one change, so that it cannot be cut. Refused says that it was sent, and that the
// servers ended the connection each time, as they did with harmless requests of its
// length, while they answered short ones: their jute.maxbuffer is lower than the
// default, which is the Limit. Otherwise nothing was sent.
type TooLargeError struct {
	Addr, Path        string // of the change; "" when it is the index
	Ops, Bytes, Limit int
	Refused           bool
}

func (e *TooLargeError) Error() string {
	what := ""
	if e.Addr != "" {
		what = " of " + e.Addr
	}
	if e.Refused {
		return fmt.Sprintf("apply: the servers end the connection whenever the transaction%s is sent (%d operations, %d bytes), as they do with "+
			"requests longer than their jute.maxbuffer. It was not applied: set jute.maxbuffer to 1 MiB on all servers, which is the default",
			what, e.Ops, e.Bytes)
	}
	return fmt.Sprintf("apply: the transaction%s with %d operations is %d bytes long: at most %d are sent, because a ZooKeeper server "+
		"drops the connection at 1 MiB. Nothing was written: shorten what is declared", what, e.Ops, e.Bytes, e.Limit)
}

// Unwrap makes the plan cut the transaction where it can.
func (e *TooLargeError) Unwrap() error { return plan.ErrTooLong }

// NodeError: ZooKeeper refused an operation on a node, in a sentence with a next step.
type NodeError struct {
	Addr, Path string
	Op         string // "create", "set", "delete", "check", "read", "lock", "apply to", "set the access list of"
	Why        string // what the answer means
	Next       string // what to do
	Err        error
}

func (e *NodeError) Error() string {
	s := fmt.Sprintf("apply: cannot %s %s: %s", e.Op, named(e.Addr, e.Path), e.Why)
	if e.Next != "" {
		s += ". " + strings.ToUpper(e.Next[:1]) + e.Next[1:]
	}
	return s
}

func (e *NodeError) Unwrap() error { return e.Err }

// UnknownError: the connection was lost during the transaction and could not be
// restored in time, so that nobody can say whether it was committed. It was
// wholly or not at all: the next plan tells.
type UnknownError struct {
	ApplyID string
	Err     error
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("apply: the reply to the transaction of apply %s was lost, and it could not be found out whether it was "+
		"committed (%v); it was wholly or not at all. Make a new plan, which shows what is there", e.ApplyID, e.Err)
}

func (e *UnknownError) Unwrap() error { return e.Err }

// ACLPhaseError: the transaction WAS committed, but access lists of existing
// nodes could not all be set. The rest is noted in the index: the next apply
// finishes. With Done equal to Total all were set, and the note alone is left.
type ACLPhaseError struct {
	ApplyID     string
	Done, Total int
	Err         error // why it stopped
}

func (e *ACLPhaseError) Error() string {
	if e.Done == e.Total {
		return fmt.Sprintf("apply: everything was applied, all %d access lists included, but the note in the index that they are to be set "+
			"could not be taken away: %s. It does no harm, and the next apply that changes anything takes it away", e.Total, behind(e.Err))
	}
	return fmt.Sprintf("apply: everything was applied but %d of %d access lists: %s. Apply again to finish", e.Total-e.Done, e.Total, behind(e.Err))
}

func (e *ACLPhaseError) Unwrap() error { return e.Err }

// PartialError: some of the plan's transactions WERE committed, the others were
// not. Everything that is there is whole, and the next plan shows what is left.
type PartialError struct {
	ApplyID     string
	Done, Total int // transactions
	Err         error
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("apply: %d of %d transactions were applied, then: %s. What is there is whole: plan and apply again to do the rest",
		e.Done, e.Total, behind(e.Err))
}

func (e *PartialError) Unwrap() error { return e.Err }

// ClosedError: nothing of the plan was written because of Err, but locks that were closed
// for it, to be drained, could not be opened again: nobody new gets into them. The next
// apply opens those that are declared, and finishes with the others.
type ClosedError struct {
	Locks []string // address and path of each
	Err   error    // why the apply ended
	Why   error    // why they could not be opened; nil when the apply lock was lost
}

func (e *ClosedError) Error() string {
	why := ""
	if e.Why != nil {
		why = ": " + behind(e.Why)
	}
	return fmt.Sprintf("%s. What was being drained could not be opened again, so nobody new gets in: %s%s. "+
		"Plan and apply again, which opens what is declared", behind(e.Err), e.Left(), why)
}

// Left names the first few of the locks.
func (e *ClosedError) Left() string {
	const room = 5
	if len(e.Locks) <= room {
		return strings.Join(e.Locks, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(e.Locks[:room], ", "), len(e.Locks)-room)
}

func (e *ClosedError) Unwrap() error { return e.Err }

// VerifyError: the transaction WAS committed, but reading it back showed
// something else than what was written, or failed.
type VerifyError struct {
	ApplyID     string
	Differences []Difference
	Err         error // why it could not be read back; nil when it could
}

func (e *VerifyError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("apply: everything was applied, but could not be read back: %v. Plan again to see it", e.Err)
	}
	return "apply: everything was applied, but the server made something else of it: " + list(e.Differences) + ". Plan again to see it"
}

func (e *VerifyError) Unwrap() error { return e.Err }

// MovedError: the tree changed while it was read, again and again.
type MovedError struct {
	Path  string // of the index
	Tries int
}

func (e *MovedError) Error() string {
	return fmt.Sprintf("apply: %s was changed by other applies during each of %d reads. Try again when they are done", e.Path, e.Tries)
}
