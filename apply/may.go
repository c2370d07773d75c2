package apply

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

// mayApply refuses a connection that is not one of the declared administrators: an apply by anybody else
// would fail at some write, or create nodes that the administrators cannot change. It does not matter who
// planned. Only the servers know whether an address or a SASL name is ours, so those count as ours.
func (x *Executor) mayApply(declared *plan.Access, root string) error {
	if declared == nil || slices.ContainsFunc(declared.Admins, func(a kind.ACL) bool {
		return !plan.Exact(a) || isOneOf(x.Client, a)
	}) {
		return nil
	}
	admins := plan.Names(declared.Admins)
	why := fmt.Sprintf("we are %s, and the administrators declared in the ensemble block are %s", strings.Join(WhoWeAre(x.Client), ", "), strings.Join(admins, ", "))
	if slices.ContainsFunc(x.Client.Identities(), func(id session.Identity) bool {
		return id.Scheme == "digest" && slices.Contains(admins, plan.Identity(id).String())
	}) {
		why = fmt.Sprintf("%s; our password differs from theirs, and ZooKeeper accepts any password without complaint", why)
	}
	return &NodeError{
		Path: root, Op: "apply to", Why: why,
		Written: nothingWritten,
		Next:    "Present the credential of one of them, beside yours if need be (an auth block each), or have yours added to admins.",
	}
}
