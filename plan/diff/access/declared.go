package access

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/problem"
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
			Tell(p, problem.Error, problem.NoACL, n, "No access list", fmt.Sprintf("%s has no access list, which ZooKeeper refuses. Declare an acl.", n.Addr))
			continue
		}
		if who := cmp.Or(openTo(n.ACL), openTo(n.Payload.ChildACL)); who != "" && !n.AllowWorld {
			Tell(p, problem.Error, problem.WorldWritable, n, "Everybody could change this lock",
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

// openTo finds the first entry that lets everybody do more than read. The contenders' list counts too: a client that can write a
// contender's data can give that contender's place to another client.
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
	if n.AllowLockout || len(s.Opts.Identities) == 0 { // a connection without identities is another problem, reported once
		return
	}
	kept, maybe := n.ACL.Rights(slices.Concat(s.Opts.Identities, kind.List{{Scheme: "auth"}})...) // in place of "auth" the server stores the identities of the connection that writes the list
	missing := Need(n.Kind()) &^ kept
	if missing == 0 {
		return
	}
	severity, summary := problem.Error, "Apply would lock itself out"
	if missing&^maybe == 0 { // only the servers know whether an address matches
		severity, summary = problem.Warning, "Apply may lock itself out"
	}
	Tell(p, severity, problem.LockOut, n, summary,
		fmt.Sprintf("The access list of %s (%s) would leave us without %q on %s%s. Add a grant with allow = \"admin\" "+
			"for the identity that applies, or set allow_lockout = true on the acl if that is intended.%s",
			n.Addr, n.ACL, missing, n.Path, administeredNow(s, n.Path, s.Opts.Identities), misspeltEntries(s, n.ACL)))
}

// weApply reports whether we may be an administrator. A reader has no rights to lose.
func weApply(p *plan.Plan, s *Sides) bool {
	if p.Set == nil {
		return true
	}
	sure, perhaps := p.Set.Admins.Ours(s.Opts.Identities...)
	return sure|perhaps != 0
}

// misspeltEntries points out entries that are meant for us or for an administrator but do not match: the
// list looks right, so the mistake is hard to see.
func misspeltEntries(s *Sides, list kind.List) (text string) {
	for _, a := range list {
		if ours, ok := reversedSubject(s, a); ok {
			text += fmt.Sprintf(" The entry x509:%s names us in another order than the servers do: write %q.", a.ID, ours)
		}
		if ours, ok := shortenedName(s, a); ok {
			text += fmt.Sprintf(" The entry sasl:%s is %s without its host or realm. If the servers remove those (kerberos.removeHostFromPrincipal, "+
				"kerberos.removeRealmFromPrincipal in zoo.cfg), set remove_host or remove_realm in the auth block; otherwise write all of it.", a.ID, ours)
		}
	}
	return text
}

// reversedSubject finds our certificate's subject, or an administrator's, written in another order. The
// servers compare strings, in RFC 2253's order (last encoded first), and accept any other string
// without complaint. openssl and Go print the reverse.
func reversedSubject(s *Sides, a kind.ACL) (ours string, ok bool) {
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
		who = append(who, s.Intent.Access.Admins...)
	}
	for _, id := range who {
		if a.Scheme == "x509" && id.Scheme == "x509" && a.ID != id.ID && slices.Equal(names(a.ID), names(id.ID)) {
			return id.ID, true
		}
	}
	return "", false
}

// shortenedName finds our principal of Kerberos, or its name, without the parts that servers may remove.
func shortenedName(s *Sides, a kind.ACL) (ours string, ok bool) {
	for _, id := range s.Opts.Identities {
		name, realm, _ := strings.Cut(id.ID, "@")
		user, host, _ := strings.Cut(name, "/")
		if a.Scheme == "sasl" && id.Scheme == "sasl" && a.ID != id.ID && slices.Contains([]string{user, name, user + "@" + realm}, a.ID) && realm+host != "" {
			return id.ID, true
		}
	}
	return "", false
}

// If administrators are declared, access lists are checked for them and not for the connection that makes the plan. That
// connection may be a reader's, or have an old and a new credential.

// checkAdmins finds lists that would keep administrators from managing a node, or readers from planning it.
func checkAdmins(p *plan.Plan, s *Sides, k *accessCheck, n *plan.Node) {
	v := verdictOn(s, k, n)
	switch {
	case v.able == "" && !n.AllowLockout:
		severity, summary := problem.Error, "Apply would lock the administrators out"
		if v.perhaps {
			severity, summary = problem.Warning, "Apply may lock the administrators out"
		}
		Tell(p, severity, problem.LockOut, n, summary,
			fmt.Sprintf("The access list of %s (%s) gives no administrator (%s) %q on %s%s. Add a grant with allow = \"admin\" to one of them, "+
				"or set allow_lockout = true on the acl if that is intended.%s",
				n.Addr, n.ACL, whoText(s.Intent.Access.Admins), Need(n.Kind()), n.Path, administeredNow(s, n.Path, s.Intent.Access.Admins), misspeltEntries(s, n.ACL)))
	case v.unable != "" && !n.AllowLockout:
		noteRemark(k, n, "Not every administrator can manage every node", v.unable+" cannot manage", "that only "+v.able+" can manage",
			fmt.Sprintf("Grant \"admin\" on them before %s goes.", v.able))
	}
	if v.blind != "" {
		noteRemark(k, n, "Not every reader can read every node", v.blind+" cannot read", "though it is declared to read them", "Grant \"observe\" on them, or it cannot plan this stack.")
	}
}

