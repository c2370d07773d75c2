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

// etcd is the mutex of its package concurrency. Every worker has a session of its own: two that share one are, to that
// mutex, the same owner.
type etcd struct{}

func (etcd) Dial(_ context.Context, addrs []string) (lock.Client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: addrs, DialTimeout: time.Minute, Logger: zap.NewNop()})
	return etcdClient{c}, err
}

type etcdClient struct{ *clientv3.Client }

func (c etcdClient) Locker(_ context.Context, what lock.What) (lock.Locker, error) {
	if what.Kind != lock.Mutex {
		return nil, fmt.Errorf("%w: package concurrency has a mutex and an election", lock.ErrNotOffered)
	}
	s, err := concurrency.NewSession(c.Client, concurrency.WithTTL(int(TTL.Seconds())))
	if err != nil {
		return nil, err
	}
	return etcdLock{concurrency.NewMutex(s, "/"+what.Names[0]), s}, nil
}

type etcdLock struct {
	*concurrency.Mutex
	s *concurrency.Session
}

func (l etcdLock) Token() uint64         { return uint64(l.Header().Revision) }
func (l etcdLock) Lost() <-chan struct{} { return l.s.Done() }
