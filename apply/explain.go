package apply

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

// explain turns the answer to one operation of the transaction into an error
// that names the change, says what the answer means and what to do.
//
// Answers that mean that the plan no longer fits are a [*ConflictError] or an [*InUseError]: a
// new plan helps. All others are about rights and servers, where it does not.
func (r *run) explain(ctx context.Context, op plan.Op, err error) error {
	e := &NodeError{Addr: op.Addr, Path: op.Path, Op: string(op.Kind), Err: err}
	conflict := &ConflictError{Addr: op.Addr, Path: op.Path, Op: op.Kind, Err: err}
	switch {
	case errors.Is(err, zk.ErrNotEmpty):
		return r.occupied(ctx, op, err)
	case errors.Is(err, zk.ErrBadVersion) && op.Addr == "":
		conflict.Why = "another apply of this stack was committed"
		return conflict
	case errors.Is(err, zk.ErrBadVersion):
		conflict.Why = "its data was changed"
		return conflict
	case errors.Is(err, zk.ErrNodeExists):
		conflict.Why = "it was created by somebody else"
		return conflict
	case errors.Is(err, zk.ErrNoNode) && op.Kind == plan.OpCreate:
		conflict.Why = "its parent was deleted"
		return conflict
	case errors.Is(err, zk.ErrNoNode):
		conflict.Why = "it was deleted"
		return conflict
	case errors.Is(err, zk.ErrNoAuth):
		perm, at := needed(op)
		e.Why = fmt.Sprintf("we (%s) do not have %s on %s", whoIs(r.x.Client), perm, at)
		e.Next = unwritten + "connect as somebody who has, or have it granted"
	default:
		e.Why, e.Next = unwrittenMeaning(err)
	}
	return e
}

// meaning says what an answer means that is not about one node's state, and what to do.
// Most general last: what is not known is a matter of the connection.
func meaning(err error) (why, next string) {
	switch {
	case errors.Is(err, zk.ErrInvalidACL):
		return "the servers do not accept its access list: they do not know a scheme in it, or an id is malformed",
			"check the principals it is granted to"
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		return "its parent is an ephemeral node, which can have no children", "choose another path"
	case errors.Is(err, session.ErrQuotaExceeded):
		return "a quota on the tree is used up", "raise the quota or remove something first"
	case errors.Is(err, session.ErrThrottled):
		return "the servers shed the request because they are overloaded", "try again later"
	case errors.Is(err, recipes.ErrReadOnly):
		return "this connection was opened for reading only", "open one that may write"
	case errors.Is(err, session.ErrServer):
		return "the servers failed: " + strings.TrimPrefix(cause(err), "server error: "), "look at their logs, then try again"
	case errors.Is(err, recipes.ErrAuth):
		return cause(err), "check the user name and the password"
	default:
		return cause(err), "see that the servers run and can be reached, then try again"
	}
}

// cause is an error's text without the operation and the node, which stand in ours, and
// without what is known of its outcome, which ours says.
func cause(err error) string {
	var op *recipes.OpError
	if !errors.As(err, &op) || op.Err == nil {
		return bare(err)
	}
	if op.Hint != "" {
		return bare(op.Err) + "; " + op.Hint
	}
	return bare(op.Err)
}

// packages are the names errors begin with, their own and that of what they wrap. The same word
// in the middle of a sentence is none: "lock is of another kind: /t/ledger".
var packages = regexp.MustCompile(`(^|: |; |\(|\n)(?:(?:recipes|kind|plan|zk|json): )+`)

// bare is an error's text without the names of packages, to stand within a sentence of
// ours: those of a plan are read by people as they are.
func bare(err error) string { return packages.ReplaceAllString(err.Error(), "$1") }

// unwritten begins the next step after a refusal of the transaction, or of what comes
// before it.
const unwritten = "nothing was written: "

// behind is the text of an error that followed writes, in which "nothing was written" would
// be wrong: it was of that step alone.
func behind(err error) string {
	before, next, ok := strings.Cut(err.Error(), "N"+unwritten[1:])
	if !ok || next == "" {
		return err.Error()
	}
	return before + strings.ToUpper(next[:1]) + next[1:]
}

// unwrittenMeaning is meaning for what would have been the first write.
func unwrittenMeaning(err error) (why, next string) {
	why, next = meaning(err)
	return why, unwritten + next
}

