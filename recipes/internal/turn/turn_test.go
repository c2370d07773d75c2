package turn_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/recipes/internal/turn"
)

var a, b = turn.Key{Path: "a"}, turn.Key{Path: "b"}

// A single caller overtakes a set that cannot go on, and no set has one turn of two.
func TestASetHasAllItsTurnsOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns turn.Turns[int]
		enter := func(key turn.Key, id string) {
			_, _, ahead := turns.Enter(t.Context(), []turn.Member{{Key: key, ID: id}}, true, false, nil)
			require.Nil(t, ahead)
		}
		enter(b, "holder")
		var all sync.WaitGroup
		all.Go(func() {
			_, _, ahead := turns.Enter(t.Context(), []turn.Member{{Key: a, ID: "set"}, {Key: b, ID: "set"}}, false, false, nil)
			require.Nil(t, ahead)
		})
		synctest.Wait()
		require.False(t, turns.Taken(a))
		require.Nil(t, turns.Owner(t.Context(), a))
		enter(a, "nested")
		turns.Leave(b)
		synctest.Wait()
		require.False(t, turns.Taken(b), "the set waits for a")
		_, waits := turns.Next(a)
		require.False(t, waits, "a set takes no place")
		require.False(t, turns.HandOver(a, new(int)))
		turns.Leave(a)
		all.Wait()
		require.True(t, turns.Taken(a))
		require.True(t, turns.Taken(b))
		turns.Leave(a)
		turns.Leave(b)
		require.Empty(t, turns.Keys())
	})
}

func TestASetThatGivesUpNamesWhoIsInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns turn.Turns[int]
		_, _, ahead := turns.Enter(t.Context(), []turn.Member{{Key: b, ID: "holder"}}, true, false, nil)
		require.Nil(t, ahead)
		set := []turn.Member{{Key: a, ID: "set"}, {Key: b, ID: "set"}}
		_, of, ahead := turns.Enter(t.Context(), set, false, true, nil)
		require.Equal(t, 1, of)
		require.Equal(t, "holder", ahead.ID)
		require.False(t, ahead.Ended)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, of, ahead = turns.Enter(ctx, set, false, false, nil)
		require.Equal(t, 1, of)
		require.Equal(t, "holder", ahead.ID)
		require.True(t, ahead.Ended)
		require.Equal(t, []turn.Key{b}, turns.Keys(), "nothing waits for a")
		turns.Leave(b)
		require.Empty(t, turns.Keys())
	})
}

// Single callers and sets do anything, and give up at any time. One has a turn at a time, and nothing waits once the last that had a turn
// has gone.
func TestNothingWaitsWhenTheLastHasGone(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		seed, callers := rapid.Uint64().Draw(r, "seed"), rapid.IntRange(2, 8).Draw(r, "callers")
		var failed error
		synctest.Test(t, func(t *testing.T) {
			var turns turn.Turns[int]
			var all sync.WaitGroup
			var mu sync.Mutex
			has := map[turn.Key]int{}
			count := func(keys []turn.Key, by int) {
				mu.Lock()
				defer mu.Unlock()
				for _, key := range keys {
					if has[key] += by; has[key] > 1 {
						failed = errors.New("two have the turn for " + key.Path)
					}
				}
			}
			for i := range callers {
				dice := rand.New(rand.NewPCG(seed, uint64(i)))
				all.Go(func() {
					for range 10 {
						keys := []turn.Key{a, b, {Path: "c"}, {Path: "d"}}
						dice.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
						keys = keys[:1+dice.IntN(3)]
						long, patience := dice.IntN(2) == 0, time.Millisecond
						if long {
							patience = time.Hour
						}
						ctx, stop := context.WithTimeout(context.Background(), patience)
						var ahead *turn.Ahead
						try := dice.IntN(4) == 0
						if len(keys) == 1 {
							_, _, ahead = turns.Enter(ctx, []turn.Member{{Key: keys[0]}}, true, try, nil)
						} else {
							var set []turn.Member
							for _, key := range keys {
								set = append(set, turn.Member{Key: key})
							}
							_, _, ahead = turns.Enter(ctx, set, false, try, nil)
						}
						if ahead == nil {
							count(keys, 1)
							time.Sleep(time.Duration(dice.IntN(3)) * time.Millisecond)
							if dice.IntN(2) == 0 {
								(&turn.Ticket[int]{Turns: &turns, Set: []turn.Member{{Key: keys[0]}}}).Leaving()
								time.Sleep(time.Duration(dice.IntN(2)) * time.Millisecond)
							}
							count(keys, -1)
							for _, key := range slices.Backward(keys) {
								if len(keys) > 1 || !turns.HandOver(key, new(int)) {
									turns.Leave(key)
								}
							}
						} else if long && !try {
							mu.Lock()
							failed = errors.New("a call waited for an hour")
							mu.Unlock()
						}
						stop()
					}
				})
			}
			all.Wait()
			if left := turns.Keys(); len(left) > 0 {
				failed = errors.Join(failed, errors.New("somebody still waits, or has a turn"))
			}
		})
		if failed != nil {
			r.Fatal(failed)
		}
	})
}

// Two goroutines try at the same moment. The one that was beaten waited for as long as the other one held the lock.
func TestTryThatIsBeatenToTheTurnWaitedForIt(t *testing.T) {
	for range 50000 {
		var turns turn.Turns[int]
		var ready atomic.Int32
		tried := make(chan bool, 2)
		for range cap(tried) {
			go func() {
				for ready.Add(1); ready.Load() < 2; {
					runtime.Gosched()
				}
				_, _, ahead := turns.Enter(context.Background(), []turn.Member{{Key: a, ID: "a"}}, true, true, nil)
				tried <- ahead == nil
			}()
		}
		for len(tried) < cap(tried) {
			if _, waits := turns.Next(a); waits {
				turns.Leave(a)
				require.FailNow(t, "a try waits for the turn")
			}
			runtime.Gosched()
		}
		require.NotEqual(t, <-tried, <-tried)
	}
}
