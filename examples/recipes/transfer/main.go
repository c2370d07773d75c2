// Command transfer moves money between three accounts, from six programs at once, in both directions. Each transfer takes the locks of both
// accounts together, in one transaction, so no transfers deadlock, whatever order they name the locks in.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
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
	programs  = 6
	transfers = 10 // transfers of each program
	opening   = 1000
)

var names = []string{locks.RecipesAccountAlice, locks.RecipesAccountBob, locks.RecipesAccountCarol}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// bank has a balance for each account. Moving money takes four steps, and the steps of another transfer must not come between
// them.
type bank map[string]*atomic.Int64

func (b bank) move(from, to string, amount int64) {
	have, has := b[from].Load(), b[to].Load()
	time.Sleep(time.Millisecond)
	b[from].Store(have - amount)
	b[to].Store(has + amount)
}

func (b bank) total() (sum int64) {
	for _, balance := range b {
		sum += balance.Load()
	}
	return sum
}

func run(ctx context.Context) error {
	accounts := bank{}
	for _, name := range names {
		accounts[name] = &atomic.Int64{}
		accounts[name].Store(opening)
	}
	errs := make([]error, programs)
	var all sync.WaitGroup
	for i := range programs {
		all.Go(func() { errs[i] = program(ctx, uint64(i), accounts) })
	}
	all.Wait()
	fmt.Printf("%d transfers, %d in the bank\n", programs*transfers, accounts.total())
	if sum := accounts.total(); sum != opening*int64(len(names)) {
		errs = append(errs, fmt.Errorf("the bank began with %d", opening*len(names)))
	}
	return errors.Join(errs...)
}

func program(ctx context.Context, seed uint64, accounts bank) error {
	c, err := dial(ctx, fmt.Sprint("program ", seed+1))
	if err != nil {
		return err
	}
	defer c.Close()
	rnd := rand.New(rand.NewPCG(seed, seed))
	for range transfers {
		two := rnd.Perm(len(names))[:2]
		from, to := names[two[0]], names[two[1]]
		account := locks.At(c, locks.Root).Recipes.Account
		both := c.MultiLock(account(from), account(to))
		err := both.Do(ctx, func(context.Context, *recipes.Lease) error {
			accounts.move(from, to, rnd.Int64N(100))
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
