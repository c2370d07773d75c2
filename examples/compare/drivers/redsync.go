package drivers

import (
	"cmp"
	"context"

	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/locktree/locktree/examples/compare/lock"
)

// redlock is redsync over several servers, with its own delays between tries, and without an end to them.
func redlock(_ context.Context, addrs []string) (lock.Client, error) {
	var all []*redis.Client
	var pools []redsyncpool.Pool
	for _, addr := range addrs {
		c := redis.NewClient(&redis.Options{Addr: addr})
		all, pools = append(all, c), append(pools, goredis.NewPool(c))
	}
	return lock.Client{Locker: func(_ context.Context, name string) (lock.Locker, error) {
		m := redsync.New(pools...).NewMutex(name, redsync.WithExpiry(TTL), redsync.WithTries(1<<30))
		return lock.Locker{Lock: m.LockContext, Unlock: func(ctx context.Context) error {
			_, err := m.UnlockContext(ctx)
			return err
		}}, nil
	}, Close: func() (err error) {
		for _, c := range all {
			err = cmp.Or(err, c.Close())
		}
		return err
	}}, nil
}
