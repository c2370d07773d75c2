package diff_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/recipes/kind"
)

// Nobody can remove a block that is not there.
func TestImportByCommandSpeaksOfNoBlock(t *testing.T) {
	for _, byCommand := range []bool{true, false} {
		tree := base()
		tree.Intent = plan.Intent{Imports: []plan.Import{{To: "namespace.x.election.locks_solo", Path: "/elsewhere", ByCommand: byCommand}}}
		session := diff.Compare(&plan.Tree{Nodes: []*plan.Node{{Path: "/elsewhere", Live: &plan.Live{Ephemeral: true}}}}, tree, plan.Options{Identities: us})
		refused(t, session, "error import")
		require.Equal(t, !byCommand, strings.Contains(session.Problems[0].Detail, "import block"), session.Problems[0].Detail)
		require.Contains(t, session.Problems[0].Detail, "Correct the path")
	}
	tree := base()
	tree.Intent = plan.Intent{Imports: []plan.Import{{To: "namespace.x.election.locks_solo", Path: "/elsewhere", ByCommand: true}}}
	gone := diff.Compare(nil, tree, plan.Options{Identities: us})
	refused(t, gone, "error import")
	require.NotContains(t, gone.Problems[0].Detail, "import block")
}

// A plan said once that a lock may vanish, and never again.
func TestLockThatMayBeAContainerIsAWarningUntilItIsMadeAnew(t *testing.T) {
	const boss = "namespace.x.election.locks_solo"
	m := applied(t, declared(base().Nodes[:3]...))
	m.nodes["/locks/solo"] = &mnode{acl: kind.WorldAll()}
	tree := base()
	tree.Intent.Imports = []plan.Import{{To: boss, Path: "/locks/solo"}}
	live := m.read(t, testRoot, testStack)
	live.Find("/locks/solo").Live.Children = 1
	p := diff.Compare(live, tree, plan.Options{Identities: us})
	require.Equal(t, []string{"~ /locks/solo"}, actions(p))
	require.Equal(t, []string{"warning container"}, codes(p))
	m.apply(t, p)

	used := func(tree *plan.Tree) *plan.Plan {
		live := m.read(t, testRoot, testStack)
		live.Find("/locks/solo").Live.Children = 1
		return diff.Compare(live, tree, plan.Options{Identities: us})
	}
	again := used(tree)
	require.Empty(t, actions(again))
	require.Equal(t, []string{"warning container"}, codes(again))
	require.Contains(t, again.Problems[0].Detail, "1 lock is in use in a node that another program made: /locks/solo.")
	params := base()
	params.Nodes[3].Payload.Protect = true
	changed := used(params)
	require.Equal(t, []string{"~ /locks/solo"}, actions(changed))
	m.apply(t, changed)
	require.Equal(t, []string{"warning container"}, codes(used(params)), "an update keeps the node")

	// Each plan that finds it idle creates it again, also a protected one, which stays the same lock; but not if it is used when that is applied.
	for _, tree := range []*plan.Tree{params, base()} {
		anew := replan(t, m, tree)
		require.Equal(t, []string{"-/+ /locks/solo"}, actions(anew))
		require.Empty(t, anew.Problems)
		c := anew.Changes[3]
		require.True(t, c.Leave())
		require.False(t, c.Leave())
		require.Equal(t, kind.MadeElsewhere, c.After.Payload.Made)
		require.Equal(t, map[bool]plan.Action{true: plan.NoOp, false: plan.Update}[tree == params], c.Action)
	}
	m.apply(t, replan(t, m, params))
	require.Empty(t, replan(t, m, params).Problems)
	require.Empty(t, actions(replan(t, m, params)))
}

// The replacement an import takes was refused as in use, whatever was to be broken.
func TestImportOfALockThatWasLetGoIsBrokenByForce(t *testing.T) {
	m := applied(t, base())
	rest := declared(base().Nodes[:3]...)
	m.apply(t, replanIntent(t, m, rest, plan.Intent{Removals: []plan.Removal{{From: "namespace.x.election.locks_solo"}}}))
	tree := base()
	tree.Nodes[3] = declare("/locks/solo", kind.Mutex)
	tree.Intent.Imports = []plan.Import{{To: tree.Nodes[3].Addr, Path: "/locks/solo"}}
	live := m.read(t, testRoot, testStack)
	live.Find("/locks/solo").Live.Usage = &kind.Usage{Holders: []kind.Party{{Name: "latch-0000000001", ID: "host-a"}}}
	p := diff.Compare(live, tree, plan.Options{Identities: us, ForceBreak: []string{string(tree.Nodes[3].Addr)}})
	require.Equal(t, []string{"-/+ /locks/solo"}, actions(p))
	require.Equal(t, []string{"warning force_break"}, codes(p))
	require.True(t, p.Changes[3].Break)
}

