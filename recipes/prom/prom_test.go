package prom_test

import (
	"fmt"
	"os"
	"regexp"
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
)

// event returns an event of a call for a mutex.
func event(what recipes.EventType, path string) recipes.Event {
	return recipes.Event{Type: what, Call: 1, Path: path, Locks: []recipes.EventLock{{Path: path, Kind: kind.Mutex}},
		Wait: time.Millisecond, Held: time.Second}
}

// Names, types, units and help are as Prometheus wants them, and a newcomer finds them at /metrics.
func TestMetricsAsTheyAreScraped(t *testing.T) {
	o := prom.New()
	for _, what := range []recipes.EventType{recipes.EventQueued, recipes.EventAcquired, recipes.EventLost} {
		e := event(what, "/locks/ledger")
		if what == recipes.EventLost {
			e.Cause = fmt.Errorf("%w: %w", recipes.ErrLost, recipes.ErrSessionLost)
		}
		o.Observe(e)
	}
	o.Observe(recipes.Event{Type: recipes.EventSessionLost, Cause: recipes.ErrSessionLost})
	o.Observe(recipes.Event{Type: recipes.EventSessionLost, Cause: recipes.ErrClosed})
	o.Observe(recipes.Event{Type: "of a later version"})
	problems, err := testutil.CollectAndLint(o)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.NoError(t, testutil.CollectAndCompare(o, strings.NewReader(`
# HELP locktree_acquire_contended_total Calls that had to wait.
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
# HELP locktree_sessions_lost_total Sessions that were lost, other than by Close.
# TYPE locktree_sessions_lost_total counter
locktree_sessions_lost_total 1
# HELP locktree_waiting Calls that wait for a lock.
# TYPE locktree_waiting gauge
locktree_waiting{lock="/locks/ledger"} 0
`), "locktree_acquire_contended_total", "locktree_held", "locktree_label_overflow_total", "locktree_lost_total",
		"locktree_sessions_lost_total", "locktree_waiting"))
}

// docs/reference.md has the table of the package's documentation.
func TestTheDocumentationHasTheMetrics(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	descs := make(chan *prometheus.Desc, 100)
	prom.New().Describe(descs)
	close(descs)
	var exported []string
	for d := range descs {
		m := regexp.MustCompile(`fqName: "(\w+)".* variableLabels: (\{.*\})\}`).FindStringSubmatch(d.String())
		require.NotNil(t, m, d)
		exported = append(exported, strings.TrimSuffix(m[1]+m[2], "{}"))
	}
	var documented []string
	for _, m := range regexp.MustCompile(`(?m)^//\t(locktree_\S+) +(?:histogram|counter|gauge) `).FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, m[1])
	}
	require.ElementsMatch(t, exported, documented)
}

func TestASessionIsCountedInTheStateThatItHas(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		are := func(active, suspect int) {
			t.Helper()
			l.Settle()
			require.EqualValues(t, active, l.value("sessions", "state", "active"))
			require.EqualValues(t, suspect, l.value("sessions", "state", "suspect"))
		}
		are(0, 0)
		a, b := l.observed(), l.observed()
		are(2, 0)
		l.Srv.RefuseDials(true)
		l.Srv.Disconnect(l.SessionID(a))
		are(1, 1)
		l.Srv.RefuseDials(false)
		time.Sleep(time.Minute)
		are(2, 0)
		l.Srv.Expire(l.SessionID(a))
		time.Sleep(time.Minute) // it hears of that when it connects again
		are(1, 0)
		_ = l.SessionID(a) // the next one
		are(2, 0)
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
		are(0, 0)
		require.EqualValues(t, 1, l.value("sessions_lost_total"))
	})
}

// A program that makes up paths must not fill the memory of every Prometheus that scrapes it.
func TestLabelsAreCappedAndTheOverflowIsCounted(t *testing.T) {
	l := registered(t, prom.WithMaxLocks(2), prom.WithLabel(func(path string) string {
		if path, _, ok := strings.Cut(path, "/order-"); ok {
			return path + "/order-*"
		}
		return path
	}))
	o := l.metrics
	for i := range 10 {
		o.Observe(event(recipes.EventAcquired, fmt.Sprintf("/orders/order-%d", i)))
	}
	require.EqualValues(t, 10, l.value("held", "lock", "/orders/order-*"))
	for i := range 10 {
		o.Observe(event(recipes.EventAcquired, fmt.Sprintf("/dynamic/%d", i)))
	}
	require.EqualValues(t, 1, l.value("held", "lock", "/dynamic/0"))
	require.EqualValues(t, 9, l.value("held", "lock", "other"))
	require.EqualValues(t, 9, l.value("label_overflow_total"))
	require.Zero(t, l.value("lost_total", "lock", "other"))
	for i := range 10 {
		o.Observe(event(recipes.EventReleased, fmt.Sprintf("/dynamic/%d", i)))
	}
	require.Zero(t, l.value("held", "lock", "/dynamic/0")+l.value("held", "lock", "other"))
	e := event(recipes.EventRefused, "\xff")
	e.Result = "error"
	o.Observe(e) // of a handle with a bad path: counted, and no panic
	require.EqualValues(t, 1, l.value("acquire_seconds", "lock", "other", "result", "error"))
}

// A scrape that stops in the middle holds up no lock and no event, not even of locks never seen before.
func TestASlowScrapeHoldsUpNothing(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		for i := range 100 {
			l.metrics.Observe(event(recipes.EventAcquired, fmt.Sprint("/x", i)))
		}
		stuck, gone := make(chan prometheus.Metric), make(chan struct{})
		go func() {
			defer close(gone)
			l.metrics.Collect(stuck)
		}()
		<-stuck // the first has been read, and no other for now
		c := l.observed()
		for name, way := range everyWay() {
			l.Unlock(l.Lock(way.Take(c), name))
		}
		l.Settle()
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
	l := registered(t, prom.WithMaxLocks(5))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 200 {
				for j, what := range []recipes.EventType{recipes.EventQueued, recipes.EventAcquired,
					[]recipes.EventType{recipes.EventLost, recipes.EventReleased}[n%2], recipes.EventQueued, recipes.EventRefused} {
					e := event(what, fmt.Sprintf("/%d", n%8))
					e.Call = uint64(i*1000 + n*2 + j/3)
					l.metrics.Observe(e)
				}
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

// The cost of one lock that is taken and released, on the Observer's goroutine.
func BenchmarkAcquireAndRelease(b *testing.B) { bench(b, recipes.EventAcquired, recipes.EventReleased) }

// The same for a lock that a call had to wait for.
func BenchmarkQueueAcquireAndRelease(b *testing.B) {
	bench(b, recipes.EventQueued, recipes.EventAcquired, recipes.EventReleased)
}

func bench(b *testing.B, types ...recipes.EventType) {
	b.ReportAllocs()
	o := prom.New()
	var events []recipes.Event
	for _, what := range types {
		events = append(events, event(what, "/locks/ledger"))
	}
	for b.Loop() {
		for _, e := range events {
			o.Observe(e)
		}
	}
}
