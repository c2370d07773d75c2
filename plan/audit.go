package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// In ZooKeeper, the parent's access list decides whether a node may be deleted or created. A lock's
// own list is worth nothing if somebody may delete in the root: they can delete an idle lock there
// and create it again with another list. The same is true of the tool's own nodes: somebody who
// deletes in the apply lock lets two applies in.
//
// Nodes above the root need no check: nobody can delete a node that is not empty, and the root
// contains at least the tool's own nodes.

// audit finds others who may create or delete the stack's nodes. Somebody with ADMIN there was put in
// charge on purpose; everybody was not. It checks the access lists as the plan leaves them.
func (d *frame) audit() {
	if d.opts.Destroy || d.p.Set == nil && !d.somebody() {
		return // a connection without an identity has no rights of its own to protect
	}
	d.checkRoot(d.framed(d.p.Root))
	var open []string
	for _, f := range d.current.Frame {
		if !under(f.Path, d.p.Root) && f.Path != d.p.Root {
			continue
		}
		mask := kind.PermCreate | kind.PermDelete
		if slices.Contains(record.OwnPaths(d.p.Root, d.p.Stack), f.Path) {
			mask |= kind.PermWrite
		}
		if who := d.others(d.listAfter(&f), mask); len(who) > 0 {
			open = append(open, fmt.Sprintf("%s grants %s", f.Path, strings.Join(who, " and ")))
		}
	}
	if len(open) == 0 {
		return
	}
	d.problem(Warning, ProblemOpen, &Node{}, "Others may create or delete nodes of this stack",
		strings.Join(open, "; ")+". In ZooKeeper, creating and deleting are rights on the parent: whatever the access lists of the locks say, "+
			"an idle lock or one of the tool's own nodes there can be deleted, or created by somebody else. "+
			"Grant c, d and a there only to those who apply, for example with zkCli.sh's setAcl.")
}

// others returns the entries that give one of the rights in mask to somebody who is neither us nor an
// administrator of the node.
//
// The rights of an identity are added up first, as the server does. Whoever has ADMIN in one entry can
// take the rest.
func (d *sides) others(list kind.List, mask kind.Perm) (who []string) {
	for _, a := range list.Normalize() {
		switch {
		case a.Scheme == "auth", d.oneOfUs(a):
		case Everybody(a) && a.Perms&(mask|kind.PermAdmin) != 0, a.Perms&mask != 0 && a.Perms&kind.PermAdmin == 0:
			who = append(who, a.String())
		}
	}
	return who
}

// oneOfUs reports whether an entry names somebody who may apply.
func (d *sides) oneOfUs(a kind.ACL) bool {
	if d.p.Set != nil {
		return granted(d.p.Set.Admins, a)
	}
	return a.Scheme != "world" && slices.Contains(d.opts.Identities, Identity{a.Scheme, a.ID})
}

// listAfter is the access list of a node of the frame as the plan leaves it.
func (d *frame) listAfter(f *Framed) kind.List {
	for _, c := range d.p.Access {
		if c.Pin.Path == f.Path && !c.Contenders {
			return c.After
		}
	}
	return f.ACL
}

// checkRoot checks a root whose access list this stack does not set.
func (d *frame) checkRoot(f *Framed) {
	if d.p.Set == nil || f.Path == "" || f.Closed || d.wantedOf(f) != nil {
		return
	}
	for _, who := range d.p.Set.Admins {
		if sure, maybe := f.ACL.Rights(who); (kind.PermCreate|kind.PermDelete)&^(sure|maybe) == 0 {
			return
		}
	}
	owner := "somebody else made it"
	if d.current.RootOwner != "" {
		owner = "it is of " + d.current.RootOwner
	}
	d.problem(Warning, ProblemAccess, &Node{Addr: EnsembleAddr(d.p.Ensemble), Path: f.Path}, "Administrators have no rights on the root",
		fmt.Sprintf("%s grants CREATE and DELETE to none of %s, who need both to manage the nodes right below it. This stack does not set its access list, because %s: "+
			"ask there for a grant of \"admin\" (it has %s), or choose a root of your own.", f.Path, whoText(d.p.Set.Admins), owner, f.ACL))
}
