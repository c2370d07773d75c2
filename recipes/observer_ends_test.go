package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// tallied makes a client with a tally. The tally must be at rest when the client is closed.
func (l *lab) tallied(change ...func(*recipes.Config)) (*recipes.Client, *tally) {
	b := newTally()
	l.T.Cleanup(func() { // runs after the cleanup that closes the client
		synctest.Wait()
		assert.Empty(l.T, b.atRest())
	})
	return l.Client("tallied", append(change, func(cfg *recipes.Config) { cfg.Observer = b.Observe })...), b
}

// are waits until the network is quiet. Then the gauges must show these numbers, and no event may have been wrong.
func (b *tally) are(l *lab, path string, leases, waiting int) {
	l.T.Helper()
	l.Settle()
	held, waits := b.gauges(path)
	require.Equal(l.T, leases, held, "leases of %s", path)
	require.Equal(l.T, waiting, waits, "calls that wait for %s", path)
	require.Empty(l.T, b.wrong)
}

type traceKey struct{}

// Each recipe goes through every end of a call and of a lease. At each quiet moment the gauges, which are made from the events alone, must
// be right.
func TestEventsTellTheTruthAtEveryEndOfEveryRecipe(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		c, b := l.tallied()
		take := way.Take(c)
		ctx := context.WithValue(t.Context(), traceKey{}, "the caller's")
		granted := func() *recipes.Lease {
			t.Helper()
			x := must(take(ctx))(t)
			b.are(l, way.Path, 1, 0)
			require.Equal(t, "the caller's", b.latest(recipes.EventAcquired).Context.Value(traceKey{}))
			require.Equal(t, l.SessionID(c), b.latest(recipes.EventAcquired).Session)
			return x
		}
		x := granted()
		l.Unlock(x)
		x = granted() // the client knows the declaration now
		require.Equal(t, 2*oneWay, b.latest(recipes.EventAcquired).Wait)
		held := time.Since(b.latest(recipes.EventAcquired).Time)
		l.Unlock(x)
		b.are(l, way.Path, 0, 0)
		require.Equal(t, x.Token(), b.latest(recipes.EventReleased).Token)
		require.Equal(t, held, b.latest(recipes.EventReleased).Held)

		x = granted() // revoked
		require.NoError(t, l.Client("admin").Revoke(t.Context(), x.Node()))
		<-ended(x)
		b.are(l, way.Path, 1, 0)
		l.Unlock(x)
		b.are(l, way.Path, 0, 0)

		x = granted() // its node is deleted
		require.NoError(t, l.Srv.Delete(x.Node()))
		<-ended(x)
		b.are(l, way.Path, 0, 0)
		require.Equal(t, x.Node(), b.latest(recipes.EventLost).Node)

		x = granted() // its session is in doubt twice, and then expires
		for range 2 {
			l.Srv.Disconnect(l.SessionID(c))
			b.are(l, way.Path, 1, 0)
			time.Sleep(10 * time.Second)
		}
		require.Positive(t, b.count(recipes.EventHeartbeat))
		require.Equal(t, 2*oneWay, b.latest(recipes.EventHeartbeat).Wait) // now: the session's end may fail a heartbeat that is under way
		l.Srv.Expire(l.SessionID(c))
		<-ended(x)
		b.are(l, way.Path, 0, 0)

		l.SessionID(c) // the next session: a wait for it is no wait for a lock
		holder := l.Lock(way.Block(l.Client("holder")))
		for why, result := range map[error]string{context.DeadlineExceeded: "timeout", errors.New("enough"): "cancelled"} {
			bounded, cancel := context.WithCancelCause(ctx)
			first := async(func() (*recipes.Lease, error) { return take(bounded) })
			second := async(func() (*recipes.Lease, error) { return take(bounded) })
			b.are(l, way.Path, 0, 2)
			cancel(why)
			require.ErrorIs(t, (<-first).Err, why)
			require.ErrorIs(t, (<-second).Err, why)
			b.are(l, way.Path, 0, 0)
			require.Equal(t, result, b.latest(recipes.EventRefused).Result)
		}
		l.redeclare(way, oneWaiter, active)
		other, leave := context.WithCancel(t.Context())
		w := l.Waiting(func(context.Context) (*recipes.Lease, error) { return way.Take(l.Client("other"))(other) })
		l.Settle()
		_, err := take(ctx)
		require.ErrorIs(t, err, recipes.ErrQueueFull)
		b.are(l, way.Path, 0, 0)
		require.Equal(t, "quota", b.latest(recipes.EventRefused).Result)
		leave()
		require.Error(t, (<-w).Err)
		l.redeclare(way, unbounded, active)
		l.Settle()

		// The lock goes from one goroutine to the next. Then the client is closed while it holds the lock.
		first, second := l.Waiting(take), l.Waiting(take)
		b.are(l, way.Path, 0, 2)
		l.Unlock(holder)
		x = (<-first).V
		if x.Reads() {
			l.Unlock((<-second).V)
		} else {
			b.are(l, way.Path, 1, 1)
			l.Unlock(x)
			x = (<-second).V
		}
		b.are(l, way.Path, 1, 0)
		require.NoError(t, c.Close())
		b.are(l, way.Path, 0, 0)
		require.ErrorIs(t, b.latest(recipes.EventLost).Cause, recipes.ErrClosed)
		require.ErrorIs(t, x.Unlock(t.Context()), recipes.ErrLost)
		_, err = take(ctx)
		require.ErrorIs(t, err, recipes.ErrClosed)
	})
}

