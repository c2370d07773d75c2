package plan_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

func replanIntent(t testing.TB, m *model, tree *plan.Tree, i plan.Intent) *plan.Plan {
	tree.Intent = i
	return replan(t, m, tree)
}

func payloadAt(t testing.TB, m *model, path string) *kind.Payload {
	require.NotNil(t, m.nodes[path], path)
	p, err := kind.Decode(m.nodes[path].data)
	require.NoError(t, err)
	return p
}

// settle applies a plan and asserts that nothing is left to do.
func settle(t testing.TB, m *model, p *plan.Plan, tree *plan.Tree) {
	require.True(t, p.Applyable(), "%s", p)
	m.apply(t, p)
	again := replan(t, m, tree)
	require.False(t, again.HasChanges(), "%s", again)
	require.True(t, again.Applyable())
}

func TestLockThatMovesLeavesATombstoneUntilItsMoveIsGone(t *testing.T) {
	m := applied(t, base())
	tree := base()
	tree.Nodes[3] = declare("/locks/pay/boss", kind.Election, addr("election.boss"))
	move := plan.Intent{Moves: []plan.Move{{From: "namespace.x.election.locks_solo", To: "election.boss"}}}
	p := replanIntent(t, m, tree, move)
	require.Equal(t, []string{"+ /locks/pay/boss", "~ /locks/solo"}, actions(p))
	require.Equal(t, "/locks/solo", p.Changes[1].PreviousPath)
	require.EqualValues(t, "namespace.x.election.locks_solo", p.Changes[1].PreviousAddr)
	old := p.Changes[len(p.Changes)-1]
	require.True(t, old.Tombstone)
	czxid := m.nodes["/locks/solo"].czxid
	settle(t, m, p, tree)
	require.NotEqual(t, czxid, m.nodes["/locks/solo"].czxid, "deleted and created again: proof that nobody was in it")
	require.Equal(t, kind.StateMoved, payloadAt(t, m, "/locks/solo").State)
	require.Equal(t, "/locks/pay/boss", payloadAt(t, m, "/locks/solo").MovedTo)
	require.EqualValues(t, 2, payloadAt(t, m, "/locks/pay/boss").Gen)

	p = replanIntent(t, m, tree, plan.Intent{})
	require.Equal(t, []string{"- /locks/solo"}, actions(p))
	require.Equal(t, plan.ReasonDeleteTombstone, p.Changes[0].Reason)
	settle(t, m, p, tree)
	require.Nil(t, m.nodes["/locks/solo"])
}

// A tombstone went on naming the address that its lock had when it moved. Programs follow to no other, so those at the old path lost
// the lock when it was only renamed.
func TestTombstoneNamesTheAddressThatItsLockHasNow(t *testing.T) {
	m := applied(t, base())
	tree := base()
	tree.Nodes[3] = declare("/locks/pay/boss", kind.Election, addr("election.boss"))
	moves := []plan.Move{{From: "namespace.x.election.locks_solo", To: "election.boss"}}
	settle(t, m, replanIntent(t, m, tree, plan.Intent{Moves: moves}), tree)
	require.Equal(t, "election.boss", payloadAt(t, m, "/locks/solo").MovedAs)

	tree.Nodes[3] = declare("/locks/pay/boss", kind.Election, addr("election.chief"))
	moves = append(moves, plan.Move{From: "election.boss", To: "election.chief"})
	before := *m.nodes["/locks/solo"]
	settle(t, m, replanIntent(t, m, tree, plan.Intent{Moves: moves}), tree)
	require.Equal(t, "election.chief", payloadAt(t, m, "/locks/solo").MovedAs)
	require.Equal(t, before.czxid, m.nodes["/locks/solo"].czxid, "who uses it stays")
	require.Empty(t, replan(t, m, tree).Drifted)
}

