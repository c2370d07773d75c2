// Command orders charges orders from a queue that delivers each of them twice. Eight workers on two clients go from order to
// order. They give each order's lock back by Release, without waiting for the reply. A store charges each order once: it refuses
// a token older than the newest of that order. No order leaves a node in ZooKeeper.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/locktree/locktree/examples/recipes/locks"
	"github.com/locktree/locktree/recipes"
)

const (
	clients = 2
	workers = 4 // workers of each client
)

func main() {
	orders := flag.Int("orders", 200, "how many orders come in")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *orders); err != nil {
		log.Fatal(err)
	}
}

// deliver sends each order twice, the second time soon after the first, when a worker is still busy with it.
func deliver(ctx context.Context, orders int) <-chan string {
	deliveries := make(chan string, 2*workers)
	go func() {
		defer close(deliveries)
		for i := range 2 * orders {
			select {
			case deliveries <- fmt.Sprintf("order/%d", i/2):
			case <-ctx.Done():
				return
			}
		}
	}()
	return deliveries
}

func run(ctx context.Context, orders int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop() // ends the deliveries if a worker fails
	db := &store{rows: map[string]row{}}
	deliveries := deliver(ctx, orders)
	errs := make(chan error, clients*workers)
	start := time.Now()
	for i := range clients {
		c, err := dial(ctx, fmt.Sprint("charger ", i+1))
		if err != nil {
			return err
		}
		defer c.Close()
		for range workers {
			go func() { errs <- work(ctx, locks.At(c, locks.Root).Recipes.Order(), deliveries, db) }()
		}
	}
	var err error
	for range clients * workers {
		if failed := <-errs; failed != nil {
			err = errors.Join(err, failed)
			stop()
		}
	}
	if err != nil {
		return err
	}
	took := time.Since(start)
	fmt.Printf("%d deliveries, %d orders charged, %d of them more than once, %d late writes refused\n", 2*orders, len(db.rows), db.doubled(), db.refused)
	left, err := leftBehind(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("nodes left behind in ZooKeeper: %d\n", left)
	log.Printf("%.0f deliveries a second", float64(2*orders)/took.Seconds())
	if len(db.rows) != orders || db.doubled() > 0 || left > 0 {
		return errors.New("that is not what these locks are for")
	}
	return nil
}

// work charges orders until the deliveries end.
func work(ctx context.Context, orders locks.KeyedMutex, deliveries <-chan string, db *store) error {
	// keyed: begin
	for id := range deliveries {
		lease, err := orders.For(id).Lock(ctx) // the lock of one order
		if err != nil {
			return err
		}
		err = db.charge(lease.Context(), id, lease.Token())
		lease.Release() // does not wait until the node is gone
		if err != nil {
			return err
		}
	}
	// keyed: end
	return nil
}

// store stands for a database that has no transaction for this: only the lock makes it charge an order once.
type store struct {
	mu      sync.Mutex
	rows    map[string]row
	refused int
}

type row struct {
	charged int
	token   uint64 // the highest token that wrote the row
}

// charge charges the order, unless it is charged already.
func (s *store) charge(ctx context.Context, id string, token uint64) error {
	s.mu.Lock()
	was := s.rows[id]
	s.mu.Unlock()
	if was.charged > 0 {
		return nil
	}
	time.Sleep(time.Millisecond) // Here the customer's bank would be asked.
	// If the lock was lost meanwhile, ctx has ended. If ctx ends too late, the store still checks the token.
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return s.write(id, token)
}

// write enters one more charge. It refuses a smaller token than that of the last write: its holder had the lock earlier.
func (s *store) write(id string, token uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[id]
	if token < r.token {
		s.refused++
		return fmt.Errorf("%s was written with token %d, and now comes %d", id, r.token, token)
	}
	s.rows[id] = row{r.charged + 1, token}
	return nil
}

func (s *store) doubled() (n int) {
	for _, r := range s.rows {
		if r.charged > 1 {
			n++
		}
	}
	return n
}

// leftBehind counts the nodes of orders, when all workers are done.
func leftBehind(ctx context.Context) (int, error) {
	c, err := dial(ctx, "auditor")
	if err != nil {
		return 0, err
	}
	defer c.Close()
	s, err := c.Session(ctx)
	if err != nil {
		return 0, err
	}
	family := path.Dir(locks.At(c, locks.Root).Recipes.Order().For("any").Path())
	for soon := time.After(10 * time.Second); ; { // Release did not wait for its answer
		names, _, changed, err := s.ChildrenW(ctx, family)
		if err != nil || len(names) == 0 {
			return 0, err
		}
		select {
		case <-changed:
		case <-soon:
			return len(names), nil
		}
	}
}

// dial connects to ZOOKEEPER_SERVERS, or to the server of `locktree dev`.
func dial(ctx context.Context, id string) (*recipes.Client, error) {
	servers := os.Getenv("ZOOKEEPER_SERVERS")
	if servers == "" {
		servers = "127.0.0.1:2181"
	}
	return recipes.Dial(ctx, recipes.Config{Servers: strings.Split(servers, ","), ID: id})
}
