package diff_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/tx"
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

func TestALockWhosePathChangesIsReplacedInOneTransaction(t *testing.T) {
	const old = "namespace.x.election.locks_solo"
	m, tree := applied(t, base()), base()
	tree.Nodes[3] = declare("/locks/boss", kind.Election, addr("election.boss"), set("description", "x"))
	p := replanIntent(t, m, tree, plan.Intent{Moves: []plan.Move{{From: old, To: "election.boss"}}})
	require.Equal(t, []string{"- /locks/solo", "+ /locks/boss"}, actions(p))
	require.Equal(t, []string{"warning open_root"}, codes(p))
	shown := shown(p)
	require.Len(t, shown, 1)
	require.Equal(t, plan.Replace, shown[0].Action)
	require.Equal(t, "because its path changes from /locks/solo to /locks/boss", shown[0].ReasonText())
	require.EqualValues(t, "election.boss", shown[0].Addr)
	require.EqualValues(t, old, shown[0].PreviousAddr)
	require.Equal(t, []string{"path"}, shown[0].ForcesReplace)
	require.Equal(t, "description", shown[0].Params[0].Name)
	require.Equal(t, "/locks/solo", shown[0].Before.Path)
	require.True(t, shown[0].NeedsIdle())
	require.Equal(t, [][]string{{"/locks/solo", "/locks/boss"}}, smallest(t, m, p))
	require.False(t, replan(t, m, tree).HasChanges())
}

// shown returns the changes that a person reads, without those that change nothing.
func shown(p *plan.Plan) []*plan.Change {
	return slices.DeleteFunc(p.Shown(), func(c *plan.Change) bool { return c.Action == plan.NoOp })
}

// smallest applies a plan in the smallest possible transactions. It returns the paths that each of them changes.
func smallest(t *testing.T, m *model, p *plan.Plan) (paths [][]string) {
	require.True(t, p.Applyable(), "%s", p)
	require.NoError(t, tx.Each(p, "0123456789abcdef", kind.WorldAll(), func(batch *tx.Transaction) error {
		if batch.Divisible {
			return tx.ErrTooLong
		}
		one := []string{}
		for _, op := range batch.Ops {
			if op.Addr != "" && op.Kind != tx.OpCheck {
				one = append(one, op.Path)
			}
		}
		if len(one) > 0 {
			paths = append(paths, one)
		}
		return m.multi(batch.Ops)
	}))
	return paths
}

// Each of two locks gets the path of the other, or of a third one. If a node only got another address, its lock would have two paths for a
// while. Programs that hold it at the old one do not notice.
func TestLocksThatTakeEachOthersPathsAreReplacedTogether(t *testing.T) {
	mutex := func(path, a string) *plan.Node { return declare(path, kind.Mutex, addr(a)) }
	before := declared(mutex("/locks/a", "mutex.a"), mutex("/locks/b", "mutex.b"))
	for name, c := range map[string]struct {
		after  *plan.Tree
		raw    []string
		shown  []string
		counts plan.Counts
		unit   []string
	}{
		"each other's": {
			declared(mutex("/locks/a", "mutex.b"), mutex("/locks/b", "mutex.a")),
			[]string{"-/+ /locks/a", "-/+ /locks/b"}, []string{"-/+ mutex.b /locks/b > /locks/a", "-/+ mutex.a /locks/a > /locks/b"},
			plan.Counts{Add: 2, Destroy: 2}, []string{"/locks/b", "/locks/a", "/locks/a", "/locks/b"},
		},
		"a row of them": {
			declared(mutex("/locks/b", "mutex.a"), mutex("/locks/c", "mutex.b")),
			[]string{"- /locks/a", "-/+ /locks/b", "+ /locks/c"}, []string{"-/+ mutex.a /locks/a > /locks/b", "-/+ mutex.b /locks/b > /locks/c"},
			plan.Counts{Add: 2, Destroy: 2}, []string{"/locks/b", "/locks/a", "/locks/b", "/locks/c"},
		},
		"a new lock takes it": {
			declared(mutex("/locks/0", "mutex.b"), mutex("/locks/a", "mutex.a"), mutex("/locks/b", "mutex.c")),
			[]string{"+ /locks/0", "-/+ /locks/b"}, []string{"-/+ mutex.b /locks/b > /locks/0", "+ mutex.c /locks/b"},
			plan.Counts{Add: 2, Destroy: 1}, []string{"/locks/b", "/locks/0", "/locks/b"},
		},
		"of a lock that goes": {
			declared(declare("/locks/b", kind.RWLock, addr("rwlock.n")), mutex("/locks/c", "mutex.b")),
			[]string{"- /locks/a", "-/+ /locks/b", "+ /locks/c"}, []string{"- mutex.a /locks/a", "+ rwlock.n /locks/b", "-/+ mutex.b /locks/b > /locks/c"},
			plan.Counts{Add: 2, Destroy: 2}, []string{"/locks/b", "/locks/b", "/locks/c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := applied(t, before)
			p := replan(t, m, c.after)
			require.Equal(t, c.raw, actions(p))
			require.Equal(t, c.counts, p.Summary())
			var lines []string
			for _, s := range shown(p) {
				line := s.Action.Symbol() + " " + string(s.Addr) + " "
				if s.PreviousPath != "" {
					line += s.PreviousPath + " > "
				}
				lines = append(lines, line+s.Path)
			}
			require.Equal(t, c.shown, lines)
			require.Contains(t, smallest(t, m, p), c.unit)
			require.False(t, replan(t, m, c.after).HasChanges())

			live := applied(t, before).read(t, testRoot, testStack)
			live.Find("/locks/b").Live.Usage = &kind.Usage{Holders: []kind.Party{{Name: "_c_1-lock-0000000001", ID: "host-a"}}}
			require.Len(t, diff.Compare(live, c.after, plan.Options{Identities: us}).InUse(), 1)
		})
	}
}

