package leader_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/examples/adapters/leader"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/recipetest"
)

const path = "/locks/leader"

func start(t *testing.T) *recipetest.Cluster {
	return recipetest.Start(t, recipetest.Lock(path, &kind.ElectionParams{}))
}

// run records what is called.
func run(ctx context.Context, c *recipes.Client, started func(context.Context), calls chan<- string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		ended <- leader.Run(ctx, c.Election(path), leader.Callbacks{
			OnStartedLeading: func(ctx context.Context) { calls <- "started"; started(ctx) },
			OnStoppedLeading: func() { calls <- "stopped" },
			OnNewLeader:      func(id string) { calls <- "leader " + id },
		})
	}()
	return ended
}

func drain(calls <-chan string) (all []string) {
	for len(calls) > 0 {
		all = append(all, <-calls)
	}
	return all
}

// When ctx ends, the next one leads only when OnStartedLeading has returned, and OnStoppedLeading comes after it. A callback that
// returns early gives nothing up. Who never led is told that it has stopped, too.
func TestTheNextOneWaitsForTheCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		ctx, stop := context.WithCancel(t.Context())
		work := make(chan struct{})
		first, second, never := make(chan string, 9), make(chan string, 9), make(chan string, 9)
		firstEnded := run(ctx, c.Client("a"), func(context.Context) { <-work }, first)
		synctest.Wait()
		later, stopLater := context.WithCancel(t.Context())
		secondEnded := run(later, c.Client("b"), func(context.Context) {}, second)
		synctest.Wait()
		neverEnded := run(later, c.Client("c"), func(context.Context) {}, never)
		synctest.Wait()
		require.ElementsMatch(t, []string{"started", "leader a"}, drain(first))

		stop()
		synctest.Wait()
		require.Empty(t, drain(first))
		require.Equal(t, []string{"leader a"}, drain(second))
		close(work)
		require.ErrorIs(t, <-firstEnded, context.Canceled)
		require.Equal(t, []string{"stopped"}, drain(first))
		synctest.Wait()
		require.ElementsMatch(t, []string{"started", "leader b"}, drain(second))

		stopLater()
		require.ErrorIs(t, <-secondEnded, context.Canceled)
		require.ErrorIs(t, <-neverEnded, context.Canceled)
		require.Equal(t, []string{"stopped"}, drain(second))
		require.Equal(t, "stopped", drain(never)[2], "after leader a and leader b")
	})
}

// A loss is told at once, also to a program whose OnStartedLeading does not look at its context.
func TestALossIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		client, work, calls := c.Client("a"), make(chan struct{}), make(chan string, 9)
		ended := run(t.Context(), client, func(context.Context) { <-work }, calls)
		synctest.Wait()
		drain(calls)
		c.Expire(client)
		require.Equal(t, "stopped", <-calls)
		require.Empty(t, ended)
		close(work)
		require.ErrorIs(t, <-ended, recipes.ErrLost)
		require.Empty(t, drain(calls))
	})
}
