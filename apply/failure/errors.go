package failure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
)

const (
	// NothingWritten ends each error that leaves ZooKeeper as it was.
	NothingWritten = "Nothing was written."
	// LookAgain is the advice to make a new plan, which shows what is in ZooKeeper now.
	LookAgain = `Run "locktree plan" to see what is there now.`
	planAgain = `Run "locktree plan" to see what is there now, and apply that plan.`
)

// ProblemsError: the plan has errors and must not be applied.
type ProblemsError struct{ Problems []plan.Problem }

// Explain returns the first error, and says how many more there are.
func (e *ProblemsError) Explain() (x explain.Explanation) {
	errs := slices.DeleteFunc(slices.Clone(e.Problems), func(p plan.Problem) bool { return p.Severity != problem.Error })
	if len(errs) > 0 {
		x.Summary, x.Detail, x.Addr = errs[0].Summary, errs[0].Detail, string(errs[0].Addr)
	}
	if len(errs) > 1 {
		x.Next = fmt.Sprintf("The plan has %d more errors.", len(errs)-1)
	}
	return x
}

// StaleError: nodes that the plan relied on have changed since it was made. The field Locked means that the plan was made under
// the apply lock, so no other apply of this stack has changed them. The field First means that the stack had no apply lock yet.
type StaleError struct {
	Differences   []Difference
	Locked, First bool
}

func (e *StaleError) Explain() explain.Explanation {
	if e.Locked || e.First {
		by := "It was changed by hand"
		if e.First {
			by = "Another apply was first, or ZooKeeper was changed by hand"
		}
		return explain.Explanation{
			Summary: "ZooKeeper was changed during the apply", Detail: by + ", after the plan was made:",
			List: list(e.Differences), Written: NothingWritten, Next: "Apply again: the new plan shows it.",
		}
	}
	return explain.Explanation{
		Summary: "Saved plan is stale", Detail: "The plan can no longer be applied, because ZooKeeper was changed after it was made:",
		List: list(e.Differences), Written: NothingWritten, Next: "Make a new plan and apply that.",
	}
}

// Difference is one node that is not as the plan saw it.
type Difference struct {
	Addr plan.Addr // "" for a part of a lock, and for the stack's record, whose change means that another apply has finished
	Path string
	// What says what happened to the node, such as "created", "data changed" or "access list changed"; in a [VerifyError], it is a
	// clause.
	What       string
	Want, Got  plan.Pin
	ModifiedMs int64 // when the node was changed, by the server's clock; 0 when unknown
}

// String writes "namespace.a.mutex.b (/locks/a/b): data changed, data version 3 -> 4".
func (d Difference) String() string {
	s := Named(d.Addr, d.Path) + ": " + d.What
	if d.Want.Version != d.Got.Version && !d.Want.Absent && !d.Got.Absent {
		s += fmt.Sprintf(", data version %d -> %d", d.Want.Version, d.Got.Version)
	}
	if d.ModifiedMs > 0 {
		s += fmt.Sprintf(", at %s by the server's clock", time.UnixMilli(d.ModifiedMs).UTC().Format(time.RFC3339))
	}
	return s
}

// list names the first few nodes with the same difference, and counts the others.
func list(diffs []Difference) (out []string) {
	const few = 3
	var kinds []string
	happened := map[string]int{}
	for _, d := range diffs {
		if happened[d.What]++; happened[d.What] <= few {
			out = append(out, d.String())
		}
		if happened[d.What] == few+1 {
			kinds = append(kinds, d.What)
		}
	}
	for _, what := range kinds {
		out = append(out, fmt.Sprintf("%d more: %s", happened[what]-few, what))
	}
	return out
}

// Named is the name of a node in an error.
func Named(addr plan.Addr, path string) string {
	switch {
	case addr == "" && strings.Contains(path, record.ScaffoldPath("/")+"/"):
		addr = "the stack's record"
	case addr == "": // a part of a lock
		return path
	}
	return fmt.Sprintf("%s (%s)", addr, path)
}

// LockedError: another apply of this stack holds the apply lock. Info is nil if the
// lock's data cannot be read.
type LockedError struct {
	Info   *LockInfo
	Path   string
	Waited time.Duration
}

