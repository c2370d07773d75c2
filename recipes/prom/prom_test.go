package prom_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/prom"
	"github.com/locktree/locktree/recipes/session"
)

func events(path string) recipes.Event {
	return recipes.Event{Path: path, Kind: kind.Mutex, Node: path + "/n", Wait: time.Millisecond, Held: time.Second}
}

// Names, types, units and help as Prometheus wants them, and what a newcomer finds at /metrics.
func TestMetricsAsTheyAreScraped(t *testing.T) {
	o := prom.New()
	e := events("/locks/ledger")
	o.Queued(e)
	e.Wait = 40 * time.Millisecond
	o.Acquired(e)
	o.Suspected(e)
	e.Cause = fmt.Errorf("%w: %w", recipes.ErrLost, recipes.ErrSessionLost)
	o.Lost(e)
	problems, err := testutil.CollectAndLint(o)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.NoError(t, testutil.CollectAndCompare(o, strings.NewReader(`
# HELP locktree_acquire_contended_total Calls that had to queue.
# TYPE locktree_acquire_contended_total counter
locktree_acquire_contended_total{lock="/locks/ledger"} 1
# HELP locktree_held Leases that are held.
# TYPE locktree_held gauge
locktree_held{kind="mutex",lock="/locks/ledger"} 0
# HELP locktree_label_overflow_total Events counted under lock="other" because there are too many locks.
# TYPE locktree_label_overflow_total counter
locktree_label_overflow_total 0
# HELP locktree_lost_total Leases that ended before they were released.
# TYPE locktree_lost_total counter
locktree_lost_total{lock="/locks/ledger",reason="deleted"} 0
locktree_lost_total{lock="/locks/ledger",reason="other"} 0
locktree_lost_total{lock="/locks/ledger",reason="session"} 1
# HELP locktree_suspected_total Times that the session of a lease was in doubt.
# TYPE locktree_suspected_total counter
locktree_suspected_total{lock="/locks/ledger"} 1
# HELP locktree_waiting Calls that stand in a queue.
# TYPE locktree_waiting gauge
locktree_waiting{lock="/locks/ledger"} 0
`), "locktree_acquire_contended_total", "locktree_held", "locktree_label_overflow_total", "locktree_lost_total",
		"locktree_suspected_total", "locktree_waiting"))
}

func TestEveryErrorHasItsResult(t *testing.T) {
	for _, c := range []struct {
		cause error
		want  string
	}{
		{&recipes.HeldError{}, "held"},
		{&recipes.HeldError{Cause: context.DeadlineExceeded}, "timeout"},
		{&recipes.HeldError{Cause: context.Canceled}, "cancelled"},
		{&recipes.HeldError{Cause: errors.New("shutting down")}, "cancelled"},
		{fmt.Errorf("recipes: lock /m: %w", context.Canceled), "cancelled"},
		{fmt.Errorf("%w: %w", recipes.ErrUnreachable, context.DeadlineExceeded), "error"},
		{recipes.ErrQueueFull, "quota"},
		{recipes.ErrSessionFull, "quota"},
		{session.ErrQuotaExceeded, "quota"},
		{session.ErrThrottled, "quota"},
		{recipes.ErrDraining, "error"},
		{recipes.ErrSessionLost, "error"},
		{nil, "error"},
	} {
		o := prom.New()
		reg := prometheus.NewRegistry()
		reg.MustRegister(o)
		o.Refused(recipes.Event{Path: "/m", Kind: kind.Mutex, Cause: c.cause})
		l := &lab{t: t, reg: reg}
		require.EqualValues(t, 1, l.value("acquire_seconds", "result", c.want), "%v", c.cause)
	}
}

// A program that makes up paths must not fill the memory of every Prometheus that scrapes it.
func TestLabelsAreCappedAndTheOverflowIsCounted(t *testing.T) {
	o := prom.New(prom.WithMaxLocks(2), prom.WithLabel(func(path string) string {
		if path, _, ok := strings.Cut(path, "/order-"); ok {
			return path + "/order-*"
		}
		return path
	}))
	l := &lab{t: t, reg: prometheus.NewRegistry()}
	l.reg.MustRegister(o)
	for i := range 10 {
		o.Acquired(events(fmt.Sprintf("/orders/order-%d", i)))
	}
	require.EqualValues(t, 10, l.value("held", "lock", "/orders/order-*"))
	for i := range 10 {
		o.Acquired(events(fmt.Sprintf("/dynamic/%d", i)))
	}
	require.EqualValues(t, 1, l.value("held", "lock", "/dynamic/0"))
	require.EqualValues(t, 9, l.value("held", "lock", "other"))
	require.EqualValues(t, 9, l.value("label_overflow_total"))
	require.Zero(t, l.value("lost_total", "lock", "other"))
	for i := range 10 {
		o.Released(events(fmt.Sprintf("/dynamic/%d", i)))
	}
	require.Zero(t, l.value("held", "lock", "/dynamic/0")+l.value("held", "lock", "other"))
	o.Refused(recipes.Event{Path: "\xff"}) // of a handle that was made wrong: counted, and no panic
	require.EqualValues(t, 1, l.value("acquire_seconds", "lock", "other", "result", "error"))
}

// A scrape that stops in the middle holds up no event, of locks that were never seen before either, and no lock.
func TestASlowScrapeHoldsUpNothing(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		for i := range 100 {
			l.metrics.Acquired(events(fmt.Sprint("/x", i)))
		}
		stuck, gone := make(chan prometheus.Metric), make(chan struct{})
		go func() {
			defer close(gone)
			l.metrics.Collect(stuck)
		}()
		<-stuck // the first has been read, and no other is for now
		c := l.client(true)
		for name, way := range everyWay() {
			x, err := way.take(c)(t.Context())
			require.NoError(t, err, name)
			require.NoError(t, x.Unlock(t.Context()))
		}
		l.settle()
		require.EqualValues(t, 1, l.value("hold_seconds", "lock", "/e"))
		go func() {
			for range stuck {
			}
		}()
		<-gone
		close(stuck)
	})
}

// Many clients share one Observer, while it is scraped.
func TestOneObserverServesManyAtOnce(t *testing.T) {
	o, l := prom.New(prom.WithMaxLocks(5)), &lab{t: t, reg: prometheus.NewRegistry()}
	l.reg.MustRegister(o)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 200 {
				e := events(fmt.Sprintf("/%d", n%8))
				e.Node += fmt.Sprint(i, n)
				o.Queued(e)
				if o.Acquired(e); n%2 == 0 {
					o.Lost(e)
				} else {
					o.Released(e)
				}
				o.Queued(e)
				o.Refused(e)
				if n%50 == 0 {
					_, _ = l.reg.Gather()
				}
			}
		})
	}
	all.Wait()
	require.Zero(t, l.value("held"))
	require.Zero(t, l.value("waiting"))
	require.EqualValues(t, 1600, l.value("hold_seconds"))
}

// The cost of one lock that is taken and given back, on the Observer's goroutine.
func BenchmarkAcquireAndRelease(b *testing.B) {
	b.ReportAllocs()
	o, e := prom.New(), events("/locks/ledger")
	for b.Loop() {
		o.Acquired(e)
		o.Released(e)
	}
}

// The same of a lock that had to be waited for.
func BenchmarkQueueAcquireAndRelease(b *testing.B) {
	b.ReportAllocs()
	o, e := prom.New(), events("/locks/ledger")
	for b.Loop() {
		o.Queued(e)
		o.Acquired(e)
		o.Released(e)
	}
}
