package recipes_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
)

func TestRequestBudgetsUncontended(t *testing.T) { // one round trip to acquire, two for the whole cycle
	mutex := func(c *recipes.Client) taking { return c.Mutex("/m").Lock }
	for name, b := range map[string]struct {
		take             func(*recipes.Client) taking
		acquire, release string
	}{
		"mutex":              {mutex, "create getChildren2 getData", "delete"},
		"reader":             {func(c *recipes.Client) taking { return c.RWMutex("/rw").RLock }, "create getChildren2 getData", "delete"},
		"writer":             {func(c *recipes.Client) taking { return c.RWMutex("/rw").Lock }, "create getChildren2 getData", "delete"},
		"election":           {campaign, "create getChildren2 getData", "delete"},
		"one permit":         {draws(1), "create 2getChildren2 getData", "delete"},
		"three permits":      {draws(3), "2getChildren2 3getData multi", "multi"},
		"set of one of each": {func(c *recipes.Client) taking { return mixed(c).Lock }, "3getChildren2 3getData multi", "multi"},
		"set of two": {func(c *recipes.Client) taking {
			return c.MultiLock(c.Mutex("/m"), c.RWMutex("/rw")).Lock
		}, "2getChildren2 2getData multi", "multi"},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.EveryKind()
			take := b.take(l.Client("a"))
			l.Unlock(l.Lock(take))
			var x *recipes.Lease
			require.Equal(t, spent(1, b.acquire), l.Cost(func() { x = l.Lock(take) }), "to acquire")
			require.Equal(t, spent(1, b.release), l.Cost(func() { l.Unlock(x) }), "to release")
			l.NothingLeft()
		})
	}
}

func TestRequestBudgetsOfATryThatFails(t *testing.T) { // one round trip, no watch left behind
	for name := range tries(new(recipes.Client)) {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.EveryKind()
			holder := l.Client("holder")
			release := l.holdsPermits(holder, holder.Mutex("/m"), holder.RWMutex("/rw"))
			c := l.Client("c")
			refused := func() {
				l.Refused(tries(c)[name], recipes.ErrHeld)
			}
			refused() // knows the declarations from here on
			id := l.SessionID(c)
			got := l.Cost(refused)
			require.Equal(t, 1, got.Trips)
			require.NotContains(t, got.Ops, "getData")
			before := l.Srv.SessionCounts(id).WatchEvents
			release()
			l.Settle()
			require.Equal(t, before, l.Srv.SessionCounts(id).WatchEvents, "a watch was left behind")
			l.NothingLeft()
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
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.EveryKind()
			way := harness.Ways()[b.way]
			x := l.Lock(way.Block(l.Client("holder")))
			w := l.Waiting(way.Take(l.Client("next")))
			var rest []<-chan result[*recipes.Lease]
			var ids []int64
			if name != "reader" {
				for i := range 5 {
					c := l.Client(fmt.Sprint(i))
					ids = append(ids, l.SessionID(c))
					rest = append(rest, l.Waiting(way.Take(c)))
				}
			}
			l.Settle()
			l.Srv.ResetCounts()
			start := time.Now()
			l.Unlock(x)
			committed := start.Add(oneWay) // when it reached the server
			r := l.Granted(w)
			// The event takes one way, each round trip two.
			require.Equal(t, oneWay+time.Duration(b.trips)*2*oneWay, r.At.Sub(committed))
			l.Settle()
			woken := 0
			for _, id := range ids {
				woken += l.Srv.SessionCounts(id).WatchEvents
			}
			if b.way == "mutex" {
				require.LessOrEqual(t, woken, 2, "its successor looks ahead, and learns that it is the front now; nobody else learns anything")
			}
			if len(rest) == 0 {
				require.Equal(t, b.ops, harness.Operations(l.Srv.Counts().ByOp))
			}
			l.Unlock(r.V)
			for _, next := range rest {
				l.Unlock((<-next).V)
			}
			l.NothingLeft()
		})
	}
}

func TestRequestBudgetsOfASetThatWaits(t *testing.T) {
	// Queueing: the try at once, and where permits are wanted the exchange for places. The grant: what the members
	// need, here the mutex no more than its event, then one proof of all.
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		x := l.Lock(l.Client("holder").Mutex("/m").Lock)
		c := l.Client("c")
		l.Unlock(l.Lock(c.MultiLock(c.RWMutex("/rw"), c.Election("/e")).Lock))
		l.Settle()
		w := l.Waiting(c.MultiLock(c.Mutex("/m"), c.RWMutex("/rw"), c.Election("/e")).Lock)
		l.Settle()
		start := time.Now()
		l.Unlock(x)
		r := l.Granted(w)
		require.Equal(t, oneWay+oneWay+2*oneWay, r.At.Sub(start), "release, event, the proof of all")
		l.Unlock(r.V)
		l.NothingLeft()
	})
}
