package drivers

import (
	"context"
	"fmt"

	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/locktree/locktree/examples/compare/lock"
)

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
	return redlocked{redsync.New(pools...).NewMutex(what.Names[0], redsync.WithExpiry(TTL), redsync.WithTries(1<<30))}, nil
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