func (e *LockedError) Explain() explain.Explanation {
	detail := "Another apply of this stack is under way, and its lock was not free"
	if e.Waited >= time.Second {
		detail += " within " + e.Waited.Round(time.Second).String()
	}
	detail += ".\n\n"
	if e.Info != nil {
		detail += e.Info.String()
	} else {
		detail += "The lock is " + e.Path + "."
	}
	return explain.Explanation{
		Summary: "Error acquiring the apply lock", Detail: detail, Written: NothingWritten,
		Next: "The lock belongs to the session of that apply and disappears with it, even if its program dies. Wait for it with -lock-timeout=2m.",
	}
}

// InUseError: a lock that would be deleted or replaced has holders or waiters.
type InUseError struct {
	Addr   plan.Addr
	Path   string
	Action plan.Action
	Usage  *kind.Usage // nil when they left before they could be read
	Others int         // how many more locks of the plan are in use
}

// InUse returns an [*InUseError] if locks that have to be idle were in use when the plan was made, and an apply would not wait for
// them. Otherwise it returns nil.
func InUse(p *plan.Plan) error {
	busy := slices.DeleteFunc(p.InUse(), func(c *plan.Change) bool { return c.Break || p.Drain > 0 })
	if len(busy) == 0 {
		return nil
	}
	return InUseBy(busy[0].Usage, busy...)
}

// InUseBy is the error of changes whose locks are in use; usage is that of the first of these locks.
func InUseBy(usage *kind.Usage, busy ...*plan.Change) *InUseError {
	c := busy[0]
	return &InUseError{
		Addr: c.Addr, Path: c.Path, Action: c.Action, Usage: usage, Others: len(busy) - 1,
	}
}

func (e *InUseError) Explain() explain.Explanation {
	verb := "destroyed"
	if e.Action == plan.Replace {
		verb = "replaced"
	}
	x := explain.Explanation{
		Summary: "Lock is in use", Addr: string(e.Addr), Path: e.Path, Written: NothingWritten,
		Detail: fmt.Sprintf("%s cannot be %s while it is in use.", Named(e.Addr, e.Path), verb),
		Next:   `Run the command again when it is idle; "locktree status" shows who uses it.`,
	}
	if e.Usage.Busy() {
		x.Detail = strings.TrimSuffix(x.Detail, ".") + ":"
		x.List = e.Usage.List()
	}
	switch {
	case e.Others == 1:
		x.Written = "1 more lock of this plan is in use. " + x.Written
	case e.Others > 1:
		x.Written = fmt.Sprintf("%d more locks of this plan are in use. %s", e.Others, x.Written)
	}
	return x
}

// ConflictError: the transaction was refused because a node changed after it was
// verified. Addr is "" for the stack's record.
type ConflictError struct {
	Addr plan.Addr
	Path string
	Op   tx.OpKind
	Why  string
	Err  error
}

func (e *ConflictError) Explain() explain.Explanation {
	return explain.Explanation{
		Summary: "ZooKeeper was changed during the apply", Addr: string(e.Addr), Path: e.Path, Written: NothingWritten, Next: planAgain,
		Detail: fmt.Sprintf("After %s was verified, %s.", Named(e.Addr, e.Path), e.Why),
	}
}

// TooLargeError: the transaction is larger than a ZooKeeper server accepts, and cannot be cut because it contains one change. The
// field Refused means that it was sent. The servers ended the connection each time, and did so for harmless requests of the same
// length, while they answered short ones. Their jute.maxbuffer is too low: with ZooKeeper's default, servers accept a transaction
// of Limit bytes. Without Refused, nothing was sent.
type TooLargeError struct {
	Addr              plan.Addr // of the change; "" if the record alone is too large
	Path              string
	Ops, Bytes, Limit int
	Breaks            int // operations that delete the contenders of a lock that is broken by force
	Refused           bool
}