// A callback too can ask who is ahead: it calls Identify of the event's HeldError.
func TestQueuedSaysWhoIsAhead(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		x := l.Lock(l.Client("the holder").Mutex(l.Mutex()).Lock)
		who := make(chan inspect.Contender, 1)
		c := l.Client("a", func(cfg *recipes.Config) {
			cfg.Observer = func(e recipes.Event) {
				var held *recipes.HeldError
				if e.Type == recipes.EventQueued && errors.As(e.Cause, &held) {
					_ = held.Identify(e.Context)
					who <- held.Holder
				}
			}
		})
		w := l.Locking(c.Mutex("/m"))
		first := <-who
		require.Equal(t, "the holder", first.ID)
		require.Equal(t, x.Node(), first.Path)
		l.Unlock(x)
		l.Unlock((<-w).V)
	})
}

func TestWithoutAnObserverNothingIsAllocatedForOne(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		x := l.Lock(m.Lock)
		refused := error(&recipes.HeldError{})
		require.Zero(t, testing.AllocsPerRun(100, func() { m.Told(t.Context(), refused, x) }))
		l.Unlock(x)
	})
}

// Some ends exist only for some recipes: a downgrade, entering again, a try, a hand-over between goroutines, and those of a set.
func TestEventsTellTheTruthAtTheEndsOfOneRecipe(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c, b := l.tallied()
		rw, m := c.RWMutex("/rw", recipes.WithReentrancy()), c.Mutex("/m")
		grant := func(x *recipes.Lease, err error) *recipes.Lease {
			t.Helper()
			require.NoError(t, err)
			return x
		}
		r1, r2 := grant(rw.RLock(t.Context())), grant(rw.RLock(t.Context()))
		again := grant(rw.RLock(r1.Context()))
		b.are(l, "/rw", 2, 0)
		l.Unlock(r1)
		b.are(l, "/rw", 2, 0)
		l.Unlock(again)
		b.are(l, "/rw", 1, 0)
		l.Unlock(r2)
		w := grant(rw.Lock(t.Context()))
		b.are(l, "/rw", 1, 0)
		require.False(t, b.latest(recipes.EventAcquired).Locks[0].Shared)
		r2 = grant(rw.Downgrade(t.Context(), w))
		b.are(l, "/rw", 1, 0)
		require.True(t, b.latest(recipes.EventAcquired).Locks[0].Shared)

		x := grant(m.Lock(t.Context()))
		next := l.Waiting(m.Lock)
		b.are(l, "/m", 1, 1)
		held := heldBy(t, b.latest(recipes.EventQueued).Cause)
		require.True(t, held.Local)
		l.Refused(m.TryLock, recipes.ErrHeld)
		_, err := m.Lock(x.Context())
		require.ErrorIs(t, err, recipes.ErrWouldDeadlock)
		b.are(l, "/m", 1, 1)
		l.Unlock(x)
		x = (<-next).V
		b.are(l, "/m", 1, 0)

		set := c.MultiLock(c.Mutex("/m"), rw.RLocker(), c.Election("/e"))
		waiting := l.Waiting(set.Lock)
		b.are(l, "/m", 1, 1)
		b.are(l, "/e", 0, 1)
		l.Refused(set.TryLock, recipes.ErrHeld)
		l.Unlock(x)
		all := (<-waiting).V
		b.are(l, "/m", 1, 0)
		b.are(l, "/e", 1, 0)
		b.are(l, "/rw", 2, 0)
		e := b.latest(recipes.EventAcquired)
		require.Equal(t, all.Path(), e.Path)
		require.Equal(t, []recipes.EventLock{{"/m", kind.Mutex, false, 0}, {"/rw", kind.RWLock, true, 0}, {"/e", kind.Election, false, 0}}, e.Locks)
		l.Unlock(all)
		l.Unlock(r2)
		b.are(l, "/rw", 0, 0)

		other := l.Client("holder") // each try has one refusal, and so has a call that can never be granted
		release := l.holdsPermits(other, other.Mutex("/m"), other.RWMutex("/rw"), other.Election("/e"))
		calls := tries(c)
		calls["no permit"] = permits(c.Semaphore("/s"), 0)
		for name, call := range calls {
			before := b.count(recipes.EventRefused)
			_, err := call(t.Context())
			require.Error(t, err, name)
			synctest.Wait()
			require.Equal(t, before+1, b.count(recipes.EventRefused), name)
		}
		release()

		w = grant(rw.Lock(t.Context())) // an exchange of unknown outcome
		lost := b.count(recipes.EventLost)
		l.Srv.Inject(zktest.Once(zktest.On("multi")), zktest.Hold)
		ctx := l.Within(time.Second)
		_, err = rw.Downgrade(ctx, w)
		require.ErrorIs(t, err, recipes.ErrLost)
		require.ErrorIs(t, w.Unlock(t.Context()), recipes.ErrLost)
		b.are(l, "/rw", 0, 0)
		require.Equal(t, lost+1, b.count(recipes.EventLost))
	})
}

