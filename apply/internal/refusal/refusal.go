// Package refusal turns the answers of servers into the errors of package failure.
//
//	if err := session.SetACL(ctx, step.Path, list, step.Aversion); err != nil {
//		return refusal.ACL(step, err)
//	}
//
// Most functions are named after the request that failed: [Read], [Lock], [Scaffold], [ACL], [Commit]. [Denied] is for any
// operation of a transaction; [NotAdmin] and [TooLarge] are for the reason in their name. [Unknown] and [Overtaken] classify an
// answer. [Besides] collects the writes of an apply that are not of its plan, and adds them to an error.
//
// The package relies on failure for the errors and on recipes for those of a client. It sends nothing.
package refusal

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
)

// Denied is the error of an operation that was refused for a reason that is about rights and servers.
func Denied(c *recipes.Client, op tx.Op, err error) error {
	e := &failure.NodeError{Addr: op.Addr, Path: op.Path, Op: string(op.Kind), Written: failure.NothingWritten, Err: err}
	if errors.Is(err, zk.ErrNoAuth) {
		perm, at := needed(op)
		e.Named, e.Why = true, fmt.Sprintf("we (%s) do not have %s on %s", strings.Join(failure.WhoWeAre(c), ", "), perm, at)
		e.Next = "Connect with an identity that has it, or have it granted."
		return e
	}
	return meaning(e)
}

// meaning completes an error with the meaning of the server's answer and the next step, if the answer is not about one node's
// state. The most general case comes last: anything unknown is attributed to the connection.
func meaning(e *failure.NodeError) *failure.NodeError {
	switch err := e.Err; {
	case errors.Is(err, zk.ErrInvalidACL):
		e.Why = "the servers do not accept its access list: they do not know a scheme in it, or an id is malformed"
		e.Next = "Check the principals it grants to. Servers know x509 only if they accept TLS clients with certificates, and sasl only if they have a JAAS login; \"locktree dev\" knows neither."
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		e.Why, e.Next = "its parent is an ephemeral node, which can have no children", "Choose another path."
	case errors.Is(err, recipes.ErrQuotaExceeded):
		e.Why, e.Next = "a quota on the tree is used up", "Raise the quota or remove something first."
	case errors.Is(err, recipes.ErrThrottled):
		e.Why, e.Next = "the servers shed the request because they are overloaded", "Try again later."
	case errors.Is(err, recipes.ErrReadOnly):
		e.Why, e.Next = "this connection was opened for reading only", "Open one that may write."
	case errors.Is(err, direct.ErrServer):
		e.Why, e.Next = "the servers failed: "+ServerError(err), "Look at their logs, then try again."
	case errors.Is(err, recipes.ErrTooLarge):
		e.Why, e.Next = failure.Cause(err), "The limit of a reply is this program's, not the servers'. If the node is a namespace with very many children, use another client to delete those that are not needed, or raise the limit (recipes.Config.MaxReply)."
	case errors.Is(err, recipes.ErrAuth):
		e.Why, e.Next = failure.Cause(err), "Check the user name and the password."
	default:
		e.Why, e.Next = failure.Cause(err), "Check that the servers run and can be reached, then try again."
	}
	return e
}

// ServerError is the text of an error of the servers.
func ServerError(err error) string { return strings.TrimPrefix(failure.Cause(err), "server error: ") }

// needed returns the permission that an operation needs, and where: creating and
// deleting need it on the parent, a check needs READ (PrepRequestProcessor,
// pRequest2Txn).
func needed(op tx.Op) (perm, path string) {
	switch op.Kind {
	case tx.OpCreate:
		return "CREATE", kind.ParentPath(op.Path)
	case tx.OpDelete:
		return "DELETE", kind.ParentPath(op.Path)
	case tx.OpSet:
		return "WRITE", op.Path
	default:
		return "READ", op.Path
	}
}

