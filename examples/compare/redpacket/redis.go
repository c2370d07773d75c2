//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// redisSeat locks with SET NX PX and a release that compares the token, and has the money in the same Redis.
type redisSeat struct {
	c      *redis.Client
	locker *redislock.Client
	ttl    time.Duration
	held   *redislock.Lock
}

func onRedis(g *game, addr string) opener {
	return func(context.Context) (seat, error) {
		c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1})
		return &redisSeat{c: c, locker: redislock.New(c), ttl: g.ttl}, nil
	}
}

const redisPot = "redpacket:pot"

func redisWallet(worker int) string { return fmt.Sprintf("redpacket:worker-%03d", worker) }

func (s *redisSeat) layOut(ctx context.Context, pot int64, workers int) error {
	all := []any{redisPot, pot}
	for i := range workers {
		all = append(all, redisWallet(i), 0)
	}
	free, err := s.c.MSetNX(ctx, all...).Result()
	if err == nil && !free {
		err = fmt.Errorf("there is a pot of an earlier run: delete %s and the workers' keys first", redisPot)
	}
	return err
}

func (s *redisSeat) lock(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour) // without one it gives up after the time to live
	defer cancel()
	s.held, err = s.locker.Obtain(ctx, "redpacket:lock", s.ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(5 * time.Millisecond)})
	return err
}

func (s *redisSeat) unlock(ctx context.Context) error { return s.held.Release(ctx) }

func (s *redisSeat) read(ctx context.Context, worker int) (pot, wallet int64, err error) {
	both, err := s.c.MGet(ctx, redisPot, redisWallet(worker)).Result()
	if err != nil {
		return 0, 0, err
	}
	cents := func(v any) int64 {
		n, failed := strconv.ParseInt(fmt.Sprint(v), 10, 64)
		err = errors.Join(err, failed)
		return n
	}
	pot, wallet = cents(both[0]), cents(both[1])
	return pot, wallet, err
}

func (s *redisSeat) write(ctx context.Context, worker int, pot, wallet int64) error {
	return s.c.MSet(ctx, redisPot, pot, redisWallet(worker), wallet).Err()
}

// cut does nothing: the lock hangs on no connection.
func (s *redisSeat) cut(context.Context) error { return nil }
func (s *redisSeat) close()                    { _ = s.c.Close() }
