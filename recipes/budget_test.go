package recipes_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
)

// spent is what an operation cost: round trips that were waited for, and requests.
type spent struct {
	trips int
	ops   string
}

// cost runs f and counts, what it leaves to be done in the background included.
func (l *lab) cost(f func()) spent {
	l.t.Helper()
	l.settle()
	l.srv.ResetCounts()
	start := time.Now()
	f()
	took := time.Since(start)
	l.settle()
	require.Zero(l.t, took%(2*oneWay), "an operation takes whole round trips")
	return spent{int(took / (2 * oneWay)), operations(l.srv.Counts().ByOp)}
}

// operations is the counts as text, sorted: "create delete getData 2getChildren2".
func operations(by map[string]int) string {
	var out []string
	for _, op := range slices.Sorted(maps.Keys(by)) {
		text := op
		if by[op] > 1 {
			text = fmt.Sprint(by[op], op)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestRequestBudgetsUncontended(t *testing.T) { // one round trip to acquire, two for the whole cycle
	mutex := func(c *recipes.Client) func(context.Context) (*recipes.Lease, error) { return c.Mutex("/m").Lock }
	for name, b := range map[string]struct {
		take             func(*recipes.Client) func(context.Context) (*recipes.Lease, error)
		acquire, release string
	}{
		"mutex":              {mutex, "create getChildren2 getData", "delete"},
		"reader":             {func(c *recipes.Client) func(context.Context) (*recipes.Lease, error) { return c.RWMutex("/rw").RLock }, "create getChildren2 getData", "delete"},
		"writer":             {func(c *recipes.Client) func(context.Context) (*recipes.Lease, error) { return c.RWMutex("/rw").Lock }, "create getChildren2 getData", "delete"},
		"election":           {campaign, "create getChildren2 getData", "delete"},
		"one permit":         {draws(1), "create 2getChildren2 getData", "delete"},
		"three permits":      {draws(3), "2getChildren2 3getData multi", "multi"},
		"set of one of each": {func(c *recipes.Client) func(context.Context) (*recipes.Lease, error) { return mixed(c).Lock }, "3getChildren2 3getData multi", "multi"},
		"set of two": {func(c *recipes.Client) func(context.Context) (*recipes.Lease, error) {
			return c.MultiLock(c.Mutex("/m"), c.RWMutex("/rw")).Lock
		}, "2getChildren2 2getData multi", "multi"},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				l.everyKind()
				take := b.take(l.client("a"))
				warm, err := take(t.Context())
				require.NoError(t, err)
				l.unlock(warm)
				var x *recipes.Lease
				require.Equal(t, spent{1, b.acquire}, l.cost(func() { x, err = take(t.Context()) }), "to acquire")
				require.NoError(t, err)
				require.Equal(t, spent{1, b.release}, l.cost(func() { l.unlock(x) }), "to release")
				l.nothingLeft()
			})
		})
	}
}

func TestRequestBudgetsOfATryThatFails(t *testing.T) { // one round trip, no watch left behind
	for name, try := range map[string]func(*recipes.Client) error{
		"mutex":  func(c *recipes.Client) error { _, err := c.Mutex("/m").TryLock(context.Background()); return err },
		"writer": func(c *recipes.Client) error { _, err := c.RWMutex("/rw").TryLock(context.Background()); return err },
		"reader": func(c *recipes.Client) error { _, err := c.RWMutex("/rw").TryRLock(context.Background()); return err },
		"semaphore": func(c *recipes.Client) error {
			_, err := c.Semaphore("/s").TryAcquire(context.Background(), 1)
			return err
		},
		"set": func(c *recipes.Client) error { _, err := mixed(c).TryLock(context.Background()); return err },
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				l.everyKind()
				holder := l.client("holder")
				release := l.holdsPermits(holder, holder.Mutex("/m"), holder.RWMutex("/rw"))
				c := l.client("c")
				require.ErrorIs(t, try(c), recipes.ErrHeld) // knows the declarations from here on
				id := l.session(c)
				got := l.cost(func() { require.ErrorIs(t, try(c), recipes.ErrHeld) })
				require.Equal(t, 1, got.trips)
				require.NotContains(t, got.ops, "getData")
				l.settle()
				before := l.srv.SessionCounts(id).WatchEvents
				release()
				l.settle()
				require.Equal(t, before, l.srv.SessionCounts(id).WatchEvents, "a watch was left behind")
				l.nothingLeft()
			})
		})
	}
}

func TestRequestBudgetsOfTheHandOff(t *testing.T) {
	// After the release commits at most one round trip, no write, and one waiter woken, however many wait; the
	// one behind it looks ahead. A mutex's waiter that was next needs no request; one whose name or data others decide about lists.
	for name, b := range map[string]struct {
		way   string
		trips int // from the release's commit to the grant
		ops   string
	}{
		"mutex":     {"mutex", 0, "delete getData"},
		"writer":    {"writer", 1, "delete getChildren2 getData"},
		"reader":    {"reader", 1, "delete getChildren2 getData"},
		"election":  {"election", 1, "delete getChildren2 getData"},
		"semaphore": {"semaphore", 2, "delete 2getChildren2 3getData multi"},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				l.everyKind()
				way := everyRecipe()[b.way]
				x, err := way.block(l.client("holder"))(t.Context())
				require.NoError(t, err)
				w := l.locker(way.take(l.client("next")))
				var rest []<-chan result[*recipes.Lease]
				var ids []int64
				if name != "reader" {
					for i := range 5 {
						c := l.client(fmt.Sprint(i))
						ids = append(ids, l.session(c))
						rest = append(rest, l.locker(way.take(c)))
					}
				}
				l.settle()
				l.srv.ResetCounts()
				start := time.Now()
				l.unlock(x)
				committed := start.Add(oneWay) // when it reached the server
				r := <-w
				require.NoError(t, r.err)
				// The event takes one way, each round trip two.
				require.Equal(t, oneWay+time.Duration(b.trips)*2*oneWay, r.at.Sub(committed))
				l.settle()
				woken := 0
				for _, id := range ids {
					woken += l.srv.SessionCounts(id).WatchEvents
				}
				if b.way == "mutex" {
					require.LessOrEqual(t, woken, 2, "its successor looks ahead, and learns that it is the front now; nobody else learns anything")
				}
				if len(rest) == 0 {
					require.Equal(t, b.ops, operations(l.srv.Counts().ByOp))
				}
				l.unlock(r.v)
				for _, next := range rest {
					l.unlock((<-next).v)
				}
				l.nothingLeft()
			})
		})
	}
}

func TestRequestBudgetsOfASetThatWaits(t *testing.T) {
	// Queueing: the try at once, and where permits are wanted the exchange for places. The grant: what the members
	// need, here the mutex no more than its event, then one proof of all.
	inLab(t, func(t *testing.T, l *lab) {
		l.everyKind()
		x, err := l.client("holder").Mutex("/m").Lock(t.Context())
		require.NoError(t, err)
		c := l.client("c")
		warm, err := c.MultiLock(c.RWMutex("/rw"), c.Election("/e")).Lock(t.Context())
		require.NoError(t, err)
		l.unlock(warm)
		l.settle()
		w := l.locker(c.MultiLock(c.Mutex("/m"), c.RWMutex("/rw"), c.Election("/e")).Lock)
		l.settle()
		start := time.Now()
		l.unlock(x)
		r := <-w
		require.NoError(t, r.err)
		require.Equal(t, oneWay+oneWay+2*oneWay, r.at.Sub(start), "release, event, the proof of all")
		l.unlock(r.v)
		l.nothingLeft()
	})
}