// A program that does not read marks queued in the old place beside the holder at the new one. It is refused there now. The list
// that a lock gets when it moves back is there with the lock: a transaction can set one only with a create.
func TestNobodyQueuesWhereALockWas(t *testing.T) {
	m := applied(t, base())
	tree := base()
	tree.Nodes[3] = declare("/locks/boss", kind.Election, addr("namespace.x.election.locks_solo"))
	settle(t, m, replan(t, m, tree), tree)
	all, left := kind.List{admin, worker}, kind.List{admin, worker}
	left[0].Perms, left[1].Perms = kind.PermAll&^kind.PermCreate, kind.PermRead
	require.Equal(t, left.String(), m.nodes["/locks/solo"].acl.String())
	require.Equal(t, all.String(), m.nodes["/locks/boss"].acl.String())

	back := base()
	live := m.read(t, testRoot, testStack)
	live.Find("/locks/solo").Live.Usage = &kind.Usage{Holders: []kind.Party{{Name: "latch-0000000001", ID: "host-a"}}}
	require.NotEmpty(t, plan.Diff(live, back, plan.Options{Identities: us}).InUse(), "somebody is there whom nobody at the new path saw")
	p := replan(t, m, back)
	require.Empty(t, p.ACLSteps())
	settle(t, m, p, back)
	require.Equal(t, all.String(), m.nodes["/locks/solo"].acl.String())
	require.Equal(t, left.String(), m.nodes["/locks/boss"].acl.String())
}

// Without a moved block: the name changed, the address did not.
func TestRenamedLockMovesAndItsTombstoneGoesWithTheNextApply(t *testing.T) {
	m := applied(t, base())
	same := addr("namespace.x.semaphore.locks_pay_pool")
	tree := base()
	tree.Nodes[2] = declare("/locks/pay/tank", kind.Semaphore, set("permits", 3), same)
	p := replan(t, m, tree)
	require.Equal(t, []string{"~ /locks/pay/pool", "+ /locks/pay/tank"}, actions(p))
	settle(t, m, p, tree)
	require.Nil(t, m.nodes["/locks/pay/pool/leases"])
	require.NotNil(t, m.nodes["/locks/pay/tank/leases"])

	tree.Nodes[1] = declare("/locks/pay/ledger", kind.Mutex, set("description", "x"))
	p = replan(t, m, tree)
	require.Equal(t, []string{"- /locks/pay/pool", "~ /locks/pay/ledger"}, actions(p))
	settle(t, m, p, tree)

	// And back again, over what an earlier move left.
	back := base()
	p = replan(t, m, back)
	settle(t, m, p, back)
	require.Equal(t, kind.StateMoved, payloadAt(t, m, "/locks/pay/tank").State)
	again := base()
	again.Nodes[2] = declare("/locks/pay/tank", kind.Semaphore, set("permits", 3), same)
	p = replan(t, m, again)
	require.Equal(t, []string{"~ /locks/pay/pool", "~ /locks/pay/tank"}, actions(p))
	settle(t, m, p, again)
	require.Equal(t, kind.StateActive, payloadAt(t, m, "/locks/pay/tank").State)
	require.NotNil(t, m.nodes["/locks/pay/tank/leases"], "the tombstone had none")
}

func TestNamespaceMovesWithEverythingInIt(t *testing.T) {
	m := applied(t, base())
	tree := declared(
		declare("/locks/cash", kind.Namespace),
		declare("/locks/cash/ledger", kind.Mutex),
		declare("/locks/cash/pool", kind.Semaphore, set("permits", 3)),
		declare("/locks/solo", kind.Election),
	)
	p := replanIntent(t, m, tree, plan.Intent{PathMoves: []plan.PathMove{{From: "/locks/pay", To: "/locks/cash"}}})
	require.Equal(t, plan.Counts{Add: 3, Change: 3}, p.Summary())
	settle(t, m, p, tree)
	for from, to := range map[string]string{"/locks/pay": "/locks/cash", "/locks/pay/ledger": "/locks/cash/ledger"} {
		require.Equal(t, to, payloadAt(t, m, from).MovedTo)
	}
	tree.Intent = plan.Intent{}
	p = replan(t, m, tree)
	require.Equal(t, []string{"- /locks/pay/pool", "- /locks/pay/ledger", "- /locks/pay"}, actions(p))
	settle(t, m, p, tree)
}

// The notes that a namespace left in its old place kept everything else out of it: they
// go only with other changes, and this one was refused for them.
func TestLockIsDeclaredWhereANamespaceMovedAway(t *testing.T) {
	m := applied(t, base())
	moved := declared(
		declare("/locks/cash", kind.Namespace, addr("namespace.x.namespace.locks_pay")),
		declare("/locks/cash/ledger", kind.Mutex, addr("namespace.x.mutex.locks_pay_ledger")),
		declare("/locks/cash/pool", kind.Semaphore, set("permits", 3), addr("namespace.x.semaphore.locks_pay_pool")),
		declare("/locks/solo", kind.Election),
	)
	settle(t, m, replan(t, m, moved), moved)
	require.Equal(t, kind.StateMoved, payloadAt(t, m, "/locks/pay/ledger").State)

	moved.Nodes = append(moved.Nodes, declare("/locks/pay", kind.Mutex))
	p := replan(t, m, moved)
	require.Equal(t, []string{"warning in_use"}, codes(p))
	require.Contains(t, p.Problems[0].Detail, "2 nodes, /locks/pay/ledger first", "who may create nodes in the root may create them again")
	require.Equal(t, []string{"- /locks/pay/pool", "- /locks/pay/ledger", "-/+ /locks/pay"}, actions(p))
	require.Empty(t, p.Changes[slices.IndexFunc(p.Changes, func(c plan.Change) bool { return c.Path == "/locks/pay" })].PreviousAddr,
		"what was called so is declared still, elsewhere")
	settle(t, m, p, moved)
}

