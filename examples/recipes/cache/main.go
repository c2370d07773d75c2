// Command cache shares a table of prices between eight readers and a program that updates it. The table consists of two
// values that belong together; no reader may see one old and one new value. Readers read at the same time, and an
// update excludes them. It waits for readers that queued before it, not for later ones.
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

const (
	readers  = 8
	renewals = 10

	sideBySide = time.Minute // how long to wait until all readers read at once
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// table is what the lock guards: version says which prices it holds, and check must be equal to version. A program
// can read and write each of them at any time, so only the lock keeps them equal.
type table struct {
	version, check, together, most atomic.Int64

	all chan struct{} // closed when all readers read, side by side
}

func (t *table) read(ctx context.Context) error {
	now := t.together.Add(1)
	defer t.together.Add(-1)
	for most := t.most.Load(); now > most; most = t.most.Load() {
		if t.most.CompareAndSwap(most, now) && now == readers {
			close(t.all)
		}
	}
	select {
	case <-t.all: // the first time, each reader waits for all the others: with one reader at a time, none would go on
	case <-ctx.Done():
		return ctx.Err()
	}
	version := t.version.Load()
	time.Sleep(2 * time.Millisecond)
	if check := t.check.Load(); check != version {
		return fmt.Errorf("read version %d with the prices of %d", version, check)
	}
	return nil
}

func (t *table) renew() {
	t.version.Add(1)
	time.Sleep(2 * time.Millisecond)
	t.check.Add(1)
}

func run(ctx context.Context) error {
	ctx, finished := context.WithCancel(ctx)
	defer finished()
	prices := table{all: make(chan struct{})}
	errs := make([]error, readers+1)
	var all sync.WaitGroup
	for i := range readers {
		all.Go(func() {
			err := reader(ctx, fmt.Sprint("reader ", i+1), &prices)
			if err != nil && ctx.Err() == nil { // an error, and not the end of the renewals
				errs[i] = err
				finished()
			}
		})
	}
	errs[readers] = renewer(ctx, &prices)
	finished()
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Printf("version %d after %d renewals, up to %d of %d readers at a time, torn: none\n",
		prices.version.Load(), renewals, prices.most.Load(), readers)
	return nil
}

func reader(ctx context.Context, id string, prices *table) error {
	c, err := dial(ctx, id)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		err := locks.At(c, locks.Root).Recipes.Prices().RDo(ctx, func(ctx context.Context, _ *recipes.Lease) error { return prices.read(ctx) })
		if err != nil {
			return err
		}
	}
}

func renewer(ctx context.Context, prices *table) error {
	c, err := dial(ctx, "renewer")
	if err != nil {
		return err
	}
	defer c.Close()
	select {
	case <-prices.all:
	case <-time.After(sideBySide):
		return errors.New("the readers do not read side by side")
	case <-ctx.Done():
		return ctx.Err()
	}
	for range renewals {
		time.Sleep(20 * time.Millisecond) // the prices change now and then
		err := locks.At(c, locks.Root).Recipes.Prices().Do(ctx, func(context.Context, *recipes.Lease) error {
			prices.renew()
			return nil
		})
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
