package prom

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

const other = "other" // the label of the locks beyond WithMaxLocks

// Observer counts what the recipes do. Give its Observe to [recipes.Config], and itself to a registry. Obtain it from [New].
type Observer struct {
	label func(path string) string
	max   int

	acquire, hold         *prometheus.HistogramVec
	waiting, held, leader *prometheus.GaugeVec
	sessions              *prometheus.GaugeVec
	contended, lost       *prometheus.CounterVec
	overflow, ended       *prometheus.CounterVec   // without labels
	heartbeat             *prometheus.HistogramVec // without labels
	vectors               []prometheus.Collector

	mu     sync.Mutex // not held while a metric is changed: a scrape may block the change
	labels map[string]bool
	calls  map[uint64][]recipes.EventLock // the calls that wait, each with its locks at the paths where the wait began: a lock may move meanwhile
	states map[int64]string               // the states of the live sessions
}

var (
	_ prometheus.Collector = (*Observer)(nil)
)

// Option changes an Observer.
type Option func(*Observer)

// WithLabel makes the label of a lock from its path, for example the address of its declaration, or a path whose variable parts
// are replaced. The function must always return the same label for the same path, or gauges drift. It must be safe for use by
// many goroutines.
func WithLabel(label func(path string) string) Option { return func(o *Observer) { o.label = label } }

// WithMaxLocks caps the number of different values of the label lock; the default is 1,000. Further values become "other".
func WithMaxLocks(n int) Option { return func(o *Observer) { o.max = n } }

// New makes an Observer.
func New(opts ...Option) *Observer {
	o := &Observer{
		label: func(path string) string { return path }, max: 1000, labels: map[string]bool{}, calls: map[uint64][]recipes.EventLock{},
		states: map[int64]string{},

		acquire: histogram("acquire_seconds", "How long calls took until they returned a lease or an error.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}, "lock", "kind", "result"),
		hold: histogram("hold_seconds", "How long leases were held.",
			[]float64{.001, .01, .1, .5, 1, 5, 10, 30, 60, 300, 1800, 3600, 6 * 3600, 24 * 3600}, "lock", "kind", "end"),
		contended: counter("acquire_contended_total", "Calls that had to wait.", "lock"),
		lost:      counter("lost_total", "Leases that ended before they were released.", "lock", "reason"),
		overflow:  counter("label_overflow_total", "Events counted under lock=\"other\" because there are too many locks."),
		ended:     counter("sessions_lost_total", "Sessions that were lost, other than by Close."),
		heartbeat: histogram("heartbeat_seconds", "How long the servers took to commit a heartbeat.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}),
		waiting: gauge("waiting", "Calls that wait for a lock.", "lock"),
		held:    gauge("held", "Leases that are held.", "lock", "kind"),
		leader:  gauge("leader", "1 while this program leads, else 0.", "lock"),

		sessions: gauge("sessions", "Sessions that are not lost.", "state"),
	}
	o.vectors = []prometheus.Collector{o.acquire, o.contended, o.hold, o.waiting, o.held, o.leader, o.lost, o.overflow, o.ended, o.sessions, o.heartbeat}
	o.overflow.WithLabelValues()
	o.ended.WithLabelValues()
	for _, state := range []string{active, suspect} {
		o.sessions.WithLabelValues(state)
	}
	for _, opt := range opts {
		opt(o)
	}
	return o
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "locktree", Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour}, labels)
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "locktree", Name: name, Help: help}, labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "locktree", Name: name, Help: help}, labels)
}

