package drivers

import (
	"cmp"
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/locktree/locktree/examples/compare/lock"
)

// redisLock is SET NX PX with a release that compares the token: package redislock, which tries again every 100 ms as in its documentation.
func redisLock(addrs []string, ttl time.Duration) lock.Client {
	c := redis.NewClient(&redis.Options{Addr: addrs[0]})
	locker := redislock.New(c)
	return lock.Client{Close: c.Close, Locker: func(name string) lock.Locker {
		var obtained *redislock.Lock
		return lock.Locker{Lock: func(ctx context.Context) (err error) {
			ctx, cancel := context.WithTimeout(ctx, time.Hour) // without a deadline it gives up after the time to live
			defer cancel()
			obtained, err = locker.Obtain(ctx, name, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
			return err
		}, Unlock: func(ctx context.Context) error { return obtained.Release(ctx) }}
	}}
}

// redlock is redsync over several servers. It has redsync's delays between tries, and never gives up.
func redlock(addrs []string, ttl time.Duration) lock.Client {
	var all []*redis.Client
	var pools []redsyncpool.Pool
	for _, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr})
		all, pools = append(all, c), append(pools, goredis.NewPool(c))
	}
	return lock.Client{Locker: func(name string) lock.Locker {
		m := redsync.New(pools...).NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1<<30))
		return lock.Locker{Lock: m.LockContext, Unlock: func(ctx context.Context) error {
			_, err := m.UnlockContext(ctx)
			return err
		}}
	}, Close: func() (err error) {
		for _, c := range all {
			err = cmp.Or(err, c.Close())
		}
		return err
	}}
}
