package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
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
	var op *recipes.OpError
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

// wrongPassword is said of a connection that is none of those it has the name of.
const wrongPassword = "our password differs from theirs, and ZooKeeper accepts any password without complaint"

// namesake reports whether we have the user name of one of these.
func namesake(c *recipes.Client, names []string) bool {
	return slices.ContainsFunc(c.Identities(), func(id kind.ACL) bool {
		return id.Scheme == "digest" && slices.Contains(names, plan.Identity{Scheme: id.Scheme, ID: id.ID}.String())
	})
}

// none is the error of a connection that is none of the administrators of a set.
func none(c *recipes.Client, set *plan.Access, of, root string) error {
	admins := plan.Names(set.Admins)
	why := fmt.Sprintf("we are %s, and the administrators %s are %s", strings.Join(WhoWeAre(c), ", "), of, strings.Join(admins, ", "))
	if namesake(c, admins) {
		why = fmt.Sprintf("%s; %s", why, wrongPassword)
	}
	return &NodeError{
		Path: root, Op: "apply to", Why: why,
		Written: nothingWritten,
		Next:    "Present the credential of one of them, beside yours if need be (an auth block each), or have yours added to admins.",
	}
}
