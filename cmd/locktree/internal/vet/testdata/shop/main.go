// Command shop has mistakes, for the script of locktree vet.
package main

import (
	"context"
	"database/sql"
	"log"

	"github.com/locktree/locktree/recipes"
)

func main() {
	if err := run(context.Background(), nil, nil); err != nil {
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