func TestNamespaceGoesWithTheLastMarkInIt(t *testing.T) {
	m := applied(t, declared(declare("/locks/pay", kind.Namespace), declare("/locks/pay/ledger", kind.Mutex)))
	tree := declared(declare("/locks/ledger", kind.Mutex, addr("namespace.x.mutex.locks_pay_ledger")))
	for range 2 {
		p := replan(t, m, tree)
		require.Contains(t, p.Problems[0].Detail, "/locks/pay contains /locks/pay/ledger, which stays: the namespace is left where it is.")
		m.apply(t, p)
	}
	require.False(t, replan(t, m, tree).HasChanges(), "that alone is no reason for an apply")
	set("description", "x")(tree.Nodes[0])
	p := replan(t, m, tree)
	require.Equal(t, []string{"- /locks/pay/ledger", "- /locks/pay", "~ /locks/ledger"}, actions(p))
	settle(t, m, p, tree)
}

// As long as the move is declared its notes stay, and the way out is said.
func TestLockIsRefusedWhereTheNotesOfADeclaredMoveStand(t *testing.T) {
	m := applied(t, base())
	intent := plan.Intent{PathMoves: []plan.PathMove{{From: "/locks/pay", To: "/locks/cash"}}}
	moved := declared(declare("/locks/cash", kind.Namespace), declare("/locks/cash/ledger", kind.Mutex),
		declare("/locks/cash/pool", kind.Semaphore, set("permits", 3)), declare("/locks/solo", kind.Election))
	p := replanIntent(t, m, moved, intent)
	settle(t, m, p, moved)
	moved.Nodes = append(moved.Nodes, declare("/locks/pay", kind.Mutex))
	p = replanIntent(t, m, moved, intent)
	require.Equal(t, []string{"error unmanaged_child"}, codes(p))
	require.Contains(t, p.Problems[0].Detail, "/locks/pay contains /locks/pay/ledger, which stays (and 1 more): it cannot be replaced. "+
		"Give namespace.x.mutex.locks_pay another name, or delete the moved or removed block that keeps what is in it and plan the whole configuration.")
}

func TestLockInUseDoesNotMove(t *testing.T) {
	m := applied(t, base())
	live := m.read(t, testRoot, testStack)
	live.Find("/locks/solo").Live.Usage = &kind.Usage{Holders: []kind.Party{{Name: "latch-0000000001", ID: "host-a"}}}
	tree := base()
	tree.Nodes[3] = declare("/locks/boss", kind.Election, addr("namespace.x.election.locks_solo"))
	p := plan.Diff(live, tree, plan.Options{Identities: us})
	require.Equal(t, []string{"warning in_use"}, codes(p))
	require.Len(t, p.InUse(), 1)
	require.Contains(t, p.Problems[0].Detail, "moved to /locks/boss")
}

// It was renamed and then let go, and only then applied: it was deleted, because the
// ensemble knows it under the former address.
func TestLockThatMovedBeforeItWasLetGoIsNotDeleted(t *testing.T) {
	m := applied(t, base())
	rest := declared(base().Nodes[:3]...)
	intent := plan.Intent{
		Moves:    []plan.Move{{From: "namespace.x.election.locks_solo", To: "namespace.x.election.boss"}, {From: "namespace.x.election.boss", To: "election.boss"}},
		Removals: []plan.Removal{{From: "election.boss"}},
	}
	p := replanIntent(t, m, rest, intent)
	require.Equal(t, []string{". /locks/solo"}, actions(p))
	settle(t, m, p, rest)
	require.Empty(t, payloadAt(t, m, "/locks/solo").Owner.Stack)
}

