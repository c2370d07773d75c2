package drivers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// locktree is a mutex; its set is a MultiLock. A run makes the paths, so there is no configuration and no generated handle.
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

func leased(acquire func(context.Context) (*recipes.Lease, error)) lock.Locker {
	var held *recipes.Lease
	return lock.Locker{
		Lock: func(ctx context.Context) (err error) {
			held, err = acquire(ctx)
			return err
		},
		Unlock: func(ctx context.Context) error { return held.Unlock(ctx) },
		Token:  func() uint64 { return held.Token() },
		Lost:   func() <-chan struct{} { return held.Context().Done() },
	}
}

// goZooKeeper is the Lock that comes with the Go client.
func goZooKeeper(addrs []string, ttl time.Duration) lock.Client {
	c, lost := dialZooKeeper(addrs, ttl)
	return lock.Client{Close: func() error { c.Close(); return nil }, Locker: func(name string) lock.Locker {
		l := zk.NewLock(c, "/go-zookeeper/"+name, open)
		return lock.Locker{Lock: func(context.Context) error { return l.Lock() }, Unlock: func(context.Context) error { return l.Unlock() },
			Lost: func() <-chan struct{} { return lost }}
	}}
}

var open = zk.WorldACL(zk.PermAll)

// dialZooKeeper returns when the session exists. The channel lost is closed when an event says that the session has ended.
func dialZooKeeper(addrs []string, ttl time.Duration) (*zk.Conn, <-chan struct{}) {
	there, lost := make(chan struct{}), make(chan struct{})
	begin, end := sync.OnceFunc(func() { close(there) }), sync.OnceFunc(func() { close(lost) })
	c, _, err := zk.Connect(addrs, ttl, zk.WithLogInfo(false), zk.WithLogger(silent{}), zk.WithEventCallback(func(e zk.Event) {
		switch e.State {
		case zk.StateHasSession:
			begin()
		case zk.StateExpired:
			end()
		}
	}))
	lock.Check(err)
	select {
	case <-there:
	case <-time.After(time.Minute):
		c.Close()
		lock.Check(fmt.Errorf("no session with %v within a minute", addrs))
	}
	return c, lost
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// Herd is the textbook lock whose waiters all watch the parent. Each release wakes all of them, and each looks whether its node is
// the lowest. If there is a gate, they set their watches when it opens. Otherwise each arrival would wake all waiters before it,
// and the experiment is about a release.
func Herd(gate <-chan struct{}) lock.Driver {
	return func(addrs []string, ttl time.Duration) lock.Client {
		c, _ := dialZooKeeper(addrs, ttl)
		return lock.Client{Close: func() error { c.Close(); return nil }, Locker: func(name string) lock.Locker {
			dir, node := "/herd/"+name, ""
			for _, path := range []string{"/herd", dir} {
				if _, err := c.Create(path, nil, 0, open); err != zk.ErrNodeExists {
					lock.Check(err)
				}
			}
			return lock.Locker{Lock: func(context.Context) (err error) {
				if node, err = c.Create(dir+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, open); err != nil {
					return err
				}
				if gate != nil {
					<-gate
				}
				for {
					children, _, changed, err := c.ChildrenW(dir)
					if err != nil || strings.HasSuffix(node, "/"+slices.Min(children)) {
						return err
					}
					<-changed
				}
			}, Unlock: func(context.Context) error { return c.Delete(node, -1) }}
		}}
	}
}
