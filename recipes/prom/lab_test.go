package prom_test

import (
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/prom"
)

// lab is a harness.Lab with a lock of every kind, and an Observer with its registry.
type lab struct {
	*harness.Lab
	reg     *prometheus.Registry
	metrics *prom.Observer

	mu    sync.Mutex
	calls map[string]int // that have not returned, by lock
}

// registered is the part of a lab that needs no server.
func registered(t *testing.T, opts ...prom.Option) *lab {
	l := &lab{Lab: &harness.Lab{T: t}, reg: prometheus.NewRegistry(), metrics: prom.New(opts...), calls: map[string]int{}}
	l.reg.MustRegister(l.metrics)
	return l
}

func inLab(t *testing.T, f func(t *testing.T, l *lab)) {
	harness.InLab(t, func(t *testing.T, h *harness.Lab) {
		l := registered(t)
		l.Lab = h
		l.EveryKind()
		f(t, l)
	})
}

// observed is a client that the Observer listens to.
func (l *lab) observed(change ...func(*recipes.Config)) *recipes.Client {
	l.T.Helper()
	return l.Client("", append(change, func(cfg *recipes.Config) { cfg.Observer = l.metrics.Observe })...)
}

// way is a harness.Way, with all its locks, and what the metrics call its kind.
type way struct {
	harness.Way
	paths []string
	kind  string
}

func everyWay() map[string]way {
	ways := map[string]way{}
	for name, w := range harness.Ways() {
		ways[name] = way{w, []string{w.Path}, w.Kind.Name}
	}
	for name, members := range map[string]func(*recipes.Client) []recipes.Member{
		"set": func(c *recipes.Client) []recipes.Member {
			return []recipes.Member{c.Mutex("/m"), c.RWMutex("/rw").RLocker()}
		},
		"set of one": func(c *recipes.Client) []recipes.Member { return []recipes.Member{c.Mutex("/m")} },
	} {
		set := ways["mutex"]
		set.Take = func(c *recipes.Client, _ ...recipes.Option) harness.Take { return c.MultiLock(members(c)...).Lock }
		set.Try = func(c *recipes.Client, _ ...recipes.Option) harness.Take { return c.MultiLock(members(c)...).TryLock }
		if name == "set" {
			set.paths, set.kind = []string{"/m", "/rw"}, "multilock"
		}
		ways[name] = set
	}
	return ways
}

// declare changes the declaration of a way's first lock.
func (l *lab) declare(w way, change ...func(*kind.Payload)) {
	l.T.Helper()
	p := w.Kind.New()
	if s, ok := p.(*kind.SemaphoreParams); ok {
		s.Permits = 3
	}
	l.Declare(w.Path, p, change...)
}
