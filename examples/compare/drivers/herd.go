package drivers

import (
	"context"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/examples/compare/lock"
)

// Herd is the lock of the articles whose waiters all watch the parent: each release wakes everybody, to find out who is the
// lowest. They queue, and begin to watch when the gate opens: on the way to a queue of a thousand every arrival would wake
// everybody who is there, and what a release costs is asked for.
func Herd(gate <-chan struct{}) lock.Driver {
	return func(ctx context.Context, addrs []string) (lock.Client, error) {
		c, _, err := dialZooKeeper(ctx, addrs)
		return onZooKeeper(c, func(_ context.Context, name string) (lock.Locker, error) {
			dir := "/herd/" + name
			for _, path := range []string{"/herd", dir} {
				if _, err := c.Create(path, nil, 0, open); err != nil && err != zk.ErrNodeExists {
					return lock.Locker{}, err
				}
			}
			var node string
			return lock.Locker{Lock: func(context.Context) (err error) {
				if node, err = c.Create(dir+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, open); err != nil {
					return err
				}
				<-gate
				for {
					children, _, changed, err := c.ChildrenW(dir)
					if err != nil || strings.HasSuffix(node, "/"+slices.Min(children)) {
						return err
					}
					<-changed
				}
			}, Unlock: func(context.Context) error { return c.Delete(node, -1) }}, nil
		}), err
	}
}

// opened is a gate for a herd that does not wait for one.
func opened() <-chan struct{} {
	gate := make(chan struct{})
	close(gate)
	return gate
}
