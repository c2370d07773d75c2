package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/session"
)

var openACL = zk.WorldACL(zk.PermAll)

// noneLeft waits a little, and requires that nothing of a client's locks is left, on the server or in the client.
func (l *lab) noneLeft(all ...*recipes.Mutex) {
	l.T.Helper()
	l.Settle()
	for _, m := range all {
		require.Empty(l.T, l.Children(m.Path()))
	}
	require.Empty(l.T, all[0].Client().Leftovers())
}

// vacant requires that nothing is left in these nodes, once all that is under way has arrived.
func (l *lab) vacant(dirs ...string) {
	l.T.Helper()
	l.Settle()
	l.Empty(dirs...)
}

const oneWay = harness.OneWay

type (
	taking        = harness.Take
	work          = harness.Work
	result[T any] = harness.Result[T]
)

func async[T any](f func() (T, error)) <-chan result[T] { return harness.Async(f) }

func spent(trips int, ops string) harness.Spent { return harness.Spent{Trips: trips, Ops: ops} }

func notYet[T any](t *testing.T, ch <-chan result[T], why string) {
	t.Helper()
	harness.NotYet(t, ch, why)
}

// lab is a harness.Lab with methods that only the tests of this package need.
type lab struct{ *harness.Lab }

func inLab(t *testing.T, f func(t *testing.T, l *lab)) {
	harness.InLab(t, func(t *testing.T, l *harness.Lab) { f(t, &lab{l}) })
}

// runInLab runs a subtest in a laboratory of its own.
func runInLab(t *testing.T, name string, f func(t *testing.T, l *lab)) {
	t.Run(name, func(t *testing.T) { inLab(t, f) })
}

func forEveryRecipe(t *testing.T, f func(t *testing.T, l *lab, way harness.Way)) {
	harness.EachWay(t, func(t *testing.T, l *harness.Lab, way harness.Way) { f(t, &lab{l}, way) })
}

// forEveryTry is forEveryRecipe for the recipes that have a Try.
func forEveryTry(t *testing.T, f func(t *testing.T, l *lab, way harness.Way)) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		if way.Try != nil {
			f(t, l, way)
		}
	})
}

func draws(n int) func(*recipes.Client) taking { return harness.Draw("/s", n) }
func campaign(c *recipes.Client) taking        { return c.Election("/e").Campaign }

// permits takes n permits of a semaphore; locked takes keys of a family.
func permits(s *recipes.Semaphore, n int) taking {
	return func(ctx context.Context) (*recipes.Lease, error) { return s.Acquire(ctx, n) }
}

func locked(k *recipes.Keyed, keys ...string) taking {
	return func(ctx context.Context) (*recipes.Lease, error) { return k.Lock(ctx, keys...) }
}

// bounded makes a take that gives up after d.
func bounded(d time.Duration, take taking) taking {
	return func(ctx context.Context) (*recipes.Lease, error) {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		return take(ctx)
	}
}

// must requires that a call has succeeded, and returns what it returned.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

// heldBy returns the HeldError in err.
func heldBy(t *testing.T, err error, about ...any) (held *recipes.HeldError) {
	t.Helper()
	require.ErrorAs(t, err, &held, about...)
	return held
}

// look inspects a lock.
func (l *lab) look(c *recipes.Client, path string) *inspect.Report {
	l.T.Helper()
	in := must(inspect.Lock(l.T.Context(), c, path))(l.T)
	return in
}

// live returns a client's session with the methods that programs do not see; session returns the session as programs see it.
func (l *lab) live(c *recipes.Client) *session.Session {
	l.T.Helper()
	s := must(c.Live(l.T.Context()))(l.T)
	return s
}

func (l *lab) session(c *recipes.Client) *direct.Session {
	l.T.Helper()
	s := must(c.Session(l.T.Context()))(l.T)
	return s
}

// mixed makes a set of all kinds that a set takes.
func mixed(c *recipes.Client) *recipes.MultiLock {
	return c.MultiLock(c.Mutex("/m"), c.RWMutex("/rw").RLocker(), c.Election("/e"))
}

// tries returns the Try methods, by recipe.
func tries(c *recipes.Client, opts ...recipes.Option) map[string]taking {
	all := map[string]taking{}
	for name, way := range harness.Ways() {
		if way.Try != nil {
			all[name] = way.Try(c, opts...)
		}
	}
	return all
}

// reentry returns all ways to take the locks that EveryKind declares.
func reentry(c *recipes.Client, o ...recipes.Option) map[string]taking {
	all := map[string]taking{}
	for name, way := range harness.Ways() {
		all[name] = way.Take(c, o...)
		if way.Try != nil {
			all[name+", try"] = way.Try(c, o...)
		}
	}
	return all
}

// named returns the ways to take exclusive locks for one goroutine, which has the ID id.
func named(c *recipes.Client, id string) map[string]taking {
	all := map[string]taking{}
	for _, name := range []string{"mutex", "writer", "election"} {
		way := harness.Ways()[name]
		all[way.Path] = way.Take(c, recipes.WithID(id))
	}
	return all
}

// taker makes the function that takes a recipe's lock.
type taker = func(*recipes.Client, ...recipes.Option) taking
