package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// provisioned starts an in-memory ZooKeeper with one declared lock, as locktree apply would leave it, and connects.
func provisioned(path string, p kind.Params) (*recipes.Client, func()) {
	srv := zktest.New()
	if err := srv.Provision(path, &kind.Payload{Params: p}); err != nil {
		log.Fatal(err)
	}
	c, err := recipes.Dial(context.Background(), recipes.Config{
		Servers: []string{"zookeeper"}, ID: "worker-1", SessionTimeout: 40 * time.Second, ConnectTimeout: time.Minute,
		Dialer: srv.DialContext,
	})
	if err != nil {
		log.Fatal(err)
	}
	return c, func() {
		if err := c.Close(); err != nil {
			log.Print(err)
		}
		srv.Close()
	}
}

// A critical section. Each write carries the token, so the store can refuse a holder that has lost the lock without knowing.
func ExampleMutex_Do() {
	c, closeAll := provisioned("/locks/ledger", kind.Mutex.New())
	defer closeAll()
	ctx := context.Background()
	m := c.Mutex("/locks/ledger")

	err := m.Do(ctx, func(ctx context.Context, l *recipes.Lease) error {
		fmt.Println("held, with a token:", l.Token() > 0)
		_, err := m.TryLock(context.Background())
		var held *recipes.HeldError
		fmt.Println("a second one is refused:", errors.As(err, &held), held.Holder.ID)
		return nil
	})
	fmt.Println("given back:", err)
	// Output:
	// held, with a token: true
	// a second one is refused: true worker-1
	// given back: <nil>
}

// At most two downloads at a time, over all processes.
func ExampleSemaphore_Acquire() {
	c, closeAll := provisioned("/limits/downloads", &kind.SemaphoreParams{Permits: 2})
	defer closeAll()
	ctx := context.Background()
	s := c.Semaphore("/limits/downloads")

	both, err := s.Acquire(ctx, 2) // all or none
	if err != nil {
		log.Fatal(err)
	}
	_, err = s.TryAcquire(ctx, 1)
	fmt.Println("a third is refused:", errors.Is(err, recipes.ErrHeld))
	if err := both.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	one, err := s.TryAcquire(ctx, 1)
	fmt.Println("after the release:", err)
	fmt.Println(one.Unlock(ctx))
	// Output:
	// a third is refused: true
	// after the release: <nil>
	// <nil>
}

// A worker that runs in one process at a time. Lead waits for the function before the next candidate may lead.
func ExampleElection_Lead() {
	c, closeAll := provisioned("/elections/billing", kind.Election.New())
	defer closeAll()
	e := c.Election("/elections/billing")

	err := e.Lead(context.Background(), func(ctx context.Context, l *recipes.Lease) error {
		leader, _, err := e.Leader(ctx)
		fmt.Println("leading:", leader.ID)
		return err
	})
	fmt.Println("stepped down:", err)
	// Output:
	// leading: worker-1
	// stepped down: <nil>
}

// Readers share, writers do not, and a writer can become a reader without letting another caller in between. Do gives back the lease that
// is left.
func ExampleRWMutex_Downgrade() {
	c, closeAll := provisioned("/locks/cache", kind.RWLock.New())
	defer closeAll()
	ctx := context.Background()
	m := c.RWMutex("/locks/cache")

	err := m.Do(ctx, func(written context.Context, w *recipes.Lease) error {
		r, err := m.Downgrade(ctx, w)
		if err != nil {
			return err
		}
		<-written.Done() // code that still writes is told to stop
		fmt.Println("it reads:", r.Context().Err() == nil)
		other, err := m.TryRLock(ctx)
		fmt.Println("another reader:", err)
		_, err = m.TryLock(ctx)
		fmt.Println("a writer is refused:", errors.Is(err, recipes.ErrHeld))
		return other.Unlock(ctx)
	})
	fmt.Println("given back:", err)
	// Output:
	// it reads: true
	// another reader: <nil>
	// a writer is refused: true
	// given back: <nil>
}

// One transaction locks two accounts. No order of the members causes a deadlock.
func ExampleMultiLock_Do() {
	c, closeAll := provisioned("/accounts/alice", kind.Mutex.New())
	defer closeAll()
	bob := c.Mutex("/accounts/bob", recipes.WithParams(kind.Mutex.New()), recipes.WithCreate())

	err := c.MultiLock(c.Mutex("/accounts/alice"), bob).Do(context.Background(), func(context.Context, *recipes.Lease) error {
		fmt.Println("both accounts are held")
		return nil
	})
	fmt.Println(err)
	// Output:
	// both accounts are held
	// <nil>
}

// A worker that charges each order once, under a lock of the order's own. The store refuses tokens smaller than the largest it has
// seen for the order, so a worker that has lost its lock without knowing charges nothing.
func ExampleKeyed_Do() {
	c, closeAll := provisioned("/locks/orders", &kind.KeyedParams{Of: "mutex"})
	defer closeAll()
	ctx := context.Background()
	orders := c.Keyed("/locks/orders")

	type order struct {
		token   uint64
		charged int
	}
	store := map[string]*order{"4711": {}, "4712": {}}
	charge := func(id string, token uint64) error {
		o := store[id]
		if token < o.token {
			return fmt.Errorf("order %s: a newer holder has been here", id)
		}
		if o.token = token; o.charged == 0 {
			o.charged++
		}
		return nil
	}
	for _, id := range []string{"4711", "4712", "4711"} { // delivered twice, as messages are
		err := orders.Do(ctx, func(_ context.Context, l *recipes.Lease) error { return charge(id, l.Token()) }, id)
		if err != nil {
			fmt.Println(err)
		}
	}
	s, err := c.Session(ctx)
	if err != nil {
		log.Fatal(err)
	}
	left, _, err := s.Children(ctx, "/locks/orders")
	fmt.Println("charged:", store["4711"].charged, store["4712"].charged, "left behind:", len(left), err)
	// Output:
	// charged: 1 1 left behind: 0 <nil>
}
