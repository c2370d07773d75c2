package recipes_test

import (
	"context"
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
		l.everyKind()
		c := l.client("a")
		for name, do := range map[string]func(context.Context, func(context.Context, *recipes.Lease) error) error{
			"mutex":  c.Mutex("/m").Do,
			"writer": c.RWMutex("/rw").Do,
			"reader": c.RWMutex("/rw").RDo,
			"permits": func(ctx context.Context, f func(context.Context, *recipes.Lease) error) error {
				return c.Semaphore("/s").Do(ctx, 1, f)
			},
		} {
			var inside atomic.Int64
			err := do(t.Context(), func(ctx context.Context, _ *recipes.Lease) error {
				var all sync.WaitGroup
				for range 10 {
					all.Go(func() {
						err := do(ctx, func(context.Context, *recipes.Lease) error { inside.Add(1); return nil })
						require.ErrorIs(t, err, recipes.ErrWouldDeadlock, name)
						require.ErrorContains(t, err, "to nest, open the handle WithReentrancy", name)
					})
				}
				all.Wait()
				return nil
			})
			require.NoError(t, err)
			require.Zero(t, inside.Load(), name)
		}
		l.nothingLeft()
	})
}

// reentry are all ways to lock what everyKind declares.
func reentry(c *recipes.Client, o ...recipes.Option) map[string]func(context.Context) (*recipes.Lease, error) {
	campaign := func(ctx context.Context) (*recipes.Lease, error) {
		lead, err := c.Election("/e", o...).Campaign(ctx)
		if err != nil {
			return nil, err
		}
		return lead, nil
	}
	permits := func(take func(*recipes.Semaphore, context.Context, int) (*recipes.Lease, error)) func(context.Context) (*recipes.Lease, error) {
		return func(ctx context.Context) (*recipes.Lease, error) { return take(c.Semaphore("/s", o...), ctx, 2) }
	}
	return map[string]func(context.Context) (*recipes.Lease, error){
		"mutex": c.Mutex("/m", o...).Lock, "mutex, try": c.Mutex("/m", o...).TryLock,
		"write": c.RWMutex("/rw", o...).Lock, "write, try": c.RWMutex("/rw", o...).TryLock,
		"read": c.RWMutex("/rw", o...).RLock, "read, try": c.RWMutex("/rw", o...).TryRLock,
		"permits": permits((*recipes.Semaphore).Acquire), "permits, try": permits((*recipes.Semaphore).TryAcquire),
		"election": campaign,
		"set":      c.MultiLock(c.Mutex("/m", o...), c.RWMutex("/rw", o...), c.Election("/e", o...)).Lock,
	}
}

// relocks are, for each lock held, the ways that lock it again.
var relocks = map[string][]string{
	"mutex":    {"mutex", "mutex, try", "set"},
	"write":    {"write", "write, try", "read", "read, try", "set"},
	"read":     {"write", "write, try", "read", "read, try", "set"},
	"permits":  {"permits", "permits, try"},
	"election": {"election", "set"},
	"set":      {"mutex", "mutex, try", "write", "write, try", "read", "read, try", "election", "set"},
}

func TestLockingAgainIsRefusedUnlessReentrancyIsAskedFor(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.everyKind()
		c := l.client("a")
		for first, seconds := range relocks {
			outer, err := reentry(c, recipes.WithReentrancy())[first](t.Context()) // the handle that locks again decides
			require.NoError(t, err, first)
			for _, second := range seconds {
				l.settle()
				l.srv.ResetCounts()
				start := time.Now()
				_, err := reentry(c)[second](outer.Context())
				require.ErrorIs(t, err, recipes.ErrWouldDeadlock, "%s in %s", second, first)
				require.Zero(t, time.Since(start), "%s in %s", second, first)
				require.Zero(t, l.srv.Counts().Total, "%s in %s: %v", second, first, l.srv.Counts().ByOp)
			}
			other, err := c.Election("/other", recipes.WithParams(kind.Election.New()), recipes.WithCreate()).Campaign(outer.Context())
			require.NoError(t, err, "another lock with that context")
			l.unlock(other)
			l.unlock(outer)
			l.nothingLeft()
		}
	})
}

// nodes are all contenders of everyKind's locks.
func (l *lab) nodes() []string {
	var all []string
	for _, dir := range []string{"/m", "/rw", "/s/leases", "/s/locks", "/e"} {
		all = append(all, l.queue(dir)...)
	}
	return all
}

func TestReentrancyAcrossModes(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.everyKind()
		c := l.client("a")
		for first, seconds := range relocks {
			for _, second := range seconds {
				outer, err := reentry(c)[first](t.Context())
				require.NoError(t, err, first)
				before := l.nodes()
				inner, err := reentry(c, recipes.WithReentrancy())[second](outer.Context())
				switch {
				case second == "set":
					require.ErrorIs(t, err, recipes.ErrWouldDeadlock, "%s in %s", second, first)
				case first == "read" && (second == "write" || second == "write, try"):
					require.ErrorIs(t, err, recipes.ErrWouldDeadlock, "%s in %s", second, first)
				default:
					require.NoError(t, err, "%s in %s", second, first)
					require.Equal(t, outer.Token(), inner.Token(), "%s in %s", second, first)
					l.unlock(outer)
					l.unlock(outer) // again: it does not count twice
					require.NoError(t, inner.Context().Err(), "%s in %s", second, first)
					require.Equal(t, before, l.nodes(), "%s in %s: given back by the first of two", second, first)
					outer = inner
				}
				l.unlock(outer)
				l.nothingLeft()
			}
		}
	})
}

func TestMorePermitsThanAreHeldAreNotEntered(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.everyKind()
		c := l.client("a")
		m := c.Semaphore("/s", recipes.WithReentrancy())
		for _, outer := range []func(context.Context) (*recipes.Lease, error){
			func(ctx context.Context) (*recipes.Lease, error) { return m.Acquire(ctx, 2) },
		} {
			x, err := outer(t.Context())
			require.NoError(t, err)
			_, err = m.Acquire(x.Context(), 3)
			require.ErrorIs(t, err, recipes.ErrWouldDeadlock)
			require.ErrorContains(t, err, "a lease of 2 permits of /s, 3 are wanted")
			y, err := m.Acquire(x.Context(), 1)
			require.NoError(t, err)
			require.Len(t, l.children("/s/leases"), 2)
			beside, err := m.Acquire(t.Context(), 1)
			require.NoError(t, err, "another context asks for further permits")
			l.unlock(beside)
			l.unlock(y)
			l.unlock(x)
			l.nothingLeft()
		}
	})
}
