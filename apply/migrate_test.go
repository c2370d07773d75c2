package apply_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// Those who apply may set the list of a node and not write to it, which its acl says. It keeps its mark, and stops no apply.
func TestANodeThatNobodyMayWriteKeepsItsMark(t *testing.T) {
	s := inMemory(t)
	access := may([]string{oldKey}, []string{ciKey})
	tree := s.administered(access)
	sealed := tree.Find(s.root + "/pay/ledger")
	sealed.AllowLockout = true
	sealed.ACL = kind.List{{Scheme: "digest", ID: digest(oldKey), Perms: kind.PermRead | kind.PermAdmin}, worker, access.Readers[0]}
	c := s.as(oldKey)
	s.apply(c, tree)
	require.NoError(t, s.server.Set(record.IndexPath(s.root, stack), []byte("x"))) // its key is lost
	s.apply(c, tree)
	p := s.plan(c, tree)
	require.False(t, p.HasChanges(), "%s", p)
	require.Empty(t, p.Drifted, "nobody has changed it")
}

// A team to which a namespace is lent cannot stop the applies of its owner with an entry that only looks
// as if it let the owner write.
func TestAnEntryThatMayBeOursStopsNoApply(t *testing.T) {
	for name, trap := range map[string]kind.ACL{
		"an address":       {Scheme: "ip", ID: "203.0.113.1", Perms: kind.PermAll},
		"another password": {Scheme: "digest", ID: "provisioner:AAAA", Perms: kind.PermAll},
	} {
		t.Run(name, func(t *testing.T) {
			s := inMemory(t)
			tree := s.administered(may([]string{oldKey}, []string{ciKey}))
			c := s.as(oldKey)
			s.apply(c, tree)
			require.NoError(t, s.server.Set(s.root+"/pay", []byte(strings.Replace(s.dataAt("/pay"), `"sum":"`, `"sum":"x`, 1))))
			s.setByHand(c, s.root+"/pay", trap, allOf("tenant:x"), kind.ACL{Scheme: "world", ID: "anyone", Perms: kind.PermRead | kind.PermCreate | kind.PermDelete})
			set("description", "new")(tree.Nodes[1])
			p := s.plan(c, tree)
			_, err := executor(c).Run(t.Context(), p)
			errorAs[*failure.ACLPhaseError](t, err, "all else is applied")
			require.Contains(t, s.dataAt("/pay/ledger"), `"description":"new"`)

			require.NoError(t, s.server.Set(s.root+"/pay", []byte(strings.Replace(s.dataAt("/pay"), `"protect":false`, `"protect":true`, 1))))
			set("description", "newer")(tree.Nodes[1])
			_, err = executor(c).Run(t.Context(), s.plan(c, tree))
			require.ErrorContains(t, err, "do not have WRITE", "to put its data back takes that right")
			s.apply(c, tree, plan.Options{Targets: []string{"pay.ledger.mutex"}})
			require.Contains(t, s.dataAt("/pay/ledger"), `"description":"newer"`)
		})
	}
}

// A record that is put back by hand has a former key. That says nothing about who changed which node.
func TestAnOldIndexThatIsPutBackIsNoDriftOfEveryNode(t *testing.T) {
	apply.RandomKeys(t)
	s, c := provisioned(t)
	at := record.IndexPath(s.root, stack)
	s.apply(c, s.shop())
	old, _ := s.server.Get(at)
	require.NoError(t, s.server.Set(at, []byte("x")))
	s.apply(c, s.shop())
	require.NoError(t, s.server.Set(at, old.Data))
	p := s.plan(c, s.shop())
	require.Empty(t, p.Drifted)
	require.True(t, p.Seals())
	s.apply(c, s.shop())
	require.NoError(t, s.server.Set(s.root+"/pay/ledger", []byte(strings.Replace(s.dataAt("/pay/ledger"), `"protect":false`, `"protect":true`, 1))))
	require.Len(t, s.plan(c, s.shop()).Drifted, 1, "now it is one")
}

func (s *site) dataAt(path string) string {
	n, _ := s.server.Get(s.root + path)
	return string(n.Data)
}

// Nobody guesses the key of a stack from that of another one.
func TestEachStackHasAKeyOfItsOwn(t *testing.T) {
	apply.RandomKeys(t)
	keys := map[string]bool{}
	for range 3 {
		s, c := shopped(t)
		keys[s.index(c).Key] = true
		s.apply(c, s.shop(set("description", "new")))
		keys[s.index(c).Key] = true
	}
	require.Len(t, keys, 3)
}