// Two locks claim one address: the stack's own, which gets another path, and the one that is to be imported from a third path.
func TestImportToTheAddressOfALockWhosePathChangesIsRefused(t *testing.T) {
	const boss = "namespace.x.election.locks_solo"
	m := applied(t, base())
	m.nodes["/locks/far"] = &mnode{data: []byte("10.0.0.1"), acl: kind.WorldAll()}
	tree := base()
	tree.Nodes[3] = declare("/locks/near", kind.Election, addr(boss))
	tree.Nodes[0], tree.Nodes[3] = tree.Nodes[3], tree.Nodes[0]
	for what, o := range map[string]plan.Options{
		"all": {}, "the address": {Targets: []string{boss}}, "its namespace": {Targets: []string{"namespace.x"}},
	} {
		for _, byCommand := range []bool{true, false} {
			tree.Intent = plan.Intent{Imports: []plan.Import{{To: boss, Path: "/locks/far", ByCommand: byCommand}}}
			o.Identities, o.OverwriteData = us, true
			p := diff.Compare(m.read(t, testRoot, testStack), tree, o)
			require.False(t, p.Applyable(), what)
			q := p.Problems[0]
			require.Equal(t, "Import to another path", q.Summary)
			require.Contains(t, q.Detail, "is to be imported from /locks/far, but it is declared at /locks/near. ")
		}
	}
}

// The import said "No changes", as if it had been done.
func TestImportByCommandToAnAddressThatIsThereSaysWhoHasThePath(t *testing.T) {
	const boss = "namespace.x.election.locks_solo"
	m := applied(t, base())
	other := declare("/locks/theirs", kind.Mutex)
	other.Payload.Owner = kind.Owner{Stack: "other", Addr: "mutex.b"}
	theirs, err := other.Payload.Encode()
	require.NoError(t, err)
	m.nodes["/locks/elsewhere"] = &mnode{acl: kind.WorldAll()}
	m.nodes["/locks/theirs"] = &mnode{data: theirs, acl: kind.WorldAll()}
	for _, c := range []struct {
		path, says string
		byCommand  bool
	}{
		{"/locks/pay/ledger", "/locks/pay/ledger is this stack's too, as namespace.x.mutex.locks_pay_ledger, so", true},
		{"/locks/theirs", `/locks/theirs belongs to stack "other" (mutex.b). Leave it there, or correct the path.`, true},
		{"/locks/elsewhere", "To take over /locks/elsewhere, import it to another address.", true},
		{"/locks/pay/ledger", "", false},
		{"/locks/solo", "", true},
		{"/gone", "", true},
	} {
		tree := base()
		tree.Intent = plan.Intent{Imports: []plan.Import{{To: boss, Path: c.path, ByCommand: c.byCommand}}}
		p := replan(t, m, tree)
		if c.says == "" {
			require.Empty(t, p.Problems, c.path)
			continue
		}
		refused(t, p, "error import")
		require.Contains(t, p.Problems[0].Detail, "the stack has it already, at /locks/solo. "+c.says)
	}
}

// The block of an import that was done stays where it is, and what was imported gets other paths:
// nothing has to stand where it once was.
func TestDoneImportNeedsNothingWhereItWas(t *testing.T) {
	m := newModel(testRoot, testStack)
	m.nodes["/locks/solo"] = &mnode{acl: kind.WorldAll()}
	tree := base()
	tree.Intent.Imports = []plan.Import{{To: "namespace.x.election.locks_solo", Path: "/locks/solo"}}
	m.apply(t, replan(t, m, tree))
	for _, at := range []string{"/locks/solo2", "/locks/solo3"} {
		tree.Nodes[3] = declare(at, kind.Election, addr("namespace.x.election.locks_solo"))
		p := replan(t, m, tree)
		require.True(t, p.Applyable(), "%s", p)
		m.apply(t, p)
		require.NotNil(t, m.nodes[at])
		require.Nil(t, m.nodes["/locks/solo"])
	}
}