// A lock moves into a namespace that takes the lock's path, and back.
func TestALockChangesPlacesWithTheNamespaceAroundIt(t *testing.T) {
	alone := declared(declare("/locks/x", kind.Mutex, addr("mutex.m")))
	inside := declared(declare("/locks/x", kind.Namespace, addr("namespace.x")), declare("/locks/x/m", kind.Mutex, addr("mutex.m")))
	m := applied(t, alone)
	for _, tree := range []*plan.Tree{inside, alone} {
		p := replan(t, m, tree)
		require.Len(t, smallest(t, m, p), 1)
		again := replan(t, m, tree)
		require.False(t, again.HasChanges(), "%s", again)
	}
}

// The record of a job moves along, so the job is not done twice in a slot because its path changed.
func TestTheRecordOfAJobGoesToItsNewPath(t *testing.T) {
	job := func(path string) *plan.Tree {
		return declared(declare(path, kind.Once, addr("once.job"), set("schedule", "0 * * * *")))
	}
	m := applied(t, job("/locks/old"))
	live := m.read(t, testRoot, testStack)
	part := &live.Nodes[0].Live.Parts[slices.IndexFunc(live.Nodes[0].Live.Parts, func(p plan.Part) bool { return p.Name == kind.Once.Record })]
	part.Written, part.Record, part.Version = true, []byte("done"), 7
	ops, err := operations(diff.Compare(live, job("/locks/new"), plan.Options{Identities: us}), "0123456789abcdef", kind.WorldAll())
	require.NoError(t, err)
	at := func(k tx.OpKind, path string) tx.Op {
		return ops[slices.IndexFunc(ops, func(op tx.Op) bool { return op.Kind == k && op.Path == path })]
	}
	require.Equal(t, "done", string(at(tx.OpCreate, "/locks/new/"+part.Name).Data))
	require.EqualValues(t, 7, at(tx.OpDelete, "/locks/old/"+part.Name).Version, "a slot that is done meanwhile is not lost")
}

func TestANamespaceGetsAnotherPathWithEverythingInIt(t *testing.T) {
	m, solo := applied(t, base()), declare("/locks/solo", kind.Election)
	moved := []*plan.Node{
		declare("/locks/cash", kind.Namespace, addr("namespace.x.namespace.locks_pay")),
		declare("/locks/cash/ledger", kind.Mutex, addr("namespace.x.mutex.locks_pay_ledger")),
		declare("/locks/cash/pool", kind.Semaphore, set("permits", 3), addr("namespace.x.semaphore.locks_pay_pool")),
	}
	tree := declared(append(moved, solo)...)
	p := replan(t, m, tree)
	require.Equal(t, plan.Counts{Add: 3, Destroy: 3}, p.Summary())
	require.Len(t, shown(p), 3)
	require.Equal(t, [][]string{{"/locks/cash"}, {"/locks/pay/pool/leases", "/locks/pay/pool/locks", "/locks/pay/pool", "/locks/cash/pool", "/locks/cash/pool/leases", "/locks/cash/pool/locks"},
		{"/locks/pay/ledger", "/locks/cash/ledger"}, {"/locks/pay"}}, smallest(t, m, p))
	again := replan(t, m, tree)
	require.False(t, again.HasChanges(), "%s", again)

	// Another lock is declared at the old path of the namespace.
	m, tree = applied(t, base()), declared(append(moved, declare("/locks/pay", kind.Mutex), solo)...)
	p = replan(t, m, tree)
	require.Equal(t, []string{"- /locks/pay/pool", "- /locks/pay/ledger", "+ /locks/cash", "+ /locks/cash/ledger", "+ /locks/cash/pool", "-/+ /locks/pay"}, actions(p))
	require.Empty(t, p.Changes[slices.IndexFunc(p.Changes, func(c plan.Change) bool { return c.Path == "/locks/pay" })].PreviousAddr,
		"what was called so is declared still, elsewhere")
	smallest(t, m, p)
	require.False(t, replan(t, m, tree).HasChanges())
}

