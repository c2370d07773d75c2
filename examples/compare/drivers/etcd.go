package drivers

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/locktree/locktree/examples/compare/lock"
)

// etcd is the mutex of its package concurrency. Workers that want the same lock have sessions of their own: two that share
// one are, to that mutex, the same owner. Those that want others share.
type etcd struct{}

func (etcd) Dial(_ context.Context, addrs []string) (lock.Client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: addrs, DialTimeout: time.Minute, Logger: zap.NewNop()})
	return &etcdClient{Client: c, used: map[string]int{}}, err
}

type etcdClient struct {
	*clientv3.Client
	sessions []*concurrency.Session
	used     map[string]int // how many of them, by lock
}

func (c *etcdClient) Locker(_ context.Context, what lock.What) (lock.Locker, error) {
	if what.Kind != lock.Mutex {
		return nil, fmt.Errorf("%w: package concurrency has a mutex and an election", lock.ErrNotOffered)
	}
	name := what.Names[0]
	if c.used[name] == len(c.sessions) {
		s, err := concurrency.NewSession(c.Client, concurrency.WithTTL(int(TTL.Seconds())))
		if err != nil {
			return nil, err
		}
		c.sessions = append(c.sessions, s)
	}
	s := c.sessions[c.used[name]]
	c.used[name]++
	return etcdLock{concurrency.NewMutex(s, "/"+name), s}, nil
}

type etcdLock struct {
	*concurrency.Mutex
	s *concurrency.Session
}

func (l etcdLock) Token() uint64         { return uint64(l.Header().Revision) }
func (l etcdLock) Lost() <-chan struct{} { return l.s.Done() }
