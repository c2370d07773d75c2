package drivers

import (
	"cmp"
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/examples/compare/lock"
)

// floor is no lock: it excludes nobody. It is what is under a lock on ZooKeeper, sent by the Go client and nothing else.
func floor(acquire, release func(*contender) error) lock.Driver {
	return func(ctx context.Context, addrs []string) (lock.Client, error) {
		c, _, err := dialZooKeeper(ctx, addrs)
		return onZooKeeper(c, func(name string) (lock.Locker, error) {
			dir, err := folder(c, "/requests", name)
			n := &contender{c: c, dir: dir}
			return lock.Locker{Lock: func(context.Context) error { return acquire(n) }, Unlock: func(context.Context) error { return release(n) }}, err
		}), err
	}
}

// contender is a node with as long a name and as much data as locktree's.
type contender struct {
	c         *zk.Conn
	dir, node string
}

var who = make([]byte, 82)

func (n *contender) request() *zk.CreateRequest {
	return &zk.CreateRequest{Path: n.dir + "/_c_d16b3a05-3262-4673-89b0-153902c66db2-lock-", Data: who, Acl: open, Flags: zk.FlagEphemeral | zk.FlagSequence}
}

// join and leave are the requests of an uncontended lock of locktree.
func (n *contender) join() (err error) {
	listed := make(chan error, 1)
	go func() { // beside the create: locktree waits for one round trip
		_, _, err := n.c.Children(n.dir)
		listed <- err
	}()
	r := n.request()
	n.node, err = n.c.Create(r.Path, r.Data, r.Flags, r.Acl)
	return cmp.Or(err, <-listed)
}

func (n *contender) leave() error { return n.c.Delete(n.node, -1) }

// stay does nothing: serial writes are one write after the other by one session, each waited for.
func (n *contender) stay() error { return nil }

// set is the cheapest write. One client that passes a lock on with a write for each holder can at best be as fast.
func (n *contender) set() error {
	_, err := n.c.Set(n.dir, nil, -1)
	return err
}

// exchange creates a node and deletes the one before it, which is what has to be written for each holder.
func (n *contender) exchange() error {
	ops := []any{n.request()}
	if n.node != "" {
		ops = append(ops, &zk.DeleteRequest{Path: n.node, Version: -1})
	}
	results, err := n.c.Multi(ops...)
	if err == nil {
		n.node = results[0].String
	}
	return err
}
