package diff_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// refused asserts that a plan cannot be applied, for these reasons only.
func refused(t *testing.T, p *plan.Plan, want ...string) {
	t.Helper()
	require.Equal(t, want, codes(p))
	require.False(t, p.Applyable())
	for _, q := range p.Problems {
		require.NotEmpty(t, q.Summary)
		require.NotContains(t, q.Detail, "AAAA", "a digest is shown")
		require.True(t, strings.HasSuffix(q.Detail, "."), q.Detail)
	}
}

func TestTroubledNodesAreNotOverwritten(t *testing.T) {
	for trouble, want := range map[plan.Trouble]string{
		plan.TroubleForeign: "error foreign_node", plan.TroubleNewer: "error newer_format",
		plan.TroubleDamaged: "error damaged", plan.TroubleUnreadable: "error unreadable",
	} {
		quoted := base()
		quoted.Nodes[3].Addr = `mutex.a["it's $1"]`
		tree := applied(t, base()).read(t, testRoot, testStack)
		n := tree.Find("/locks/solo")
		n.Payload, n.Live.Trouble, n.Live.Detail = nil, trouble, "why"
		refused(t, diff.Compare(tree, base(), plan.Options{Identities: us}), want)
		p := diff.Compare(tree, quoted, plan.Options{Identities: us})
		require.Empty(t, actions(p))
		if trouble == plan.TroubleDamaged { // the command can be copied into a shell
			require.Contains(t, p.Problems[0].Detail, `locktree import -overwrite-data 'mutex.a["it'\''s $1"]' /locks/solo`)
		}

		rest := base()
		rest.Nodes = rest.Nodes[:3]
		p = diff.Compare(tree, rest, plan.Options{Identities: us})
		require.Empty(t, codes(p), "nobody's")
		require.Empty(t, actions(p))

		p = diff.Compare(tree, base(), plan.Options{Identities: us, Destroy: true})
		if trouble == plan.TroubleForeign {
			require.Empty(t, codes(p), "it is forgotten")
		} else {
			refused(t, p, want)
		}
		require.NotContains(t, actions(p), "- /locks/solo")
	}
}

func TestEphemeralNodeIsNeverOurs(t *testing.T) {
	tree := applied(t, base()).read(t, testRoot, testStack)
	tree.Find("/locks/solo").Live.Ephemeral = true
	p := diff.Compare(tree, base(), plan.Options{Identities: us})
	require.False(t, p.Applyable())
	require.Empty(t, actions(p))
}

func TestProtectedNodeIsNotReplaced(t *testing.T) {
	m := applied(t, base())
	tree := base()
	protect(tree.Nodes[1])
	set("wire", "kazoo")(tree.Nodes[1])
	p := replan(t, m, tree)
	refused(t, p, "error protected")
	require.Contains(t, p.Problems[0].Detail, "replaced")
}

func held(tree *plan.Tree, path string, holders, waiters int) *plan.Tree {
	u := &kind.Usage{}
	for i := range holders + waiters {
		h := kind.Party{Name: fmt.Sprintf("_c_%032d-lease-%010d", i, i), ID: fmt.Sprintf("host-%d/1", i)}
		if i < holders {
			u.Holders = append(u.Holders, h)
		} else {
			u.Waiters = append(u.Waiters, h)
		}
	}
	tree.Find(path).Live.Usage = u
	return tree
}

func TestWorldWritableIsRefused(t *testing.T) {
	open := acl(admin, kind.ACL{Scheme: "world", ID: "anyone", Perms: kind.PermRead | kind.PermCreate})
	tree := declared(declare("/locks/a", kind.Mutex, open), declare("/locks/b", kind.Mutex, open), declare("/locks/c", kind.Mutex))
	p := diff.Compare(nil, tree, plan.Options{Identities: us})
	refused(t, p, "error world_writable", "error world_writable")
	for _, n := range tree.Nodes {
		n.AllowWorld = true
	}
	require.Empty(t, diff.Compare(nil, tree, plan.Options{Identities: us}).Problems)

	reading := acl(admin, kind.ACL{Scheme: "world", ID: "anyone", Perms: kind.PermRead})
	require.Empty(t, diff.Compare(nil, declared(declare("/locks/a", kind.Mutex, reading)), plan.Options{Identities: us}).Problems)
	everywhere := acl(admin, kind.ACL{Scheme: "ip", ID: "0.0.0.0/0", Perms: kind.PermAll})
	refused(t, diff.Compare(nil, declared(declare("/locks/a", kind.Mutex, everywhere)), plan.Options{Identities: us}), "error world_writable")
	contenders := func(n *plan.Node) { n.Payload.ChildACL = kind.WorldAll() }
	refused(t, diff.Compare(nil, declared(declare("/locks/a", kind.Mutex, contenders)), plan.Options{Identities: us}), "error world_writable")
}

