package drivers

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/examples/compare/lock"
)

// serial is no lock either: one write after the other by one session, each waited for.
type serial struct{ write func(*requestsLock) error }

func (w serial) Dial(ctx context.Context, addrs []string) (lock.Client, error) {
	c, err := dialZooKeeper(ctx, addrs)
	return serialClient{requestsClient{c}, w.write}, err
}

type serialClient struct {
	requestsClient
	write func(*requestsLock) error
}

func (c serialClient) Locker(ctx context.Context, what lock.What) (lock.Locker, error) {
	l, err := c.requestsClient.Locker(ctx, what)
	if err != nil {
		return nil, err
	}
	return serialWriter{l.(*requestsLock), c.write}, nil
}

type serialWriter struct {
	l     *requestsLock
	write func(*requestsLock) error
}

func (w serialWriter) Lock(context.Context) error { return w.write(w.l) }

func (serialWriter) Unlock(context.Context) error { return nil }

// set is the cheapest write. One client that passes a lock on with a write for each holder can at best be as fast.
func set(l *requestsLock) error {
	_, err := l.c.Set(l.dir, nil, -1)
	return err
}

// exchange creates a node and deletes the one before it, which is what has to be written for each holder.
func exchange(l *requestsLock) error {
	ops := []any{l.contender()}
	if l.node != "" {
		ops = append(ops, &zk.DeleteRequest{Path: l.node, Version: -1})
	}
	results, err := l.c.Multi(ops...)
	if err == nil {
		l.node = results[0].String
	}
	return err
}
