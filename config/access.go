package config

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// evaluateAccess reads who may apply here (admins) and who may plan and look (readers). It returns nil when the block has
// neither argument.
func (m *module) evaluateAccess(s scope, b *block) *plan.Access {
	admins := s.declaredTo(b.attrs["admins"], kind.RoleAdmin)
	readers := s.declaredTo(b.attrs["readers"], kind.RoleObserve)
	if s.d.failed || admins == nil && readers == nil {
		return nil
	}
	if len(admins) == 0 {
		at := b.attrs["admins"]
		if at == nil || admins == nil {
			at = b.attrs["readers"]
		}
		s.wrong(at, "No administrators", "Nobody could apply this stack any more. List its administrators: admins = [principal.NAME].")
		return nil
	}
	for _, a := range admins {
		if plan.Everybody(a) {
			s.wrong(b.attrs["admins"], "Everybody would be an administrator", fmt.Sprintf(
				"%s matches everybody who can reach the servers: they could delete this stack's records and take its apply lock. List the identities that apply. To leave the tool's own nodes open, omit admins and readers.", plan.Identity{Scheme: a.Scheme, ID: a.ID}))
			return nil
		}
	}
	// An identity in both lists is an administrator.
	readers = slices.DeleteFunc(readers, func(r kind.ACL) bool {
		return slices.ContainsFunc(admins, func(a kind.ACL) bool { return a.Scheme == r.Scheme && a.ID == r.ID })
	})
	if n := max(len(admins), len(readers)); n > maxEntries/2 {
		m.errorf(b.head, "Access list too long", "admins or readers names %d principals; at most %d are allowed. Let people share an identity.", n, maxEntries/2)
		s.d.failed = true
		return nil
	}
	return &plan.Access{Admins: admins, Readers: readers}
}

// declaredTo is a list of principals with the rights of a role; nil when the argument is not set.
func (s scope) declaredTo(a *attribute, role kind.Role) []kind.ACL {
	if a == nil {
		return nil
	}
	v, ok := s.value(a)
	if !ok || isNull(v) {
		return nil
	}
	who, ok := s.principals(a, v)
	if !ok {
		return nil
	}
	perms, _ := role.Perms()
	for i := range who {
		who[i].Perms = perms.Namespace
	}
	return kind.NormalizeACL(who)
}
