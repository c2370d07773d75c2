package drivers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/examples/compare/lock"
)

// naive are the locks of the articles: all who wait watch the parent, or sleep and try again.
type naive struct {
	dir     string
	sleeper bool
	gate    <-chan struct{} // see Herd
}

// Herd is the lock whose waiters all watch the parent. They queue, and begin to watch when the gate opens: on the way to
// a queue of a thousand every arrival would wake everybody who is there, and what a release costs is asked for.
func Herd(gate <-chan struct{}) lock.Driver { return naive{dir: "/herd", gate: gate} }

func (n naive) Dial(ctx context.Context, addrs []string) (lock.Client, error) {
	c, err := dialZooKeeper(ctx, addrs)
	return naiveClient{c, n}, err
}

type naiveClient struct {
	goZooKeeperClient
	naive
}

func (c naiveClient) Locker(_ context.Context, what lock.What) (lock.Locker, error) {
	if what.Kind != lock.Mutex {
		return nil, fmt.Errorf("%w: the articles have a mutex", lock.ErrNotOffered)
	}
	dir := c.dir + "/" + what.Names[0]
	for _, path := range []string{c.dir, dir} {
		if _, err := c.Create(path, nil, 0, open); err != nil && err != zk.ErrNodeExists {
			return nil, err
		}
	}
	if c.sleeper {
		return sleeper{c.Conn, dir + "/lock"}, nil
	}
	return &herd{requestsLock{c: c.Conn, dir: dir}, c.gate}, nil
}

// herd wakes everybody at every release, to find out who is the lowest.
type herd struct {
	requestsLock
	gate <-chan struct{}
}

func (h *herd) Lock(context.Context) (err error) {
	if h.node, err = h.c.Create(h.dir+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, open); err != nil {
		return err
	}
	if h.gate != nil {
		<-h.gate
	}
	for {
		children, _, changed, err := h.c.ChildrenW(h.dir)
		if err != nil {
			return err
		}
		if strings.HasSuffix(h.node, "/"+slices.Min(children)) {
			return nil
		}
		<-changed
	}
}