// Such a change would have counted as the loss of most locks of a namespace.
func TestLocksThatGetOtherPathsAreNoMassDestruction(t *testing.T) {
	before, after := declared(), declared()
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		before.Nodes = append(before.Nodes, declare("/locks/"+name, kind.Mutex, addr("mutex."+name)))
		after.Nodes = append(after.Nodes, declare("/locks/"+name+"2", kind.Mutex, addr("mutex."+name)))
	}
	m := applied(t, before)
	settle(t, m, replan(t, m, after), after)
}

func TestANamespaceGoesWithTheLastLockThatLeavesIt(t *testing.T) {
	m := applied(t, declared(declare("/locks/pay", kind.Namespace), declare("/locks/pay/ledger", kind.Mutex)))
	tree := declared(declare("/locks/ledger", kind.Mutex, addr("namespace.x.mutex.locks_pay_ledger")))
	p := replan(t, m, tree)
	require.Equal(t, []string{"- /locks/pay/ledger", "- /locks/pay", "+ /locks/ledger"}, actions(p))
	settle(t, m, p, tree)
}

// While a forgotten lock stays in a namespace, no lock takes the namespace's place. The plan says the way out.
func TestLockIsRefusedWhereSomethingIsForgotten(t *testing.T) {
	m := applied(t, base())
	tree := declared(declare("/locks/pay", kind.Mutex), declare("/locks/solo", kind.Election))
	p := replanIntent(t, m, tree, plan.Intent{Removals: []plan.Removal{{From: "namespace.x.mutex.locks_pay_ledger"}}})
	require.Equal(t, []string{"error unmanaged_child"}, codes(p))
	require.Contains(t, p.Problems[0].Detail, "/locks/pay contains /locks/pay/ledger, which stays: it cannot be replaced. "+
		"Give namespace.x.mutex.locks_pay another name, or delete the block \"removed\" that keeps what is in it and plan the whole configuration.")
}

func TestALockInUseKeepsItsPath(t *testing.T) {
	const solo = "namespace.x.election.locks_solo"
	m := applied(t, base())
	live := m.read(t, testRoot, testStack)
	live.Find("/locks/solo").Live.Usage = &kind.Usage{Holders: []kind.Party{{Name: "latch-0000000001", ID: "host-a"}}}
	tree := base()
	tree.Nodes[3] = declare("/locks/boss", kind.Election, addr(solo))
	for _, c := range []struct {
		opts plan.Options
		code string
		says string
	}{
		{plan.Options{}, "warning in_use", "would be replaced by one at /locks/boss, but it has 1 holder (host-a). Apply refuses until it is idle."},
		{plan.Options{Drain: time.Minute}, "warning in_use", "Apply makes the lock grant nothing new, waits 60 seconds for it to become idle, and refuses otherwise."},
		{plan.Options{Drain: 200 * time.Millisecond}, "warning in_use", "waits 1 second for it"},
		{plan.Options{ForceBreak: []string{solo}}, "warning force_break", "will be replaced by one at /locks/boss although it has 1 holder (host-a)"},
	} {
		c.opts.Identities = us
		p := diff.Compare(live, tree, c.opts)
		require.Contains(t, codes(p), c.code)
		require.Len(t, p.InUse(), 1)
		require.Contains(t, p.Problems[slices.IndexFunc(p.Problems, func(q plan.Problem) bool { return "warning "+string(q.Code) == c.code })].Detail, c.says)
	}
	live.Find("/locks/solo").Payload.Protect = true
	p := diff.Compare(live, tree, plan.Options{Identities: us})
	require.Equal(t, "Protected node cannot be replaced", p.Problems[0].Summary)
}