func TestLockOutIsRefused(t *testing.T) {
	m := applied(t, base())
	tree := base()
	for _, n := range tree.Nodes {
		n.ACL = kind.List{worker}
	}
	p := replan(t, m, tree)
	require.False(t, p.Applyable())
	require.Equal(t, problem.LockOut, p.Problems[0].Code)
	require.Contains(t, p.Problems[0].Detail, "on /locks/pay, which depends on digest:provisioner now")
	for _, n := range tree.Nodes {
		n.AllowLockout = true
	}
	require.True(t, replan(t, m, tree).Applyable())

	// A lock needs fewer rights than a namespace.
	rwa := admin
	rwa.Perms = kind.PermRead | kind.PermWrite | kind.PermAdmin
	require.Empty(t, diff.Compare(nil, declared(declare("/locks/a", kind.Mutex, acl(rwa))), plan.Options{Identities: us}).Problems)
	refused(t, diff.Compare(nil, declared(declare("/locks/a", kind.Namespace, acl(rwa))), plan.Options{Identities: us}), "error lock_out")
	refused(t, diff.Compare(nil, declared(declare("/locks/a", kind.Semaphore, acl(rwa))), plan.Options{Identities: us}), "error lock_out")

	// Only the servers know who has an address.
	ip := kind.ACL{Scheme: "ip", ID: "10.0.0.0/8", Perms: kind.PermAll}
	p = diff.Compare(nil, declared(declare("/locks/a", kind.Mutex, acl(ip))), plan.Options{Identities: us})
	require.Equal(t, []string{"warning lock_out"}, codes(p))
}

// A program that forgot its identities got a plan that was not checked.
func TestAPlanForNobodyIsRefused(t *testing.T) {
	p := diff.Compare(nil, declared(declare("/locks/a", kind.Mutex, acl(worker))), plan.Options{})
	require.Equal(t, []string{"error no_identities"}, codes(p))
}

func TestBadDeclarationsAreProblemsNotPanics(t *testing.T) {
	bad := func(n *plan.Node) { n.Payload.Params.(*kind.SemaphoreParams).Permits = 0 }
	none := func(n *plan.Node) { n.ACL = nil }
	empty := &plan.Node{Path: "/locks/e", Addr: "mutex.e"}
	for want, nodes := range map[string][]*plan.Node{
		"error damaged":        {declare("/locks/s", kind.Semaphore, bad)},
		"error no_acl":         {declare("/locks/a", kind.Mutex, none)},
		"error duplicate_path": {declare("/locks/a", kind.Mutex), declare("/locks/a", kind.Mutex, addr("mutex.two"))},
		"error no_parent":      {declare("/locks/a/b", kind.Mutex)},
	} {
		refused(t, diff.Compare(nil, declared(nodes...), plan.Options{Identities: us}), want)
	}
	refused(t, diff.Compare(nil, declared(empty), plan.Options{Identities: us}), "error damaged")
	refused(t, diff.Compare(nil, declared(declare("/locks/a", kind.Mutex), declare("/locks/a/b", kind.Mutex)), plan.Options{Identities: us}), "error no_parent")
	for _, path := range []string{"/elsewhere", "/locks", "/locks/.locktree", "/locks/.locktree/stacks", "/locks/../x", "/locks/a/", "/lockssuffix"} {
		p := diff.Compare(nil, declared(declare(path, kind.Mutex)), plan.Options{Identities: us})
		refused(t, p, "error illegal_path")
		require.Empty(t, actions(p), path)
	}
}