func (e *TooLargeError) Explain() explain.Explanation {
	what := e.Addr
	if what == "" {
		what = "The record"
	}
	if e.Refused {
		return explain.Explanation{
			Summary: "The servers take no transaction of this size", Addr: string(e.Addr), Path: e.Path,
			Detail: fmt.Sprintf("%s was sent as %d operations and %d bytes, and the servers ended the connection each time, as they do with requests longer than their jute.maxbuffer.",
				what, e.Ops, e.Bytes),
			Written: "It was not applied.", Next: "Set jute.maxbuffer to 1 MiB, the default, on all servers.",
		}
	}
	next := "Shorten the declaration, most often an access list."
	if e.Breaks > 0 {
		next = fmt.Sprintf("%d of the operations delete what programs have in its queue: end some of these programs first.", e.Breaks)
	}
	return explain.Explanation{
		Summary: "The change is too large for one transaction", Addr: string(e.Addr), Path: e.Path,
		Detail: fmt.Sprintf("%s takes %d operations and %d bytes in one transaction; at most %d are sent, as a ZooKeeper server reads no more than 1 MiB.",
			what, e.Ops, e.Bytes, e.Limit),
		Written: NothingWritten, Next: next,
	}
}

// Unwrap returns tx.ErrTooLong, so that tx.Each cuts the transaction if that is possible.
func (e *TooLargeError) Unwrap() error { return tx.ErrTooLong }

// NodeError: ZooKeeper refused an operation on a node, or did not answer it.
type NodeError struct {
	Addr    plan.Addr
	Path    string
	Op      string // "create", "set", "delete", "check", "read", "lock", "apply to", "commit to", "use", "set the access list of"
	Why     string // what the answer means: a clause
	Named   bool   // the field Why names the identities that the servers know of us
	Written string // as in [explain.Explanation]
	Next    string // what to do: sentences
	Err     error
}

func (e *NodeError) Explain() explain.Explanation {
	if errors.Is(e.Err, context.Canceled) {
		return explain.Of(context.Canceled)
	}
	x := explain.Explanation{Summary: "ZooKeeper refused to " + e.Op + " a node", Addr: string(e.Addr), Path: e.Path, Detail: e.Path, Written: e.Written, Next: e.Next}
	if e.Addr != "" {
		x.Detail = Named(e.Addr, e.Path)
	}
	x.Detail += ": " + e.Why + "."
	unasked := func(why error) bool { return errors.Is(e.Err, why) }
	if e.Err == nil || slices.ContainsFunc([]error{context.DeadlineExceeded, recipes.ErrTooLarge, recipes.ErrSessionLost, recipes.ErrUnreachable}, unasked) {
		x.Summary = "Could not " + e.Op + " a node"
	}
	switch e.Op {
	case "lock":
		x.Summary = "Cannot acquire the apply lock"
	case "use":
		x.Summary = "Root belongs to another stack"
	case "apply to":
		x.Summary = "Not an administrator"
	case "commit to":
		x.Summary = "The transaction was not committed"
	}
	return x
}

// UnknownError: the connection was lost during the transaction and could not be
// restored in time, so it is not known whether the transaction was committed. It was
// committed completely or not at all: the next plan shows which.
type UnknownError struct {
	ApplyID string
	Err     error
}

func (e *UnknownError) Explain() explain.Explanation {
	why := strings.TrimSuffix(strings.ReplaceAll(explain.Plain(e.Err.Error()), "\n", "; "), ".")
	return explain.Explanation{
		Summary: "It is not known whether the transaction was committed",
		Detail: "The connection was lost while the transaction was sent, and its outcome could not be found out afterwards: " + why + ".\n\n" +
			"It was committed as a whole or not at all; the id of the apply is " + e.ApplyID + ".",
		Next: `Run "locktree plan" when ZooKeeper is reachable again: it shows what is left to do.`,
	}
}

// ACLPhaseError: the transaction WAS committed, but afterwards not all access lists
// could be set. The rest is noted in the record, and the next apply finishes. If
// Done equals Total all were set, and only the note is left.
type ACLPhaseError struct {
	ApplyID     string
	Done, Total int
	Unlisted    bool  // none was set, nor counted: the nodes of keys could not be listed
	Err         error // why it stopped
}