// A program of another library that still uses the old path creates the lock there, if it may create nodes.
func TestAPlanSaysWhoCanCreateTheOldPath(t *testing.T) {
	clerk := kind.ACL{Scheme: "digest", ID: "clerk:CCCC=", Perms: kind.PermCreate | kind.PermRead}
	admins := &plan.Access{Admins: kind.List{admin}}
	root := func(list kind.List) []plan.Framed {
		return []plan.Framed{{Path: testRoot, ACL: list, Pin: plan.Pin{Path: testRoot, Czxid: 3}}}
	}
	for name, c := range map[string]struct {
		around, root kind.List
		keep         bool // the namespace
		says         string
	}{
		"of nobody":                        {kind.List{admin}, kind.List{admin}, true, ""},
		"in the namespace":                 {kind.List{admin, clerk}, kind.List{admin}, true, "Others may create nodes in /locks/pay."},
		"around a namespace that goes":     {kind.List{admin}, kind.List{admin, clerk}, false, "Others may create nodes in /locks."},
		"not in the namespace around that": {kind.List{admin}, kind.List{admin, clerk}, true, ""},
		"in a namespace that goes":         {kind.List{admin, clerk}, kind.List{admin}, false, ""},
		"around it, as far as is known":    {kind.List{admin}, nil, false, "We may not see who may create nodes in /locks."},
	} {
		t.Run(name, func(t *testing.T) {
			before := declared(declare("/locks/pay", kind.Namespace, acl(c.around...)), declare("/locks/pay/ledger", kind.Mutex, addr("mutex.ledger")))
			m := applied(t, before)
			live := m.read(t, testRoot, testStack)
			live.Frame = root(c.root)
			tree := declared(declare("/locks/ledger", kind.Mutex, addr("mutex.ledger")))
			if c.keep {
				tree.Nodes = append(tree.Nodes, before.Nodes[0])
			}
			tree.Intent.Access = admins
			if c.root == nil {
				live.Frame = nil
			}
			p := diff.Compare(live, tree, plan.Options{Identities: us})
			i := slices.IndexFunc(p.Problems, func(q plan.Problem) bool { return q.Summary == "Others may create a lock at an old path" })
			require.Equal(t, c.says == "", i < 0, "%v", p.Problems)
			if i >= 0 {
				require.Equal(t, problem.Warning, p.Problems[i].Severity)
				require.Contains(t, p.Problems[i].Detail, "Apply replaces 1 lock by one at another path, /locks/pay/ledger first. "+c.says)
			}
		})
	}
}

// A node with a copied mark, or a namespace that had to stay, has the address of another node.
func TestOnlyOneNodeIsTheLockOfAnAddress(t *testing.T) {
	m := applied(t, base())
	m.nodes["/locks/copy"] = &mnode{data: m.nodes["/locks/solo"].data, acl: m.nodes["/locks/solo"].acl}
	p := replan(t, m, base())
	require.Equal(t, []string{"- /locks/copy"}, actions(p))
	require.Empty(t, p.Changes[0].NextPath)
	require.Empty(t, p.Changes[0].ReasonText(), "its address is declared")

	tree := base()
	tree.Nodes[3] = declare("/locks/boss", kind.Election, addr("namespace.x.election.locks_solo"))
	p = replan(t, m, tree)
	require.Equal(t, []string{"- /locks/solo", "- /locks/copy", "+ /locks/boss"}, actions(p))
	require.Equal(t, "/locks/copy", p.Changes[slices.IndexFunc(p.Changes, func(c plan.Change) bool { return c.Path == "/locks/boss" })].PreviousPath, "the first")
	settle(t, m, p, tree)
}

// A lock was renamed and then forgotten, without an apply in between. The plan deleted it, because the ensemble knows it under the former
// address.
func TestLockThatMovedBeforeItWasLetGoIsNotDeleted(t *testing.T) {
	tree := base()
	protect(tree.Nodes[3])
	m := applied(t, tree)
	rest := declared(base().Nodes[:3]...)
	intent := plan.Intent{
		Moves:    []plan.Move{{From: "namespace.x.election.locks_solo", To: "namespace.x.election.boss"}, {From: "namespace.x.election.boss", To: "election.boss"}},
		Removals: []plan.Removal{{From: "election.boss"}},
	}
	p := replanIntent(t, m, rest, intent)
	require.Equal(t, []string{". /locks/solo"}, actions(p))
	settle(t, m, p, rest)
	require.Empty(t, payloadAt(t, m, "/locks/solo").Owner)
	require.True(t, payloadAt(t, m, "/locks/solo").Protect, "sticky")
}