// ACL is the error of an access list that could not be set.
func ACL(step plan.ACLStep, err error) error {
	e := &failure.NodeError{Addr: step.Addr, Path: step.Path, Op: "set the access list of", Err: err}
	switch {
	case errors.Is(err, zk.ErrBadVersion):
		e.Why, e.Next = "another client changed it meanwhile", failure.LookAgain
	case errors.Is(err, zk.ErrNoNode):
		e.Why, e.Next = "it was deleted meanwhile", failure.LookAgain
	case errors.Is(err, zk.ErrNoAuth):
		e.Why, e.Next = "we do not have ADMIN on it", "Connect with an identity that has it."
	default:
		meaning(e)
	}
	return e
}

// Read explains a read that failed. NoAuth most often means a wrong password: to the servers every
// password is a valid identity, but one without rights (DigestAuthenticationProvider).
func Read(path string, err error) error {
	e := &failure.NodeError{Path: path, Op: "read", Err: err}
	if errors.Is(err, zk.ErrNoAuth) {
		e.Why = "we do not have READ on it"
		e.Next = "Connect with an identity that has it. Check the user name and the password first: ZooKeeper accepts a wrong password without complaint."
		return e
	}
	return meaning(e)
}

// Scaffold is the error of nodes that an apply needs and could not create. path is the first of them.
func Scaffold(path string, err error) error {
	e := &failure.NodeError{Path: path, Op: "create", Written: failure.NothingWritten, Err: err}
	var op *direct.OpError
	if errors.As(err, &op) && op.Path != "" {
		e.Path = op.Path
	}
	if errors.Is(err, zk.ErrNoAuth) {
		e.Why = "we do not have CREATE on " + kind.ParentPath(e.Path)
		e.Next = "Connect with an identity that has it, or create the node by hand and grant us everything on it."
		return e
	}
	return meaning(e)
}

// Lock is the error when the apply lock could not be taken, or was lost before the transaction.
func Lock(path string, err error) *failure.NodeError {
	e := &failure.NodeError{Path: path, Op: "lock", Written: failure.NothingWritten, Err: err}
	switch {
	case errors.Is(err, recipes.ErrNotProvisioned), errors.Is(err, recipes.ErrKindMismatch):
		e.Why, e.Next = "the node is not the apply lock locktree made", "Delete it by hand while no apply is under way; the next apply creates it again."
	case errors.Is(err, zk.ErrNoAuth):
		e.Why = "we do not have the rights to queue there"
		e.Next = "The lock belongs to the administrators that the last apply declared, or else to whoever applied first: present their credential, too, or have the access list of the node widened."
	case errors.Is(err, recipes.ErrLost), errors.Is(err, recipes.ErrSessionLost):
		e.Why, e.Next = fmt.Sprintf("the lock was lost (%s), so another apply may have begun", failure.Cause(err)), "Apply again."
	default:
		meaning(e)
	}
	return e
}

// rolledBack is go-zookeeper's text for the code (-2) of operations that failed only
// because another operation of their transaction failed. ZooKeeper calls it
// RUNTIMEINCONSISTENCY. Operations after the one that failed have it; those before it
// have no error (DataTree.processTxn).
const rolledBack = "unknown error: -2"

// FirstRefused returns the operation that made the servers refuse a transaction.
func FirstRefused(results []zk.MultiResponse, ops []tx.Op) (op tx.Op, refused bool) {
	for i, res := range results {
		if res.Error != nil && res.Error.Error() != rolledBack && i < len(ops) {
			return ops[i], true
		}
	}
	return tx.Op{}, false
}

// Unknown reports whether an operation that failed may have been applied.
func Unknown(err error) bool {
	var op *direct.OpError
	return errors.As(err, &op) && op.Outcome == direct.OutcomeUnknown
}

// Overtaken reports whether another client came, left, or changed a node between two requests.
func Overtaken(err error) bool {
	return slices.ContainsFunc([]error{zk.ErrNotEmpty, zk.ErrNoNode, zk.ErrBadVersion, zk.ErrNodeExists}, func(e error) bool { return errors.Is(err, e) })
}

// Commit is the error of a transaction that was not committed, for a reason that is not about one of its operations.
func Commit(root string, err error) error {
	return meaning(&failure.NodeError{Path: root, Op: "commit to", Written: failure.NothingWritten, Err: err})
}

