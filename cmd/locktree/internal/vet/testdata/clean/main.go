// Command clean has no mistakes, for the script of locktree vet.
package main

import (
	"context"
	"log"

	"github.com/locktree/locktree/recipes"
)

func main() {
	client, err := recipes.Dial(context.Background(), recipes.Config{})
	if err != nil {
		log.Fatal(err)
	}
	err = client.Mutex("/shop/pay/ledger").Do(context.Background(), func(ctx context.Context, _ *recipes.Lease) error { return ctx.Err() })
	if err != nil {
		log.Fatal(err)
	}
}
