package apply_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// of is the tree of another stack below the same root.
func (s *site) of(name string, a *plan.Access) *plan.Tree {
	tree := s.tree(declare("/"+name, kind.Mutex))
	tree.Stack = name
	tree.Nodes[0].Payload.Owner.Stack = name
	if tree.Intent.Access = a; a != nil {
		tree.Nodes[0].ACL = a.List()
	}
	return tree
}

func warnings(p *plan.Plan) (out []string) {
	for _, q := range p.Problems {
		out = append(out, q.Summary+": "+q.Detail)
	}
	return out
}

// Two stacks on one root share what stands above both; each keeps what the other one declares.
func TestSharedListsHaveWhatEachStackDeclares(t *testing.T) {
	s := inMemory(t)
	both := s.as(oldKey, newKey)
	a, b := s.of("a", may([]string{oldKey}, []string{ciKey})), s.of("b", may([]string{oldKey}, []string{"ops:x"}))
	s.apply(both, a)
	s.apply(both, b)
	for range 2 {
		require.False(t, s.plan(both, b).HasChanges())
		require.False(t, s.plan(both, a).HasChanges())
	}
	shared := s.ownShared(both)
	for path, list := range shared {
		require.Equal(t, "digest:ci:r, digest:ops:r, digest:provisioner:cdrwa", list, path)
	}
	a2 := s.of("a", may([]string{oldKey}, nil))
	s.apply(both, a2)
	for path, list := range s.ownShared(both) {
		require.Equal(t, "digest:ops:r, digest:provisioner:cdrwa", list, path)
	}

	// What one of them was destroyed with, the other one takes away.
	_, err := executor(both).Run(t.Context(), s.plan(both, b, plan.Options{Destroy: true}))
	require.NoError(t, err)
	s.apply(both, a2)
	for path, list := range s.ownShared(both) {
		require.Equal(t, "digest:provisioner:cdrwa", list, path)
	}
}

// ownShared are the lists of the nodes that all stacks on the root share.
func (s *site) ownShared(c *recipes.Client) map[string]string {
	out := s.lists(c, apply.ScaffoldPaths(s.root, "a")...)
	delete(out, plan.LockPath(s.root, "a"))
	return out
}

func TestAStackThatDeclaresNobodyKeepsItsRightsOnSharedNodes(t *testing.T) {
	s := inMemory(t)
	both := s.as(oldKey, newKey)
	s.apply(s.as(oldKey), s.of("legacy", nil))
	s.apply(both, s.of("a", may([]string{oldKey, newKey}, nil)))
	next := s.of("a", may([]string{newKey}, nil))
	p := s.plan(both, next)
	require.Contains(t, strings.Join(warnings(p), "\n"), `Stack "legacy" uses it too, and does not say whether it needs that, so it stays`)
	s.apply(both, next)
	p = s.plan(both, next)
	require.False(t, p.HasChanges())
	require.Len(t, p.Problems, 2, "%v", warnings(p))
	require.Contains(t, strings.Join(warnings(p), "\n"), "digest:provisioner may delete in /locks, /locks/.locktree, /locks/.locktree/apply, /locks/.locktree/stacks, which in ZooKeeper is a right on the parent")
	require.Equal(t, "digest:successor:cdrwa", s.lists(s.as(newKey), plan.IndexPath(s.root, "a"))[plan.IndexPath(s.root, "a")])

	// The other stack goes on as before, declares its administrators, and then nothing stays.
	legacy := s.of("legacy", may([]string{newKey}, nil))
	s.apply(both, legacy)
	s.apply(both, next)
	require.Empty(t, s.plan(both, next).Problems)
	for path, list := range s.ownShared(both) {
		require.Equal(t, "digest:successor:cdrwa", list, path)
	}
}

func (s *site) lists(c *recipes.Client, paths ...string) map[string]string {
	s.t.Helper()
	out := map[string]string{}
	for _, path := range paths {
		acl, _, err := s.session(c).GetACL(s.t.Context(), path)
		require.NoError(s.t, err, path)
		out[path] = apply.FromZK(acl).String()
	}
	return out
}

