// Command quickstart holds the mutex that locks.locktree.hcl declares while it
// does its work, and says which fencing token it got.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/locktree/locktree/examples/quickstart/locks"
	"github.com/locktree/locktree/recipes"
)

//go:generate go run github.com/locktree/locktree/cmd/locktree generate go -out=locks/locks.go

func main() {
	servers := os.Getenv("ZOOKEEPER_SERVERS")
	if servers == "" {
		servers = "127.0.0.1:2181"
	}
	if err := run(context.Background(), strings.Split(servers, ",")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, servers []string) error {
	// readme: begin
	client, err := recipes.Dial(ctx, recipes.Config{Servers: servers})
	if err != nil {
		return err
	}
	defer client.Close()

	ledger := locks.At(client, locks.Root).Payments.Ledger()
	return ledger.Do(ctx, func(ctx context.Context, lease *recipes.Lease) error {
		// One program at a time runs this. ctx is cancelled if the lock is lost;
		// with the token, the store you write to can refuse earlier holders.
		fmt.Println("compacting the ledger, token", lease.Token())
		return ctx.Err()
	})
	// readme: end
}
