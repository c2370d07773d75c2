package drivers

import (
	"cmp"
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
	listed := make(chan error, 1)
	go func() { // beside the create: locktree waits for one round trip
		_, _, err := l.c.Children(l.dir)
		listed <- err
	}()
	r := l.contender()
	l.node, err = l.c.Create(r.Path, r.Data, r.Flags, r.Acl)
	return cmp.Or(err, <-listed)
}

func (l *requestsLock) contender() *zk.CreateRequest {
	return &zk.CreateRequest{Path: l.dir + "/_c_d16b3a05-3262-4673-89b0-153902c66db2-lock-", Data: who, Acl: open, Flags: zk.FlagEphemeral | zk.FlagSequence}
}

func (l *requestsLock) Unlock(context.Context) error { return l.c.Delete(l.node, -1) }