// Describe implements prometheus.Collector.
func (o *Observer) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range o.vectors {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector. A vector is locked while it hands out its metrics. So Collect takes all metrics before
// it passes on the first one, and a slow reader keeps no event from being counted.
func (o *Observer) Collect(ch chan<- prometheus.Metric) {
	all := make(chan prometheus.Metric, 64)
	go func() {
		defer close(all)
		for _, c := range o.vectors {
			c.Collect(all)
		}
	}()
	var metrics []prometheus.Metric
	for m := range all {
		metrics = append(metrics, m)
	}
	for _, m := range metrics {
		ch <- m
	}
}

// Observe counts an event. It is for Config.Observer.
func (o *Observer) Observe(e recipes.Event) {
	switch e.Type {
	case recipes.EventSessionOpened, recipes.EventSessionCleared:
		o.session(e.Session, active)
	case recipes.EventSessionSuspected:
		o.session(e.Session, suspect)
	case recipes.EventSessionLost:
		o.session(e.Session, over)
		if !errors.Is(e.Cause, recipes.ErrClosed) {
			o.ended.WithLabelValues().Inc()
		}
	case recipes.EventHeartbeat:
		if e.Cause == nil {
			o.heartbeat.WithLabelValues().Observe(e.Wait.Seconds())
		}
	}
	for _, l := range o.endWait(e) {
		o.waiting.WithLabelValues(o.name(l.Path)).Dec()
	}
	for _, l := range e.Locks {
		kindOf := l.Kind.Name
		if len(e.Locks) > 1 {
			kindOf = "multilock"
		}
		o.count(e, o.name(l.Path), kindOf)
	}
}

// The states of a session. A session that is over has no label.
const (
	active  = "active"
	suspect = "suspect"
	over    = ""
)

// session counts a session in the state that it has now.
func (o *Observer) session(id int64, state string) {
	o.mu.Lock()
	before := o.states[id]
	if o.states[id] = state; state == over {
		delete(o.states, id)
	}
	o.mu.Unlock()
	if before != over {
		o.sessions.WithLabelValues(before).Dec()
	}
	if state != over {
		o.sessions.WithLabelValues(state).Inc()
	}
}

// endWait returns the locks for which a call has waited, if the event e ends its wait.
func (o *Observer) endWait(e recipes.Event) []recipes.EventLock {
	o.mu.Lock()
	defer o.mu.Unlock()
	waited := o.calls[e.Call]
	switch e.Type {
	case recipes.EventQueued:
		o.calls[e.Call] = e.Locks
	case recipes.EventAcquired, recipes.EventRefused:
		delete(o.calls, e.Call)
		return waited
	}
	return nil
}

// count counts an event of a call or a lease, for one of its locks.
func (o *Observer) count(e recipes.Event, lock, kindOf string) {
	switch e.Type {
	case recipes.EventQueued:
		o.contended.WithLabelValues(lock).Inc()
		o.waiting.WithLabelValues(lock).Inc()
		if kindOf == kind.Election.Name {
			o.leader.WithLabelValues(lock) // 0: the candidate does not lead
		}
	case recipes.EventAcquired:
		o.acquire.WithLabelValues(lock, kindOf, e.Result).Observe(e.Wait.Seconds())
		o.addHeld(lock, kindOf, 1)
	case recipes.EventRefused:
		o.acquire.WithLabelValues(lock, kindOf, e.Result).Observe(e.Wait.Seconds())
	case recipes.EventLost:
		o.lost.WithLabelValues(lock, reason(e.Cause)).Inc()
		fallthrough
	case recipes.EventReleased:
		o.hold.WithLabelValues(lock, kindOf, string(e.Type)).Observe(e.Held.Seconds())
		o.addHeld(lock, kindOf, -1)
	}
}

// addHeld changes the gauges of held leases.
func (o *Observer) addHeld(lock, kindOf string, by float64) {
	o.held.WithLabelValues(lock, kindOf).Add(by)
	if kindOf == kind.Election.Name {
		o.leader.WithLabelValues(lock).Add(by)
	}
}

// name is the label of the lock at path. The counters that alerts watch begin at 0, because Prometheus sees no increase in the
// sample that creates a series.
func (o *Observer) name(path string) string {
	lock := strings.ToValidUTF8(o.label(path), "\uFFFD")
	o.mu.Lock()
	known := o.labels[lock]
	overflow := !known && len(o.labels) >= o.max
	if overflow {
		lock, known = other, o.labels[other]
	}
	o.labels[lock] = true
	o.mu.Unlock()
	if overflow {
		o.overflow.WithLabelValues().Inc()
	}
	if !known {
		for _, reason := range reasons {
			o.lost.WithLabelValues(lock, reason)
		}
	}
	return lock
}

var reasons = []string{"session", "deleted", "other"}

// reason says why a lease was lost.
func reason(cause error) string {
	switch {
	case errors.Is(cause, recipes.ErrSessionLost):
		return "session"
	case errors.Is(cause, zk.ErrNoNode):
		return "deleted"
	}
	return "other"
}
