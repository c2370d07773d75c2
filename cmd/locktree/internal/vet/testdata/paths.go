package fixture

import (
	"context"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

const base = "/locks/payments"

func paths(ctx context.Context, c *recipes.Client, name string) {
	c.Mutex("/locks/payments/ledger")
	c.Mutex(base + "/ledgr")                    // want undeclared:`no configuration declares "/locks/payments/ledgr". Did you mean "/locks/payments/ledger"\?`
	c.Mutex(base + name)                        // not a constant
	c.Mutex("/elsewhere")                       // want undeclared:`declares "/elsewhere"\.$`
	c.Mutex("/elsewhere", recipes.WithCreate()) // brings its own
	c.RWMutex("/locks/payments/pool")           // want wrongkind:`"/locks/payments/pool" is declared as semaphore, and opened as rwlock: use Client.Semaphore`
	c.Election("/locks/payments")               // want wrongkind:`declared as namespace, and opened as election$`
	c.Mutex("/locks/orders/a%2Fb")              // a key of a family
	c.Mutex("/locks/orders/3f/a")               // and one with fanout
	opts := []recipes.Option{recipes.WithCreate()}
	c.Mutex("/elsewhere", opts...) // not known
	want := recipes.Want{}
	l, err := c.Take(ctx, kind.Mutex, "/locks/payments/pool", want) // want wrongkind:`opened as mutex`
	if err == nil {
		l.Unlock(ctx)
	}
}
