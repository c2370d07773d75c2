package drivers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/examples/compare/lock"
)

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

// dialZooKeeper returns when the session is there. lost is closed when the session has ended, as its events say.
func dialZooKeeper(addrs []string, ttl time.Duration) (*zk.Conn, <-chan struct{}) {
	c, events, err := zk.Connect(addrs, ttl, zk.WithLogInfo(false), zk.WithLogger(silent{}))
	lock.Check(err)
	there, lost := make(chan struct{}), make(chan struct{})
	go func() { // it reads all events: whoever leaves them lying holds up the client
		first, last := there, lost
		for e := range events {
			if e.State == zk.StateHasSession && first != nil {
				close(first)
				first = nil
			}
			if e.State == zk.StateExpired && last != nil {
				close(last)
				last = nil
			}
		}
	}()
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

// Herd is the lock of the articles whose waiters all watch the parent: each release wakes everybody, to find out who is the
// lowest. They queue, and begin to watch when the gate opens, if there is one: on the way to a queue of a thousand every arrival
// would wake everybody who is there, and what a release costs is asked for.
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
