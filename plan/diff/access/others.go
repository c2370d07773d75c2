package access

import (
	"slices"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// OthersCanCreate reports whether a list of the tree that was read lets others create nodes: those who surely do not apply, and did
// not before.
func OthersCanCreate(t *plan.Tree, named *plan.Access, list kind.List) bool {
	who, open := slices.Clone(named.Administrators()), named == nil
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

// OthersCreateAfter is the same of a list after the plan. It is true wherever the next read finds it true.
func OthersCreateAfter(p *plan.Plan, list kind.List) bool {
	return Grants(p.Before.Insiders, list, kind.PermCreate)
}

// insiders adds everybody to those who apply if the stack is open: it has never named administrators, so anybody may apply it.
func insiders(who kind.List, open bool) kind.List {
	if open && len(who) > 0 {
		return append(slices.Clip(who), kind.ACL{Scheme: "world", ID: "anyone"})
	}
	return who
}

// Grants reports whether a list gives a right, or that of setting it, to somebody who surely is none of the insiders.
func Grants(insiders, list kind.List, right kind.Perm) bool {
	return len(insiders) > 0 && slices.ContainsFunc(list, func(a kind.ACL) bool {
		_, anybody := kind.List{a}.Rights() // by an entry that only servers can match
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

// stranger reports whether an entry is surely for nobody of a list.
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

// Administers reports whether one of those who apply, or did before, can set a list, by the plan.
func Administers(p *plan.Plan, list kind.List) bool {
	if p.Set == nil {
		return true // whoever that is
	}
	return slices.ContainsFunc(slices.Concat(p.Set.Admins, p.Before.Named, p.Before.Leaving), func(a kind.ACL) bool { return mayAdminister(a, list) })
}
