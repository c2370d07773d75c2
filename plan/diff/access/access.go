package access

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// accessCheck checks the declared access lists.
type accessCheck struct {
	verdicts map[listNeed]verdict
	remarks  []*remark
}

// CheckDeclared checks the declared access lists: every node needs one, it must not let everybody
// write, and it must not lock us out.
//
// It checks what is declared and not what exists: the plan corrects a wrong list in the ensemble,
// unless the node is not this stack's.
func CheckDeclared(p *plan.Plan, s *Sides) {
	k := &accessCheck{}
	for _, n := range s.Desired {
		if len(n.ACL) == 0 {
			Tell(p, plan.Error, plan.ProblemNoACL, n, "No access list", fmt.Sprintf("%s has no access list, which ZooKeeper refuses. Declare an acl.", n.Addr))
			continue
		}
		if who := cmp.Or(openTo(n.ACL), openTo(n.Payload.ChildACL)); who != "" && !n.AllowWorld {
			Tell(p, plan.Error, plan.ProblemWorldWritable, n, "Everybody could change this lock",
				fmt.Sprintf("The access list of %s grants %s: anybody who can reach the servers could take, release or delete its locks. "+
					"Grant to principals, or set allow_world = true on the acl if that is intended.", n.Addr, who))
		}
		if s.Intent.Access != nil {
			checkAdmins(p, s, k, n)
		} else if weApply(p, s) {
			checkLockOut(p, s, n)
		}
	}
	tellRemarks(p, k)
}

// openTo finds the first entry that lets everybody do more than read. The contenders' list counts
// too, because their data says who they are.
func openTo(list kind.List) string {
	for _, a := range list {
		if plan.Everybody(a) && a.Perms&^kind.PermRead != 0 {
			return a.String()
		}
	}
	return ""
}

// checkLockOut finds lists that would keep us from managing the node. An apply could set such a list
// but not undo it, because setting a list needs ADMIN on the node. Then only a superuser of the
// servers can help, or servers started with skipACL.
func checkLockOut(p *plan.Plan, s *Sides, n *plan.Node) {
	if n.AllowLockout || len(s.Opts.Identities) == 0 { // which is a problem of its own, said once
		return
	}
	kept, maybe := n.ACL.Rights(append(Us(s), kind.ACL{Scheme: "auth"})...) // what is written for "auth" is whoever writes it
	missing := plan.Need(n.Kind()) &^ kept
	if missing == 0 {
		return
	}
	severity, summary := plan.Error, "Apply would lock itself out"
	if missing&^maybe == 0 { // only the servers know whether an address matches
		severity, summary = plan.Warning, "Apply may lock itself out"
	}
	Tell(p, severity, plan.ProblemLockOut, n, summary,
		fmt.Sprintf("The access list of %s (%s) would leave us without %q on %s%s. Add a grant with allow = \"admin\" "+
			"for the identity that applies, or set allow_lockout = true on the acl if that is intended.%s",
			n.Addr, n.ACL, missing, n.Path, administeredNow(s, n.Path, Us(s)), misspelt(s, n.ACL)))
}

// weApply reports whether we may be one of those who apply. Whoever only looks has no rights to lose.
func weApply(p *plan.Plan, s *Sides) bool {
	if p.Set == nil {
		return true
	}
	sure, perhaps := p.Set.Admins.Ours(Us(s)...)
	return sure|perhaps != 0
}

// misspelt points out entries that are meant for us or for an administrator but do not match: the
// list looks right, so the mistake is hard to see.
func misspelt(s *Sides, list kind.List) (text string) {
	for _, a := range list {
		if ours, ok := backwards(s, a); ok {
			text += fmt.Sprintf(" The entry x509:%s names us in another order than the servers do: write %q.", a.ID, ours)
		}
		if ours, ok := shortened(s, a); ok {
			text += fmt.Sprintf(" The entry sasl:%s is %s without its host or realm. If the servers remove those (kerberos.removeHostFromPrincipal, "+
				"kerberos.removeRealmFromPrincipal in zoo.cfg), set remove_host or remove_realm in the auth block; otherwise write all of it.", a.ID, ours)
		}
	}
	return text
}

// backwards finds our certificate's subject, or an administrator's, written in another order. The
// servers compare strings, in RFC 2253's order (last encoded first), and accept any other string
// without complaint. openssl and Go print the reverse.
func backwards(s *Sides, a kind.ACL) (ours string, ok bool) {
	names := func(s string) []string {
		parts := strings.Split(s, ",")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		slices.Sort(parts)
		return parts
	}
	who := slices.Clone(s.Opts.Identities)
	if s.Intent.Access != nil {
		for _, admin := range s.Intent.Access.Admins {
			who = append(who, plan.Identity{Scheme: admin.Scheme, ID: admin.ID})
		}
	}
	for _, id := range who {
		if a.Scheme == "x509" && id.Scheme == "x509" && a.ID != id.ID && slices.Equal(names(a.ID), names(id.ID)) {
			return id.ID, true
		}
	}
	return "", false
}

// shortened finds our principal of Kerberos, or its name, without the parts that servers may remove.
func shortened(s *Sides, a kind.ACL) (ours string, ok bool) {
	for _, id := range s.Opts.Identities {
		name, realm, _ := strings.Cut(id.ID, "@")
		user, host, _ := strings.Cut(name, "/")
		if a.Scheme == "sasl" && id.Scheme == "sasl" && a.ID != id.ID && slices.Contains([]string{user, name, user + "@" + realm}, a.ID) && realm+host != "" {
			return id.ID, true
		}
	}
	return "", false
}
