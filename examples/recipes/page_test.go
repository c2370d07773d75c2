package recipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/examples/recipes/locks"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/recipetest"
	"github.com/locktree/locktree/recipes/zktest"
)

// The pages of docs show these functions and tests. declared declares the locks of this folder's configuration.
func declared(s *zktest.Server) error { return locks.Provision(s, locks.Root) }

func compact(ctx context.Context, client *recipes.Client, write func(token uint64) error) error {
	// mutex: begin
	turns := locks.At(client, locks.Root).Recipes.Turns()
	return turns.Do(ctx, func(ctx context.Context, lease *recipes.Lease) error {
		// ctx ends when the lock is lost. The token lets the store refuse earlier holders.
		return write(lease.Token())
	})
	// mutex: end
}

func TestTheWorkOfALostMutexIsCancelled(t *testing.T) {
	// mutex test: begin
	synctest.Test(t, func(t *testing.T) { // fake time: timeouts take no time
		cluster := recipetest.Start(t, declared)
		client := cluster.Client("worker-1")
		err := locks.At(client, locks.Root).Recipes.Turns().Do(t.Context(), func(ctx context.Context, _ *recipes.Lease) error {
			cluster.Expire(client) // the servers end the session
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, recipes.ErrLost)
	})
	// mutex test: end
}

func TestEachCompactionHasALargerToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := recipetest.Start(t, declared).Client("worker-1")
		var tokens []uint64
		for range 2 {
			require.NoError(t, compact(t.Context(), client, func(token uint64) error {
				tokens = append(tokens, token)
				return nil
			}))
		}
		require.Less(t, tokens[0], tokens[1])
	})
}

func renew(ctx context.Context, client *recipes.Client, load, store func(context.Context, *recipes.Lease) error) error {
	// rwlock: begin
	prices := locks.At(client, locks.Root).Recipes.Prices()
	if err := prices.RDo(ctx, load); err != nil { // beside other readers
		return err
	}
	return prices.Do(ctx, store) // alone
	// rwlock: end
}

func TestReadersShareAndAWriterIsAlone(t *testing.T) {
	// rwlock test: begin
	synctest.Test(t, func(t *testing.T) {
		cluster := recipetest.Start(t, declared)
		reader := locks.At(cluster.Client("reader"), locks.Root).Recipes.Prices()
		writer := locks.At(cluster.Client("writer"), locks.Root).Recipes.Prices()
		err := reader.RDo(t.Context(), func(ctx context.Context, _ *recipes.Lease) error {
			_, err := writer.TryLock(ctx)
			require.ErrorIs(t, err, recipes.ErrHeld)
			second, err := writer.TryRLock(ctx) // another client reads at the same time
			require.NoError(t, err)
			return second.Unlock(ctx)
		})
		require.NoError(t, err)
	})
	// rwlock test: end
}

func TestPricesAreReadAndRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []string
		step := func(name string) func(context.Context, *recipes.Lease) error {
			return func(context.Context, *recipes.Lease) error {
				ran = append(ran, name)
				return nil
			}
		}
		require.NoError(t, renew(t.Context(), recipetest.Start(t, declared).Client("worker-1"), step("load"), step("store")))
		require.Equal(t, []string{"load", "store"}, ran)
	})
}

func TestPermitsAreTakenTogether(t *testing.T) {
	// semaphore test: begin
	synctest.Test(t, func(t *testing.T) {
		client := recipetest.Start(t, declared).Client("worker-1")
		api := locks.At(client, locks.Root).Recipes.Api()
		two, err := api.Acquire(t.Context(), 2)
		require.NoError(t, err)
		_, err = api.TryAcquire(t.Context(), 2) // one of three is left
		require.ErrorIs(t, err, recipes.ErrHeld)
		require.NoError(t, two.Unlock(t.Context()))
	})
	// semaphore test: end
}

func TestTheNextCandidateLeads(t *testing.T) {
	// election test: begin
	synctest.Test(t, func(t *testing.T) {
		cluster := recipetest.Start(t, declared)
		first, second := cluster.Client("worker-1"), cluster.Client("worker-2")
		_, err := locks.At(first, locks.Root).Recipes.Worker().Campaign(t.Context())
		require.NoError(t, err)
		cluster.Expire(first)
		err = locks.At(second, locks.Root).Recipes.Worker().Lead(t.Context(), func(ctx context.Context, _ *recipes.Lease) error {
			return nil // the second candidate leads now
		})
		require.NoError(t, err)
	})
	// election test: end
}

func transfer(ctx context.Context, client *recipes.Client, move func(token uint64) error) error {
	// multilock: begin
	account := locks.At(client, locks.Root).Recipes.Account
	both := client.MultiLock(account(locks.RecipesAccountAlice), account(locks.RecipesAccountBob))
	return both.Do(ctx, func(ctx context.Context, lease *recipes.Lease) error {
		return move(lease.Token())
	})
	// multilock: end
}

func TestBothAccountsAreTakenOrNone(t *testing.T) {
	// multilock test: begin
	synctest.Test(t, func(t *testing.T) {
		client := recipetest.Start(t, declared).Client("teller")
		account := locks.At(client, locks.Root).Recipes.Account
		alice, bob := account(locks.RecipesAccountAlice), account(locks.RecipesAccountBob)
		lease, err := bob.Lock(t.Context())
		require.NoError(t, err)
		_, err = client.MultiLock(alice, bob).TryLock(t.Context())
		require.ErrorIs(t, err, recipes.ErrHeld)
		require.NoError(t, lease.Unlock(t.Context()))
		require.NoError(t, transfer(t.Context(), client, func(uint64) error { return nil }))
	})
	// multilock test: end
}

func TestOtherKeysAreFree(t *testing.T) {
	// keyed test: begin
	synctest.Test(t, func(t *testing.T) {
		client := recipetest.Start(t, declared).Client("charger")
		orders := locks.At(client, locks.Root).Recipes.Order()
		lease, err := orders.For("4711").Lock(t.Context())
		require.NoError(t, err)
		_, err = orders.For("4711").TryLock(t.Context())
		require.ErrorIs(t, err, recipes.ErrHeld)
		require.NoError(t, orders.Do(t.Context(), func(context.Context, *recipes.Lease) error { return nil }, "4712", "4713"))
		require.NoError(t, lease.Unlock(t.Context()))
	})
	// keyed test: end
}

func report(ctx context.Context, client *recipes.Client, write func(night time.Time, token uint64) error) error {
	// once: begin
	job := locks.At(client, locks.Root).Recipes.Report()
	return job.Run(ctx, func(ctx context.Context, slot time.Time, lease *recipes.Lease) error {
		return write(slot, lease.Token()) // runs for each slot, on one of the machines
	})
	// once: end
}

func TestEachNightIsReportedOnce(t *testing.T) {
	// once test: begin
	synctest.Test(t, func(t *testing.T) {
		cluster := recipetest.Start(t, declared)
		ctx, stop := context.WithTimeout(t.Context(), 48*time.Hour) // two nights, in no time
		defer stop()
		reports := make(chan time.Time, 10)
		for _, machine := range []string{"host-a", "host-b", "host-c"} {
			client := cluster.Client(machine)
			go report(ctx, client, func(night time.Time, _ uint64) error { reports <- night; return nil })
		}
		<-ctx.Done()
		require.Len(t, reports, 2)
	})
	// once test: end
}