// The servers compare a subject as text, so the other order locks its author out.
func TestCertificateNamedBackwardsLocksOut(t *testing.T) {
	id := kind.List{{Scheme: "world", ID: "anyone"}, {Scheme: "x509", ID: "O=Acme,OU=ops,CN=alice"}}
	for subject, ok := range map[string]bool{"O=Acme,OU=ops,CN=alice": true, "CN=alice,OU=ops,O=Acme": false, "CN=bob": false} {
		n := declare("/locks/solo", kind.Election, acl(kind.ACL{Scheme: "x509", ID: subject, Perms: kind.PermAll}))
		p := diff.Compare(nil, declared(n), plan.Options{Identities: id})
		require.Equal(t, ok, p.Applyable(), subject)
		if !ok {
			require.Equal(t, []string{"error lock_out"}, codes(p))
			require.Equal(t, subject != "CN=bob", strings.Contains(p.Problems[0].Detail, `write "O=Acme,OU=ops,CN=alice"`))
		}
	}
}

// A destroy deleted the namespace around a lock that it forgets, if something different was declared at the lock's path. The servers
// refused the transaction.
func TestDestroyKeepsTheNamespaceOfWhatItLetsGo(t *testing.T) {
	m := applied(t, base())
	tree := declared(base().Nodes[0], declare("/locks/pay/ledger", kind.RWLock), base().Nodes[2], base().Nodes[3])
	tree.Intent.Removals = []plan.Removal{{From: "namespace.x.mutex.locks_pay_ledger"}}
	p := diff.Compare(m.read(t, testRoot, testStack), tree, plan.Options{Identities: us, Destroy: true})
	require.Equal(t, []string{"- /locks/solo", "- /locks/pay/pool", ". /locks/pay/ledger"}, actions(p))
	require.Equal(t, []string{"warning unmanaged_child"}, codes(p))
	m.apply(t, p)
	require.NotNil(t, m.nodes["/locks/pay/ledger"])
}

func TestNamespacesAroundAForeignNodeStayToo(t *testing.T) {
	tree := declared(declare("/locks/a", kind.Namespace), declare("/locks/a/b", kind.Namespace), declare("/locks/a/c", kind.Namespace))
	m := applied(t, tree)
	m.nodes["/locks/a/b/alien"] = &mnode{acl: kind.WorldAll()}
	p := replan(t, m, declared())
	require.Equal(t, []string{"- /locks/a/c"}, actions(p))
	require.Equal(t, []string{"warning unmanaged_child", "warning unmanaged_child"}, codes(p))
	m.apply(t, p)
}

func wide(nodes int, name string) *plan.Tree {
	tree := declared(declare("/locks/a", kind.Namespace))
	for i := range nodes {
		tree.Nodes = append(tree.Nodes, declare(fmt.Sprintf("/locks/a/%s%06d", name, i), kind.Mutex))
	}
	return tree
}

func TestNamespaceThatJavaCannotListIsToldAndOneThatNobodyCanIsRefused(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	long := strings.Repeat("n", 49) // 49 and six digits: the length of a contender's name; a listing adds 4 bytes for the length of each name
	require.Empty(t, coded(diff.Compare(nil, wide(17_000, long), plan.Options{Identities: us}), problem.Listing))
	warned := coded(diff.Compare(nil, wide(18_000, long), plan.Options{Identities: us}), problem.Listing)
	require.Len(t, warned, 1)
	require.Equal(t, problem.Warning, warned[0].Severity)
	require.Contains(t, warned[0].Detail, "/locks/a has 18000 nodes, whose names are 1062000 bytes together")
	refused := coded(diff.Compare(nil, wide(70_000, strings.Repeat("n", 240)), plan.Options{Identities: us}), problem.Listing)
	require.Len(t, refused, 1)
	require.Equal(t, problem.Error, refused[0].Severity)
}

func TestFamilyWithMoreKeysThanJavaCanListIsTold(t *testing.T) {
	tree := declared(declare("/locks/orders", kind.Keyed, set("kind", "mutex"), set("fanout", "16")))
	m := applied(t, tree)
	current := m.read(t, testRoot, testStack)
	require.Empty(t, coded(diff.Compare(current, tree, plan.Options{Identities: us}), problem.Listing))
	current.Nodes[0].Live.Parts[3].Children = 17_800
	told := coded(diff.Compare(current, tree, plan.Options{Identities: us}), problem.Listing)
	require.Len(t, told, 1)
	require.Equal(t, problem.Warning, told[0].Severity)
	require.Equal(t, "locks.locktree.hcl:1", told[0].Origin)
	require.Contains(t, told[0].Detail, "/locks/orders has a node with 17800 children. More than about 17700")
	require.Contains(t, told[0].Detail, "284000")
	require.Contains(t, told[0].Detail, "fanout")
}