// verdict is what an access list means for the declared administrators and readers. It is computed once per list: most nodes have
// one of a few lists.
type verdict struct {
	able, unable string // the administrators who can manage the node, and those who cannot
	perhaps      bool   // an administrator may be able to, by an address or a plug-in that only servers can match
	blind        string // readers who cannot read it
}

type listNeed struct {
	list listHead
	need kind.Perm
}

func verdictOn(s *Sides, k *accessCheck, n *plan.Node) verdict {
	key := listNeed{listHead{&n.ACL[0], len(n.ACL)}, Need(n.Kind())}
	if v, ok := k.verdicts[key]; ok {
		return v
	}
	var able, unable, blind kind.List
	v := verdict{}
	for _, who := range s.Intent.Access.Admins {
		switch sure, maybe := n.ACL.Rights(who); {
		case key.need&^sure == 0:
			able = append(able, who)
		case key.need&^(sure|maybe) == 0:
			v.perhaps = true
		default:
			unable = append(unable, who)
		}
	}
	for _, who := range s.Intent.Access.Readers {
		if sure, maybe := n.ACL.Rights(who); (sure|maybe)&kind.PermRead == 0 {
			blind = append(blind, who)
		}
	}
	v.able, v.unable, v.blind = whoText(able), whoBut(unable, able), whoText(blind)
	if k.verdicts == nil {
		k.verdicts = map[listNeed]verdict{}
	}
	k.verdicts[key] = v
	return v
}

// remark is one warning about several nodes.
type remark struct {
	summary, who, why, next string

	first *plan.Node
	addrs []plan.Addr
}

// noteRemark adds a node to the remark that says the same.
func noteRemark(k *accessCheck, n *plan.Node, summary, who, why, next string) {
	i := slices.IndexFunc(k.remarks, func(r *remark) bool { return r.who == who && r.why == why })
	if i < 0 {
		i = len(k.remarks)
		k.remarks = append(k.remarks, &remark{summary: summary, who: who, why: why, next: next, first: n})
	}
	k.remarks[i].addrs = append(k.remarks[i].addrs, n.Addr)
}

// tellRemarks reports each remark once.
func tellRemarks(p *plan.Plan, k *accessCheck) {
	for _, r := range k.remarks {
		n := len(r.addrs)
		Tell(p, problem.Warning, problem.Access, r.first, r.summary,
			fmt.Sprintf("%s %d node%s %s: %s. %s", r.who, n, explain.Plural(n), r.why, explain.Few(r.addrs, 5), r.next))
	}
}

// administeredNow names the identities that can still set the present list.
func administeredNow(s *Sides, path string, others kind.List) string {
	if have := s.Have[path]; have != nil && len(withAdmin(have.ACL)) > 0 {
		return ", which depends on " + whoBut(withAdmin(have.ACL), others) + " now"
	}
	return ""
}

func whoText(list kind.List) string { return strings.Join(Names(list), ", ") }

// whoBut lists the identities of a list. It marks a user whom the other list has with another digest: that password is being
// replaced.
func whoBut(list, other kind.List) string {
	var out []string
	for _, a := range list {
		text := whoText(kind.List{a})
		if !masked(a) && !Granted(other, a) && slices.Contains(Names(other), text) {
			text += " (another digest of that user)"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// checkSetters warns if an access list is to be set that only others, and no declared administrator, can set. The apply has to
// present both credentials.
func checkSetters(p *plan.Plan, s *Sides) {
	var who kind.List
	n, first := 0, ""
	for _, c := range p.Access {
		if c.Contenders || slices.ContainsFunc(p.Set.Admins, func(a kind.ACL) bool { return mayAdminister(a, c.Before) }) {
			continue
		}
		if n++; first == "" {
			first = c.Pin.Path
		}
		for _, a := range withAdmin(c.Before) {
			if !Granted(who, a) {
				who = append(who, a)
			}
		}
	}
	weAre := func(list kind.List) bool {
		return slices.ContainsFunc(s.Opts.Identities, func(id kind.ACL) bool { return Granted(list, id) })
	}
	if n == 0 || weAre(p.Set.Admins) && (IsSuper(s) || weAre(who)) {
		return
	}
	at := &plan.Node{Addr: plan.EnsembleAddr(p.Ensemble), Path: first}
	if len(who) == 0 {
		Tell(p, problem.Warning, problem.Access, at, "Access lists without an administrator",
			fmt.Sprintf("%d access list%s of the tool's own nodes (%s first) grant ADMIN to no identity, so only a superuser of the servers can set them: "+
				"see \"locktree help take-over-stack\".", n, explain.Plural(n), first))
		return
	}
	Tell(p, problem.Warning, problem.Access, at, "Apply needs two credentials",
		fmt.Sprintf("%d access list%s of the tool's own nodes (%s first) can be set only by %s, which is not a declared administrator. "+
			"Apply with both its credential and an administrator's: an auth block for each.", n, explain.Plural(n), first, whoBut(who, p.Set.Admins)))
}

// IsSuper reports whether we present the user that servers make their superuser, who can set any list. Only the servers know
// whether the password is right.
func IsSuper(s *Sides) bool {
	return slices.ContainsFunc(s.Opts.Identities, func(id kind.ACL) bool { return id.Scheme == "digest" && strings.HasPrefix(id.ID, "super:") })
}

// hasIdentity reports whether the connection has an identity of its own.
func hasIdentity(s *Sides) bool {
	return slices.ContainsFunc(s.Opts.Identities, func(id kind.ACL) bool { return id.Scheme != "world" })
}

// listHead identifies a slice without looking into it. Two slices that begin at the same entry and have the same length are
// equal, because lists are never changed. Equal lists at two places in memory count as different, which only costs time.
type listHead struct {
	first *kind.ACL
	n     int
}