func (e *ACLPhaseError) Explain() explain.Explanation {
	were := fmt.Sprintf("%d of %d access lists were", e.Done, e.Total)
	switch {
	case e.Unlisted:
		were = "no access list was"
	case e.Done == e.Total:
		return explain.Of(e.Err).Within("A note about access lists is left",
			fmt.Sprintf("The transaction was committed, and all %d access lists were set. The record still notes them as pending, because the note could not be removed: ", e.Total),
			"The note does no harm: the next apply that changes anything removes it.")
	}
	return explain.Of(e.Err).Within("Not all access lists are set", "The transaction was committed, and "+were+" set. Then: ",
		`The rest is noted in ZooKeeper: "locktree plan" shows it, and the next apply finishes it.`)
}

// PartialError: some of the plan's transactions WERE committed, the others were not.
// Every lock exists completely or not at all, and the next plan shows what is left.
type PartialError struct {
	ApplyID     string
	Done, Total int // transactions
	Err         error
}

func (e *PartialError) Explain() explain.Explanation {
	next := "The next one was not"
	if unknown := new(UnknownError); errors.As(e.Err, &unknown) {
		next = "It is not known whether the next one was"
	}
	return explain.Of(e.Err).Within("Only a part of the plan was applied",
		fmt.Sprintf("%d of %d transactions were committed. %s: ", e.Done, e.Total, next),
		"Each committed transaction left the tree consistent. "+planAgain)
}

// ClosedError: because of Err, nothing of the plan was written. But locks that were being drained could not be opened again: they
// grant nothing new. The next apply opens the locks that stay, and deletes or replaces the others.
type ClosedError struct {
	Locks []string // address and path of each
	Err   error    // why the apply ended
	Why   error    // why they could not be opened; nil when the apply lock was lost
}

// Explain implements [explain.Explainer]. Users notice closed locks before the operator does, so the error says this together
// with the cause.
func (e *ClosedError) Explain() explain.Explanation {
	next := "Locks that were being drained could not be opened again, so they grant nothing new: " + explain.Few(e.Locks, 5) + "."
	if e.Why != nil {
		next = explain.Of(e.Why).Within("", next+" ", "").Text()
	}
	x := explain.Of(e.Err)
	return x.Within(x.Summary, "", next+"\n\n"+`Run "locktree apply" again: it opens the locks that stay, and deletes or replaces the others.`)
}

// VerifyError: the transaction WAS committed, but reading it back failed, or showed
// something other than what was written.
type VerifyError struct {
	ApplyID     string
	Differences []Difference
	Err         error // why it could not be read back; nil when it could
}

func (e *VerifyError) Explain() explain.Explanation {
	if e.Err != nil {
		return explain.Of(e.Err).Within("The transaction was committed, but could not be read back", "", LookAgain)
	}
	return explain.Explanation{
		Summary: "ZooKeeper does not hold what was written", Detail: "The transaction was committed, but reading it back showed a difference:",
		List: list(e.Differences), Next: "It was changed at the same moment. " + LookAgain,
	}
}

// MovedError: the tree changed each time while it was being read.
type MovedError struct {
	Path  string // of the record
	Tries int
}

func (e *MovedError) Explain() explain.Explanation {
	return explain.Explanation{
		Summary: "The tree keeps changing",
		Detail:  fmt.Sprintf("The record %s changed during each of %d reads: other applies of this stack are under way.", e.Path, e.Tries),
		Next:    "Run the command again when they are done.",
	}
}

func message(e explain.Explainer) string { return "apply: " + e.Explain().String() }

func (e *ProblemsError) Error() string { return message(e) }
func (e *StaleError) Error() string    { return message(e) }
func (e *LockedError) Error() string   { return message(e) }
func (e *InUseError) Error() string    { return message(e) }
func (e *ConflictError) Error() string { return message(e) }
func (e *TooLargeError) Error() string { return message(e) }
func (e *NodeError) Error() string     { return message(e) }
func (e *UnknownError) Error() string  { return message(e) }
func (e *ACLPhaseError) Error() string { return message(e) }
func (e *PartialError) Error() string  { return message(e) }
func (e *ClosedError) Error() string   { return message(e) }
func (e *VerifyError) Error() string   { return message(e) }
func (e *MovedError) Error() string    { return message(e) }