// tally is an Observer that makes its gauges from the events alone. It notes every event that is wrong after the events before it.
type tally struct {
	mu       sync.Mutex                // heartbeats come at any time
	open     map[uint64]*recipes.Event // calls that wait and leases that are held, with their last event
	over     map[uint64]bool           // calls that were refused, and leases that ended
	doubted  map[any]bool              // sessions in doubt
	sessions map[int64]bool            // false once the session is lost
	told     map[recipes.EventType]int // how often each type came
	last     map[recipes.EventType]recipes.Event
	wrong    []string
}

func newTally() *tally {
	return &tally{open: map[uint64]*recipes.Event{}, over: map[uint64]bool{}, doubted: map[any]bool{},
		sessions: map[int64]bool{}, told: map[recipes.EventType]int{}, last: map[recipes.EventType]recipes.Event{}}
}

// Observe is a Config.Observer.
func (b *tally) Observe(e recipes.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	why := b.ofSession(e)
	if e.Call != 0 {
		why = b.ofCall(e)
	}
	switch latest := b.last[""]; {
	case why != "":
	case e.Cause != nil && strings.Count(e.Cause.Error(), "recipes: ") > 1:
		why = "two prefixes: " + e.Cause.Error()
	case e.Time.Before(latest.Time):
		why = "it is told late"
	case e.Context == nil || e.Context.Err() != nil:
		why = "its context has ended"
	}
	if why != "" {
		b.wrong = append(b.wrong, fmt.Sprintf("%s of call %d for %s: %s", e.Type, e.Call, e.Path, why))
	}
	b.told[e.Type]++
	b.last[e.Type], b.last[""] = e, e
}

