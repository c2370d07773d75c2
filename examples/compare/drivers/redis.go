package drivers

import (
	"context"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/locktree/locktree/examples/compare/lock"
)

// redisLock is SET NX PX with a release that compares the token: package redislock, which tries again every 100 ms as in
// its documentation.
type redisLock struct{}

func (redisLock) Dial(_ context.Context, addrs []string) (lock.Client, error) {
	return redisClient{redis.NewClient(&redis.Options{Addr: addrs[0]})}, nil
}

type redisClient struct{ *redis.Client }

func (c redisClient) Locker(_ context.Context, what lock.What) (lock.Locker, error) {
	if what.Kind != lock.Mutex {
		return nil, fmt.Errorf("%w: redislock has a mutex only", lock.ErrNotOffered)
	}
	return &obtained{locker: redislock.New(c.Client), name: what.Names[0]}, nil
}

type obtained struct {
	locker *redislock.Client
	name   string
	lock   *redislock.Lock
}

func (o *obtained) Lock(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour) // without one it gives up after the time to live
	defer cancel()
	o.lock, err = o.locker.Obtain(ctx, o.name, TTL, &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
	return err
}

func (o *obtained) Unlock(ctx context.Context) error { return o.lock.Release(ctx) }
