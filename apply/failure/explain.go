package failure

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
)

// Denied is the error of an operation that was refused for a reason that is about rights and servers.
func Denied(c *recipes.Client, op tx.Op, err error) error {
	e := &NodeError{Addr: op.Addr, Path: op.Path, Op: string(op.Kind), Written: NothingWritten, Err: err}
	if errors.Is(err, zk.ErrNoAuth) {
		perm, at := needed(op)
		e.Named, e.Why = true, fmt.Sprintf("we (%s) do not have %s on %s", strings.Join(WhoWeAre(c), ", "), perm, at)
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
	case errors.Is(err, direct.ErrServer):
		e.Why, e.Next = "the servers failed: "+ServerError(err), "Look at their logs, then try again."
	case errors.Is(err, recipes.ErrTooLarge):
		e.Why, e.Next = Cause(err), "The limit of a reply is this program's, not the servers'. If it is a namespace with very many nodes, delete those that nobody needs with another client, or have more read (recipes.Config.MaxReply)."
	case errors.Is(err, recipes.ErrAuth):
		e.Why, e.Next = Cause(err), "Check the user name and the password."
	default:
		e.Why, e.Next = Cause(err), "Check that the servers run and can be reached, then try again."
	}
	return e
}

// ServerError is the text of an error of the servers.
func ServerError(err error) string { return strings.TrimPrefix(Cause(err), "server error: ") }

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

// Read explains a read that failed. NoAuth most often means a wrong password: to the servers every
// password is a valid identity, but one without rights (DigestAuthenticationProvider).
func Read(path string, err error) error {
	e := &NodeError{Path: path, Op: "read", Err: err}
	if errors.Is(err, zk.ErrNoAuth) {
		e.Why = "we do not have READ on it"
		e.Next = "Connect with an identity that has it. Check the user name and the password first: ZooKeeper accepts a wrong password without complaint."
		return e
	}
	return e.meaning()
}

// Scaffold is the error of a node that an apply needs, which could not be created. path is the first of the missing ones.
func Scaffold(path string, err error) error {
	e := &NodeError{Path: path, Op: "create", Written: NothingWritten, Err: err}
	var op *direct.OpError
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

// Lock is the error when the apply lock could not be taken, or was lost before the transaction.
func Lock(path string, err error) *NodeError {
	e := &NodeError{Path: path, Op: "lock", Written: NothingWritten, Err: err}
	switch {
	case errors.Is(err, recipes.ErrNotProvisioned), errors.Is(err, recipes.ErrKindMismatch):
		e.Why, e.Next = "the node is not the apply lock locktree made", "Delete it by hand while no apply is under way; the next apply creates it again."
	case errors.Is(err, zk.ErrNoAuth):
		e.Why = "we do not have the rights to queue there"
		e.Next = "The lock belongs to the administrators that the last apply declared, or else to whoever applied first: present their credential, too, or have the access list of the node widened."
	case errors.Is(err, recipes.ErrLost), errors.Is(err, recipes.ErrSessionLost):
		e.Why, e.Next = fmt.Sprintf("the lock was lost (%s), so another apply may have begun", Cause(err)), "Apply again."
	default:
		e.meaning()
	}
	return e
}

// rolledBack is go-zookeeper's text for the code (-2) of operations that failed
// only because another one of their transaction did. ZooKeeper calls it
// RUNTIMEINCONSISTENCY. Operations after the one that failed have it; those before it
// have no error (DataTree.processTxn).
const rolledBack = "unknown error: -2"

// FirstRefused returns the operation because of which a transaction was refused.
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

// Overtaken reports whether somebody came, left, or changed a node between two requests.
func Overtaken(err error) bool {
	return slices.ContainsFunc([]error{zk.ErrNotEmpty, zk.ErrNoNode, zk.ErrBadVersion, zk.ErrNodeExists}, func(e error) bool { return errors.Is(err, e) })
}

func bare(err error) string { return plan.Plain(err.Error()) }

// Commit is the error of a transaction that was not committed, for a reason that is not about one of its operations.
func Commit(root string, err error) error {
	return (&NodeError{Path: root, Op: "commit to", Written: NothingWritten, Err: err}).meaning()
}

// WhoWeAre returns the names by which the servers know the connection, without hashes.
func WhoWeAre(c *recipes.Client) []string {
	var out []string
	for _, id := range c.Identities() {
		if id.Scheme != "world" {
			out = append(out, plan.Identity{Scheme: id.Scheme, ID: id.ID}.String())
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

// WrongPassword is said of a connection that is none of those it has the name of.
const WrongPassword = "our password differs from theirs, and ZooKeeper accepts any password without complaint"

// Namesake reports whether we have the user name of one of these.
func Namesake(c *recipes.Client, names []string) bool {
	return slices.ContainsFunc(c.Identities(), func(id kind.ACL) bool {
		return id.Scheme == "digest" && slices.Contains(names, plan.Identity{Scheme: id.Scheme, ID: id.ID}.String())
	})
}

// NotAdmin is the error of a connection that is none of the administrators of a set.
func NotAdmin(c *recipes.Client, set *plan.Access, of, root string) error {
	admins := plan.Names(set.Admins)
	why := fmt.Sprintf("we are %s, and the administrators %s are %s", strings.Join(WhoWeAre(c), ", "), of, strings.Join(admins, ", "))
	if Namesake(c, admins) {
		why = fmt.Sprintf("%s; %s", why, WrongPassword)
	}
	return &NodeError{
		Path: root, Op: "apply to", Why: why,
		Written: NothingWritten,
		Next:    "Present the credential of one of them, beside yours if need be (an auth block each), or have yours added to admins.",
	}
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

// ParseInfo reads the id of a contender; nil when no apply of ours wrote it.
func ParseInfo(id string) *LockInfo {
	var info LockInfo
	if json.Unmarshal([]byte(id), &info) != nil || info.ID == "" {
		return nil
	}
	for _, s := range []*string{&info.ID, &info.Path, &info.Operation, &info.Who, &info.Version, &info.Info} {
		if quoted := strconv.Quote(*s); strings.ContainsFunc(*s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			*s = quoted[1 : len(quoted)-1] // JSON can spell control characters without containing any
		}
	}
	return &info
}
