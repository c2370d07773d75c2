package recipes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// A set took the turn for one member and waited for the other, whose holder wanted the first: both waited for good.
func TestASetKeepsNoTurnFromAHolderThatItWaitsFor(t *testing.T) {
	for _, keyed := range []bool{false, true} {
		runInLab(t, fmt.Sprintf("keyed %v", keyed), func(t *testing.T, l *lab) {
			l.Declare("/a", kind.Mutex.New())
			l.Declare("/b", kind.Mutex.New())
			l.Declare("/k", &kind.KeyedParams{Of: "mutex", Foreign: "false"})
			c := l.Client("c")
			lock := func(n string) *recipes.Mutex {
				if keyed {
					return c.Keyed("/k").Mutex(n)
				}
				return c.Mutex("/" + n)
			}
			b := l.Lock(lock("b").Lock)
			set := async(func() (*recipes.Lease, error) { return c.MultiLock(lock("a"), lock("b")).Lock(context.Background()) })
			l.Settle()
			nested, done := context.WithTimeout(b.Context(), time.Second)
			defer done()
			a, err := lock("a").Lock(nested)
			require.NoError(t, err, "the set waits for b, and does not keep a meanwhile")
			l.Unlock(b)
			l.Settle()
			notYet(t, set, "a is held")
			l.Unlock(a)
			l.Unlock(l.Got(set))
			require.Empty(t, c.Leftovers())
		})
	}
}

// A try of a set waits for nobody, and is told who is in the way.
func TestATryOfASetTakesNoTurn(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		paths := l.Mutexes(2)
		c := l.Client("c")
		x := l.Lock(c.Mutex(paths[1]).Lock)
		_, err := multi(c, paths...).TryLock(t.Context())
		held := heldBy(t, err)
		require.Equal(t, paths[1], held.Path)
		require.True(t, held.Local)
		l.Unlock(l.Lock(c.Mutex(paths[0]).TryLock))
		l.Unlock(x)
		require.Empty(t, c.Leftovers())
	})
}

// Goroutines of one client take locks and sets of them, and further locks while they hold some, in the order of the paths. No such
// program waits in a circle by itself; sets that kept turns while they waited for others made it do so.
func TestNestedCallsAndSetsOfOneClientComeToAnEnd(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		seed := rapid.Uint64().Draw(r, "seed")
		goroutines := rapid.IntRange(2, 6).Draw(r, "goroutines")
		inLab(t, func(t *testing.T, l *lab) {
			paths := l.Mutexes(4)
			c := l.Client("c")
			var all sync.WaitGroup
			for g := range goroutines {
				dice := rand.New(rand.NewPCG(seed, uint64(g)))
				all.Go(func() {
					for range 5 {
						ctx, stop := context.WithTimeout(t.Context(), time.Hour)
						if dice.IntN(2) == 0 { // a set, by a caller that holds nothing
							order := dice.Perm(len(paths))[:2+dice.IntN(3)]
							var members []string
							for _, i := range order {
								members = append(members, paths[i])
							}
							x, err := multi(c, members...).Lock(ctx)
							if err != nil {
								t.Errorf("seed %d: set of %v: %v", seed, members, err)
								stop()
								return
							}
							time.Sleep(time.Duration(dice.IntN(50)) * time.Millisecond)
							_ = x.Unlock(ctx)
							stop()
							continue
						}
						// Downwards: the reverse of the order in which sets took their turns.
						var leases []*recipes.Lease
						inner := ctx
						for i := len(paths) - 1; i >= 0; i-- {
							if dice.IntN(2) == 0 {
								continue
							}
							x, err := c.Mutex(paths[i]).Lock(inner)
							if err != nil {
								t.Errorf("seed %d: %s nested in %d: %v", seed, paths[i], len(leases), err)
								break
							}
							leases, inner = append(leases, x), x.Context()
							time.Sleep(time.Duration(dice.IntN(50)) * time.Millisecond)
						}
						for _, x := range leases {
							_ = x.Unlock(ctx)
						}
						stop()
					}
				})
			}
			all.Wait()
			l.Settle()
			if left := c.Leftovers(); len(left) > 0 {
				t.Errorf("seed %d: %v", seed, left)
			}
		})
		if t.Failed() {
			r.FailNow()
		}
	})
}
