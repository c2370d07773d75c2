// Command ratelimit keeps the calls of ten programs to an external API below one common limit: the permits of a
// semaphore. The limit is declared, not compiled in: change it in locks.locktree.hcl and apply while this runs.
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
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

const (
	programs = 10
	calls    = 5 // calls of each program
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// api is the other side; it knows how many calls it ever had at a time.
type api struct{ now, most, total atomic.Int64 }

func (a *api) call() {
	now := a.now.Add(1)
	for most := a.most.Load(); now > most && !a.most.CompareAndSwap(most, now); most = a.most.Load() {
	}
	time.Sleep(10 * time.Millisecond)
	a.total.Add(1)
	a.now.Add(-1)
}

func run(ctx context.Context) error {
	var other api
	errs := make([]error, programs)
	var all sync.WaitGroup
	for i := range programs {
		all.Go(func() { errs[i] = program(ctx, fmt.Sprint("program ", i+1), &other) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	c, err := dial(ctx, "observer")
	if err != nil {
		return err
	}
	defer c.Close()
	lock, err := inspect.Lock(ctx, c, locks.At(c, locks.Root).Recipes.Api().Path())
	if err != nil {
		return err
	}
	permits := kind.Semaphore.Permits(lock.Payload.Params)
	fmt.Printf("%d calls, at most %d at a time, %d permits declared\n", other.total.Load(), other.most.Load(), permits)
	if other.most.Load() > int64(permits) {
		return errors.New("the limit was passed")
	}
	return nil
}

func program(ctx context.Context, id string, other *api) error {
	c, err := dial(ctx, id)
	if err != nil {
		return err
	}
	defer c.Close()
	for range calls {
		// semaphore: begin
		err := locks.At(c, locks.Root).Recipes.Api().Do(ctx, 1, func(context.Context, *recipes.Lease) error {
			other.call()
			return nil
		})
		// semaphore: end
		if err != nil {
			return err
		}
	}
	return nil
}

// dial connects to ZOOKEEPER_SERVERS, or to the server of `locktree dev`.
func dial(ctx context.Context, id string) (*recipes.Client, error) {
	servers := os.Getenv("ZOOKEEPER_SERVERS")
	if servers == "" {
		servers = "127.0.0.1:2181"
	}
	return recipes.Dial(ctx, recipes.Config{Servers: strings.Split(servers, ","), ID: id})
}
