package diff_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/recipes/kind"
)

// refused asserts that a plan is kept from being applied, for these reasons only.
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

	// Enough on a lock is less than on a namespace.
	rwa := admin
	rwa.Perms = kind.PermRead | kind.PermWrite | kind.PermAdmin
	require.Empty(t, diff.Compare(nil, declared(declare("/locks/a", kind.Mutex, acl(rwa))), plan.Options{Identities: us}).Problems)
	refused(t, diff.Compare(nil, declared(declare("/locks/a", kind.Namespace, acl(rwa))), plan.Options{Identities: us}), "error lock_out")
	refused(t, diff.Compare(nil, declared(declare("/locks/a", kind.Semaphore, acl(rwa))), plan.Options{Identities: us}), "error lock_out")

	// Who has an address is known to the servers alone.
	ip := kind.ACL{Scheme: "ip", ID: "10.0.0.0/8", Perms: kind.PermAll}
	p = diff.Compare(nil, declared(declare("/locks/a", kind.Mutex, acl(ip))), plan.Options{Identities: us})
	require.Equal(t, []string{"warning lock_out"}, codes(p))
}

// A program that forgot its identities got a plan that nobody had checked.
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

// The servers compare the subject as text: the other order locks its author out.
func TestCertificateNamedBackwardsLocksOut(t *testing.T) {
	id := []plan.Identity{{Scheme: "world", ID: "anyone"}, {Scheme: "x509", ID: "O=Acme,OU=ops,CN=alice"}}
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

// The namespace was deleted around the lock that is let go: the servers refused the
// transaction, where the lock's place was declared with something else in it.
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
