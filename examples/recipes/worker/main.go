// Command worker runs three workers. Only the elected leader does the jobs. Each leader resigns after three jobs, and
// the next one goes on. In production each worker would be a process on its own machine, and lead until it is stopped.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locktree/locktree/examples/recipes/locks"
	"github.com/locktree/locktree/recipes"
)

//go:generate go run github.com/locktree/locktree/cmd/locktree -chdir=.. generate go -out=locks/locks.go

const (
	workers = 3
	jobs    = 3 // jobs of each leader
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	errs := make([]error, workers)
	var leaders, done atomic.Int64
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() { errs[i] = work(ctx, fmt.Sprint("worker ", i+1), &leaders, &done) })
	}
	all.Wait()
	fmt.Println("jobs done:", done.Load())
	return errors.Join(errs...)
}

// work leads until its jobs are done. Lead campaigns again if the leadership is lost meanwhile.
func work(ctx context.Context, id string, leaders, done *atomic.Int64) error {
	c, err := dial(ctx, id)
	if err != nil {
		return err
	}
	defer c.Close()
	left := jobs
	// election: begin
	return locks.At(c, locks.Root).Recipes.Worker().Lead(ctx, func(ctx context.Context, lead *recipes.Lease) error {
		if leaders.Add(1) > 1 {
			return fmt.Errorf("%s leads beside another worker", id)
		}
		defer leaders.Add(-1)
		for ; left > 0; left-- {
			select {
			case <-ctx.Done(): // lost, or asked back: stop before another one starts
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
			// With the token, a store can refuse the writes of an earlier leader.
			fmt.Printf("%s does a job, token %d\n", id, lead.Token())
			done.Add(1)
		}
		return nil
	})
	// election: end
}

// dial connects to ZOOKEEPER_SERVERS, or to the server of `locktree dev`.
func dial(ctx context.Context, id string) (*recipes.Client, error) {
	servers := os.Getenv("ZOOKEEPER_SERVERS")
	if servers == "" {
		servers = "127.0.0.1:2181"
	}
	return recipes.Dial(ctx, recipes.Config{Servers: strings.Split(servers, ","), ID: id})
}
