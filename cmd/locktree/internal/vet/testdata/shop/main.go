// Command shop has mistakes, for the script of locktree vet.
package main

import (
	"context"
	"database/sql"
	"errors"
	"log"

	"github.com/locktree/locktree/recipes"
)

func main() {
	if err := errors.Join(run(context.Background(), nil, nil), review(context.Background(), nil)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, client *recipes.Client, db *sql.DB) error {
	lease, err := client.Mutex("/shop/pay/legder").Lock(ctx)
	if err != nil {
		return err
	}
	if err := book(lease.Context(), db); err != nil {
		return err
	}
	if err := lease.Unlock(ctx); err != nil {
		return err
	}
	return client.Mutex("/shop/pay/pool").Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
		_, err := db.ExecContext(ctx, "UPDATE totals SET sum = 1")
		return err
	})
}

func book(context.Context, *sql.DB) error { return nil }

func review(ctx context.Context, client *recipes.Client) error {
	return client.Semaphore("/shop/pay/pool").Do(ctx, 1, func(ctx context.Context, _ *recipes.Lease) error {
		return client.Mutex("/shop/pay/ledger").Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return ctx.Err() })
	})
}
