package prom_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// value sums the samples of a metric that have these labels, given as pairs; of a histogram the number of observations.
func (l *lab) value(name string, labels ...string) (sum float64) {
	l.t.Helper()
	families, err := l.reg.Gather()
	require.NoError(l.t, err)
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

// picture is what the server and the leases say of each lock: leases, and the places of calls that wait.
type picture struct {
	leases  map[string]int
	waiting map[string][]string
}

// truth compares the gauges with it, as soon as it stands still. A member of a set that waited, and is granted while the set
// waits for another one, waits no longer to the server; sets are how many calls can be in that state.
func (l *lab) truth(admin *recipes.Client, leases func() map[string]int, sets func() int, clients ...*recipes.Client) {
	l.t.Helper()
	l.settle()
	look := func() picture {
		sessions, p := map[int64]bool{}, picture{waiting: map[string][]string{}}
		for _, c := range clients {
			sessions[l.session(c)] = true
		}
		for path := range locks {
			in, err := inspect.Lock(l.t.Context(), admin, path)
			require.NoError(l.t, err)
			for _, w := range in.Waiters {
				if sessions[w.Session] {
					p.waiting[path] = append(p.waiting[path], w.Path)
				}
			}
		}
		synctest.Wait()
		p.leases = leases()
		return p
	}
	var want picture
	var held, waiting map[string]int
	for before := (picture{}); before.leases == nil || !reflect.DeepEqual(before, want); {
		before = look()
		held, waiting = map[string]int{}, map[string]int{}
		for path := range locks {
			held[path], waiting[path] = int(l.value("held", "lock", path)), int(l.value("waiting", "lock", path))
		}
		require.EqualValues(l.t, held["/e"], l.value("leader", "lock", "/e"))
		want = look()
	}
	for path := range locks {
		require.Equal(l.t, want.leases[path], held[path], "leases of %s", path)
		require.GreaterOrEqual(l.t, waiting[path], len(want.waiting[path]), "calls that wait for %s", path)
		require.LessOrEqual(l.t, waiting[path], len(want.waiting[path])+sets(), "calls that wait for %s", path)
	}
}

// each says that there is one lease of each of these.
func each(paths ...string) func() map[string]int {
	m := map[string]int{}
	for _, p := range paths {
		m[p] = 1
	}
	return func() map[string]int { return m }
}

func none() int { return 0 }

// Every recipe through every end, with the gauges compared at every step.
func TestGaugesTellTheTruthAtEveryEndOfEveryRecipe(t *testing.T) {
	for name, way := range everyWay() {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				c, rival, admin := l.client(true), l.client(false), l.client(false)
				held, free := each(way.paths...), each()
				ends := func(metric, label, end string, n int) {
					t.Helper()
					for _, path := range way.paths {
						require.EqualValues(t, n, l.value(metric, "lock", path, "kind", way.kind, label, end), "%s of %s", end, path)
					}
				}

				x, err := way.take(c)(t.Context())
				require.NoError(t, err)
				l.truth(admin, held, none, c)
				ends("acquire_seconds", "result", "acquired", 1)
				require.NoError(t, x.Unlock(t.Context()))
				l.truth(admin, free, none, c)
				ends("hold_seconds", "end", "released", 1)

				blocked, err := way.block(rival)(t.Context())
				require.NoError(t, err)
				for result, ctx := range map[string]func() (context.Context, context.CancelFunc){
					"timeout":   func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), time.Minute) },
					"cancelled": func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) },
				} {
					ctx, cancel := ctx()
					errs := make(chan error, 1)
					go func() { _, err := way.take(c)(ctx); errs <- err }()
					l.settle()
					require.NotZero(t, l.value("waiting"))
					l.truth(admin, free, none, c)
					time.AfterFunc(2*time.Minute, cancel)
					require.Error(t, <-errs)
					l.truth(admin, free, none, c)
					require.Zero(t, l.value("waiting"))
					ends("acquire_seconds", "result", result, 1)
				}
				if way.try != nil {
					_, err = way.try(c)(t.Context())
					require.ErrorIs(t, err, recipes.ErrHeld)
					l.truth(admin, free, none, c)
					ends("acquire_seconds", "result", "held", 1)
				}

				l.refuse(c, way, func(p *kind.Payload) { maxWaiters(p.Params, 1) }, recipes.ErrQueueFull)
				l.truth(admin, free, none, c)
				ends("acquire_seconds", "result", "quota", 1)
				l.refuse(c, way, func(p *kind.Payload) { p.State = kind.StateDraining }, recipes.ErrDraining)
				l.truth(admin, free, none, c)
				ends("acquire_seconds", "result", "error", 1)

				leases := make(chan *recipes.Lease, 1)
				go func() {
					if x, err := way.take(c)(t.Context()); err == nil {
						leases <- x
					}
				}()
				l.settle()
				l.truth(admin, free, none, c)
				require.NoError(t, blocked.Unlock(t.Context()))
				x = <-leases
				l.truth(admin, held, none, c)
				require.NoError(t, l.srv.Delete(x.Node()))
				<-x.Context().Done()
				l.truth(admin, free, none, c)
				ends("hold_seconds", "end", "lost", 1)
				for _, path := range way.paths {
					require.EqualValues(t, 1, l.value("lost_total", "lock", path, "reason", "deleted"))
				}

				x, err = way.take(c)(t.Context())
				require.NoError(t, err)
				l.truth(admin, held, none, c)
				l.srv.Expire(l.session(c))
				<-x.Context().Done()
				l.truth(admin, free, none, c)
				ends("hold_seconds", "end", "lost", 2)
				require.Error(t, x.Unlock(t.Context()))
				l.truth(admin, free, none, c)

				blocked, err = way.block(rival)(t.Context())
				require.NoError(t, err)
				errs := make(chan error, 1)
				go func() { _, err := way.take(c)(t.Context()); errs <- err }()
				l.settle()
				l.srv.Expire(l.session(c))
				require.ErrorIs(t, <-errs, recipes.ErrSessionLost, "a place goes with its session")
				l.truth(admin, free, none, c)
				require.NoError(t, blocked.Unlock(t.Context()))
			})
		})
	}
}

