package access

import (
	"slices"
	"strings"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// Sides hold what exists and what is declared. The fields Desired and Want leave out wrong declarations; the field Given has them.
type Sides struct {
	Current *plan.Tree
	Desired []*plan.Node          // sorted, legal, each path once
	Given   []*plan.Node          // all that is declared, even wrongly
	Want    map[string]*plan.Node // desired, by path
	Have    map[string]*plan.Node // current, by path
	Pending []record.Pending      // lists that an interrupted apply had yet to set
	Intent  plan.Intent
	Opts    plan.Options
	Gone    map[string]bool // declared nodes that the last apply left, and that are not there
}

// Tell adds a problem to a plan. A problem has one line, and quotes what others wrote.
func Tell(p *plan.Plan, s problem.Severity, code problem.Code, n *plan.Node, summary, detail string) {
	p.Problems = append(p.Problems, plan.Problem{
		Severity: s, Code: code, Addr: n.Addr, Path: n.Path, Origin: n.Origin, Summary: kind.Visible(summary), Detail: kind.Visible(detail),
	})
}

// Under reports whether path is a proper descendant of root.
func Under(path, root string) bool { return path != root && kind.Below(path, root) }

// IsOurs reports whether the node carries this stack's marker.
//
// An ephemeral node is never ours, whatever its data says: an apply creates none. The marker is a copy, and the node will end
// with its session (TestEphemeralNodeIsNeverOurs).
func IsOurs(p *plan.Plan, n *plan.Node) bool {
	return n != nil && n.Payload != nil && n.Payload.Owner.Stack == p.Stack && (n.Live == nil || !n.Live.Ephemeral)
}

// FrameAt returns a node of the frame; one without a path if it was not read.
func FrameAt(s *Sides, path string) *plan.Framed {
	for i := range s.Current.Frame {
		if f := &s.Current.Frame[i]; f.Path == path {
			return f
		}
	}
	return &plan.Framed{Pin: plan.Pin{Czxid: -1}}
}

// insidersOf are the identities that may apply once this plan is applied.
func insidersOf(p *plan.Plan, s *Sides) kind.List {
	who := Administrators(p.Set)
	if who == nil {
		who = withAdmin(p.RootSet.There)
	}
	if who == nil {
		who = s.Opts.Identities
	}
	return insiders(who, p.Set == nil && p.Before.Noted == nil)
}

// OthersCanCreate reports whether a list of the tree that was read lets others create nodes: identities that surely are not, and
// were not, administrators.
func OthersCanCreate(t *plan.Tree, named *plan.Access, list kind.List) bool {
	who, open := slices.Clone(Administrators(named)), named == nil
	for _, f := range t.Frame {
		if f.Path == record.ScaffoldPath(t.Root) {
			who = append(who, withAdmin(f.ACL)...)
		}
	}
	if x := t.Index; x != nil {
		who, open = slices.Concat(who, withAdmin(x.Access), withAdmin(x.Next)), x.Access == nil
	}
	return Grants(insiders(who, open), list, kind.PermCreate)
}

// OthersCreateAfter is OthersCanCreate for a list after the plan. If the next read finds that others can create nodes,
// OthersCreateAfter also finds it.
func OthersCreateAfter(p *plan.Plan, list kind.List) bool {
	return Grants(p.Before.Insiders, list, kind.PermCreate)
}

// If the stack is open, insiders adds world:anyone to the given identities: the stack has never named administrators, so anybody
// may apply it.
func insiders(who kind.List, open bool) kind.List {
	if open && len(who) > 0 {
		return append(slices.Clip(who), kind.ACL{Scheme: "world", ID: "anyone"})
	}
	return who
}

// Grants reports whether a list gives a right, or ADMIN, to an identity that surely is not one of the insiders.
func Grants(insiders, list kind.List, right kind.Perm) bool {
	return len(insiders) > 0 && slices.ContainsFunc(list, func(a kind.ACL) bool {
		_, anybody := kind.List{a}.Rights() // rights that the entry may give to any client, because only servers can match it
		return a.Perms&(right|kind.PermAdmin) != 0 && anybody == 0 && stranger(insiders, a)
	})
}

// withAdmin returns the entries that give ADMIN.
func withAdmin(list kind.List) kind.List {
	return slices.DeleteFunc(slices.Clone(list), func(a kind.ACL) bool { return a.Perms&kind.PermAdmin == 0 })
}

func mayAdminister(who kind.ACL, list kind.List) bool {
	sure, maybe := list.Rights(who)
	return (sure|maybe)&kind.PermAdmin != 0
}

// stranger reports whether an entry surely matches no entry of a list.
func stranger(list kind.List, a kind.ACL) bool {
	sure, perhaps := list.Of(a)
	return sure == nil && perhaps == nil
}

// Granted reports whether a list has an entry of the same identity.
func Granted(list kind.List, to kind.ACL) bool {
	sure, _ := list.Of(to)
	return sure != nil
}

func masked(a kind.ACL) bool { return kind.List{a}.Masked() }

// Administers reports whether an administrator can set a list: a present one, or one whom the plan removes.
func Administers(p *plan.Plan, list kind.List) bool {
	if p.Set == nil {
		return true // no set is named, so any identity may apply
	}
	return slices.ContainsFunc(slices.Concat(p.Set.Admins, p.Before.Named, p.Before.Leaving), func(a kind.ACL) bool { return mayAdminister(a, list) })
}

// Need returns the rights that an administrator needs on a node of this kind to manage it later. The
// rights to create and delete children are rights on the parent. So on a lock without structural
// children we need no c or d: its contenders are not ours to delete. Breaking a lock needs d, and the
// transaction fails with a clear error when it is missing.
func Need(k *kind.Kind) kind.Perm {
	if k.Container || len(k.Children) > 0 {
		return kind.PermAll
	}
	return kind.PermRead | kind.PermWrite | kind.PermAdmin
}

// Names returns the identities of a list, without hashes.
func Names(list kind.List) (out []string) {
	for _, a := range list {
		out = append(out, Name(a))
	}
	return out
}

// Name is the identity of an entry: "digest:ops" or "x509:CN=ops". The part behind the user of a digest is hidden.
func Name(a kind.ACL) string {
	a.Perms = 0
	return strings.TrimSuffix(a.String(), ":")
}

// Administrators returns the administrators of a set; nil if there is no set.
func Administrators(a *plan.Access) kind.List {
	if a == nil {
		return nil
	}
	return a.Admins
}

// AccessOf splits the access list of .locktree into administrators and readers.
func AccessOf(list kind.List) *plan.Access {
	admins := slices.DeleteFunc(slices.Clone(list), func(a kind.ACL) bool { return a.Perms&kind.PermAdmin == 0 })
	readers := slices.DeleteFunc(slices.Clone(list), func(a kind.ACL) bool { return a.Perms&kind.PermAdmin != 0 })
	return &plan.Access{Admins: admins, Readers: readers}
}
