package otel_test

import (
	"context"
	"log"

	"github.com/locktree/locktree/recipes"
	lockotel "github.com/locktree/locktree/recipes/otel"
)

func Example() {
	ctx := context.Background() // the context of the request being served, with its span
	spans := lockotel.New()
	c, err := recipes.Dial(ctx, recipes.Config{Servers: []string{"zk1:2181", "zk2:2181"}, Observer: spans.Observe})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	err = c.Mutex("/locks/ledger", lockotel.ID(ctx, "worker-1")).Do(ctx, func(context.Context, *recipes.Lease) error {
		return nil // the work; the span has ended
	})
	if err != nil {
		log.Print(err)
	}
}
