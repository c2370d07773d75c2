package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan"
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

// auditFrame finds others who may create or delete the stack's nodes. Somebody with ADMIN there was put in
// charge on purpose; everybody was not. It checks the access lists as the plan leaves them.
func auditFrame(p *plan.Plan, s *Sides) {
	if s.Opts.Destroy || p.Set == nil && !hasIdentity(s) {
		return // a connection without an identity has no rights of its own to protect
	}
	checkRoot(p, s, FrameAt(s, p.Root))
	var open []string
	for _, f := range s.Current.Frame {
		if !Under(f.Path, p.Root) && f.Path != p.Root {
			continue
		}
		mask := kind.PermCreate | kind.PermDelete
		if slices.Contains(record.OwnPaths(p.Root, p.Stack), f.Path) {
			mask |= kind.PermWrite
		}
		if who := othersIn(p, s, listAfter(p, &f), mask); len(who) > 0 {
			open = append(open, fmt.Sprintf("%s grants %s", f.Path, strings.Join(who, " and ")))
		}
	}
	if len(open) == 0 {
		return
	}
	Tell(p, plan.Warning, plan.ProblemOpen, &plan.Node{}, "Others may create or delete nodes of this stack",
		strings.Join(open, "; ")+". In ZooKeeper, creating and deleting are rights on the parent: whatever the access lists of the locks say, "+
			"an idle lock or one of the tool's own nodes there can be deleted, or created by somebody else. "+
			"Grant c, d and a there only to those who apply, for example with zkCli.sh's setAcl.")
}

// othersIn returns the entries that give one of the rights in mask to somebody who is neither us nor an
// administrator of the node.
//
// The rights of an identity are added up first, as the server does. Whoever has ADMIN in one entry can
// take the rest.
func othersIn(p *plan.Plan, s *Sides, list kind.List, mask kind.Perm) (who []string) {
	for _, a := range list.Normalize() {
		switch {
		case a.Scheme == "auth", oneOfUs(p, s, a):
		case plan.Everybody(a) && a.Perms&(mask|kind.PermAdmin) != 0, a.Perms&mask != 0 && a.Perms&kind.PermAdmin == 0:
			who = append(who, a.String())
		}
	}
	return who
}

// oneOfUs reports whether an entry names somebody who may apply.
func oneOfUs(p *plan.Plan, s *Sides, a kind.ACL) bool {
	if p.Set != nil {
		return Granted(p.Set.Admins, a)
	}
	return a.Scheme != "world" && slices.Contains(s.Opts.Identities, plan.Identity{Scheme: a.Scheme, ID: a.ID})
}

// listAfter is the access list of a node of the frame as the plan leaves it.
func listAfter(p *plan.Plan, f *plan.Framed) kind.List {
	for _, c := range p.Access {
		if c.Pin.Path == f.Path && !c.Contenders {
			return c.After
		}
	}
	return f.ACL
}

// checkRoot checks a root whose access list this stack does not set.
func checkRoot(p *plan.Plan, s *Sides, f *plan.Framed) {
	if p.Set == nil || f.Path == "" || f.Closed || wantedOf(p, s, f) != nil {
		return
	}
	for _, who := range p.Set.Admins {
		if sure, maybe := f.ACL.Rights(who); (kind.PermCreate|kind.PermDelete)&^(sure|maybe) == 0 {
			return
		}
	}
	owner := "somebody else made it"
	if s.Current.RootOwner != "" {
		owner = "it is of " + s.Current.RootOwner
	}
	Tell(p, plan.Warning, plan.ProblemAccess, &plan.Node{Addr: plan.EnsembleAddr(p.Ensemble), Path: f.Path}, "Administrators have no rights on the root",
		fmt.Sprintf("%s grants CREATE and DELETE to none of %s, who need both to manage the nodes right below it. This stack does not set its access list, because %s: "+
			"ask there for a grant of \"admin\" (it has %s), or choose a root of your own.", f.Path, whoText(p.Set.Admins), owner, f.ACL))
}

// WarnUncompared says whose passwords the plan could not compare. Servers show the hashes of digests in an access list only to its
// administrators (FinalRequestProcessor, getACL). Without them, kind.List.Equal compares schemes, names and permissions.
func WarnUncompared(p *plan.Plan, s *Sides) {
	if s.Opts.Destroy {
		return
	}
	var first *plan.Node
	n := 0
	var who kind.List
	note := func(addr plan.Addr, path string, list kind.List) {
		if !list.Masked() {
			return
		}
		if n++; first == nil {
			first = &plan.Node{Addr: addr, Path: path}
		}
		who = append(who, slices.DeleteFunc(slices.Clone(list), func(a kind.ACL) bool { return !masked(a) })...)
	}
	for i := range s.Current.Frame {
		f := &s.Current.Frame[i]
		note(plan.EnsembleAddr(p.Ensemble), f.Path, f.ACL)
	}
	for _, have := range s.Current.Nodes {
		if want := s.Want[have.Path]; want != nil && IsOurs(p, have) {
			note(want.Addr, have.Path, have.ACL)
		}
	}
	if n == 0 {
		return
	}
	names := plan.Names(who)
	slices.Sort(names)
	Tell(p, plan.Warning, plan.ProblemAccess, first, "Passwords were not compared",
		fmt.Sprintf("ZooKeeper hides the password hashes of %s from this connection, in %d access list%s (%s first). This plan compared these entries by scheme and name, "+
			"so it does not show a password that has changed. Run the plan with the credentials of an administrator to compare them.",
			plan.Few(slices.Compact(names), 10), n, plan.Plural(n), first.Path))
}
