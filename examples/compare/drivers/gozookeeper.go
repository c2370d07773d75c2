package drivers

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/examples/compare/lock"
)

// goZooKeeper is the Lock that comes with the Go client.
func goZooKeeper(ctx context.Context, addrs []string) (lock.Client, error) {
	c, lost, err := dialZooKeeper(ctx, addrs)
	return onZooKeeper(c, func(_ context.Context, name string) (lock.Locker, error) {
		l := zk.NewLock(c, "/go-zookeeper/"+name, open)
		return lock.Locker{Lock: func(context.Context) error { return l.Lock() }, Unlock: func(context.Context) error { return l.Unlock() },
			Lost: func() <-chan struct{} { return lost }}, nil
	}), err
}

var open = zk.WorldACL(zk.PermAll)

// onZooKeeper is a client of the Go client's connection.
func onZooKeeper(c *zk.Conn, locker func(context.Context, string) (lock.Locker, error)) lock.Client {
	return lock.Client{Locker: locker, Close: func() error { c.Close(); return nil }}
}

// dialZooKeeper returns when the session is there. lost is closed when the session has ended, as its events say.
func dialZooKeeper(ctx context.Context, addrs []string) (c *zk.Conn, lost <-chan struct{}, err error) {
	c, events, err := zk.Connect(addrs, TTL, zk.WithLogInfo(false), zk.WithLogger(silent{}))
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				ended := make(chan struct{})
				go follow(events, ended)
				return c, ended, nil
			}
		case <-ctx.Done():
			c.Close()
			return nil, nil, fmt.Errorf("no session with %v: %w", addrs, ctx.Err())
		}
	}
}

// follow reads all events: whoever leaves them lying holds up the client.
func follow(events <-chan zk.Event, ended chan struct{}) {
	for e := range events {
		if e.State == zk.StateExpired {
			close(ended)
			break
		}
	}
	for range events {
	}
}

type silent struct{}

func (silent) Printf(string, ...any) {}
