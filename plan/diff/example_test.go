package diff_test

import (
	"fmt"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/recipes/kind"
)

// These trees are built by hand. Trees of package config come with their Intent, and those of package apply with everything that was found.
func ExampleCompare() {
	node := func(addr, path string, k *kind.Kind) *plan.Node {
		return &plan.Node{
			Addr: plan.Addr(addr), Path: path, ACL: kind.WorldAll(), AllowWorld: true,
			Payload: &kind.Payload{Params: k.New(), Owner: kind.Owner{Stack: "shop", Addr: addr}, State: kind.StateActive},
		}
	}
	found := func(n *plan.Node) *plan.Node {
		n.Live = &plan.Live{Czxid: 1}
		return n
	}
	live := &plan.Tree{Root: "/", Stack: "shop", Nodes: []*plan.Node{
		{Path: "/catalog", Live: &plan.Live{Czxid: 1, Trouble: plan.TroubleForeign}}, // another program's
		found(node("mutex.books", "/books", kind.Mutex)),
		found(node("mutex.legacy", "/legacy", kind.Mutex)),
		found(node("namespace.jobs", "/jobs", kind.Namespace)),
	}}
	desired := plan.NewTree("shop", "/")
	for addr, params := range map[plan.Addr]kind.Params{
		"mutex.ledger": kind.Mutex.New(), "namespace.jobs": kind.Namespace.New(), "rwlock.catalog": kind.RWLock.New(),
	} {
		if _, err := desired.Add(addr, params, plan.Node{ACL: kind.WorldAll(), AllowWorld: true}); err != nil {
			fmt.Println(err)
		}
	}
	desired.Intent = plan.Intent{
		Moves:    []plan.Move{{From: "mutex.books", To: "mutex.ledger"}},
		Imports:  []plan.Import{{To: "rwlock.catalog", Path: "/catalog"}},
		Removals: []plan.Removal{{From: "mutex.legacy"}},
	}
	who := kind.List{{Scheme: "world", ID: "anyone"}}
	show := func() {
		for _, c := range diff.Compare(live, desired.Tree, plan.Options{Identities: who}).Changes {
			fmt.Println(c.Action.Symbol(), c.Addr, c.Path)
		}
	}
	show()
	desired.Intent = plan.Intent{}
	fmt.Println("without its Intent:")
	show()

	// Output:
	// - mutex.books /books
	// -/+ rwlock.catalog /catalog
	//   namespace.jobs /jobs
	// + mutex.ledger /ledger
	// . mutex.legacy /legacy
	// without its Intent:
	// - mutex.legacy /legacy
	// - mutex.books /books
	//   namespace.jobs /jobs
	// + mutex.ledger /ledger
}
