package apply_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

var (
	joiner = kind.ACL{Scheme: "digest", ID: digest("joiner:j"), Perms: kind.PermCreate | kind.PermRead | kind.PermDelete}
	joined = kind.ACL{Scheme: "digest", ID: digest("joiner:j"), Perms: kind.PermCreate | kind.PermRead | kind.PermWrite | kind.PermDelete}
)

func to(lock, contender kind.List) func(*plan.Node) {
	return func(n *plan.Node) { n.ACL, n.Payload.ChildACL = lock, contender }
}

func TestChangedListReachesTheKeysInUse(t *testing.T) { relisted(t, inMemory(t)) }

func relisted(t *testing.T, s *site) {
	c, w := s.provisioner(), s.dial("worker:w")
	tree := s.orders(of("semaphore"), set("permits", 2), fanout("16"))
	s.apply(c, tree)
	for i := range 20 {
		s.hold(w, tree, fmt.Sprintf("order-%d", i))
	}
	foreign := keyPath(tree, "foreign")
	_, err := s.session(w).Create(t.Context(), foreign, []byte{}, 0, wire.ToZK(kind.WorldAll()))
	require.NoError(t, err)

	next := s.orders(of("semaphore"), set("permits", 2), fanout("16"), to(kind.List{admin, joiner}, kind.List{admin, joined}))
	p := s.plan(c, next)
	require.Equal(t, "21 keys have a node. Of 16 that were looked at, 15 have the former access list. Apply replaces it on every node that has it", relists(p))
	res, err := executor(c).Run(t.Context(), s.resaved(p))
	require.NoError(t, err)
	require.Equal(t, 20*3+1+16, res.ACLs, "the nodes of each key, the family with its directories, and no other")
	for i := range 20 {
		for _, part := range []string{"", "/leases", "/locks"} {
			require.True(t, s.list(c, keyPath(tree, fmt.Sprintf("order-%d", i))+part).Equal(kind.List{admin, joined}))
		}
	}
	acl, _, err := s.session(c).GetACL(t.Context(), foreign)
	require.NoError(t, err)
	require.True(t, wire.FromZK(acl).Equal(kind.WorldAll()), "what another program made is its own")
	require.False(t, s.plan(c, next).HasChanges())
	require.Empty(t, s.index(c).Pending)
}

// A family was forgotten with keys in use, and is imported with another list of contenders.
func TestImportedFamilyGivesItsListToTheKeysInUse(t *testing.T) {
	s, c, w, tree := family(t, of("mutex"))
	held := s.hold(w, tree, "order-17")
	gone := s.tree(declare("/shop", kind.Namespace))
	gone.Intent.Removals = []plan.Removal{{From: tree.Nodes[1].Addr}}
	s.apply(c, gone)

	next := s.orders(of("mutex"), to(kind.List{admin, joiner}, kind.List{admin, joined}))
	next.Intent.Imports = []plan.Import{{To: next.Nodes[1].Addr, Path: s.root + "/shop/orders"}}
	p := s.plan(c, next)
	require.Equal(t, "1 key has a node with the former access list: apply sets the new one", relists(p))
	s.runs(c, p)
	require.True(t, s.list(c, keyPath(tree, "order-17")).Equal(kind.List{admin, joined}))
	_, there := s.server.Get(held)
	require.True(t, there, "its holder holds on")
	require.False(t, s.plan(c, next).HasChanges())
}

// An apply was interrupted when the node of a key had its new list, and the nodes in it had not: nothing was left to be done then, said
// the plan.
func TestPartsOfAKeyAreRelistedAfterAnInterruptedApply(t *testing.T) {
	s, c, w, tree := family(t, of("semaphore"), set("permits", 2))
	s.hold(w, tree, "order-17")
	key := keyPath(tree, "order-17")
	next := s.orders(of("semaphore"), set("permits", 2), to(kind.List{admin, joiner}, kind.List{admin, joined}))
	require.NoError(t, s.setACL(c, key, kind.List{admin, joined}))
	p := s.plan(c, next)
	require.Equal(t, "1 key has a node with the former access list: apply sets the new one", relists(p))
	s.runs(c, p)
	for _, part := range []string{"", "/leases", "/locks"} {
		require.True(t, s.list(c, key+part).Equal(kind.List{admin, joined}))
	}
}

func (s *site) setACL(c *recipes.Client, path string, list kind.List) error {
	_, err := s.session(c).SetACL(s.t.Context(), path, wire.ToZK(list), -1)
	return err
}

func relists(p *plan.Plan) string {
	for c := range p.Each() {
		if text := c.Relists(); text != "" {
			return text
		}
	}
	return ""
}

// A key that we cannot give another list keeps its credential in the family, until nobody uses it.
func TestNoCredentialGoesWhileAKeyHasIt(t *testing.T) {
	s, c, w, tree := family(t, of("mutex"), to(kind.List{admin, worker}, kind.List{crew}))
	held := s.hold(w, tree, "order-17")
	next := s.orders(of("mutex"), to(kind.List{admin, joiner}, kind.List{joined}))
	for range 2 {
		p := s.plan(c, next)
		require.True(t, p.HasChanges())
		_, err := executor(c).Run(t.Context(), p)
		errorAs[*failure.ACLPhaseError](t, err)
		require.ErrorContains(t, err, "order-17")
		acl, _, err := s.session(c).GetACL(t.Context(), "/locks/shop/orders")
		require.NoError(t, err)
		sure, _ := wire.FromZK(acl).Rights(worker)
		require.Equal(t, worker.Perms, sure)
	}
	require.NoError(t, s.session(w).Delete(t.Context(), held, -1))
	require.NoError(t, s.session(w).Delete(t.Context(), kind.ParentPath(held), -1))
	s.apply(c, next)
	require.True(t, s.list(c, "/locks/shop/orders").Equal(kind.List{admin, joiner}))
	require.False(t, s.plan(c, next).HasChanges())
}
