package demo

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/recipetest"
)

// Two programs of "demo -serve" that wait for each other's lock waited for ever, and soon all five did: the page showed a standstill.
func TestACircleOfTheDemoEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := recipetest.Start(t, recipetest.Lock(demoLocks[0].path, &kind.MutexParams{}), recipetest.Lock(demoLocks[3].path, &kind.ElectionParams{}))
		var both sync.WaitGroup
		for name, first := range map[string]int{"program-1": 0, "program-2": len(demoLocks) - 1} {
			client := c.Client(name)
			both.Go(func() { holdFor(t.Context(), client, first, true) })
		}
		both.Wait()
	})
}
