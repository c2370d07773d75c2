package drivers

import (
	"context"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
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
	o.lock, err = o.locker.Obtain(ctx, o.name, sessionTimeout, &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
	return err
}

func (o *obtained) Unlock(ctx context.Context) error { return o.lock.Release(ctx) }

// redlock is redsync over several servers, with its own delays between tries, and without an end to them.
type redlock struct{}

func (redlock) Dial(_ context.Context, addrs []string) (lock.Client, error) {
	var c redlockClient
	for _, addr := range addrs {
		c = append(c, redis.NewClient(&redis.Options{Addr: addr}))
	}
	return c, nil
}

type redlockClient []*redis.Client

func (c redlockClient) Locker(_ context.Context, what lock.What) (lock.Locker, error) {
	if what.Kind != lock.Mutex {
		return nil, fmt.Errorf("%w: redsync has a mutex only", lock.ErrNotOffered)
	}
	var pools []redsyncpool.Pool
	for _, each := range c {
		pools = append(pools, goredis.NewPool(each))
	}
	return redlocked{redsync.New(pools...).NewMutex(what.Names[0], redsync.WithExpiry(sessionTimeout), redsync.WithTries(1<<30))}, nil
}

func (c redlockClient) Close() (err error) {
	for _, each := range c {
		err = each.Close()
	}
	return err
}

type redlocked struct{ m *redsync.Mutex }

func (l redlocked) Lock(ctx context.Context) error { return l.m.LockContext(ctx) }

func (l redlocked) Unlock(ctx context.Context) error {
	_, err := l.m.UnlockContext(ctx)
	return err
}
