package otel_test

import (
	"context"
	"log"

	"github.com/locktree/locktree/recipes"
	lockotel "github.com/locktree/locktree/recipes/otel"
)

func Example() {
	ctx := context.Background() // that of the request that is being served, with its span
	c, err := recipes.Dial(ctx, recipes.Config{Servers: []string{"zk1:2181", "zk2:2181"}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	spans := lockotel.New(c)

	ledger := c.Mutex("/locks/ledger", lockotel.ID(ctx, "worker-1"))
	l, err := spans.Acquire(ctx, ledger.Path(), ledger.Lock)
	if err != nil {
		log.Print(err)
		return
	}
	defer l.Unlock(ctx)
	// The work.
}
