package prom_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
)

// value sums the samples of a metric with these labels, given as pairs. For a histogram, it sums the numbers of observations.
func (l *lab) value(name string, labels ...string) (sum float64) {
	l.T.Helper()
	families, err := l.reg.Gather()
	require.NoError(l.T, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			has := map[string]string{}
			for _, p := range m.GetLabel() {
				has[p.GetName()] = p.GetValue()
			}
			match := f.GetName() == "locktree_"+name
			for i := 0; i < len(labels); i += 2 {
				match = match && has[labels[i]] == labels[i+1]
			}
			if match {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// call makes a call that truth knows of.
func (l *lab) call(ctx context.Context, way way, take harness.Take) (*recipes.Lease, error) {
	count := func(by int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, path := range way.paths {
			l.calls[path] += by
		}
	}
	count(1)
	defer count(-1)
	return take(ctx)
}

// truth compares the gauges with the leases and calls at rest: every call that has not returned waits then.
func (l *lab) truth(leases func() map[string]int) {
	l.T.Helper()
	l.Settle()
	l.mu.Lock()
	defer l.mu.Unlock()
	held := leases()
	for _, path := range []string{"/m", "/rw", "/s", "/e"} {
		require.EqualValues(l.T, held[path], l.value("held", "lock", path), "leases of %s", path)
		require.EqualValues(l.T, l.calls[path], l.value("waiting", "lock", path), "calls that wait for %s", path)
	}
	require.EqualValues(l.T, held["/e"], l.value("leader", "lock", "/e"))
}

// each returns one lease for each path.
func each(paths ...string) func() map[string]int {
	m := map[string]int{}
	for _, p := range paths {
		m[p] = 1
	}
	return func() map[string]int { return m }
}

// Every recipe goes through every end. The gauges are compared at every step.
func TestGaugesTellTheTruthAtEveryEndOfEveryRecipe(t *testing.T) {
	for name, way := range everyWay() {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				c, rival := l.observed(), l.Client("rival")
				held, free := each(way.paths...), each()
				ends := func(metric, label, end string, n int) {
					t.Helper()
					for _, path := range way.paths {
						require.EqualValues(t, n, l.value(metric, "lock", path, "kind", way.kind, label, end), "%s of %s", end, path)
					}
				}

				x := l.Lock(way.Take(c))
				l.truth(held)
				ends("acquire_seconds", "result", "acquired", 1)
				l.Unlock(x)
				l.truth(free)
				ends("hold_seconds", "end", "released", 1)

				blocked := l.Lock(way.Block(rival))
				for result, ctx := range map[string]func() (context.Context, context.CancelFunc){
					"timeout":   func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), time.Minute) },
					"cancelled": func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) },
				} {
					ctx, cancel := ctx()
					waiting := harness.Async(func() (*recipes.Lease, error) { return l.call(ctx, way, way.Take(c)) })
					l.Settle()
					require.NotZero(t, l.value("waiting"))
					l.truth(free)
					time.AfterFunc(2*time.Minute, cancel)
					require.Error(t, (<-waiting).Err)
					l.truth(free)
					require.Zero(t, l.value("waiting"))
					ends("acquire_seconds", "result", result, 1)
				}
				if way.Try != nil {
					_ = l.Refused(way.Try(c), recipes.ErrHeld)
					l.truth(free)
					ends("acquire_seconds", "result", "held", 1)
				}

				l.refuse(c, way, maxWaiters, recipes.ErrQueueFull)
				l.truth(free)
				ends("acquire_seconds", "result", "quota", 1)
				l.refuse(c, way, func(p *kind.Payload) { p.State = kind.StateDraining }, recipes.ErrDraining)
				l.truth(free)
				ends("acquire_seconds", "result", "error", 1)

				granted := harness.Async(func() (*recipes.Lease, error) { return l.call(t.Context(), way, way.Take(c)) })
				l.Settle()
				l.truth(free)
				l.Unlock(blocked)
				x = l.Got(granted)
				l.truth(held)
				require.NoError(t, l.Srv.Delete(x.Node()))
				<-x.Context().Done()
				l.truth(free)
				ends("hold_seconds", "end", "lost", 1)
				for _, path := range way.paths {
					require.EqualValues(t, 1, l.value("lost_total", "lock", path, "reason", "deleted"))
				}

				x = l.Lock(way.Take(c))
				l.truth(held)
				l.Srv.Expire(l.SessionID(c))
				<-x.Context().Done()
				l.truth(free)
				ends("hold_seconds", "end", "lost", 2)
				require.Error(t, x.Unlock(t.Context()))
				l.truth(free)

				blocked = l.Lock(way.Block(rival))
				waiting := harness.Async(func() (*recipes.Lease, error) { return l.call(t.Context(), way, way.Take(c)) })
				for i := 0; l.value("waiting", "lock", way.paths[0]) == 0; i++ {
					require.Less(t, i, 100)
					l.Settle() // the previous session has expired too: a call without a place takes one in the next
				}
				l.Srv.Expire(l.SessionID(c))
				require.ErrorIs(t, (<-waiting).Err, recipes.ErrSessionLost, "a place goes with its session")
				l.truth(free)
				l.Unlock(blocked)
			})
		})
	}
}

