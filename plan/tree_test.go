package plan_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

var everything = kind.List{{Scheme: "digest", ID: "ops:x", Perms: kind.PermAll}}

// Formerly, a tree built in Go could have nodes of another stack, at the path of another address, or out of Find's order. The result was a
// nonsensical plan, and no error.
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

func TestPartsOfAnAddress(t *testing.T) {
	for _, c := range []struct{ addr, base, block, module, typ, name, key string }{
		{"mutex.a", "mutex.a", "mutex.a", "", "mutex", "a", ""},
		{`mutex.a["k"]`, "mutex.a", "mutex.a", "", "mutex", "a", "k"},
		{`module.t["x.y"].namespace.p.mutex.a["k\"].b["]`, `module.t["x.y"].namespace.p.mutex.a`, "module.t.namespace.p.mutex.a", `module.t["x.y"]`, "mutex", "a", `k"].b[`},
		{`module.a.module.b["1"]`, "module.a.module.b", "module.a.module.b", `module.a.module.b["1"]`, "module", "b", "1"},
		// This key was taken for an element of a type 'b', because the view cut at the first bracket.
		{`mutex.a["[\"b.c\"]"]`, "mutex.a", "mutex.a", "", "mutex", "a", `["b.c"]`},
		{"mutex", "mutex", "mutex", "", "mutex", "", ""},
		{"", "", "", "", "", "", ""},
	} {
		a := plan.Addr(c.addr)
		key, keyed := a.Key()
		require.Equal(t, []string{c.base, c.block, c.module, c.typ, c.name, c.key},
			[]string{string(a.Base()), string(a.Block()), string(a.Module()), a.Type(), a.Name(), key}, c.addr)
		require.Equal(t, c.key != "", keyed, c.addr)
	}
}

// Key returns a key whatever it holds, and no method fails on any part of an address.
func TestNoKeyPosesAsAnAddress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, outer := rapid.String().Draw(t, "key"), rapid.StringOf(rapid.RuneFrom([]rune(`a."[]\`))).Draw(t, "outer")
		base := plan.Addr("namespace.n[" + strconv.Quote(outer) + "].mutex.m")
		a := base + plan.Addr("["+strconv.Quote(key)+"]")
		got, ok := a.Key()
		require.True(t, ok)
		if strings.ToValidUTF8(key, "") == key {
			require.Equal(t, key, got)
		}
		require.Equal(t, base, a.Base())
		require.Equal(t, plan.Addr("namespace.n.mutex.m"), a.Block())
		for i := range a { // cut anywhere
			for _, part := range []plan.Addr{a[:i], a[i:]} {
				part.Key()
				require.LessOrEqual(t, len(part.Base())+len(part.Block())+len(part.Module()), 3*len(part)+len(part))
			}
		}
	})
}

func TestMovesAreFollowedAsFarAsAddressesReach(t *testing.T) {
	i := plan.Intent{Moves: []plan.Move{
		{From: "mutex.a", To: "namespace.n.mutex.b"},
		{From: "namespace.n.mutex.b", To: "namespace.n.mutex.c"},
		{From: `semaphore.s`, To: "semaphore.t"},
		{From: `semaphore.s["x"]`, To: `semaphore.u["y"]`, One: true},
		{From: "election.e", To: `election.e["first"]`, One: true},
		{From: "module.old", To: `module.new["k"]`},
		{From: "loop.a", To: "loop.b"}, {From: "loop.b", To: "loop.a"},
	}}
	for from, to := range map[plan.Addr]plan.Addr{
		"mutex.a":              "namespace.n.mutex.c",
		"mutex.ab":             "mutex.ab",
		`mutex.a["k"]`:         `namespace.n.mutex.c["k"]`,
		`semaphore.s["x"]`:     `semaphore.u["y"]`, // the nearer one wins
		`semaphore.s["xy"]`:    `semaphore.t["xy"]`,
		"election.e":           `election.e["first"]`,
		`election.e["second"]`: `election.e["second"]`,
		"module.old.mutex.m":   `module.new["k"].mutex.m`,
		"module.older.mutex.m": "module.older.mutex.m",
	} {
		require.Equal(t, to, i.Rename(from), from)
	}
	require.Contains(t, []plan.Addr{"loop.a", "loop.b"}, i.Rename("loop.a"), "a list that Load would refuse must not hang")
}

func TestRemovalsCoverWhatIsInside(t *testing.T) {
	i := plan.Intent{Removals: []plan.Removal{{From: "namespace.legacy", Destroy: true}, {From: `mutex.m["a"]`}}}
	require.True(t, i.Removed("namespace.legacy.mutex.x").Destroy)
	require.NotNil(t, i.Removed("namespace.legacy"))
	require.NotNil(t, i.Removed(`mutex.m["a"]`))
	require.Nil(t, i.Removed(`mutex.m["b"]`))
	require.Nil(t, i.Removed("namespace.legacy2"))
}
