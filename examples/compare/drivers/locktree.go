// Package drivers has one lock service a file, each used as its documentation recommends.
package drivers

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// TTL is how long a lock may outlive who holds it: the session's timeout, or the time to live of a key.
var TTL = 30 * time.Second

// locktree asks for the token of every grant.
func locktree(ctx context.Context, addrs []string) (lock.Client, error) {
	c, err := recipes.Dial(ctx, recipes.Config{Servers: addrs, SessionTimeout: TTL, ConnectTimeout: time.Minute})
	return lock.Client{Close: c.Close, Locker: func(_ context.Context, what lock.What) (lock.Locker, error) {
		path := "/locktree/" + what.Names[0]
		mutex := func(name string) *recipes.Mutex {
			if what.Handoff > 0 {
				return made(c, name, recipes.WithLocalHandoff(what.Handoff))
			}
			return declared(c, name)
		}
		rw := func() *recipes.RWMutex {
			return c.RWMutex(path, recipes.WithParams(kind.RWLock.New()), recipes.WithCreate())
		}
		switch what.Kind {
		case lock.Mutex:
			held := new(*recipes.Lease)
			l := leasedAs(mutex(what.Names[0]).Lock, held)
			l.Also = func(name string) lock.Locker { // the context of the lease tells who holds it
				return leased(func(context.Context) (*recipes.Lease, error) { return mutex(name).Lock((*held).Context()) })
			}
			return l, nil
		case lock.Read:
			return leased(rw().RLock), nil
		case lock.Write:
			return leased(rw().Lock), nil
		case lock.Semaphore:
			sem := c.Semaphore(path, recipes.WithParams(&kind.SemaphoreParams{Permits: what.Permits}), recipes.WithCreate())
			return leased(func(ctx context.Context) (*recipes.Lease, error) { return sem.Acquire(ctx, 1) }), nil
		case lock.Set:
			var members []recipes.Member
			for _, name := range what.Names {
				members = append(members, mutex(name))
			}
			return leased(c.MultiLock(members...).Lock), nil
		}
		return lock.Locker{}, lock.ErrNotOffered
	}}, err
}

// tokens keeps the compiler from leaving out what nobody reads.
var tokens atomic.Uint64

func leased(acquire func(context.Context) (*recipes.Lease, error)) lock.Locker {
	return leasedAs(acquire, new(*recipes.Lease))
}

func leasedAs(acquire func(context.Context) (*recipes.Lease, error), held **recipes.Lease) lock.Locker {
	return lock.Locker{
		Lock: func(ctx context.Context) (err error) {
			if *held, err = acquire(ctx); err == nil {
				tokens.Store((*held).Token())
			}
			return err
		},
		Unlock: func(ctx context.Context) error { return (*held).Unlock(ctx) },
		Token:  func() uint64 { return (*held).Token() },
		Lost:   func() <-chan struct{} { return (*held).Context().Done() },
	}
}

// The ways to go from lock to lock.
type step func(m *recipes.Mutex, lease **recipes.Lease) lock.Locker

func unlocked(m *recipes.Mutex, lease **recipes.Lease) lock.Locker { return leasedAs(m.Lock, lease) }

// released waits for no release.
func released(m *recipes.Mutex, lease **recipes.Lease) lock.Locker {
	l := unlocked(m, lease)
	l.Unlock = func(context.Context) error { (*lease).Release(); return nil }
	return l
}

// exchanged gives each lock back in the transaction that takes the next one: until then it keeps it, so nobody else may want it.
func exchanged(m *recipes.Mutex, lease **recipes.Lease) lock.Locker {
	l := leasedAs(func(ctx context.Context) (*recipes.Lease, error) {
		if *lease == nil {
			return m.Lock(ctx)
		}
		return m.LockFrom(ctx, *lease)
	}, lease)
	l.Unlock = func(context.Context) error { return nil }
	return l
}

// declared opens locks that stand, keyed those of a family, which exist while they are used.
func declared(c *recipes.Client, name string) *recipes.Mutex { return made(c, name) }

func made(c *recipes.Client, name string, more ...recipes.Option) *recipes.Mutex {
	return c.Mutex("/locktree/"+name, append(more, recipes.WithParams(&kind.MutexParams{}), recipes.WithCreate())...)
}

// keyed is, as every lock here, at a path that a run of the benchmark makes: no configuration declares it, so there are no generated handles.
func keyed(c *recipes.Client, name string) *recipes.Mutex { return c.Keyed(family).Mutex(name) }

// retained keeps the lock of a key after its use, until somebody wants it.
func retained(c *recipes.Client, name string) *recipes.Mutex {
	return c.Keyed(family, recipes.WithRetention(time.Minute)).Mutex(name)
}

const family = "/locktree-keys"

// declareFamily does what an apply does, of which this driver needs no more.
func declareFamily(ctx context.Context, c *recipes.Client) error {
	data, err := (&kind.Payload{Params: &kind.KeyedParams{Of: kind.Mutex.Name}}).Encode()
	if err != nil {
		return err
	}
	s, err := c.Session(ctx)
	if err != nil {
		return err
	}
	if _, err = s.Create(ctx, family, data, 0, zk.WorldACL(zk.PermAll)); errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// streaming makes lockers that share the lease of their worker. Those that keep a lock until the next one need locks of their own.
func streaming(open func(*recipes.Client, string) *recipes.Mutex, keeps bool, way step) lock.Driver {
	return func(ctx context.Context, addrs []string) (lock.Client, error) {
		c, err := recipes.Dial(ctx, recipes.Config{Servers: addrs, SessionTimeout: TTL, ConnectTimeout: time.Minute})
		if err == nil {
			if err = declareFamily(ctx, c); err != nil {
				_ = c.Close()
			}
		}
		return streamer(c, open, keeps, way), err
	}
}

func streamer(c *recipes.Client, open func(*recipes.Client, string) *recipes.Mutex, keeps bool, way step) lock.Client {
	leases := map[int]**recipes.Lease{}
	return lock.Client{Close: c.Close, Locker: func(_ context.Context, what lock.What) (lock.Locker, error) {
		if what.Kind != lock.Mutex || keeps && !what.Own {
			return lock.Locker{}, lock.ErrNotOffered
		}
		lease := leases[what.Worker]
		if lease == nil {
			lease = new(*recipes.Lease)
			leases[what.Worker] = lease
		}
		return way(open(c, what.Names[0]), lease), nil
	}}
}