func coded(p *plan.Plan, code problem.Code) (out []plan.Problem) {
	for _, q := range p.Problems {
		if q.Code == code {
			out = append(out, q)
		}
	}
	return out
}

// drained returns a tree with one lock that an interrupted apply left draining.
func drained(t *testing.T) (*model, *plan.Node) {
	m := newModel(testRoot, testStack)
	lock := declare(testRoot+"/a", kind.Mutex, addr("a.mutex"))
	m.apply(t, diff.Compare(nil, declared(lock), plan.Options{Identities: us}))
	current := m.read(t, testRoot, testStack)
	p := *current.Nodes[0].Payload
	p.State = kind.StateDraining
	data, err := p.Encode()
	require.NoError(t, err)
	require.NoError(t, m.multi([]tx.Op{{Kind: tx.OpSet, Path: lock.Path, Data: data, Version: 0}}))
	return m, lock
}

// A plan must mention a lock that grants nothing, whatever it does about the lock.
func TestLockLeftDrainingIsNeverPassedOver(t *testing.T) {
	beside := plan.Intent{Elsewhere: []*plan.Tree{declared(declare(testRoot+"/b", kind.Mutex, addr("b.mutex")))}}
	for name, c := range map[string]struct {
		declared  bool
		elsewhere bool // declared, at another path
		intent    plan.Intent
		opts      plan.Options
		action    plan.Action
		says      string // of the problem; "" when the change itself shows it
	}{
		"declared":     {declared: true, action: plan.Update},
		"not declared": {action: plan.Delete, says: "deletes the lock when it is idle"},
		"replaced":     {declared: true, opts: plan.Options{Replace: []string{"a.mutex"}}, action: plan.Replace, says: "replaces the lock when it is idle"},
		"forgotten":    {intent: plan.Intent{Removals: []plan.Removal{{From: "a.mutex"}}}, action: plan.Forget, says: "opens the lock again and forgets it"},
		"not planned":  {declared: true, intent: beside, opts: plan.Options{Targets: []string{"b.mutex"}}, action: plan.NoOp, says: "leaves it closed"},
		"another path": {elsewhere: true, action: plan.Delete, says: "replaces the lock when it is idle"},
	} {
		t.Run(name, func(t *testing.T) {
			m, lock := drained(t)
			tree := declared()
			if c.declared {
				tree = declared(lock)
			}
			if c.elsewhere {
				tree = declared(declare(testRoot+"/b", kind.Mutex, addr("a.mutex")))
			}
			tree.Intent = c.intent
			c.opts.Identities, c.opts.AllowMassDestroy = us, true
			p := diff.Compare(m.read(t, testRoot, testStack), tree, c.opts)
			require.Empty(t, p.Drifted, "an apply's own doing is no drift")
			i := slices.IndexFunc(p.Changes, func(c plan.Change) bool { return c.Path == lock.Path })
			at := p.Changes[i]
			require.Equal(t, c.action, at.Action)
			if c.action == plan.Forget { // no later apply would open it
				require.Equal(t, kind.StateActive, at.After.Payload.State)
			}
			var told []string
			for _, q := range p.Problems {
				if q.Code == problem.Draining {
					require.Equal(t, problem.Warning, q.Severity)
					told = append(told, q.Detail)
				}
			}
			if c.says == "" {
				require.True(t, at.Revive)
				require.Empty(t, told)
				return
			}
			require.Len(t, told, 1)
			require.Contains(t, told[0], c.says)
		})
	}
}