// The namespace was to be deleted and one lock in it let go; the lock was deleted, too.
func TestLockIsLetGoOutOfANamespaceThatIsDeleted(t *testing.T) {
	const ledger, pay = "namespace.x.namespace.locks_pay.mutex.ledger", "namespace.x.namespace.locks_pay"
	tree := base()
	tree.Nodes[1] = declare("/locks/pay/ledger", kind.Mutex, addr(ledger))
	tree.Nodes[2] = declare("/locks/pay/pool", kind.Semaphore, set("permits", 3), addr(pay+".semaphore.pool"))
	m := applied(t, tree)
	rest := declared(base().Nodes[3])
	for name, intent := range map[string]plan.Intent{
		"under its address": {Removals: []plan.Removal{{From: pay, Destroy: true}, {From: ledger}}},
		"under a later one": {
			Moves:    []plan.Move{{From: ledger, To: "mutex.books"}},
			Removals: []plan.Removal{{From: "mutex.books"}, {From: pay, Destroy: true}},
		},
	} {
		require.Equal(t, []string{"- /locks/pay/pool", ". /locks/pay/ledger"}, actions(replanIntent(t, m, rest, intent)), name)
	}
	outer := plan.Intent{Removals: []plan.Removal{{From: pay}, {From: ledger, Destroy: true}}}
	require.Equal(t, []string{"- /locks/pay/ledger", ". /locks/pay", ". /locks/pay/pool"}, actions(replanIntent(t, m, rest, outer)))
}

func TestForgottenLockKeepsItsDeclarationAndCanBeTakenBack(t *testing.T) {
	tree := base()
	protect(tree.Nodes[3])
	m := applied(t, tree)
	rest := declared(base().Nodes[:3]...)
	p := replanIntent(t, m, rest, plan.Intent{Removals: []plan.Removal{{From: "namespace.x.election.locks_solo"}}})
	require.Equal(t, []string{". /locks/solo"}, actions(p))
	require.Equal(t, plan.Counts{Forget: 1}, p.Summary())
	settle(t, m, p, rest)
	left := payloadAt(t, m, "/locks/solo")
	require.Empty(t, left.Owner)
	require.True(t, left.Protect, "sticky")
	require.Equal(t, kind.StateActive, left.State)
	rest.Intent = plan.Intent{}
	require.False(t, replan(t, m, rest).HasChanges(), "nothing is planned for it any more")

	refused(t, replan(t, m, base()), "error foreign_node")
	p = replanIntent(t, m, base(), plan.Intent{Imports: []plan.Import{{To: "namespace.x.election.locks_solo", Path: "/locks/solo"}}})
	require.Equal(t, []string{"~ /locks/solo"}, actions(p))
	require.Equal(t, plan.Counts{Import: 1, Change: 1}, p.Summary())
	settle(t, m, p, base())
	require.Equal(t, testStack, payloadAt(t, m, "/locks/solo").Owner.Stack)
}

func TestNamespaceStaysForWhatIsForgottenInIt(t *testing.T) {
	m := applied(t, base())
	rest := declared(base().Nodes[3])
	p := replanIntent(t, m, rest, plan.Intent{Removals: []plan.Removal{{From: "namespace.x.mutex.locks_pay_ledger"}}})
	require.Equal(t, []string{"- /locks/pay/pool", ". /locks/pay/ledger"}, actions(p))
	require.Equal(t, []string{"warning unmanaged_child"}, codes(p))
	m.apply(t, p)
	require.NotNil(t, m.nodes["/locks/pay/ledger"])
}

func TestImportOfAnIdleNodeMakesItAnewAndOfABusyOneDoesNot(t *testing.T) {
	imp := plan.Intent{Imports: []plan.Import{{To: "namespace.x.election.locks_solo", Path: "/locks/solo"}}}
	for _, busy := range []bool{false, true} {
		m := applied(t, declared(base().Nodes[:3]...))
		m.nodes["/locks/solo"] = &mnode{acl: kind.WorldAll(), czxid: 7}
		want := []string{"-/+ /locks/solo"}
		if busy {
			m.nodes["/locks/solo/latch-0000000001"] = &mnode{acl: kind.WorldAll()}
			want = []string{"~ /locks/solo"}
		}
		p := replanIntent(t, m, base(), imp)
		require.Equal(t, want, actions(p))
		require.Equal(t, 1, p.Summary().Import)
		require.Equal(t, busy, m.nodes["/locks/solo/latch-0000000001"] != nil && codes(p)[0] == "warning container")
		m.apply(t, p)
		require.Equal(t, busy, m.nodes["/locks/solo"].czxid == 7)
		require.True(t, m.nodes["/locks/solo"].acl.Equal(base().Nodes[3].ACL))
		tree := base()
		tree.Intent = imp
		if !busy { // the model knows no contenders
			require.False(t, replan(t, m, tree).HasChanges())
		}
	}
}

