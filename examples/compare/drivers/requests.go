package drivers

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/examples/compare/lock"
)

// requests is no lock: it is what an uncontended lock of locktree sends, as long a name and as much data, sent by the Go
// client and nothing else. It excludes nobody. What it costs is the floor under every lock on ZooKeeper from Go.
type requests struct{}

func (requests) Dial(ctx context.Context, addrs []string) (lock.Client, error) {
	c, err := dialZooKeeper(ctx, addrs)
	return requestsClient{c}, err
}

type requestsClient struct{ goZooKeeperClient }

func (c requestsClient) Locker(_ context.Context, what lock.What) (lock.Locker, error) {
	if what.Kind != lock.Mutex {
		return nil, fmt.Errorf("%w: the requests are those of a mutex", lock.ErrNotOffered)
	}
	dir := "/requests/" + what.Names[0]
	for _, path := range []string{"/requests", dir} {
		if _, err := c.Create(path, nil, 0, open); err != nil && err != zk.ErrNodeExists {
			return nil, err
		}
	}
	return &requestsLock{c: c.Conn, dir: dir}, nil
}

var open, who = zk.WorldACL(zk.PermAll), make([]byte, 82)

type requestsLock struct {
	c         *zk.Conn
	dir, node string
}

func (l *requestsLock) Lock(context.Context) (err error) {
	r := l.contender()
	l.node, err = l.c.Create(r.Path, r.Data, r.Flags, r.Acl)
	if err == nil {
		_, _, err = l.c.Children(l.dir)
	}
	return err
}

func (l *requestsLock) contender() *zk.CreateRequest {
	return &zk.CreateRequest{Path: l.dir + "/_c_d16b3a05-3262-4673-89b0-153902c66db2-lock-", Data: who, Acl: open, Flags: zk.FlagEphemeral | zk.FlagSequence}
}

func (l *requestsLock) Unlock(context.Context) error { return l.c.Delete(l.node, -1) }

// writes is no lock either: one write after the other by one session, each waited for. One client that passes a lock on
// with a write for each holder can at best be as fast.
type writes struct{}

func (writes) Dial(ctx context.Context, addrs []string) (lock.Client, error) {
	c, err := dialZooKeeper(ctx, addrs)
	return writesClient{requestsClient{c}}, err
}

type writesClient struct{ requestsClient }

func (c writesClient) Locker(ctx context.Context, what lock.What) (lock.Locker, error) {
	l, err := c.requestsClient.Locker(ctx, what)
	if err != nil {
		return nil, err
	}
	return write{l.(*requestsLock)}, nil
}

type write struct{ l *requestsLock }

func (w write) Lock(context.Context) error {
	_, err := w.l.c.Set(w.l.dir, nil, -1)
	return err
}

func (write) Unlock(context.Context) error { return nil }

// exchanges are serial writes, too: each creates a node and deletes the one before it, which is what has to be written for
// each holder.
type exchanges struct{}

func (exchanges) Dial(ctx context.Context, addrs []string) (lock.Client, error) {
	c, err := dialZooKeeper(ctx, addrs)
	return exchangesClient{requestsClient{c}}, err
}

type exchangesClient struct{ requestsClient }

func (c exchangesClient) Locker(ctx context.Context, what lock.What) (lock.Locker, error) {
	l, err := c.requestsClient.Locker(ctx, what)
	if err != nil {
		return nil, err
	}
	return exchange{l.(*requestsLock)}, nil
}

type exchange struct{ l *requestsLock }

func (x exchange) Lock(context.Context) error {
	ops := []any{x.l.contender()}
	if x.l.node != "" {
		ops = append(ops, &zk.DeleteRequest{Path: x.l.node, Version: -1})
	}
	results, err := x.l.c.Multi(ops...)
	if err == nil {
		x.l.node = results[0].String
	}
	return err
}

func (exchange) Unlock(context.Context) error { return nil }
