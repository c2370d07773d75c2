package recipes_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// Seen with an errgroup inside Do, as long as a context entered again by itself: ten goroutines inside one mutex at once.
func TestGoroutinesThatAHolderStartsAreNotInsideWithIt(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("a")
		for name, do := range waysToDo(c) {
			var inside atomic.Int64
			err := do(t.Context(), func(ctx context.Context, _ *recipes.Lease) error {
				var all sync.WaitGroup
				for range 10 {
					all.Go(func() {
						err := do(ctx, func(context.Context, *recipes.Lease) error { inside.Add(1); return nil })
						require.ErrorIs(t, err, recipes.ErrWouldDeadlock, name)
						if name != "set" { // which leaves members out instead
							require.ErrorContains(t, err, "to nest, open the handle WithReentrancy", name)
						}
					})
				}
				all.Wait()
				return nil
			})
			require.NoError(t, err)
			require.Zero(t, inside.Load(), name)
		}
		l.NothingLeft()
	})
}

// relocks are, for each lock held, the ways that lock it again.
var relocks = map[string][]string{
	"mutex":     {"mutex", "mutex, try", "set"},
	"writer":    {"writer", "writer, try", "reader", "reader, try", "set"},
	"reader":    {"writer", "writer, try", "reader", "reader, try", "set"},
	"semaphore": {"semaphore", "semaphore, try"},
	"election":  {"election", "set"},
	"set":       {"mutex", "mutex, try", "writer", "writer, try", "reader", "reader, try", "election", "set", "set, try"},
}

func TestLockingAgainIsRefusedUnlessReentrancyIsAskedFor(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("a")
		for first, seconds := range relocks {
			outer, err := reentry(c, recipes.WithReentrancy())[first](t.Context()) // the handle that locks again decides
			require.NoError(t, err, first)
			for _, second := range seconds {
				l.Settle()
				l.Srv.ResetCounts()
				start := time.Now()
				_, err := reentry(c)[second](outer.Context())
				require.ErrorIs(t, err, recipes.ErrWouldDeadlock, "%s in %s", second, first)
				require.Zero(t, time.Since(start), "%s in %s", second, first)
				require.Zero(t, l.Srv.Counts().Total, "%s in %s: %v", second, first, l.Srv.Counts().ByOp)
			}
			other, err := c.Election("/other", recipes.WithParams(kind.Election.New()), recipes.WithCreate()).Campaign(outer.Context())
			require.NoError(t, err, "another lock with that context")
			l.Unlock(other)
			l.Unlock(outer)
			l.NothingLeft()
		}
	})
}

// nodes are all contenders of everyKind's locks.
func (l *lab) nodes() []string {
	var all []string
	for _, dir := range []string{"/m", "/rw", "/s/leases", "/s/locks", "/e"} {
		all = append(all, l.Queue(dir)...)
	}
	return all
}

func TestReentrancyAcrossModes(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("a")
		for first, seconds := range relocks {
			for _, second := range seconds {
				outer := l.Lock(reentry(c)[first], first)
				before := l.nodes()
				inner, err := reentry(c, recipes.WithReentrancy())[second](outer.Context())
				switch {
				case strings.HasPrefix(second, "set"):
					require.ErrorIs(t, err, recipes.ErrWouldDeadlock, "%s in %s", second, first)
				case (first == "reader" || first == "set") && strings.HasPrefix(second, "writer"): // a set reads it
					require.ErrorIs(t, err, recipes.ErrWouldDeadlock, "%s in %s", second, first)
				default:
					require.NoError(t, err, "%s in %s", second, first)
					require.Equal(t, outer.Token(), inner.Token(), "%s in %s", second, first)
					l.Unlock(outer)
					l.Unlock(outer) // again: it does not count twice
					require.NoError(t, inner.Context().Err(), "%s in %s", second, first)
					require.Equal(t, before, l.nodes(), "%s in %s: given back by the first of two", second, first)
					outer = inner
				}
				l.Unlock(outer)
				l.NothingLeft()
			}
		}
	})
}

func TestMorePermitsThanAreHeldAreNotEntered(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		m := l.Client("a").Semaphore("/s", recipes.WithReentrancy())
		x := l.Lock(permits(m, 2))
		_, err := m.Acquire(x.Context(), 3)
		require.ErrorIs(t, err, recipes.ErrWouldDeadlock)
		require.ErrorContains(t, err, "a lease of 2 permits of /s, 3 are wanted")
		y, err := m.Acquire(x.Context(), 1)
		require.NoError(t, err)
		require.Len(t, l.Children("/s/leases"), 2)
		beside := l.Lock(permits(m, 1)) // another context asks for further permits
		l.Unlock(beside)
		l.Unlock(y)
		l.Unlock(x)
		l.NothingLeft()
	})
}