func TestImportToAnotherPathLeavesATombstone(t *testing.T) {
	m := applied(t, declared(base().Nodes[:3]...))
	m.nodes["/locks/curator"] = &mnode{acl: kind.WorldAll(), czxid: 7}
	tree := base()
	tree.Intent = plan.Intent{Imports: []plan.Import{{To: "namespace.x.election.locks_solo", Path: "/locks/curator", Target: "/locks/solo"}}}
	p := replan(t, m, tree)
	require.Equal(t, []string{"~ /locks/curator", "+ /locks/solo"}, actions(p))
	require.Equal(t, plan.Counts{Import: 1, Add: 1, Change: 1}, p.Summary(), "one lock is imported, though two nodes are written")
	settle(t, m, p, tree)
	require.Equal(t, "/locks/solo", payloadAt(t, m, "/locks/curator").MovedTo)
}

func TestImportThatIsNotToBeIsRefused(t *testing.T) {
	other := declare("/locks/solo", kind.Election)
	other.Payload.Owner.Stack = "other"
	theirs, err := other.Payload.Encode()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		data      []byte
		overwrite bool
		want      []string
	}{
		"foreign data":        {[]byte("precious"), false, []string{"error import"}},
		"other stack's":       {theirs, true, []string{"error import"}},
		"foreign, overwriten": {[]byte("precious"), true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := applied(t, declared(base().Nodes[:3]...))
			m.nodes["/locks/solo"] = &mnode{data: c.data, acl: kind.WorldAll()}
			tree := base()
			tree.Intent = plan.Intent{Imports: []plan.Import{{To: "namespace.x.election.locks_solo", Path: "/locks/solo"}}}
			p := plan.Diff(m.read(t, testRoot, testStack), tree, plan.Options{Identities: us, OverwriteData: c.overwrite})
			require.Equal(t, c.want, codes(p))
			if c.want != nil {
				require.Empty(t, actions(p))
			}
		})
	}
}

// The import was passed over: the lock was deleted, and an empty one made at the new path.
func TestImportOfWhatTheStackHasAlreadyIsRefused(t *testing.T) {
	m := applied(t, base())
	tree := declared(base().Nodes[:3]...)
	tree.Nodes = append(tree.Nodes, declare("/locks/boss", kind.Election))
	imports := []plan.Import{{To: "namespace.x.election.locks_boss", Path: "/locks/solo", Target: "/locks/boss"}}
	p := replanIntent(t, m, tree, plan.Intent{Imports: imports})
	require.Equal(t, []string{"error import"}, codes(p))
	require.Equal(t, "/locks/solo is this stack's already, as namespace.x.election.locks_solo. "+
		"Declare moved { from = namespace.x.election.locks_solo, to = namespace.x.election.locks_boss } instead of the import.", p.Problems[0].Detail)

	moves := []plan.Move{{From: "namespace.x.election.locks_solo", To: "namespace.x.election.locks_boss"}}
	p = replanIntent(t, m, tree, plan.Intent{Imports: imports, Moves: moves})
	require.Equal(t, plan.Counts{Add: 1, Change: 1}, p.Summary(), "what moves is not imported")
	settle(t, m, p, tree)
}

// Its block may stand there for ever; what was imported once is moved like any other lock.
func TestImportedLockThatMovesIsNotImportedAgain(t *testing.T) {
	m := applied(t, declared(base().Nodes[:3]...))
	m.nodes["/locks/curator"] = &mnode{acl: kind.WorldAll(), czxid: 7}
	tree := base()
	intent := plan.Intent{Imports: []plan.Import{{To: "namespace.x.election.locks_solo", Path: "/locks/curator", Target: "/locks/solo"}}}
	settle(t, m, replanIntent(t, m, tree, intent), tree)
	tree.Nodes[3] = declare("/locks/boss", kind.Election, addr("namespace.x.election.locks_solo"))
	intent.Imports[0].Target = "/locks/boss"
	p := replanIntent(t, m, tree, intent)
	require.Equal(t, plan.Counts{Add: 1, Change: 1}, p.Summary())
	m.apply(t, p)
	require.False(t, replanIntent(t, m, tree, intent).HasChanges())
}