// WrongPassword is the text for a connection with the user name of an administrator and another password.
const WrongPassword = "our password differs from theirs, and ZooKeeper accepts any password without complaint"

// Namesake reports whether we have the user name of one of these.
func Namesake(c *recipes.Client, names []string) bool {
	return slices.ContainsFunc(c.Identities(), func(id kind.ACL) bool {
		return id.Scheme == "digest" && slices.Contains(names, access.Name(id))
	})
}

// NotAdmin is the error of a connection that is no administrator of a root. The parameter set has the root's administrators and
// readers.
func NotAdmin(c *recipes.Client, set *plan.Access, source, root string) error {
	admins := access.Names(set.Admins)
	why := fmt.Sprintf("we are %s, and the administrators %s are %s", strings.Join(failure.WhoWeAre(c), ", "), source, strings.Join(admins, ", "))
	if Namesake(c, admins) {
		why = fmt.Sprintf("%s; %s", why, WrongPassword)
	}
	return &failure.NodeError{
		Path: root, Op: "apply to", Why: why,
		Written: failure.NothingWritten,
		Next:    "Present the credential of one of them, beside yours if need be (an auth block each), or have yours added to admins.",
	}
}

// ParseInfo reads the id of a contender; nil when no apply of ours wrote it.
func ParseInfo(id string) *failure.LockInfo {
	var info failure.LockInfo
	if json.Unmarshal([]byte(id), &info) != nil || info.ID == "" {
		return nil
	}
	for _, s := range []*string{&info.ID, &info.Path, &info.Operation, &info.Who, &info.Version, &info.Info} {
		if quoted := strconv.Quote(*s); strings.ContainsFunc(*s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			*s = quoted[1 : len(quoted)-1] // an escape in JSON, such as \u001b, becomes a control character when it is decoded
		}
	}
	return &info
}

func TooLarge(changes []*plan.Change, ops []tx.Op, refused bool) *failure.TooLargeError {
	e := &failure.TooLargeError{Ops: len(ops), Bytes: tx.Size(ops), Limit: tx.MaxTransaction, Refused: refused}
	if len(changes) > 0 {
		e.Addr, e.Path = changes[0].Addr, changes[0].Path
	}
	return e
}

// Besides tells what an apply has written besides its plan. The zero value is nothing.
type Besides struct {
	Made    []string // nodes that every apply needs
	clauses []string
	keys    atomic.Int32
}

// Add adds a clause.
func (b *Besides) Add(clause string) { b.clauses = append(b.clauses, clause) }

// Swept counts an unused node of a key that was deleted. It is safe for concurrent use.
func (b *Besides) Swept() { b.keys.Add(1) }

// Say adds clauses to err: those about what the apply wrote besides the plan, and the outcomes.
func (b *Besides) Say(err error, outcomes ...string) error {
	switch n := b.keys.Swap(0); n {
	case 0:
	case 1:
		b.Add("the unused node of a key was deleted")
	default:
		b.Add(fmt.Sprintf("the nodes of %d keys that were not used were deleted", n))
	}
	if b.clauses = append(b.clauses, outcomes...); len(b.Made) > 0 {
		b.clauses, b.Made = slices.Insert(b.clauses, 0, "the nodes that an apply needs were created ("+explain.Few(b.Made, 3)+")"), nil
	}
	if len(b.clauses) == 0 || len(outcomes) == 0 && !strings.Contains(explain.Of(err).Written, failure.NothingWritten) {
		return err
	}
	return &besidesError{b.clauses, err}
}

// besidesError: because of err nothing of the plan was written, but its preparations were written.
type besidesError struct {
	prepared []string // clauses
	err      error
}

func (e *besidesError) Explain() explain.Explanation {
	x := explain.Of(e.err)
	x.Written = strings.TrimSpace(strings.ReplaceAll(x.Written, failure.NothingWritten, "") + " Nothing of the plan was written, but " + strings.Join(e.prepared, ", and ") + ".")
	return x
}

func (e *besidesError) Error() string { return "apply: " + e.Explain().String() }
func (e *besidesError) Unwrap() error { return e.err }
