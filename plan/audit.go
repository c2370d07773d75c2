package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// ZooKeeper asks the parent whether a node may be deleted or created. What a lock's
// own access list says is worth nothing where somebody may delete in the root: an
// idle lock there can be taken away and made anew with another list. The same goes
// for the tool's own nodes: who deletes in the apply lock lets two appliers in.
//
// Above the root nothing has to be looked at: a node that is not empty cannot be
// deleted by anybody, and the root holds the tool's own nodes at least.

// audit looks at who else may delete or create where the stack stands. Who has ADMIN
// there was put in charge by somebody; everybody was not.
func (d *differ) audit() {
	if d.opts.Destroy || !slices.ContainsFunc(d.opts.Identities, func(id Identity) bool { return id.Scheme != "world" }) {
		return // nobody in particular has no rights of its own to keep
	}
	var open []string
	for _, f := range d.current.Frame {
		mask := kind.PermCreate | kind.PermDelete
		if f.Path == IndexPath(d.p.Root, d.p.Stack) || f.Path == LockPath(d.p.Root, d.p.Stack) {
			mask |= kind.PermWrite
		}
		if who := d.others(f.ACL, mask); len(who) > 0 {
			open = append(open, fmt.Sprintf("%s grants %s", f.Path, strings.Join(who, " and ")))
		}
	}
	if len(open) == 0 {
		return
	}
	d.problem(Warning, ProblemOpen, &Node{}, "Others may delete or create where the stack stands",
		strings.Join(open, "; ")+". Deleting and creating are rights of the parent in ZooKeeper: whatever the lists of the locks say, "+
			"an idle lock or a tool's node right there can be deleted, or made by somebody else. "+
			"Leave c, d and a there to who applies, for example with zkCli.sh's setAcl.")
}

// others are the entries that give one of the rights of mask to somebody who is not
// us and not an administrator of the node.
//
// The rights are summed up first: entries of one identity add up on the server, and whoever has
// ADMIN in one of them may give itself the rest.
func (d *differ) others(list []kind.ACL, mask kind.Perm) (who []string) {
	sum := map[Identity]kind.Perm{}
	for _, a := range list {
		sum[Identity{a.Scheme, a.ID}] |= a.Perms
	}
	for _, a := range kind.NormalizeACL(list) {
		perms := sum[Identity{a.Scheme, a.ID}]
		switch {
		case a.Scheme == "auth", a.Scheme != "world" && slices.Contains(d.opts.Identities, Identity{a.Scheme, a.ID}):
		case Everybody(a) && perms&(mask|kind.PermAdmin) != 0, perms&mask != 0 && perms&kind.PermAdmin == 0:
			who = append(who, a.String())
		}
	}
	return who
}
