package main

// readme: begin
import (
	"context"
	"fmt"

	"github.com/locktree/locktree/examples/quickstart/locks"
	"github.com/locktree/locktree/recipes"
)

func run(ctx context.Context, servers []string) error {
	client, err := recipes.Dial(ctx, recipes.Config{Servers: servers})
	if err != nil {
		return err
	}
	defer client.Close()

	ledger := locks.At(client, locks.Root).Payments.Ledger()
	return ledger.Do(ctx, func(ctx context.Context, lease *recipes.Lease) error {
		// One program at a time runs this. ctx ends if the lock is lost.
		fmt.Println("compacting the ledger, token", lease.Token())
		return ctx.Err()
	})
}

// readme: end