// A root that somebody made is added to, and what an apply of ours added goes again. One that is a declaration
// belongs to whoever declares it.
func TestARootOfSomebodyElseIsAddedToOrLeftAlone(t *testing.T) {
	s := inMemory(t)
	c, sre := s.as(oldKey, newKey), kind.ACL{Scheme: "digest", ID: digest("sre:x"), Perms: kind.PermAll}
	make := func(path string, data []byte, acl ...kind.ACL) {
		_, err := s.session(c).Create(t.Context(), path, data, 0, apply.ToZK(acl))
		require.NoError(t, err)
	}
	make("/locks", nil, sre, admin)
	first, second := s.administered(may([]string{oldKey}, []string{ciKey})), s.administered(may([]string{newKey}, nil))
	s.apply(c, first)
	s.apply(c, first)
	require.Equal(t, "digest:ci:r, digest:provisioner:cdrwa, digest:sre:cdrwa", s.lists(c, "/locks")["/locks"])
	require.False(t, s.plan(c, first).HasChanges())
	s.apply(c, second)
	require.Equal(t, "digest:sre:cdrwa, digest:successor:cdrwa", s.lists(c, "/locks")["/locks"])
	require.Empty(t, s.plan(c, second).Problems)

	team := declare("/x", kind.Namespace).Payload
	team.Owner.Stack = "platform"
	data, err := team.Encode()
	require.NoError(t, err)
	make("/team", data, sre, admin)
	s.root = "/team"
	of := s.administered(may([]string{oldKey}, []string{ciKey}))
	s.apply(c, of)
	p := s.plan(c, of)
	require.False(t, p.HasChanges(), "%v", p.Access)
	require.Empty(t, p.Problems)
	require.Equal(t, "digest:provisioner:cdrwa, digest:sre:cdrwa", s.lists(c, "/team")["/team"])
	p = s.plan(c, s.administered(may([]string{newKey}, nil)))
	require.Contains(t, strings.Join(warnings(p), "\n"), "/team grants CREATE and DELETE to none of digest:successor, who need both to manage the nodes right below it. "+
		"This stack does not set its access list, because it is of stack platform: ask there")
}

// What is above the root and was made with it follows, but never takes anything from others.
func TestAncestorsOfTheRootFollow(t *testing.T) {
	s := inMemory(t)
	s.root = "/a/b/locks"
	c := s.as(oldKey, newKey)
	s.apply(c, s.administered(may([]string{oldKey}, nil)))
	mate := kind.ACL{Scheme: "digest", ID: digest("mate:x"), Perms: kind.PermCreate}
	s.setByHand(c, "/a", admin, mate)
	next := s.administered(may([]string{newKey}, nil))
	s.apply(c, next)
	require.Equal(t, map[string]string{"/a": "digest:mate:c, digest:successor:cdrwa", "/a/b": "digest:successor:cdrwa"}, s.lists(c, "/a", "/a/b"))
	require.False(t, s.plan(c, next).HasChanges())
}

// A stack that shuts an administrator out leaves it the nodes above the root where another stack declares it.
func TestAncestorsOfTheRootKeepWhatOtherStacksDeclare(t *testing.T) {
	s := inMemory(t)
	s.root = "/team/locks"
	a, b := may([]string{oldKey}, []string{ciKey}), s.of("b", may([]string{oldKey}, []string{ciKey}))
	s.apply(s.as(oldKey), s.of("a", a))
	s.apply(s.as(oldKey), b)
	s.apply(s.as(oldKey), s.of("a", may([]string{oldKey, newKey}, []string{ciKey})))
	for _, who := range [][]string{{newKey}, {newKey, ciKey}} { // who may not read the other record, and who may
		s.apply(s.as(who...), s.of("a", may([]string{newKey}, []string{ciKey})))
		require.Equal(t, "digest:ci:r, digest:provisioner:cdrwa, digest:successor:cdrwa", s.lists(s.as(newKey), "/team")["/team"])
		require.False(t, s.plan(s.as(oldKey, ciKey), b).HasChanges())
	}
}

// Programs read the note that a move left with the rights they have where the lock is now.
func TestNotesOfMovesAreReadByThoseWhoMayFollow(t *testing.T) {
	s := inMemory(t)
	c := s.as(oldKey, newKey)
	moved := func(a *plan.Access) *plan.Tree {
		tree := s.administered(a)
		tree.Nodes[1].Path, tree.Nodes[1].Addr = s.root+"/pay/books", "pay.books.mutex"
		tree.Nodes[1].Payload.Owner.Addr = "pay.books.mutex"
		tree.Intent.Moves = []plan.Move{{From: "pay.ledger.mutex", To: "pay.books.mutex"}}
		return tree
	}
	s.apply(c, s.administered(may([]string{oldKey}, nil)))
	first, second := moved(may([]string{oldKey}, nil)), moved(may([]string{newKey}, []string{ciKey}))
	s.apply(c, first)
	note := s.root + "/pay/ledger"
	require.Equal(t, "digest:provisioner:drwa, digest:worker:r", s.lists(c, note)[note])
	s.settled(c, first)
	lease, err := s.as("worker:w").Mutex(note).Lock(t.Context())
	require.NoError(t, err)
	require.Equal(t, s.root+"/pay/books", lease.Path())
	require.NoError(t, lease.Unlock(t.Context()))

	p := s.plan(c, second)
	require.True(t, slices.ContainsFunc(p.Access, func(a plan.AccessChange) bool { return a.Pin.Path == note && a.Addr == "pay.ledger.mutex" }), "%v", p.Access)
	s.apply(c, second)
	require.Equal(t, "digest:ci:r, digest:successor:drwa, digest:worker:r", s.lists(c, note)[note])
	s.settled(s.as(newKey), second)
}
