package config_test

import (
	"fmt"
	"log"

	"github.com/locktree/locktree/config"
)

// The tree of an ensemble says all that is declared on it: the nodes, and in its Intent the rest.
func ExampleLoad() {
	cfg, diags := config.Load("../testdata/config/payments", config.Options{
		Inputs: []config.Input{{Var: "admin_password=correct horse"}},
	})
	if diags.HasErrors() {
		log.Fatal(diags)
	}
	tree := cfg.Ensembles[0].Tree
	fmt.Println(len(tree.Nodes), "nodes below", tree.Root)
	for _, m := range tree.Intent.Moves {
		fmt.Println("moved:", m.From, "is", m.To)
	}
	for _, i := range tree.Intent.Imports {
		fmt.Println("import:", i.Path, "becomes", i.To)
	}
	for _, r := range tree.Intent.Removals {
		fmt.Println("removed:", r.From, "destroy:", r.Destroy)
	}
	for _, o := range tree.Intent.Outputs {
		fmt.Printf("output: %s = %s\n", o.Name, o.Value)
	}

	// Output:
	// 12 nodes below /platform/locks
	// moved: namespace.payments.mutex.books is namespace.payments.mutex.ledger
	// import: /curator/catalog becomes namespace.payments.rwlock.catalog
	// removed: namespace.legacy destroy: false
	// output: ledger_path = "/platform/locks/payments/ledger"
}
