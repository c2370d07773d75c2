package drivers

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/examples/compare/lock"
)

// goZooKeeper is the Lock that comes with the Go client.
type goZooKeeper struct{}

func (goZooKeeper) Dial(ctx context.Context, addrs []string) (lock.Client, error) {
	return dialZooKeeper(ctx, addrs)
}

type goZooKeeperClient struct {
	*zk.Conn
	lost chan struct{} // the session has ended, as its events say
}

func (c goZooKeeperClient) Close() error { c.Conn.Close(); return nil }

func (c goZooKeeperClient) Locker(_ context.Context, what lock.What) (lock.Locker, error) {
	if what.Kind != lock.Mutex {
		return nil, fmt.Errorf("%w: go-zookeeper has a mutex only", lock.ErrNotOffered)
	}
	return goZooKeeperLock{zk.NewLock(c.Conn, "/go-zookeeper/"+what.Names[0], zk.WorldACL(zk.PermAll)), c.lost}, nil
}

type goZooKeeperLock struct {
	l    *zk.Lock
	lost chan struct{}
}

func (l goZooKeeperLock) Lock(context.Context) error   { return l.l.Lock() }
func (l goZooKeeperLock) Unlock(context.Context) error { return l.l.Unlock() }
func (l goZooKeeperLock) Lost() <-chan struct{}        { return l.lost }

// dialZooKeeper returns when the session is there.
func dialZooKeeper(ctx context.Context, addrs []string) (c goZooKeeperClient, err error) {
	conn, events, err := zk.Connect(addrs, TTL, zk.WithLogInfo(false), zk.WithLogger(silent{}))
	if err != nil {
		return c, err
	}
	c = goZooKeeperClient{conn, make(chan struct{})}
	slow := time.After(time.Minute)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				go func() { // whoever leaves the events lying holds up the client
					for e := range events {
						if e.State == zk.StateExpired {
							close(c.lost)
							break
						}
					}
					for range events {
					}
				}()
				return c, nil
			}
		case <-ctx.Done():
			_ = c.Close()
			return c, ctx.Err()
		case <-slow:
			_ = c.Close()
			return c, fmt.Errorf("no session with %v within a minute", addrs)
		}
	}
}

type silent struct{}

func (silent) Printf(string, ...any) {}