// refuse changes the declaration so that c is refused, and then restores it.
func (l *lab) refuse(c *recipes.Client, way way, change func(*kind.Payload), want error) {
	l.T.Helper()
	l.declare(way, change)
	if errors.Is(want, recipes.ErrQueueFull) { // another client waits already
		_, leave := l.Leaving(way.Take(l.Client("before")))
		defer l.Settle()
		defer leave()
	}
	_ = l.Refused(way.Take(c), want)
	l.declare(way)
}

func maxWaiters(p *kind.Payload) {
	for _, f := range p.Params.Fields() {
		if f.Name == "max_waiters" {
			_ = f.Set(1)
		}
	}
}

// Goroutines of two clients do everything at once, with timeouts of every length, while sessions expire and nodes are deleted. Whenever
// everything rests, the gauges are compared with the truth.
func TestGaugesDoNotDriftUnderRandomUse(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) { l.randomUse(rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func (l *lab) randomUse(r *rand.Rand) {
	var ways []way
	all := everyWay()
	for _, name := range []string{"mutex", "writer", "reader", "semaphore", "election", "set of one", "set"} {
		ways = append(ways, all[name])
	}
	clients := []*recipes.Client{l.observed(), l.observed(func(cfg *recipes.Config) { cfg.LoseOnSuspect = true })}
	held := map[*recipes.Lease][]string{}
	leases := func() map[string]int { // mu is held
		n := map[string]int{}
		for x, paths := range held {
			for _, path := range paths {
				if x.Context().Err() == nil {
					n[path]++
				}
			}
		}
		return n
	}
	var calls sync.WaitGroup
	for range 150 {
		switch n := r.IntN(20); {
		case n == 0:
			l.Srv.Expire(l.SessionID(clients[r.IntN(2)]))
		case n == 1:
			l.Srv.Disconnect(l.SessionID(clients[r.IntN(2)]))
		case n < 5:
			l.mu.Lock()
			for x := range held {
				if n == 2 && x.Context().Err() == nil {
					_ = l.Srv.Delete(x.Node())
				}
				break
			}
			l.mu.Unlock()
		default:
			way, c := ways[r.IntN(len(ways))], clients[r.IntN(2)]
			take := way.Take(c)
			if way.Try != nil && r.IntN(4) == 0 {
				take = way.Try(c)
			}
			most, hold := time.Duration(1+r.IntN(90))*time.Second/3, time.Duration(r.IntN(20))*time.Second
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(l.T.Context(), most)
				defer cancel()
				x, err := l.call(ctx, way, take)
				if err != nil {
					return
				}
				l.mu.Lock()
				held[x] = way.paths
				l.mu.Unlock()
				time.Sleep(hold)
				l.mu.Lock()
				delete(held, x)
				l.mu.Unlock()
				_ = x.Unlock(l.T.Context())
			})
		}
		time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		if r.IntN(5) == 0 {
			l.truth(leases)
		}
	}
	calls.Wait()
	l.truth(each())
	require.Zero(l.T, l.value("waiting"))
	require.Zero(l.T, l.value("held"))
}