// ofCall returns what is wrong with an event of a call, or of its lease.
func (b *tally) ofCall(e recipes.Event) string {
	was := b.open[e.Call]
	holds := was != nil && was.Type != recipes.EventQueued
	switch {
	case b.over[e.Call]:
		return "the call has come to its end"
	case was != nil && (was.Context != e.Context || len(was.Locks) != len(e.Locks)), // a waiter may follow a lock to another path:
		holds && (was.Path != e.Path || !reflect.DeepEqual(was.Locks, e.Locks)):
		return "it was another call's"
	case len(e.Locks) == 0 || slices.ContainsFunc(e.Locks, func(l recipes.EventLock) bool {
		return l.Kind == nil || (l.Permits > 0) != (l.Kind == kind.Semaphore) && e.Type != recipes.EventRefused
	}):
		return fmt.Sprintf("its locks are %v", e.Locks)
	}
	var held *recipes.HeldError
	switch e.Type {
	case recipes.EventQueued:
		if was != nil || !errors.As(e.Cause, &held) || held.Path == "" || e.Node == "" && !held.Local && held.Holder.Path == "" {
			return fmt.Sprintf("after %v, because of %v", was, e.Cause)
		}
	case recipes.EventAcquired, recipes.EventRefused:
		if holds || recipes.ResultOf(e.Cause) != e.Result || (e.Result == "acquired") != (e.Type == recipes.EventAcquired) {
			return fmt.Sprintf("after %v, result %s of %v", was, e.Result, e.Cause)
		}
	default:
		if !holds || e.Session == 0 || e.Node == "" || (e.Type == recipes.EventLost) != errors.Is(e.Cause, recipes.ErrLost) {
			return fmt.Sprintf("after %v, because of %v", was, e.Cause)
		}
	}
	b.open[e.Call] = &e
	if e.Type == recipes.EventRefused || e.Type == recipes.EventReleased || e.Type == recipes.EventLost {
		delete(b.open, e.Call)
		b.over[e.Call] = true
	}
	return ""
}

// ofSession returns what is wrong with an event of a session.
func (b *tally) ofSession(e recipes.Event) string {
	live, known := b.sessions[e.Session]
	opened, doubt := e.Type == session.EventOpened, e.Type == session.EventSuspected
	switch {
	case e.Call != 0:
	case e.Session == 0 || opened == known || known && !live:
		return fmt.Sprintf("known %v, live %v", known, live)
	case (doubt || e.Type == session.EventCleared) && b.doubted[e.Session] == doubt:
		return "twice"
	case (e.Type == recipes.EventSessionLost) != errors.Is(e.Cause, recipes.ErrSessionLost) && e.Type != recipes.EventHeartbeat:
		return fmt.Sprint("because of ", e.Cause)
	}
	if e.Call == 0 {
		b.sessions[e.Session] = e.Type != recipes.EventSessionLost
		if doubt || e.Type == session.EventCleared {
			b.doubted[e.Session] = doubt
		}
	}
	return ""
}

// gauges returns how many leases of the lock at path are held, and how many calls wait for it.
func (b *tally) gauges(path string) (leases, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.open {
		if !slices.ContainsFunc(e.Locks, func(l recipes.EventLock) bool { return l.Path == path }) {
			continue
		}
		if e.Type == recipes.EventQueued {
			waiting++
		} else {
			leases++
		}
	}
	return leases, waiting
}

// atRest returns what is wrong once the client is closed and no call is under way.
func (b *tally) atRest() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	wrong := b.wrong
	for _, e := range b.open {
		wrong = append(wrong, fmt.Sprintf("nothing follows %s of call %d for %s", e.Type, e.Call, e.Path))
	}
	for s, live := range b.sessions {
		if live {
			wrong = append(wrong, fmt.Sprintf("session 0x%x is not told to be lost", uint64(s)))
		}
	}
	return wrong
}

func (b *tally) latest(what recipes.EventType) recipes.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last[what]
}

func (b *tally) count(what recipes.EventType) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.told[what]
}