// refuse lets c be refused because of a change of the declaration, which is taken back.
func (l *lab) refuse(c *recipes.Client, way way, change func(*kind.Payload), want error) {
	l.t.Helper()
	path := way.paths[0]
	l.declare(path, locks[path], change)
	var before *recipes.Client
	ctx, cancel := context.WithCancel(l.t.Context())
	defer cancel()
	if errors.Is(want, recipes.ErrQueueFull) { // somebody else waits already
		before = l.client(false)
		go func() { _, _ = way.take(before)(ctx) }()
		l.settle()
	}
	_, err := way.take(c)(l.t.Context())
	require.ErrorIs(l.t, err, want)
	cancel()
	l.settle()
	l.declare(path, locks[path], nil)
}

func maxWaiters(p kind.Params, n int) {
	switch p := p.(type) {
	case *kind.MutexParams:
		p.MaxWaiters = n
	case *kind.RWLockParams:
		p.MaxWaiters = n
	case *kind.SemaphoreParams:
		p.MaxWaiters = n
	case *kind.ElectionParams:
		p.MaxWaiters = n
	}
}

// A set that waits for another goroutine of its client stands in no queue. Its end was taken for that of a reader that began
// to wait at the same moment.
func TestWhoWaitedInTheProcessTakesNobodyOutOfAQueue(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c, rival := l.client(true), l.client(false)
		x, err := c.Mutex("/m").Lock(t.Context())
		require.NoError(t, err)
		w, err := rival.RWMutex("/rw").Lock(t.Context())
		require.NoError(t, err)
		read := make(chan error, 1)
		go func() { _, err := c.RWMutex("/rw").RLock(t.Context()); read <- err }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = set(c).Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		l.settle()
		require.EqualValues(t, 1, l.value("waiting", "lock", "/rw"))
		require.NoError(t, w.Unlock(t.Context()))
		require.NoError(t, <-read)
		l.settle()
		require.Zero(t, l.value("waiting"))
		require.NoError(t, x.Unlock(t.Context()))
	})
}

// Goroutines of two clients do everything at once, with bounds of every length, under sessions that expire and nodes that are
// deleted. Whenever everything rests the gauges are compared with the truth.
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
	clients := []*recipes.Client{l.client(true), l.client(true, func(cfg *recipes.Config) { cfg.LoseOnSuspect = true })}
	admin := l.client(false)
	var mu sync.Mutex
	held := map[*recipes.Lease][]string{}
	leases := func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
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
	var sets atomic.Int32 // in their calls
	for range 150 {
		switch n := r.IntN(20); {
		case n == 0:
			l.srv.Expire(l.session(clients[r.IntN(2)]))
		case n == 1:
			l.srv.Disconnect(l.session(clients[r.IntN(2)]))
		case n < 5:
			mu.Lock()
			for x := range held {
				if n == 2 && x.Context().Err() == nil {
					_ = l.srv.Delete(x.Node())
				}
				break
			}
			mu.Unlock()
		default:
			way, c := ways[r.IntN(len(ways))], clients[r.IntN(2)]
			take := way.take(c)
			if way.try != nil && r.IntN(4) == 0 {
				take = way.try(c)
			}
			most, hold := time.Duration(1+r.IntN(90))*time.Second/3, time.Duration(r.IntN(20))*time.Second
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(l.t.Context(), most)
				defer cancel()
				if len(way.paths) > 1 {
					sets.Add(1)
				}
				x, err := take(ctx)
				if len(way.paths) > 1 {
					sets.Add(-1)
				}
				if err != nil {
					return
				}
				mu.Lock()
				held[x] = way.paths
				mu.Unlock()
				time.Sleep(hold)
				mu.Lock()
				delete(held, x)
				mu.Unlock()
				_ = x.Unlock(l.t.Context())
			})
		}
		time.Sleep(time.Duration(1001+r.IntN(2000)) * time.Millisecond) // calls that begin together may be taken for each other
		if r.IntN(5) == 0 {
			l.truth(admin, leases, func() int { return int(sets.Load()) }, clients...)
		}
	}
	calls.Wait()
	l.truth(admin, each(), none, clients...)
	require.Zero(l.t, l.value("waiting"))
	require.Zero(l.t, l.value("held"))
}
