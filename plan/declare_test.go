package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

var everything = kind.List{{Scheme: "digest", ID: "ops:x", Perms: kind.PermAll}}

// Nodes with another stack than their tree's, a path of another address, or in another order than Find expects made a plan of
// nonsense, and no error.
func TestATreeBuiltInGoIsComplete(t *testing.T) {
	tree := plan.NewTree("shop", "/locks")
	for _, add := range []struct {
		addr plan.Addr
		k    *kind.Kind
		n    plan.Node
	}{
		{"namespace.payments", kind.Namespace, plan.Node{Path: "/locks/pay"}},
		{`module.team["a.b"].mutex.m["k"]`, kind.Mutex, plan.Node{Payload: &kind.Payload{Protect: true, ChildACL: everything, Gen: 7}}},
		{"namespace.payments.mutex.ledger", kind.Mutex, plan.Node{Origin: "here"}},
	} {
		add.n.ACL = everything
		n, err := tree.Add(add.addr, add.k.New(), add.n)
		require.NoError(t, err)
		require.Same(t, n, tree.Find(n.Path))
	}
	var paths []string
	for _, n := range tree.Nodes {
		paths = append(paths, n.Path)
		require.Equal(t, kind.Owner{Stack: "shop", Addr: string(n.Addr)}, n.Payload.Owner)
		require.Equal(t, kind.StateActive, n.Payload.State)
		require.Zero(t, n.Payload.Gen)
	}
	require.Equal(t, []string{"/locks/m-k", "/locks/pay", "/locks/pay/ledger"}, paths)
	require.True(t, tree.Find("/locks/m-k").Payload.Protect)
	require.Equal(t, everything, tree.Find("/locks/m-k").Payload.ChildACL)
}

func TestATreeCannotBeBuiltWrongly(t *testing.T) {
	type wrong struct {
		addr plan.Addr
		k    *kind.Kind
		n    plan.Node
		want string
	}
	tree := plan.NewTree("shop", "/locks")
	add := func(w wrong) error {
		if w.n.ACL == nil {
			w.n.ACL = everything
		}
		_, err := tree.Add(w.addr, w.k.New(), w.n)
		return err
	}
	require.NoError(t, add(wrong{addr: "namespace.a", k: kind.Namespace}))
	require.NoError(t, add(wrong{addr: "namespace.a.mutex.m", k: kind.Mutex}))
	for _, w := range []wrong{
		{addr: "", k: kind.Mutex, n: plan.Node{}, want: "not the address of a node"},
		{addr: "mutex", k: kind.Mutex, n: plan.Node{}, want: "types and names"},
		{addr: "mutex.m.", k: kind.Mutex, n: plan.Node{}, want: "not the address of a node"},
		{addr: "mutex.m[k]", k: kind.Mutex, n: plan.Node{}, want: "not"},
		{addr: "lock.m", k: kind.Mutex, n: plan.Node{}, want: `"lock" is not a type`},
		{addr: "module.m", k: kind.Mutex, n: plan.Node{}, want: "not the address of a node"},
		{addr: "namespace.a.module.m.mutex.m", k: kind.Mutex, n: plan.Node{}, want: "module cannot be inside"},
		{addr: "mutex.a.mutex.b", k: kind.Mutex, n: plan.Node{}, want: "holds no other"},
		{addr: "mutex.m", k: kind.RWLock, n: plan.Node{}, want: "those of a rwlock"},
		{addr: "namespace.a", k: kind.Namespace, n: plan.Node{}, want: "declared already"},
		{addr: "namespace.b.mutex.m", k: kind.Mutex, n: plan.Node{}, want: "namespace.b is not declared"},
		{addr: "mutex.m", k: kind.Mutex, n: plan.Node{ACL: kind.List{}}, want: "no access list"},
		{addr: "mutex.m", k: kind.Mutex, n: plan.Node{Path: "/elsewhere/m"}, want: "not right below /locks"},
		{addr: "mutex.m", k: kind.Mutex, n: plan.Node{Path: "/locks/a/m"}, want: "not right below /locks"},
		{addr: "rwlock.a", k: kind.RWLock, n: plan.Node{}, want: "is that of namespace.a"},
		{addr: "mutex.m", k: kind.Mutex, n: plan.Node{Path: "/locks/.locktree"}, want: "its own records"},
		{addr: `mutex.m["a/b"]`, k: kind.Mutex, n: plan.Node{}, want: "not right below"},
	} {
		require.ErrorContains(t, add(w), w.want, "%s", w.addr)
		require.Len(t, tree.Nodes, 2)
	}
	for _, tree := range []*plan.Draft{plan.NewTree("", "/"), plan.NewTree("s", "locks")} {
		_, err := tree.Add("mutex.m", kind.Mutex.New(), plan.Node{ACL: everything})
		require.Error(t, err)
	}
}
