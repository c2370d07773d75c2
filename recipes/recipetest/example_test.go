package recipetest_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/recipetest"
)

// t stands for the *testing.T of a test, which an example does not have.
type t struct{ cleanups []func() }

func (t *t) Helper()                           {}
func (t *t) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *t) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }
func (t *t) Logf(string, ...any)               {}
func (t *t) end() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}

// compact works under a lock that it does not choose.
func compact(ctx context.Context, lock recipes.Locker, row func(context.Context) error) error {
	return lock.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error { return row(ctx) })
}

// A worker whose session ends in the middle of its work: the work must stop, and another worker can go on.
func ExampleCluster_Expire() {
	t := &t{} // in a test: its *testing.T
	defer t.end()
	c := recipetest.Start(t, recipetest.Lock("/locks/ledger", &kind.MutexParams{}))
	first, second := c.Client("worker-1"), c.Client("worker-2")

	err := compact(context.Background(), first.Mutex("/locks/ledger"), func(ctx context.Context) error {
		c.Expire(first)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	fmt.Println("the first has lost it:", errors.Is(err, recipes.ErrLost))
	err = compact(context.Background(), second.Mutex("/locks/ledger"), func(context.Context) error { return nil })
	fmt.Println("the second:", err)
	// Output:
	// the first has lost it: true
	// the second: <nil>
}

// The locks of a configuration, as its files declare them.
func ExampleNodes() {
	t := &t{} // in a test: its *testing.T
	defer t.end()
	cfg, diags := config.Load("../../examples/quickstart", config.Options{})
	if diags.HasErrors() {
		t.Fatalf("%v", diags)
	}
	c := recipetest.Start(t, recipetest.Nodes(cfg.Ensembles[0].Tree.Payloads()))

	workers := c.Client("worker-1").Semaphore("/locks/payments/workers")
	l, err := workers.Acquire(context.Background(), 3)
	fmt.Println("three permits:", err)
	_, err = workers.TryAcquire(context.Background(), 1)
	fmt.Println("a fourth is refused:", errors.Is(err, recipes.ErrHeld))
	_ = l.Unlock(context.Background())
	// Output:
	// three permits: <nil>
	// a fourth is refused: true
}

// busy is a lock that another client has.
type busy struct{ recipes.Locker }

func (busy) Do(context.Context, func(context.Context, *recipes.Lease) error) error {
	return recipes.ErrHeld
}

// A lock of the test's own, for code under test that must cope with its answers.
func Example_ownLock() {
	err := compact(context.Background(), busy{}, func(context.Context) error { return errors.New("not reached") })
	fmt.Println(err)
	// Output: recipes: held by another contender
}

// A lease for code that needs one.
func ExampleLease() {
	t := &t{} // in a test: its *testing.T
	defer t.end()
	lease, lose := recipetest.Lease(t, "/locks/ledger")
	fmt.Println(lease.Path(), "held:", lease.Verify(context.Background()) == nil, "with a token:", lease.Token() > 0)
	lose()
	fmt.Println("lost:", errors.Is(context.Cause(lease.Context()), recipes.ErrLost))
	// Output:
	// /locks/ledger held: true with a token: true
	// lost: true
}
