package inspect_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// dial connects a program of this name to the in-memory ZooKeeper.
func dial(srv *zktest.Server, id string) *recipes.Client {
	c, err := recipes.Dial(context.Background(), recipes.Config{Servers: []string{"zk"}, ID: id, Dialer: srv.DialContext,
		SessionTimeout: 40 * time.Second, ConnectTimeout: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// lock takes a lock, or waits for it in the background.
func lock(m *recipes.Mutex) {
	if _, err := m.TryLock(context.Background()); err != nil {
		go m.Lock(context.Background())
	}
}

// report looks at a lock, whenever its queue changes, until it has a waiter.
func report(c *recipes.Client, path string) *inspect.Report {
	ctx := context.Background()
	s, err := c.Session(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for {
		_, _, changed, err := s.ChildrenW(ctx, path)
		if err != nil {
			log.Fatal(err)
		}
		r, err := inspect.Lock(ctx, c, path)
		if err != nil {
			log.Fatal(err)
		}
		if len(r.Waiters) > 0 {
			return r
		}
		<-changed
	}
}

// The holder of a lock and its waiters.
func ExampleLock() {
	srv := zktest.New()
	defer srv.Close()
	if err := srv.Provision("/locks/ledger", &kind.Payload{Params: kind.Mutex.New()}); err != nil {
		log.Fatal(err)
	}
	for _, id := range []string{"worker-1", "worker-2"} {
		c := dial(srv, id)
		defer c.Close()
		lock(c.Mutex("/locks/ledger"))
	}
	c := dial(srv, "operator")
	defer c.Close()
	r := report(c, "/locks/ledger")
	fmt.Println(r.Kind, "held by", r.Holders[0].ID, "with token", r.Holders[0].Token > 0)
	fmt.Println("next:", r.Waiters[0].ID)
	// Output:
	// mutex held by worker-1 with token true
	// next: worker-2
}

// Two programs that take two locks in different orders.
func ExampleWaitsFor() {
	srv := zktest.New()
	defer srv.Close()
	for _, path := range []string{"/locks/a", "/locks/b"} {
		if err := srv.Provision(path, &kind.Payload{Params: kind.Mutex.New()}); err != nil {
			log.Fatal(err)
		}
	}
	one, two := dial(srv, "one"), dial(srv, "two")
	defer one.Close()
	defer two.Close()
	lock(one.Mutex("/locks/a"))
	lock(two.Mutex("/locks/b"))
	lock(one.Mutex("/locks/b"))
	lock(two.Mutex("/locks/a"))

	for _, d := range inspect.WaitsFor(report(one, "/locks/a"), report(one, "/locks/b")).Deadlocks {
		fmt.Println(d)
	}
	// Output:
	// deadlock: two holds /locks/b and waits for /locks/a; one holds /locks/a and waits for /locks/b
}
