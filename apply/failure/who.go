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

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
)

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
