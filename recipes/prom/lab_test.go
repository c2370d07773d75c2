package prom_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/prom"
	"github.com/locktree/locktree/recipes/zktest"
)

// lab is an in-memory ZooKeeper with a lock of every kind, in one bubble of fake time, and an Observer with its registry.
type lab struct {
	t       *testing.T
	srv     *zktest.Server
	reg     *prometheus.Registry
	metrics *prom.Observer

	mu    sync.Mutex
	calls map[string]int // that have not returned, by lock
}

func inLab(t *testing.T, f func(t *testing.T, l *lab), opts ...prom.Option) {
	synctest.Test(t, func(t *testing.T) {
		l := &lab{t: t, srv: zktest.Start(t, zktest.WithLatency(time.Millisecond)), reg: prometheus.NewRegistry(), metrics: prom.New(opts...), calls: map[string]int{}}
		l.reg.MustRegister(l.metrics)
		for path, k := range locks {
			l.declare(path, k, nil)
		}
		f(t, l)
	})
}

var locks = map[string]*kind.Kind{"/m": kind.Mutex, "/rw": kind.RWLock, "/s": kind.Semaphore, "/e": kind.Election}

// declare provisions a lock; the semaphore has three permits.
func (l *lab) declare(path string, k *kind.Kind, change func(*kind.Payload)) {
	l.t.Helper()
	payload := &kind.Payload{Params: k.New()}
	if p, ok := payload.Params.(*kind.SemaphoreParams); ok {
		p.Permits = 3
	}
	if change != nil {
		change(payload)
	}
	require.NoError(l.t, l.srv.Provision(path, payload))
}

func (l *lab) client(observed bool, change ...func(*recipes.Config)) *recipes.Client {
	l.t.Helper()
	cfg := recipes.Config{Servers: []string{"zk"}, SessionTimeout: 12 * time.Second, Dialer: l.srv.DialContext}
	if observed {
		cfg.Observer = l.metrics.Observe
	}
	for _, c := range change {
		c(&cfg)
	}
	c, err := recipes.Dial(l.t.Context(), cfg)
	require.NoError(l.t, err)
	l.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (l *lab) session(c *recipes.Client) int64 {
	l.t.Helper()
	s, err := c.Session(l.t.Context())
	require.NoError(l.t, err)
	return s.ID()
}

// settle lets the network deliver everything that is under way, and the Observer hear of it.
func (l *lab) settle() {
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
}

// taking is a way to take locks.
type taking func(context.Context) (*recipes.Lease, error)

// way is a recipe: how it is taken, also at once or not at all, and how another client keeps it from being granted.
type way struct {
	paths            []string // of its locks
	kind             string
	take, try, block func(*recipes.Client) taking
}

func campaign(c *recipes.Client) taking {
	return c.Election("/e").Campaign
}

func draw(n int) func(*recipes.Client) taking {
	return func(c *recipes.Client) taking {
		return func(ctx context.Context) (*recipes.Lease, error) { return c.Semaphore("/s").Acquire(ctx, n) }
	}
}

func set(c *recipes.Client) *recipes.MultiLock {
	return c.MultiLock(c.Mutex("/m"), c.RWMutex("/rw").RLocker())
}

func everyWay() map[string]way {
	lock := func(c *recipes.Client) taking { return c.Mutex("/m").Lock }
	write := func(c *recipes.Client) taking { return c.RWMutex("/rw").Lock }
	all := func(c *recipes.Client) taking {
		return c.MultiLock(c.Mutex("/m"), c.RWMutex("/rw")).Lock
	}
	return map[string]way{
		"mutex":  {[]string{"/m"}, "mutex", lock, func(c *recipes.Client) taking { return c.Mutex("/m").TryLock }, lock},
		"writer": {[]string{"/rw"}, "rwlock", write, func(c *recipes.Client) taking { return c.RWMutex("/rw").TryLock }, write},
		"reader": {[]string{"/rw"}, "rwlock", func(c *recipes.Client) taking { return c.RWMutex("/rw").RLock },
			func(c *recipes.Client) taking { return c.RWMutex("/rw").TryRLock }, write},
		"semaphore": {[]string{"/s"}, "semaphore", draw(2), func(c *recipes.Client) taking {
			return func(ctx context.Context) (*recipes.Lease, error) { return c.Semaphore("/s").TryAcquire(ctx, 2) }
		}, draw(2)},
		"election": {[]string{"/e"}, "election", campaign, nil, campaign},
		"set of one": {[]string{"/m"}, "mutex", func(c *recipes.Client) taking { return c.MultiLock(c.Mutex("/m")).Lock },
			func(c *recipes.Client) taking { return c.MultiLock(c.Mutex("/m")).TryLock }, lock},
		"set": {[]string{"/m", "/rw"}, "multilock", func(c *recipes.Client) taking { return set(c).Lock },
			func(c *recipes.Client) taking { return set(c).TryLock }, all},
	}
}