// The lists of the locks are in order, and yet others can delete the locks: DELETE is a right of the parent.
func TestOthersWhoMayDeleteInTheRootAreNamed(t *testing.T) {
	world := func(p kind.Perm) kind.ACL { return kind.ACL{Scheme: "world", ID: "anyone", Perms: p} }
	mate := kind.ACL{Scheme: "digest", ID: "mate:CCCCCCCCCCCCCCCCCCCCCCCCCCC=", Perms: kind.PermAll}
	index, lock := record.IndexPath(testRoot, testStack), record.LockPath(testRoot, testStack)
	for name, c := range map[string]struct {
		path string
		acl  kind.List
		who  kind.List
		says string // "" for no warning
	}{
		"ours alone":                       {testRoot, kind.List{admin}, us, ""},
		"everybody may read":               {testRoot, kind.List{admin, world(kind.PermRead)}, us, ""},
		"everybody":                        {testRoot, kind.WorldAll(), us, "/locks grants world:anyone:cdrwa"},
		"everybody may make itself admin":  {testRoot, kind.List{admin, world(kind.PermAdmin)}, us, "world:anyone:a"},
		"every address":                    {testRoot, kind.List{admin, {Scheme: "ip", ID: "0.0.0.0/0", Perms: kind.PermDelete}}, us, "ip:0.0.0.0/0:d"},
		"a program":                        {testRoot, kind.List{admin, worker}, us, "digest:worker:cdr"},
		"a program, in two entries":        {testRoot, kind.List{admin, {Scheme: "ip", ID: "10.0.0.1", Perms: kind.PermRead}, {Scheme: "ip", ID: "10.0.0.1", Perms: kind.PermCreate}}, us, "ip:10.0.0.1"},
		"another administrator":            {testRoot, kind.List{admin, mate}, us, ""},
		"the connection's own":             {testRoot, kind.List{{Scheme: "auth", Perms: kind.PermAll}}, us, ""},
		"we are nobody in particular":      {testRoot, kind.WorldAll(), us[:1], ""},
		"nobody is connected":              {testRoot, kind.WorldAll(), nil, ""},
		"the apply lock":                   {lock, kind.List{admin, worker}, us, lock + " grants digest:worker"},
		"who may write the record":         {index, kind.List{admin, {Scheme: "ip", ID: "10.0.0.1", Perms: kind.PermWrite}}, us, index + " grants ip:10.0.0.1:w"},
		"writing the root means nothing":   {testRoot, kind.List{admin, {Scheme: "ip", ID: "10.0.0.1", Perms: kind.PermWrite}}, us, ""},
		"where the records are, everybody": {kind.ParentPath(index), kind.WorldAll(), us, kind.ParentPath(index) + " grants world"},
	} {
		t.Run(name, func(t *testing.T) {
			m := applied(t, base())
			current := m.read(t, testRoot, testStack)
			current.Frame = []plan.Framed{{Path: c.path, ACL: c.acl}}
			p := diff.Compare(current, base(), plan.Options{Identities: c.who})
			require.False(t, p.HasChanges(), "a warning is no change")
			if c.says == "" {
				for _, q := range p.Problems {
					require.NotEqual(t, problem.Open, q.Code, q.Detail)
				}
				return
			}
			require.Equal(t, problem.Open, p.Problems[0].Code)
			require.Equal(t, problem.Warning, p.Problems[0].Severity)
			require.Contains(t, p.Problems[0].Detail, c.says)
			require.NotContains(t, p.Problems[0].Detail, "BBBB", "digests are not shown")
		})
	}
}

// A plan of one lock does not forget the others. The next plan still reports what was changed in them by hand, even an address.
func TestTargetedApplyDoesNotForgetTheDriftOfOthers(t *testing.T) {
	for edited, hand := range map[plan.Addr]func(*kind.Payload){
		base().Nodes[3].Addr: func(p *kind.Payload) { p.Protect = true },
		"election.boss":      func(p *kind.Payload) { p.Owner.Addr = "election.boss" },
	} {
		m, tree := applied(t, base()), base()
		payload := payloadAt(t, m, "/locks/solo")
		hand(payload)
		m.nodes["/locks/solo"].data, _ = payload.Encode()
		m.nodes["/locks/solo"].version++
		drifted := func() (found []plan.Addr) {
			for _, d := range replan(t, m, tree).Drifted {
				found = append(found, d.Addr)
			}
			return found
		}
		require.Equal(t, []plan.Addr{edited}, drifted())
		set("permits", 7)(tree.Nodes[2])
		p := diff.Compare(m.read(t, testRoot, testStack), tree, plan.Options{Identities: us, Targets: []string{string(tree.Nodes[2].Addr)}})
		require.Equal(t, []string{"~ /locks/pay/pool"}, actions(p))
		m.apply(t, p)
		require.Equal(t, []plan.Addr{edited}, drifted(), "and what was applied is no drift")
		m.apply(t, replan(t, m, tree))
		require.Empty(t, drifted())
	}
}