// The nodes of keys in use have the list of contenders of before, and the plan of an import did not have to say so, nor the apply to
// set the new one: no test noticed.
func TestImportOfAFamilyGivesTheNewListToTheKeysInUse(t *testing.T) {
	crew, others := kind.List{{Scheme: "digest", ID: "crew:x", Perms: kind.PermAll &^ kind.PermAdmin}}, kind.List{{Scheme: "digest", ID: "others:x", Perms: kind.PermAll &^ kind.PermAdmin}}
	family := func(list kind.List) *plan.Tree {
		return declared(declare("/locks/orders", kind.Keyed, set("kind", "mutex"), func(n *plan.Node) { n.Payload.ChildACL = list }))
	}
	for _, c := range []struct {
		name     string
		declared kind.List
		keys     []plan.KeyLists
		former   []kind.List
		relists  string
	}{
		{"as it was", crew, []plan.KeyLists{{Lists: []kind.List{crew}, Keys: 2}}, nil, ""},
		{"with another list", others, []plan.KeyLists{{Lists: []kind.List{crew}, Keys: 2}, {Lists: []kind.List{kind.WorldAll()}, Keys: 1}},
			[]kind.List{crew, slices.Concat(crew, others).Normalize()}, "2 keys have a node with the former access list: apply sets the new one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := applied(t, family(crew))
			addr := family(crew).Nodes[0].Addr
			m.apply(t, replanIntent(t, m, declared(), plan.Intent{Removals: []plan.Removal{{From: addr}}}))
			current := m.read(t, testRoot, testStack)
			live := current.Find("/locks/orders").Live
			live.KeyLists, live.Usage = c.keys, &kind.Usage{Keys: kind.Keys{Nodes: 3, Looked: 3, Used: 3}, Holders: []kind.Party{{Key: "17"}}}
			tree := family(c.declared)
			tree.Intent.Imports = []plan.Import{{To: addr, Path: "/locks/orders"}}
			p := diff.Compare(current, tree, plan.Options{Identities: us})
			require.Empty(t, p.Problems)
			require.Equal(t, []string{"~ /locks/orders"}, actions(p), "keys in use do not hold it up: no node goes")
			require.Equal(t, "/locks/orders", p.Changes[0].Importing)
			require.Equal(t, c.former, p.Changes[0].FormerLists)
			require.Equal(t, c.relists, p.Changes[0].Relists())
		})
	}
	t.Run("with other directories", func(t *testing.T) { // which is another node for each key: not while one is in use
		m := applied(t, family(crew))
		addr := family(crew).Nodes[0].Addr
		m.apply(t, replanIntent(t, m, declared(), plan.Intent{Removals: []plan.Removal{{From: addr}}}))
		current := m.read(t, testRoot, testStack)
		current.Find("/locks/orders").Live.Usage = &kind.Usage{Keys: kind.Keys{Nodes: 1, Looked: 1, Used: 1}, Holders: []kind.Party{{Key: "17"}}}
		tree := declared(declare("/locks/orders", kind.Keyed, set("kind", "mutex"), set("fanout", "16")))
		tree.Intent.Imports = []plan.Import{{To: addr, Path: "/locks/orders"}}
		p := diff.Compare(current, tree, plan.Options{Identities: us})
		require.Equal(t, []string{"-/+ /locks/orders"}, actions(p))
		require.Len(t, p.InUse(), 1)
	})
	t.Run("another program's node", func(t *testing.T) { // its keys have lists of their own, which are not ours to set
		tree := family(others)
		tree.Intent.Imports = []plan.Import{{To: tree.Nodes[0].Addr, Path: "/locks/orders"}}
		p := diff.Compare(&plan.Tree{Nodes: []*plan.Node{{Path: "/locks/orders", ACL: kind.WorldAll(), Live: &plan.Live{Trouble: plan.TroubleForeign, Children: 1,
			KeyLists: []plan.KeyLists{{Lists: []kind.List{kind.WorldAll()}, Keys: 1}}, Usage: &kind.Usage{Keys: kind.Keys{Nodes: 1, Looked: 1, Used: 1}}}}}}, tree, plan.Options{Identities: us})
		require.Equal(t, plan.Update, p.Changes[0].Action)
		require.Equal(t, kind.MadeElsewhere, p.Changes[0].After.Payload.Made)
		require.Empty(t, p.Changes[0].FormerLists)
	})
}

func TestAnEmptyNamespaceThatWasLetGoBecomesALock(t *testing.T) {
	m := applied(t, declared(declare("/locks/pay", kind.Namespace)))
	m.apply(t, replanIntent(t, m, declared(), plan.Intent{Removals: []plan.Removal{{From: "namespace.x.namespace.locks_pay"}}}))
	tree := declared(declare("/locks/pay", kind.Mutex, addr("mutex.pay")))
	tree.Intent.Imports = []plan.Import{{To: "mutex.pay", Path: "/locks/pay"}}
	settle(t, m, replan(t, m, tree), tree)
}