// A plan was to delete a namespace and forget one lock in it. It deleted that lock, too.
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

// The plan ignored the import: it deleted the lock, and created an empty one at the new path.
func TestImportOfWhatTheStackHasAlreadyIsRefused(t *testing.T) {
	m := applied(t, base())
	tree := declared(base().Nodes[:3]...)
	tree.Nodes = append(tree.Nodes, declare("/locks/boss", kind.Election))
	imports := []plan.Import{{To: "namespace.x.election.locks_boss", Path: "/locks/solo"}}
	require.Equal(t, []string{"error import"}, codes(replanIntent(t, m, tree, plan.Intent{Imports: imports})))
	moves := []plan.Move{{From: "namespace.x.election.locks_solo", To: "namespace.x.election.locks_boss"}}
	p := replanIntent(t, m, tree, plan.Intent{Imports: imports, Moves: moves})
	require.Equal(t, plan.Counts{Add: 1, Destroy: 1}, p.Summary(), "what continues under that address is not imported")
	settle(t, m, p, tree)
}

// An import by command has no block that a person could remove.
func TestImportByCommandSpeaksOfNoBlock(t *testing.T) {
	session := &plan.Tree{Nodes: []*plan.Node{{Path: "/elsewhere", Live: &plan.Live{Ephemeral: true}}}}
	for _, c := range []struct {
		current   *plan.Tree
		byCommand bool
	}{{session, true}, {session, false}, {nil, true}} {
		tree := base()
		tree.Intent = plan.Intent{Imports: []plan.Import{{To: "namespace.x.election.locks_solo", Path: "/elsewhere", ByCommand: c.byCommand}}}
		p := diff.Compare(c.current, tree, plan.Options{Identities: us})
		refused(t, p, "error import")
		require.Equal(t, !c.byCommand, strings.Contains(p.Problems[0].Detail, "import block"), p.Problems[0].Detail)
		require.Contains(t, p.Problems[0].Detail, "Correct the path")
	}
}

// The replacement that an import needs was refused as in use, even if the lock was to be broken.
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

// The block of a finished import stays, and the imported lock gets other paths. No node has to be at the path in the block.
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

func TestAnEmptyNamespaceThatWasLetGoBecomesALock(t *testing.T) {
	m := applied(t, declared(declare("/locks/pay", kind.Namespace)))
	m.apply(t, replanIntent(t, m, declared(), plan.Intent{Removals: []plan.Removal{{From: "namespace.x.namespace.locks_pay"}}}))
	tree := declared(declare("/locks/pay", kind.Mutex, addr("mutex.pay")))
	tree.Intent.Imports = []plan.Import{{To: "mutex.pay", Path: "/locks/pay"}}
	settle(t, m, replan(t, m, tree), tree)
}

// A protected lock in another program's node is also replaced when it is idle, because it stays the same lock. It is not replaced if it is
// in use when the plan is applied.
func TestProtectedLockThatMayBeAContainerIsMadeAnew(t *testing.T) {
	tree := base()
	protect(tree.Nodes[3])
	tree.Intent.Imports = []plan.Import{{To: tree.Nodes[3].Addr, Path: "/locks/solo"}}
	m := applied(t, declared(base().Nodes[:3]...))
	m.nodes["/locks/solo"] = &mnode{acl: kind.WorldAll()}
	live := m.read(t, testRoot, testStack)
	live.Find("/locks/solo").Live.Children = 1
	m.apply(t, diff.Compare(live, tree, plan.Options{Identities: us}))
	for action, tree := range map[plan.Action]*plan.Tree{plan.NoOp: tree, plan.Update: base()} {
		p := replan(t, m, tree)
		require.Equal(t, []string{"-/+ /locks/solo"}, actions(p))
		require.Empty(t, p.Problems)
		require.True(t, p.Changes[3].Leave())
		require.False(t, p.Changes[3].Leave())
		require.Equal(t, action, p.Changes[3].Action)
		require.Equal(t, kind.MadeElsewhere, p.Changes[3].After.Payload.Made, "an update keeps the node")
	}
	settle(t, m, replan(t, m, tree), tree)
}
