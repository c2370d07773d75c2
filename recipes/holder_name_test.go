package recipes_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// says is whom the first contender in dir names.
func (l *lab) says(dir string) string {
	l.T.Helper()
	in, err := inspect.Lock(l.T.Context(), l.Client("who"), dir)
	require.NoError(l.T, err)
	require.NotEmpty(l.T, in.Holders)
	return in.Holders[0].ID
}

// The error named the caller, which waits, as the holder.
func TestHeldErrorNamesTheGoroutineThatHoldsAndNotTheCaller(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("c")
		for path, lock := range named(c, "holder") {
			x := l.Lock(lock)
			long, cancelLong := context.WithTimeout(t.Context(), time.Minute)
			waiting := async(func() (*recipes.Lease, error) { return named(c, "first")[path](long) })
			l.Settle()
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := named(c, "second")[path](short)
			cancel()
			for position, err := range []error{(<-waiting).Err, err} {
				held := heldBy(t, err)
				require.Equal(t, "holder", held.Holder.ID, path)
				require.Equal(t, recipes.Hostname(), held.Holder.Host)
				require.NotZero(t, held.Holder.PID)
				require.True(t, held.Local)
				require.Equal(t, position+1, held.Position)
			}
			cancelLong()
			l.Unlock(x)
			l.NothingLeft()
		}
		x := l.Lock(c.Mutex("/m", recipes.WithID("holder")).Lock)
		_, err := c.Mutex("/m", recipes.WithID("caller")).TryLock(t.Context())
		require.EqualError(t, err, "recipes: lock /m is held by this client (holder), 1 ahead")
		l.Unlock(x)
	})
}

// Where no turn is needed, the error named a contender, "its node was not read".
func TestHeldErrorSaysThisClientOfItsOtherWaysToTheLock(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("c")
		ways := reentry(c)
		for has, wants := range map[string]string{"writer": "reader", "reader": "writer", "semaphore": "semaphore"} {
			x := l.Lock(ways[has])
			_, err := ways[wants+", try"](t.Context())
			require.ErrorContains(t, err, " is held by this client, ")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			behind := async(func() (*recipes.Lease, error) {
				time.Sleep(time.Second / 4)
				ctx, cancel := context.WithTimeout(ctx, time.Second/2)
				defer cancel()
				return ways[wants](ctx)
			})
			_, err = ways[wants](ctx)
			cancel()
			for _, err := range []error{err, (<-behind).Err} {
				held := heldBy(t, err)
				require.True(t, held.Local)
				require.ErrorContains(t, err, " is held by this client (c), ")
			}
			l.Unlock(x)
		}
		l.NothingLeft()
	})
}

// A goroutine that waits behind another of its client was told that the lock is held by itself, while another process had it.
func TestHeldErrorNamesWhomTheTurnOfThisClientWaitsFor(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c, other := l.Client("c"), l.Client("other")
		permits := func(c *recipes.Client, id string) func(context.Context) (*recipes.Lease, error) {
			return permits(c.Semaphore("/s", recipes.WithID(id)), 2)
		}
		for _, path := range []string{"/m", "/rw", "/e", "/s"} {
			lock := func(c *recipes.Client, id string) func(context.Context) (*recipes.Lease, error) {
				if path == "/s" {
					return permits(c, id)
				}
				return named(c, id)[path]
			}
			x := l.Lock(lock(other, "stranger"))
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			first := async(func() (*recipes.Lease, error) { return lock(c, "first")(ctx) })
			l.Settle()
			short, cancelShort := context.WithTimeout(t.Context(), 2*time.Second)
			_, err := lock(c, "second")(short)
			cancelShort()
			require.ErrorIs(t, (<-first).Err, context.DeadlineExceeded)
			cancel()
			held := heldBy(t, err, path)
			require.Equal(t, "stranger", held.Holder.ID, path)
			require.False(t, held.Local, path)
			require.Greater(t, held.Position, 1, path)
			l.Settle()
			w := async(func() (*recipes.Lease, error) { return lock(c, "third")(t.Context()) })
			l.Settle()
			l.Unlock(x)
			x = (<-w).V
			if path != "/s" { // permits are no turn
				short, cancel := context.WithTimeout(t.Context(), time.Second)
				_, err = lock(c, "fourth")(short)
				cancel()
				require.ErrorAs(t, err, &held, path)
				require.Equal(t, "third", held.Holder.ID, "%s: it waited, and holds now", path)
			}
			l.Unlock(x)
			l.NothingLeft()
		}
	})
}

func TestAHoldersDataKeepsWhatElseItSays(t *testing.T) {
	about := recipes.HolderSelf("a")
	about.Limit = 3
	var h kind.Holder
	require.NoError(t, json.Unmarshal(recipes.HeldData(kind.Semaphore.Queues[0], about.Encode(), "b", time.Now()), &h))
	require.Equal(t, "b", h.ID)
	require.Equal(t, 3, h.Limit)
	require.NotNil(t, h.Held)
	require.True(t, about.Since.Equal(h.Since))
	require.Equal(t, `{"id":"x"}`, string(recipes.HeldData(kind.Election.Queues[0], []byte("7"), `{"id":"x"}`, time.Now())), "an id and no mark, whatever it looks like")
}

// Who was to have the place gives up while it is made, and somebody else gets it.
func TestAPlaceMadeForAnotherIsRenamed(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("c")
		for path := range named(c, "") {
			x := l.Lock(named(c, "same")[path])
			l.Settle()
			gone, cancel := l.Leaving(named(c, "same")[path])
			w := async(func() (*recipes.Lease, error) { return named(c, "heir")[path](t.Context()) })
			l.Settle()
			slow := l.Srv.Inject(zktest.Once(zktest.On("multi")), zktest.Delay(time.Second))
			go func() { _ = x.Unlock(context.Background()) }()
			<-slow.Hit()
			cancel()
			if g := <-gone; g.Err == nil { // it was quicker
				l.Unlock(g.V)
			}
			r := <-w
			slow.Remove()
			require.NoError(t, r.Err)
			require.Equal(t, "heir", l.says(path), path)
			l.Unlock(r.V)
			l.NothingLeft()
		}
	})
}

// Other processes were told the name of who had given the lock up.
func TestTheNodeNamesTheGoroutineThatHolds(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("c")
		for path := range named(c, "") {
			x := l.Lock(named(c, "0")[path])
			for _, id := range []string{"1", "2", "2", "3"} {
				w := async(func() (*recipes.Lease, error) { return named(c, id)[path](t.Context()) })
				l.Settle()
				l.Srv.ResetCounts()
				l.Unlock(x)
				x = (<-w).V
				writes := 0
				for _, op := range []string{"create", "delete", "setData", "multi"} {
					writes += l.Srv.Counts().ByOp[op]
				}
				require.LessOrEqual(t, writes, 1, "%s to %s: %v", path, id, l.Srv.Counts().ByOp)
				require.Equal(t, id, l.says(path), path)
			}
			l.Unlock(x)
			l.NothingLeft()
		}
	})
}
