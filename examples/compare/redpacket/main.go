//go:build linux

// Command redpacket plays the game of examples/redpacket on other lock services: a hundred workers share a pot of money under
// one lock, and now and then one of them stands still with the lock in its hands. The sum paid is exactly the pot, or it is not.
//
//	go run ./redpacket -on redis                 # a holder whose key has expired writes what it read before
//	go run ./redpacket -on redis -faults 0       # nobody stands still
//	go run ./redpacket -on postgres              # a holder whose connection is cut cannot write over it
//	go run ./redpacket -on postgres -unlocked    # without the lock
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/locktree/locktree/examples/compare/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "redpacket:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	g := game{}
	flags := flag.NewFlagSet("redpacket", flag.ContinueOnError)
	on := flags.String("on", "redis", "the `service` that has the lock and the money: redis or postgres")
	addr := flags.String("server", "", "its `address`, host:port for Redis and a URL for PostgreSQL; empty: one that is started here")
	flags.Int64Var(&g.pot, "pot", 1_000_000, "`cents` in the pot")
	flags.IntVar(&g.workers, "workers", 100, "how many draw")
	flags.Int64Var(&g.faults, "faults", 10, "how often a worker stands still between what it reads and what it writes")
	flags.DurationVar(&g.ttl, "ttl", 200*time.Millisecond, "how long a key of Redis may outlive its holder")
	flags.BoolVar(&g.unlocked, "unlocked", false, "take the lock away")
	if err := flags.Parse(args); err != nil {
		return err
	}
	open := map[string]func(*game, string) opener{"redis": onRedis, "postgres": onPostgres}[*on]
	if open == nil {
		return fmt.Errorf("-on=%s: there is redis and postgres; go run ./examples/redpacket plays it on ZooKeeper", *on)
	}
	scope := &server.Scope{}
	defer scope.Close()
	if *addr == "" {
		up, err := server.Start(scope, *on, server.Options{})
		if err != nil {
			return err
		}
		*addr = up.Addrs()[0]
		if *on == "postgres" {
			*addr = "postgres://compare@" + *addr + "/postgres"
		}
	}
	start := time.Now()
	res, err := g.play(ctx, open(&g, *addr))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d workers, %d payments in %.1f s; %d times a worker stood still with the lock, %d attempts repeated\n",
		g.workers, res.payments, time.Since(start).Seconds(), res.faults, res.retries)
	fmt.Fprintf(out, "pot  %12d cents\npaid %12d cents\n", g.pot, res.paid)
	switch {
	case res.paid == g.pot && res.left == 0:
		fmt.Fprintln(out, "Exactly the pot.")
		return nil
	case g.unlocked:
		fmt.Fprintf(out, "Wrong by %d cents: that is what the lock is for.\n", res.paid-g.pot)
		return nil
	}
	return fmt.Errorf("paid %d cents from a pot of %d: the lock failed", res.paid, g.pot)
}
