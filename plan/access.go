package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// accessCheck is of all declared lists.
type accessCheck struct {
	*sides
	verdicts map[listNeed]verdict
	remarks  []*remark
}

// checkAccess looks at the declared access lists: nobody may be left without
// one, everybody must not write, and we must not lock ourselves out.
//
// It looks at what is declared and not at what is there: a list that is wrong in the ensemble
// is put right by the plan, or is nobody's of this stack.
func (d *accessCheck) checkAccess() {
	for _, n := range d.desired {
		base := Problem{Severity: Error, Addr: n.Addr, Path: n.Path, Origin: n.Origin}
		if len(n.ACL) == 0 {
			base.Code, base.Summary = ProblemNoACL, "No access list"
			base.Detail = fmt.Sprintf("%s has no access list, which ZooKeeper refuses. Declare an acl.", n.Addr)
			d.p.Problems = append(d.p.Problems, base)
			continue
		}
		if who, open := openTo(n); open && !n.AllowWorld {
			base.Code, base.Summary = ProblemWorldWritable, "Everybody could change this lock"
			base.Detail = fmt.Sprintf("The access list of %s grants %s: whoever reaches the servers could take, release or delete its locks. "+
				"Grant to principals, or set allow_world = true on the acl if that is meant.", n.Addr, who)
			d.p.Problems = append(d.p.Problems, base)
		}
		if d.intent.Access != nil {
			d.checkAdmins(n)
		} else {
			d.checkLockOut(n)
		}
	}
	d.tellRemarks()
}

// openTo finds the first entry that lets everybody do more than read.
// The list of the contenders counts, too: what they say of themselves is in their data.
func openTo(n *Node) (string, bool) {
	for _, list := range [][]kind.ACL{n.ACL, n.Payload.ChildACL} {
		for _, a := range list {
			if Everybody(a) && a.Perms&^kind.PermRead != 0 {
				return a.String(), true
			}
		}
	}
	return "", false
}

// Everybody reports whether an entry is of whoever reaches the servers.
// ZooKeeper's ip scheme takes a prefix length, and /0 matches all.
func Everybody(a kind.ACL) bool {
	return a.Scheme == "world" || a.Scheme == "ip" && len(a.ID) > 2 && a.ID[len(a.ID)-2:] == "/0"
}

// Need is what an administrator must have on a node of a kind, to manage it later: deleting and creating
// children are rights of the parent.
// So a lock without structural children takes no c or d from us: its contenders are not ours
// to delete. To break a lock takes d, and the transaction says so when it is missing.
func Need(k *kind.Kind) kind.Perm {
	if k.Container || len(k.Children) > 0 {
		return kind.PermAll
	}
	return kind.PermRead | kind.PermWrite | kind.PermAdmin
}

// checkLockOut finds lists that would keep us from managing the node, which an apply could set
// but not take back: ADMIN on the node is what setting a list takes. Only a superuser of the
// servers can help then, or servers started with skipACL.
func (d *accessCheck) checkLockOut(n *Node) {
	if n.AllowLockout || len(d.opts.Identities) == 0 {
		return
	}
	kept, maybe := d.granted(n.ACL)
	missing := Need(n.Kind()) &^ kept
	if missing == 0 {
		return
	}
	p := Problem{Severity: Error, Code: ProblemLockOut, Addr: n.Addr, Path: n.Path, Origin: n.Origin}
	p.Summary = "Apply would lock itself out"
	p.Detail = fmt.Sprintf("The access list of %s (%s) would leave us without %q on %s%s. Add a grant with allow = \"admin\" "+
		"for the identity that applies, or set allow_lockout = true on the acl if that is meant.",
		n.Addr, aclText(n.ACL), missing, n.Path, d.grantedNow(n.Path))
	p.Detail += d.misspelt(n.ACL)
	if missing&^maybe == 0 {
		// Whether an address matches is known to the servers alone.
		p.Severity, p.Summary = Warning, "Apply may lock itself out"
	}
	d.p.Problems = append(d.p.Problems, p)
}

// misspelt says of entries that they mean us, or an administrator, and do not say so: the mistake
// cannot be seen in the list, which looks right.
func (d *sides) misspelt(list []kind.ACL) (text string) {
	for _, a := range list {
		if ours, ok := d.backwards(a); ok {
			text += fmt.Sprintf(" The entry x509:%s names us in another order than the servers do: write %q.", a.ID, ours)
		}
	}
	return text
}

// backwards finds our certificate's subject written in another order. The servers
// compare the text, in RFC 2253's order (last encoded first), and take any other
// text without complaint: openssl and Go print the reverse.
func (d *sides) backwards(a kind.ACL) (ours string, ok bool) {
	names := func(s string) []string {
		parts := strings.Split(s, ",")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		slices.Sort(parts)
		return parts
	}
	who := slices.Clone(d.opts.Identities)
	if d.intent.Access != nil {
		for _, admin := range d.intent.Access.Admins {
			who = append(who, Identity{admin.Scheme, admin.ID})
		}
	}
	for _, id := range who {
		if a.Scheme == "x509" && id.Scheme == "x509" && a.ID != id.ID && slices.Equal(names(a.ID), names(id.ID)) {
			return id.ID, true
		}
	}
	return "", false
}

// granted adds up what a list gives us, and what it gives to somebody we may be:
// "ip" and schemes of plug-ins are matched by the servers, not by us.
// "world" is among the identities of every client: what it gets is ours for certain.
func (d *sides) granted(list []kind.ACL) (sure, maybe kind.Perm) {
	for _, a := range list {
		switch {
		case a.Scheme == "auth" || slices.Contains(d.opts.Identities, Identity{a.Scheme, a.ID}):
			sure |= a.Perms
		case !Exact(a):
			maybe |= a.Perms
		}
	}
	return sure, maybe
}

func (d *sides) grantedNow(path string) string {
	have := d.have[path]
	if have == nil {
		return ""
	}
	for _, a := range have.ACL {
		if a.Perms&kind.PermAdmin != 0 && slices.Contains(d.opts.Identities, Identity{a.Scheme, a.ID}) {
			return fmt.Sprintf(" (granted now to %s)", a)
		}
	}
	return ""
}