func (e *ConflictError) Unwrap() error { return e.Err }
func (e *NodeError) Unwrap() error     { return e.Err }
func (e *UnknownError) Unwrap() error  { return e.Err }
func (e *ACLPhaseError) Unwrap() error { return e.Err }
func (e *PartialError) Unwrap() error  { return e.Err }
func (e *ClosedError) Unwrap() error   { return e.Err }
func (e *VerifyError) Unwrap() error   { return e.Err }

// WrongEnsembleError: the ensemble is not the one that the configuration pins. Only the id was read, and nothing was written.
type WrongEnsembleError struct {
	Path      string // where the id is
	Want, Got string // Got is "" if there is none
	Absent    bool   // there is no node at Path
}

func (e *WrongEnsembleError) Explain() explain.Explanation {
	x := explain.Explanation{Summary: "Another ensemble", Path: e.Path, Written: NothingWritten,
		Detail: fmt.Sprintf("The ensemble block pins the id %s, and %s has the id %s. Nothing else was read.", e.Want, e.Path, e.Got),
		Next:   "Check the servers and the root of the block. If this is the ensemble that you mean, correct id there."}
	switch {
	case e.Absent:
		x.Detail = fmt.Sprintf("The ensemble block pins the id %s, and there is no node %s: no apply was here, or its nodes were deleted. Nothing else was read.", e.Want, e.Path)
		x.Next = "Check the servers and the root of the block. If this is a new ensemble, remove id from the block until the first apply has written an id; \"locktree doctor\" shows it."
	case e.Got == "":
		x.Detail = fmt.Sprintf("The ensemble block pins the id %s, and %s has none: another program made it. Nothing else was read.", e.Want, e.Path)
		x.Next = "Check the servers and the root of the block. If this is the ensemble that you mean, remove id from the block until an apply has written an id; \"locktree doctor\" shows it."
	}
	return x
}

func (e *WrongEnsembleError) Error() string { return message(e) }

// Cause is an error's text without the operation, the node and the outcome, which our own error
// contains.
func Cause(err error) string {
	var op *direct.OpError
	if errors.As(err, &op) && op.Err != nil {
		if err = op.Err; op.Hint != "" {
			return bare(err) + "; " + op.Hint
		}
	}
	return bare(err)
}

func bare(err error) string { return explain.Plain(err.Error()) }

// WhoWeAre returns the identities that the servers know of the connection, without hashes.
func WhoWeAre(c *recipes.Client) []string {
	var out []string
	for _, id := range c.Identities() {
		if id.Scheme != "world" {
			out = append(out, access.Name(id))
		}
	}
	if len(out) == 0 {
		return []string{"world:anyone"}
	}
	return out
}

// RefusedAt returns the node whose access list refused a request: for creating and deleting that is the parent.
func RefusedAt(err error) string {
	var node *NodeError
	var op *direct.OpError
	path, verb := "", ""
	switch {
	case errors.As(err, &node):
		path, verb = node.Path, node.Op
	case errors.As(err, &op):
		path, verb = op.Path, op.Op
	}
	if verb == "create" || verb == "delete" {
		return kind.ParentPath(path)
	}
	return path
}

// LockInfo describes the holder of an apply lock, in the words of Terraform's "Lock Info".
type LockInfo struct {
	ID        string    // of the apply
	Path      string    // of the lock
	Operation string    // Options.Operation
	Who       string    // user@host
	Version   string    // of the program
	Created   time.Time // by the clock of the applying machine, UTC
	Info      string    // anything else
}

// String returns the block that users of Terraform know, without a final line break.
func (l LockInfo) String() string {
	return fmt.Sprintf("Lock Info:\n  ID:        %s\n  Path:      %s\n  Operation: %s\n  Who:       %s\n  Version:   %s\n  Created:   %s\n  Info:      %s",
		l.ID, l.Path, l.Operation, l.Who, l.Version, l.Created.UTC().Format("2006-01-02 15:04:05 UTC"), l.Info)
}
