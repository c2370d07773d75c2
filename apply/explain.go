package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// explain turns the answer to one operation of the transaction into an error
// that names the change, says what the answer means and what to do.
//
// If the answer means that the plan no longer fits, the error is a [*ConflictError] or an
// [*InUseError], and a new plan helps. All others are about rights and servers, where it does not.
func (r *locked) explain(ctx context.Context, op tx.Op, err error) error {
	conflict := func(why string) error {
		return &ConflictError{Addr: op.Addr, Path: op.Path, Op: op.Kind, Why: why, Err: err}
	}
	switch {
	case errors.Is(err, zk.ErrNotEmpty):
		return r.occupied(ctx, op, err)
	case errors.Is(err, zk.ErrBadVersion):
		if op.Path == kind.ParentPath(r.p.Index.Path) { // see sending.first
			if _, other := alone(ctx, r.s, r.p.Root, r.p.Stack); other != nil {
				return other
			}
		}
		return conflict("its data was changed")
	case errors.Is(err, zk.ErrNodeExists):
		return conflict("it was created by somebody else")
	case errors.Is(err, zk.ErrNoNode) && op.Kind == tx.OpCreate:
		return conflict("its parent was deleted")
	case errors.Is(err, zk.ErrNoNode):
		return conflict("it was deleted")
	}
	return r.x.denial(op, err)
}

// denial is explain for what is about rights and servers.
func (x *Applier) denial(op tx.Op, err error) error {
	e := &NodeError{Addr: op.Addr, Path: op.Path, Op: string(op.Kind), Written: nothingWritten, Err: err}
	if errors.Is(err, zk.ErrNoAuth) {
		perm, at := needed(op)
		e.Named, e.Why = true, fmt.Sprintf("we (%s) do not have %s on %s", strings.Join(WhoWeAre(x.client), ", "), perm, at)
		e.Next = "Connect with an identity that has it, or have it granted."
		return e
	}
	return e.meaning()
}

// meaning completes an error with what the server's answer means, if that is not about one node's state,
// and with what to do. The most general case comes last: anything unknown is attributed to the connection.
func (e *NodeError) meaning() *NodeError {
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
	case errors.Is(err, recipes.ErrServer):
		e.Why, e.Next = "the servers failed: "+serverError(err), "Look at their logs, then try again."
	case errors.Is(err, recipes.ErrTooLarge):
		e.Why, e.Next = cause(err), "The limit of a reply is this program's, not the servers'. If it is a namespace with very many nodes, delete those that nobody needs with another client, or have more read (recipes.Config.MaxReply)."
	case errors.Is(err, recipes.ErrAuth):
		e.Why, e.Next = cause(err), "Check the user name and the password."
	default:
		e.Why, e.Next = cause(err), "Check that the servers run and can be reached, then try again."
	}
	return e
}

func serverError(err error) string { return strings.TrimPrefix(cause(err), "server error: ") }

// cause is an error's text without the operation, the node and the outcome, which our own error
// contains.
func cause(err error) string {
	var op *recipes.OpError
	if errors.As(err, &op) && op.Err != nil {
		if err = op.Err; op.Hint != "" {
			return bare(err) + "; " + op.Hint
		}
	}
	return bare(err)
}

func bare(err error) string { return plan.Plain(err.Error()) }

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

// about reports whether a path belongs to this change: its node or one of the parts. The
// address is not enough: a lock whose path changes has it at both paths.
func about(c *plan.Change, addr plan.Addr, path string) bool {
	parent := kind.ParentPath(path)
	return c.Addr == addr && (path == c.Path || parent == c.Path)
}

// occupied is the error when a node to be deleted has children. In a lock that is a contender that
// came after we had looked.
func (r *locked) occupied(ctx context.Context, op tx.Op, err error) error {
	for c := range r.p.Each() {
		if !about(c, op.Addr, op.Path) || c.Before == nil || c.Before.Kind().Container {
			continue
		}
		usage, _ := readUsage(ctx, r.s, c.Before) // without it the error only lacks the names
		return inUse(usage, c)
	}
	return &ConflictError{Addr: op.Addr, Path: op.Path, Op: op.Kind, Why: "something was created in it", Err: err}
}

func explainACL(step plan.ACLStep, err error) error {
	e := &NodeError{Addr: step.Addr, Path: step.Path, Op: "set the access list of", Err: err}
	switch {
	case errors.Is(err, zk.ErrBadVersion):
		e.Why, e.Next = "somebody else changed it meanwhile", lookAgain
	case errors.Is(err, zk.ErrNoNode):
		e.Why, e.Next = "it was deleted meanwhile", lookAgain
	case errors.Is(err, zk.ErrNoAuth):
		e.Why, e.Next = "we do not have ADMIN on it", "Connect with an identity that has it."
	default:
		e.meaning()
	}
	return e
}

// readError explains a read that failed. NoAuth most often means a wrong password: to the servers every
// password is a valid identity, but one without rights (DigestAuthenticationProvider).
func readError(path string, err error) error {
	e := &NodeError{Path: path, Op: "read", Err: err}
	if errors.Is(err, zk.ErrNoAuth) {
		e.Why = "we do not have READ on it"
		e.Next = "Connect with an identity that has it. Check the user name and the password first: ZooKeeper accepts a wrong password without complaint."
		return e
	}
	return e.meaning()
}

func scaffoldError(path string, err error) error {
	e := &NodeError{Path: path, Op: "create", Written: nothingWritten, Err: err}
	var op *recipes.OpError
	if errors.As(err, &op) && op.Path != "" {
		e.Path = op.Path
	}
	if errors.Is(err, zk.ErrNoAuth) {
		e.Why = "we do not have CREATE on " + kind.ParentPath(e.Path)
		e.Next = "Connect with an identity that has it, or create the node by hand and grant us everything on it."
		return e
	}
	return e.meaning()
}

// lockError is the error when the apply lock could not be taken, or was lost before the transaction.
func lockError(path string, err error) *NodeError {
	e := &NodeError{Path: path, Op: "lock", Written: nothingWritten, Err: err}
	switch {
	case errors.Is(err, recipes.ErrNotProvisioned), errors.Is(err, recipes.ErrKindMismatch):
		e.Why, e.Next = "the node is not the apply lock locktree made", "Delete it by hand while no apply is under way; the next apply creates it again."
	case errors.Is(err, zk.ErrNoAuth):
		e.Why = "we do not have the rights to queue there"
		e.Next = "The lock belongs to the administrators that the last apply declared, or else to whoever applied first: present their credential, too, or have the access list of the node widened."
	case errors.Is(err, recipes.ErrLost), errors.Is(err, recipes.ErrSessionLost):
		e.Why, e.Next = fmt.Sprintf("the lock was lost (%s), so another apply may have begun", cause(err)), "Apply again."
	default:
		e.meaning()
	}
	return e
}