// needed says which permission an operation takes, and where: creating and
// deleting are rights of the parent.
// (PrepRequestProcessor, pRequest2Txn; a check takes READ there.)
func needed(op plan.Op) (perm, path string) {
	switch op.Kind {
	case plan.OpCreate:
		return "CREATE", kind.ParentPath(op.Path)
	case plan.OpDelete:
		return "DELETE", kind.ParentPath(op.Path)
	case plan.OpSet:
		return "WRITE", op.Path
	default:
		return "READ", op.Path
	}
}

// whoIs lists a client's identities without hashes.
func whoIs(c *recipes.Client) string {
	var out []string
	for _, id := range c.Identities() {
		out = append(out, plan.Identity(id).String())
	}
	return strings.Join(out, ", ")
}

// about reports whether what happened at a path is of this change: at its node, at one of
// the parts, or at its quota. The address alone does not tell: a tombstone may have that of
// the lock it was.
func about(c *plan.Change, addr, path string) bool {
	parent := kind.ParentPath(path)
	return c.Addr == addr && (path == c.Path || parent == c.Path || parent == plan.QuotaPath(c.Path))
}

// occupied: a node to be deleted has children. Of a lock that is somebody in its
// queue, who came after we had looked.
func (r *run) occupied(ctx context.Context, op plan.Op, err error) error {
	for i := range r.p.Changes {
		c := &r.p.Changes[i]
		if !about(c, op.Addr, op.Path) || c.Before == nil || c.Before.Kind().Container {
			continue
		}
		e := &InUseError{Addr: c.Addr, Path: c.Path, Action: c.Action, Reason: c.Reason}
		// Without it the error only lacks the names.
		e.Usage, _ = readUsage(ctx, r.s, c.Before)
		return e
	}
	return &ConflictError{Addr: op.Addr, Path: op.Path, Op: op.Kind, Why: "something was created in it", Err: err}
}

func explainACL(step plan.ACLStep, err error) error {
	e := &NodeError{Addr: step.Addr, Path: step.Path, Op: "set the access list of", Err: err}
	switch {
	case errors.Is(err, zk.ErrBadVersion):
		e.Why, e.Next = "somebody else changed it meanwhile", "plan again to see it"
	case errors.Is(err, zk.ErrNoNode):
		e.Why, e.Next = "it was deleted meanwhile", "plan again to see it"
	case errors.Is(err, zk.ErrNoAuth):
		e.Why, e.Next = "we do not have ADMIN on it", "connect as somebody who has"
	default:
		e.Why, e.Next = meaning(err)
	}
	return e
}

// readError is an answer to a read. NoAuth is most often a wrong password: the servers take any
// for an identity of its own, which has no rights (DigestAuthenticationProvider).
func readError(path string, err error) error {
	e := &NodeError{Path: path, Op: "read", Err: err}
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		e.Why = "we do not have READ on it"
		e.Next = "connect as somebody who has. Check the user name and the password first: ZooKeeper accepts a wrong password without complaint"
	default:
		e.Why, e.Next = meaning(err)
	}
	return e
}

func scaffoldError(path string, err error) error {
	e := &NodeError{Path: path, Op: "create", Err: err}
	var op *recipes.OpError
	if errors.As(err, &op) && op.Path != "" {
		e.Path = op.Path
	}
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		e.Why = "we do not have CREATE on " + kind.ParentPath(e.Path)
		e.Next = "connect as somebody who has, or create the node by hand and grant us everything on it"
	default:
		e.Why, e.Next = unwrittenMeaning(err)
	}
	return e
}

// lockError: the apply lock could not be taken, or was lost before the transaction.
func lockError(path string, err error) *NodeError {
	e := &NodeError{Path: path, Op: "lock", Err: err}
	switch {
	case errors.Is(err, recipes.ErrNotProvisioned), errors.Is(err, recipes.ErrKindMismatch):
		e.Why, e.Next = "the node is not the apply lock locktree made", "delete it by hand while no apply is under way: it is made anew"
	case errors.Is(err, zk.ErrNoAuth):
		e.Why = "we do not have the rights to queue there"
		e.Next = "the lock belongs to the administrators that the last apply declared, or else to whoever applied first: present their credential, too, or have the access list of the node widened"
	case errors.Is(err, recipes.ErrLost), errors.Is(err, recipes.ErrSessionLost):
		e.Why, e.Next = fmt.Sprintf("the lock was lost (%s), so another apply may have begun", cause(err)), unwritten+"apply again"
	default:
		e.Why, e.Next = unwrittenMeaning(err)
	}
	return e
}

func listText(list []kind.ACL) string {
	var out []string
	for _, a := range kind.NormalizeACL(list) {
		out = append(out, a.String())
	}
	return strings.Join(out, ", ")
}
