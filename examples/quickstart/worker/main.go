// Command worker takes one of the permits locks.locktree.hcl declares, and keeps it
// until it is told to stop. Its argument is its name.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/locktree/locktree/examples/quickstart/locks"
	"github.com/locktree/locktree/recipes"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: worker NAME")
	}
	servers := os.Getenv("ZOOKEEPER_SERVERS")
	if servers == "" {
		servers = "127.0.0.1:2181"
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, strings.Split(servers, ","), os.Args[1]); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// announcer says when its program has to wait.
type announcer struct{ name string }

func (a announcer) Observe(e recipes.Event) {
	if e.Type == recipes.EventQueued {
		fmt.Println(a.name, "waits")
	}
}

func run(ctx context.Context, servers []string, name string) error {
	client, err := recipes.Dial(ctx, recipes.Config{Servers: servers, ID: name, Observer: announcer{name: name}.Observe})
	if err != nil {
		return err
	}
	defer client.Close()
	// How many permits there are is not this program's business: it is declared,
	// and can change while the program waits.
	return locks.At(client, locks.Root).Payments.Workers().Do(ctx, 1, func(ctx context.Context, _ *recipes.Lease) error {
		fmt.Println(name, "has a permit")
		<-ctx.Done() // told to stop, or lost
		return context.Cause(ctx)
	})
}
