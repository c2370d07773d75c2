//go:build linux

package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// BenchmarkClientCPU tells what one cycle of an own lock (create, list, delete) costs the client's processor, beside go-zookeeper
// doing the same three requests by hand. The server, Apache ZooKeeper, is a process of its own, so that the time
// this process takes is the client's alone. Each round runs all of them one after another; figures are medians of rounds.
//
//	go test -run '^$' -bench ClientCPU -benchtime 1x ./recipes
func BenchmarkClientCPU(b *testing.B) {
	srv := realzk.Start(b, realzk.Options{})
	for _, load := range []struct{ clients, workers, cycles int }{{1, 1, 500}, {8, 64, 12_000}} {
		b.Run(fmt.Sprintf("%d-workers-on-%d-clients", load.workers, load.clients), func(b *testing.B) {
			ways := []way{rawWay(b, srv.Addr, load.clients), sessionWay(b, srv.Addr, load.clients), mutexWay(b, srv.Addr, load.clients)}
			for _, w := range ways {
				w.run(b, load.workers, load.cycles/10) // warm: connections, code, declarations
			}
			for b.Loop() {
				costs := make([][]float64, len(ways))
				for range 7 {
					for i, w := range ways {
						costs[i] = append(costs[i], w.run(b, load.workers, load.cycles))
					}
				}
				for i, w := range ways {
					b.ReportMetric(median(costs[i]), "µs/"+w.name)
					if ratio := make([]float64, len(costs[i])); i > 0 {
						for r := range ratio {
							ratio[r] = costs[i][r] / costs[0][r]
						}
						b.ReportMetric(median(ratio), w.name+"/raw")
					}
				}
			}
		})
	}
}

// way is one way to take a lock of one's own and give it back.
type way struct {
	name  string
	cycle func(worker int) error
}

// run returns the processor time that one cycle costs this process, in microseconds.
func (w way) run(tb testing.TB, workers, cycles int) float64 {
	var left atomic.Int64
	left.Store(int64(cycles))
	before := processorTime()
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := w.cycle(i); err != nil {
					tb.Errorf("%s: %v", w.name, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64((processorTime() - before).Nanoseconds()) / 1e3 / float64(cycles)
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

type noLog struct{}

func (noLog) Printf(string, ...any) {}

// rawWay is go-zookeeper without anything: no proof, no deadline, no answer to a lost reply.
func rawWay(b *testing.B, addr string, clients int) way {
	conns := make([]*zk.Conn, clients)
	for i := range conns {
		c, events, err := zk.Connect([]string{addr}, 30*time.Second, zk.WithLogInfo(false), zk.WithLogger(noLog{}))
		require.NoError(b, err)
		b.Cleanup(func() {
			c.Close()
			for range events {
			}
		})
		conns[i] = c
	}
	open := zk.WorldACL(zk.PermAll)
	queues(b, func(path string) error { _, err := conns[0].Create(path, nil, 0, open); return err }, "/raw")
	return way{"raw", func(worker int) error {
		c, dir := conns[worker%clients], fmt.Sprintf("/raw/%d", worker)
		node, err := c.Create(dir+"/lock-", []byte("somebody"), zk.FlagEphemeralSequential, open)
		if err != nil {
			return err
		}
		if _, _, err := c.Children(dir); err != nil {
			return err
		}
		return c.Delete(node, -1)
	}}
}

// sessionWay is the same by package session.
func sessionWay(b *testing.B, addr string, clients int) way {
	sessions := make([]*session.Session, clients)
	for i := range sessions {
		c, err := session.Dial(b.Context(), session.Config{Servers: []string{addr}, SessionTimeout: 30 * time.Second})
		require.NoError(b, err)
		b.Cleanup(func() { _ = c.Close() })
		sessions[i], err = c.Session(b.Context())
		require.NoError(b, err)
	}
	open := zk.WorldACL(zk.PermAll)
	queues(b, func(path string) error { _, err := sessions[0].Create(b.Context(), path, nil, 0, open); return err }, "/session")
	ctx, end := context.WithCancel(b.Context()) // one that can be cancelled, as callers' are
	b.Cleanup(end)
	var number atomic.Int64
	return way{"session", func(worker int) error {
		s, dir := sessions[worker%clients], fmt.Sprintf("/session/%d", worker)
		batch := s.Batch()
		p := batch.Create(&zk.CreateRequest{
			Path: fmt.Sprintf("%s/%d-lock-", dir, number.Add(1)), Data: []byte("somebody"), Acl: open, Flags: zk.FlagEphemeralSequential,
		})
		batch.List(dir)
		if err := batch.Do(ctx); err != nil {
			return err
		}
		return s.Delete(ctx, p.Created()[0], -1)
	}}
}

// mutexWay is a Mutex, with its token.
func mutexWay(b *testing.B, addr string, clients int) way {
	var locks [64]*recipes.Mutex
	for i := range clients {
		c, err := recipes.Dial(b.Context(), recipes.Config{Servers: []string{addr}, SessionTimeout: 30 * time.Second})
		require.NoError(b, err)
		b.Cleanup(func() { _ = c.Close() })
		for worker := i; worker < len(locks); worker += clients {
			locks[worker] = c.Mutex(fmt.Sprintf("/mutex/%d", worker), recipes.WithParams(&kind.MutexParams{}), recipes.WithCreate())
		}
	}
	ctx, end := context.WithCancel(b.Context())
	b.Cleanup(end)
	return way{"mutex", func(worker int) error {
		l, err := locks[worker].Lock(ctx)
		if err != nil {
			return err
		}
		if l.Token() == 0 {
			return fmt.Errorf("no token for %s", l.Node())
		}
		return l.Unlock(ctx)
	}}
}

// queues makes the directories of 64 locks, unless an earlier load did.
func queues(b *testing.B, create func(string) error, root string) {
	err := create(root)
	for i := 0; i < 64 && (err == nil || errors.Is(err, zk.ErrNodeExists)); i++ {
		err = create(fmt.Sprintf("%s/%d", root, i))
	}
	if !errors.Is(err, zk.ErrNodeExists) {
		require.NoError(b, err)
	}
}
