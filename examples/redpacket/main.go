// Command redpacket shares a pot of money among 100 workers in random amounts, under one mutex. However many sessions die on the
// way, the sum paid is exactly the pot. With -unlocked the same program runs without the lock, and pays out money that was never
// there.
//
//	go run ./examples/redpacket              # embedded server, sessions killed on the way
//	go run ./examples/redpacket -unlocked    # the same without the lock
//	go run ./examples/redpacket -servers zk1:2181,zk2:2181   # after: locktree -chdir=examples/redpacket apply
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/locktree/locktree/examples/redpacket/locks"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

//go:generate go run github.com/locktree/locktree/cmd/locktree generate go -out=locks/locks.go

func main() {
	servers := flag.String("servers", "", "ZooKeeper `servers`; empty: an embedded one")
	g := Game{}
	flag.Int64Var(&g.Pot, "pot", 100_000_000, "`cents` in the pot")
	flag.IntVar(&g.Workers, "workers", 100, "how many draw")
	flag.IntVar(&g.Clients, "clients", 5, "ZooKeeper sessions they share")
	flag.BoolVar(&g.Unlocked, "unlocked", false, "take the lock away")
	flag.Uint64Var(&g.Seed, "seed", 1, "of the random amounts")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, g, *servers); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, g Game, servers string) error {
	cfg := recipes.Config{SessionTimeout: 4 * time.Second}
	deaths := func() int { return 0 }
	if servers == "" {
		srv := zktest.New(zktest.WithTickTime(100 * time.Millisecond))
		defer srv.Close()
		if err := locks.Provision(srv, locks.Root); err != nil {
			return err
		}
		servers = srv.Addr()
		deaths = reaper(ctx, srv)
	}
	cfg.Servers = strings.Split(servers, ",")
	g.Dial = func(ctx context.Context) (*recipes.Client, error) { return recipes.Dial(ctx, cfg) }

	start := time.Now()
	res, err := g.Play(ctx)
	if err != nil {
		return err
	}
	killed := deaths()
	fmt.Printf("%d workers on %d sessions, %d payments in %.1f s; %d connections and sessions killed, %d attempts repeated\n",
		g.Workers, g.Clients, res.Payments, time.Since(start).Seconds(), killed, res.Retries)
	fmt.Printf("pot  %12d cents\npaid %12d cents\n", g.Pot, res.Paid)
	switch {
	case res.Paid == g.Pot:
		fmt.Println("Exactly the pot.")
	case g.Unlocked:
		fmt.Printf("Overpaid by %d cents: that is what the lock is for.\n", res.Paid-g.Pot)
	default:
		return fmt.Errorf("paid %d cents from a pot of %d: the lock failed", res.Paid, g.Pot)
	}
	return nil
}

// reaper cuts a connection or expires a session every few milliseconds, until the function stop is called. That function returns
// how often it did so.
func reaper(ctx context.Context, srv *zktest.Server) (stop func() int) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan int)
	go func() {
		killed := 0
		rng := rand.New(rand.NewPCG(7, 7))
		for {
			select {
			case <-ctx.Done():
				done <- killed
				return
			case <-time.After(time.Duration(20+rng.IntN(40)) * time.Millisecond):
			}
			sessions := srv.Sessions()
			if len(sessions) == 0 {
				continue
			}
			victim := sessions[rng.IntN(len(sessions))].ID
			if rng.IntN(3) == 0 {
				srv.Expire(victim)
			} else {
				srv.Disconnect(victim)
			}
			killed++
		}
	}()
	return func() int { cancel(); return <-done }
}
