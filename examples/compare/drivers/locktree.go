package drivers

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// locktree is a mutex, and a MultiLock as its set. Each is at a path that a run makes: no configuration declares it, so there are no
// generated handles.
func locktree(addrs []string, ttl time.Duration) lock.Client {
	c := lock.Must(recipes.Dial(context.Background(), recipes.Config{Servers: addrs, SessionTimeout: ttl, ConnectTimeout: time.Minute}))
	mutex := func(name string) *recipes.Mutex {
		return c.Mutex("/locktree/"+name, recipes.WithParams(&kind.MutexParams{}), recipes.WithCreate())
	}
	return lock.Client{Close: c.Close, Locker: func(name string) lock.Locker { return leased(mutex(name).Lock) }, Set: func(names ...string) lock.Locker {
		var members []recipes.Member
		for _, name := range names {
			members = append(members, mutex(name))
		}
		return leased(c.MultiLock(members...).Lock)
	}}
}

// tokens keeps the compiler from leaving out that a grant's token is read.
var tokens atomic.Uint64

func leased(acquire func(context.Context) (*recipes.Lease, error)) lock.Locker {
	var held *recipes.Lease
	return lock.Locker{
		Lock: func(ctx context.Context) (err error) {
			if held, err = acquire(ctx); err == nil {
				tokens.Store(held.Token())
			}
			return err
		},
		Unlock: func(ctx context.Context) error { return held.Unlock(ctx) },
		Token:  func() uint64 { return held.Token() },
		Lost:   func() <-chan struct{} { return held.Context().Done() },
	}
}
