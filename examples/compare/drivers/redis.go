package drivers

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/locktree/locktree/examples/compare/lock"
)

// redisLock is SET NX PX with a release that compares the token: package redislock, which tries again every 100 ms as in
// its documentation.
func redisLock(_ context.Context, addrs []string) (lock.Client, error) {
	c := redis.NewClient(&redis.Options{Addr: addrs[0]})
	locker := redislock.New(c)
	return lock.Client{Close: c.Close, Locker: func(_ context.Context, name string) (lock.Locker, error) {
		var obtained *redislock.Lock
		return lock.Locker{Lock: func(ctx context.Context) (err error) {
			ctx, cancel := context.WithTimeout(ctx, time.Hour) // without one it gives up after the time to live
			defer cancel()
			obtained, err = locker.Obtain(ctx, name, TTL, &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
			return err
		}, Unlock: func(ctx context.Context) error { return obtained.Release(ctx) }}, nil
	}}, nil
}
