// Package drivers has one lock service a file, each used as its documentation recommends.
package drivers

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// TTL is how long a lock may outlive who holds it: the session's timeout, or the time to live of a key.
var TTL = 30 * time.Second

// locktree asks for the token of every grant.
type locktree struct{}

func (locktree) Dial(ctx context.Context, addrs []string) (lock.Client, error) {
	c, err := recipes.Dial(ctx, recipes.Config{Servers: addrs, SessionTimeout: TTL, ConnectTimeout: time.Minute})
	return locktreeClient{c}, err
}

type locktreeClient struct{ c *recipes.Client }

func (c locktreeClient) Close() error { return c.c.Close() }

func (c locktreeClient) Locker(_ context.Context, what lock.What) (lock.Locker, error) {
	var opts []recipes.Option
	if what.Handoff > 0 {
		opts = append(opts, recipes.WithLocalHandoff(what.Handoff))
	}
	mutex := func(name string) *recipes.Mutex {
		return c.c.Mutex("/locktree/"+name, append(opts, recipes.WithParams(&kind.MutexParams{}), recipes.WithCreate())...)
	}
	rw := func() *recipes.RWMutex {
		return c.c.RWMutex("/locktree/"+what.Names[0], recipes.WithParams(kind.RWLock.New()), recipes.WithCreate())
	}
	switch what.Kind {
	case lock.Mutex:
		return &leased{acquire: mutex(what.Names[0]).Lock}, nil
	case lock.Read:
		return &leased{acquire: rw().RLock}, nil
	case lock.Write:
		return &leased{acquire: rw().Lock}, nil
	case lock.Semaphore:
		sem := c.c.Semaphore("/locktree/"+what.Names[0], recipes.WithParams(&kind.SemaphoreParams{Permits: what.Permits}), recipes.WithCreate())
		return &leased{acquire: func(ctx context.Context) (*recipes.Lease, error) { return sem.Acquire(ctx, 1) }}, nil
	case lock.Set:
		var members []recipes.Member
		for _, name := range what.Names {
			members = append(members, mutex(name))
		}
		return &leased{acquire: c.c.MultiLock(members...).Lock}, nil
	}
	return nil, lock.ErrNotOffered
}

type leased struct {
	acquire func(context.Context) (*recipes.Lease, error)
	lease   *recipes.Lease
}

// tokens keeps the compiler from leaving out what nobody reads.
var tokens atomic.Uint64

func (l *leased) Lock(ctx context.Context) (err error) {
	if l.lease, err = l.acquire(ctx); err == nil {
		tokens.Store(l.lease.Token())
	}
	return err
}

func (l *leased) Unlock(ctx context.Context) error { return l.lease.Unlock(ctx) }

func (l *leased) Token() uint64         { return l.lease.Token() }
func (l *leased) Lost() <-chan struct{} { return l.lease.Context().Done() }
