package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/recipes/kind"
)

// If administrators are declared, access lists are checked for them and not for whoever makes the
// plan: that may be somebody who only reads, or somebody who presents an old and a new credential.

// checkAdmins finds lists that would keep administrators from managing a node, or readers from planning it.
func (d *accessCheck) checkAdmins(n *Node) {
	v := d.verdictOn(n)
	switch {
	case v.able == "" && !n.AllowLockout:
		severity, summary := Error, "Apply would lock the administrators out"
		if v.perhaps {
			severity, summary = Warning, "Apply may lock the administrators out"
		}
		d.problem(severity, ProblemLockOut, n, summary,
			fmt.Sprintf("The access list of %s (%s) gives none of them (%s) %q on %s%s. Add a grant with allow = \"admin\" to one of them, "+
				"or set allow_lockout = true on the acl if that is intended.%s",
				n.Addr, n.ACL, whoText(d.intent.Access.Admins), Need(n.Kind()), n.Path, d.administeredNow(n.Path, d.intent.Access.Admins), d.misspelt(n.ACL)))
	case v.unable != "" && !n.AllowLockout:
		d.note(n, "Not every administrator can manage every node", v.unable+" cannot manage", "that only "+v.able+" can manage",
			fmt.Sprintf("Grant \"admin\" on them before %s goes.", v.able))
	}
	if v.blind != "" {
		d.note(n, "Not every reader can read every node", v.blind+" cannot read", "though it is declared to read them", "Grant \"observe\" on them, or it cannot plan this stack.")
	}
}

// verdict is what an access list means for those who are declared. It is computed once per list:
// most nodes have one of a few lists.
type verdict struct {
	able, unable string // the administrators who can manage the node, and those who cannot
	perhaps      bool   // an administrator may be able to, by an address or a plug-in that only servers can match
	blind        string // readers who cannot read it
}

type listNeed struct {
	list listHead
	need kind.Perm
}

func (d *accessCheck) verdictOn(n *Node) verdict {
	key := listNeed{listHead{&n.ACL[0], len(n.ACL)}, Need(n.Kind())}
	if v, ok := d.verdicts[key]; ok {
		return v
	}
	var able, unable, blind kind.List
	v := verdict{}
	for _, who := range d.intent.Access.Admins {
		switch sure, maybe := n.ACL.Rights(who); {
		case key.need&^sure == 0:
			able = append(able, who)
		case key.need&^(sure|maybe) == 0:
			v.perhaps = true
		default:
			unable = append(unable, who)
		}
	}
	for _, who := range d.intent.Access.Readers {
		if sure, maybe := n.ACL.Rights(who); (sure|maybe)&kind.PermRead == 0 {
			blind = append(blind, who)
		}
	}
	v.able, v.unable, v.blind = whoText(able), whoBut(unable, able), whoText(blind)
	if d.verdicts == nil {
		d.verdicts = map[listNeed]verdict{}
	}
	d.verdicts[key] = v
	return v
}

// remark is one warning about all nodes to which it applies.
type remark struct {
	summary, who, why, next string

	first *Node
	addrs []Addr
}

func (d *accessCheck) note(n *Node, summary, who, why, next string) {
	i := slices.IndexFunc(d.remarks, func(r *remark) bool { return r.who == who && r.why == why })
	if i < 0 {
		i = len(d.remarks)
		d.remarks = append(d.remarks, &remark{summary: summary, who: who, why: why, next: next, first: n})
	}
	d.remarks[i].addrs = append(d.remarks[i].addrs, n.Addr)
}

// tellRemarks reports each remark once.
func (d *accessCheck) tellRemarks() {
	for _, r := range d.remarks {
		n := len(r.addrs)
		d.problem(Warning, ProblemAccess, r.first, r.summary,
			fmt.Sprintf("%s %d node%s %s: %s. %s", r.who, n, plural(n), r.why, Few(r.addrs, 5), r.next))
	}
}

// administeredNow names those who can still set the present list.
func (d *sides) administeredNow(path string, others kind.List) string {
	if have := d.have[path]; have != nil && len(withAdmin(have.ACL)) > 0 {
		return ", which depends on " + whoBut(withAdmin(have.ACL), others) + " now"
	}
	return ""
}

// Names returns the identities of a list, without hashes.
func Names(list kind.List) (out []string) {
	for _, a := range list {
		out = append(out, Identity{a.Scheme, a.ID}.String())
	}
	return out
}

func whoText(list kind.List) string { return strings.Join(Names(list), ", ") }

// whoBut lists identities. A user who is among others with another digest, because the password is
// being replaced, is marked as such.
func whoBut(list, others kind.List) string {
	var out []string
	for _, a := range list {
		text := whoText(kind.List{a})
		if !masked(a) && !granted(others, a) && slices.Contains(Names(others), text) {
			text += " (another digest of that user)"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// checkSetters warns when no declared administrator can set an access list that is to be set, but
// somebody else can: the apply has to present both credentials.
func (d *frame) checkSetters() {
	var who kind.List
	n, first := 0, ""
	for _, c := range d.p.Access {
		if c.Contenders || slices.ContainsFunc(d.p.Set.Admins, func(a kind.ACL) bool { return mayAdminister(a, c.Before) }) {
			continue
		}
		if n++; first == "" {
			first = c.Pin.Path
		}
		for _, a := range withAdmin(c.Before) {
			if !granted(who, a) {
				who = append(who, a)
			}
		}
	}
	weAre := func(list kind.List) bool {
		return slices.ContainsFunc(d.opts.Identities, func(id Identity) bool { return granted(list, id.entry()) })
	}
	if n == 0 || weAre(d.p.Set.Admins) && (d.super() || weAre(who)) {
		return
	}
	at := &Node{Addr: EnsembleAddr(d.p.Ensemble), Path: first}
	if len(who) == 0 {
		d.problem(Warning, ProblemAccess, at, "Nobody can set an access list",
			fmt.Sprintf("%d access list%s of the tool's own nodes (%s first) give ADMIN to nobody, so only a superuser of the servers can set them: "+
				"see \"locktree help take-over-stack\".", n, plural(n), first))
		return
	}
	d.problem(Warning, ProblemAccess, at, "Apply needs two credentials",
		fmt.Sprintf("%d access list%s of the tool's own nodes (%s first) can be set only by %s, which is not a declared administrator. "+
			"Apply with both its credential and an administrator's: an auth block for each.", n, plural(n), first, whoBut(who, d.p.Set.Admins)))
}

// super reports whether we present the user that servers make their superuser, who can set any list. Whether the password is right
// is theirs to say.
func (d *sides) super() bool {
	return slices.ContainsFunc(d.opts.Identities, func(id Identity) bool { return id.Scheme == "digest" && strings.HasPrefix(id.ID, "super:") })
}

// withAdmin returns the entries that give ADMIN.
func withAdmin(list kind.List) kind.List {
	return slices.DeleteFunc(slices.Clone(list), func(a kind.ACL) bool { return a.Perms&kind.PermAdmin == 0 })
}

func mayAdminister(who kind.ACL, list kind.List) bool {
	sure, maybe := list.Rights(who)
	return (sure|maybe)&kind.PermAdmin != 0
}

// somebody reports whether the connection has an identity of its own.
func (d *sides) somebody() bool {
	return slices.ContainsFunc(d.opts.Identities, func(id Identity) bool { return id.Scheme != "world" })
}

// listHead identifies a slice without looking into it. Two slices that begin at the same entry and
// have the same length are equal, because lists are never changed. It is a shortcut: a list at two
// places in memory is another one.
type listHead struct {
	first *kind.ACL
	n     int
}
