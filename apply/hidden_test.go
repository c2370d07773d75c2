package apply_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/internal/prepare"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

const nextKey = "provisioner:s3cr3t" // another password of the same user

// A reader is shown no hashes. What its plan says of a list that hides its hashes is not what an apply goes by: it
// reads the list again, and lets nobody in who was shut out.
func TestAReadersPlanLetsNobodyInWhoWasShutOut(t *testing.T) {
	s := inMemory(t)
	readers := []string{ciKey}
	first, both, second := may([]string{oldKey}, readers), may([]string{oldKey, nextKey}, readers), may([]string{nextKey}, readers)
	s.apply(s.as(oldKey), s.of("a", first))
	s.apply(s.as(oldKey), s.of("a", both))
	s.apply(s.as(nextKey), s.of("a", second))
	a := s.of("a", may([]string{nextKey}, append(readers, "ops:x")))
	a.Nodes[0].ACL = append(a.Nodes[0].ACL, allOf(oldKey))
	p := s.plan(s.as(ciKey), a)
	in := s.server.Inject(func(r zktest.Request) bool {
		if r.Op == "setACL" {
			n, _ := s.server.Get(record.ScaffoldPath(s.root))
			require.NotContains(t, n.ACL, zktest.ACL(wire.ToZK(kind.List{allOf(oldKey)})[0]))
		}
		return false
	}, zktest.Fault{})
	defer in.Remove()
	_, err := executor(s.as(oldKey, nextKey)).Run(t.Context(), p)
	require.NoError(t, err)
	for path := range s.lists(s.as(nextKey), prepare.ScaffoldPaths(s.root, "a")[:4]...) {
		n, _ := s.server.Get(path)
		require.NotContains(t, n.ACL, zktest.ACL(wire.ToZK(kind.List{allOf(oldKey)})[0]), path)
	}
}

// The right to write that an administrator gives itself first comes on top of the list that is there, and not of what
// a reader was shown of it.
func TestRightsAreAddedToTheListThatIsThere(t *testing.T) {
	s := inMemory(t)
	access := may([]string{oldKey, newKey}, []string{ciKey})
	s.apply(s.as(oldKey), s.administered(access))
	path := s.root + "/pay/ledger"
	weak := kind.List{{Scheme: "digest", ID: digest(oldKey), Perms: kind.PermAdmin | kind.PermRead}, worker, access.Readers[0]}
	s.setByHand(s.as(oldKey), path, weak...) // it is not what the record proves
	next := s.administered(access)
	set("description", "new")(next.Nodes[1])
	p := s.plan(s.as(ciKey), next)
	x := executor(s.as(oldKey))
	widened := false
	x.Events = on(func(event.ACLWidened) {
		widened = true
		n, _ := s.server.Get(path)
		for _, a := range weak[1:] {
			require.Contains(t, n.ACL, zktest.ACL(wire.ToZK(kind.List{a})[0]))
		}
	})
	_, err := x.Run(t.Context(), p)
	require.NoError(t, err)
	require.True(t, widened)
}

// A list of which a reader who planned was not shown the hashes, so that the apply leaves it as it is, is not noted as the declared
// one: an administrator would be told that it was changed by hand, and a reader that it is as declared.
func TestAListThatAReaderCouldNotCompareIsNotNotedAsDeclared(t *testing.T) {
	for name, edit := range map[string]func(*plan.Tree){
		"of a node that changes": func(tree *plan.Tree) { tree.Nodes[0].Payload.Protect = true },
		"of one that stays": func(tree *plan.Tree) {
			tree.Intent.Outputs = []plan.Output{{Name: "o", Value: json.RawMessage(`"v"`)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := inMemory(t)
			access := may([]string{oldKey}, []string{ciKey})
			with := func(key string) *plan.Tree {
				tree := s.administered(access)
				tree.Nodes[0].ACL = append(access.List(), kind.ACL{Scheme: "digest", ID: digest(key), Perms: kind.PermRead})
				return tree
			}
			s.apply(s.as(oldKey), with("sre:before"))
			next := with("sre:after")
			edit(next)
			p := s.plan(s.as(ciKey), next)
			require.Contains(t, strings.Join(warnings(p), "\n"), byName)
			_, err := executor(s.as(oldKey)).Run(t.Context(), p)
			require.NoError(t, err)

			p = s.plan(s.as(oldKey), next)
			require.Equal(t, 1, p.Summary().Change, "the list is still to be set")
			require.Empty(t, p.Drifted, "nobody has changed anything by hand")
			p = s.plan(s.as(ciKey), next)
			require.Contains(t, strings.Join(warnings(p), "\n"), byName)
			s.apply(s.as(oldKey), next)
			require.Empty(t, s.told(s.plan(s.as(ciKey), next)))
		})
	}
}

// Of a root that somebody made, a reader's plan takes nothing away that it cannot tell from ours.
func TestAReaderTakesNothingFromARootOfSomebodyElse(t *testing.T) {
	s := inMemory(t)
	_, err := s.session(s.as(oldKey)).Create(t.Context(), "/locks", nil, 0, wire.ToZK(kind.List{allOf(nextKey), admin}))
	require.NoError(t, err)
	s.apply(s.as(oldKey), s.administered(may([]string{oldKey}, []string{ciKey})))
	require.Empty(t, s.told(s.plan(s.as(ciKey), s.administered(may([]string{oldKey}, []string{ciKey})))))
	next := s.administered(may([]string{oldKey}, []string{ciKey, "ops:x"}))
	p := s.plan(s.as(ciKey), next)
	require.Contains(t, strings.Join(warnings(p), "\n"), "The access list of /locks may differ from")
	_, err = executor(s.as(oldKey)).Run(t.Context(), p)
	require.NoError(t, err)
	n, _ := s.server.Get("/locks")
	require.Contains(t, n.ACL, zktest.ACL(wire.ToZK(kind.List{allOf(nextKey)})[0]))
	s.apply(s.as(oldKey), next)
	n, _ = s.server.Get("/locks")
	require.Len(t, n.ACL, 4)
}
