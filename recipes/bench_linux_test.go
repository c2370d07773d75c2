package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// BenchmarkCycle measures Lock and Unlock against the in-memory server in the same process, without a network. So it measures the CPU of
// client and server together. It also reports the requests per cycle.
func BenchmarkCycle(b *testing.B) {
	for _, clients := range []int{1, 8} {
		name := fmt.Sprintf("one lock, %d clients", clients)
		if clients == 1 {
			name = "own lock"
		}
		b.Run(name, func(b *testing.B) {
			srv := zktest.Start(b)
			require.NoError(b, srv.Provision("/m", &kind.Payload{Params: kind.Mutex.New(), Owner: kind.Owner{Stack: "bench", Addr: "m"}}))
			locks := make([]*recipes.Mutex, clients)
			for i := range locks {
				c, err := recipes.Dial(b.Context(), recipes.Config{Servers: []string{"zk"}, Dialer: srv.DialContext})
				require.NoError(b, err)
				b.Cleanup(func() { _ = c.Close() })
				locks[i] = c.Mutex("/m")
				cycle(b, locks[i]) // reads the declaration
			}
			srv.ResetCounts()
			b.ReportAllocs()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.ResetTimer()
			for _, m := range locks {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						cycle(b, m)
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			requests := 0
			for _, n := range srv.Counts().ByOp {
				requests += n
			}
			b.ReportMetric(float64(requests)/float64(b.N), "requests/op")
		})
	}
}

// BenchmarkClientCPU measures the client's processor time for one cycle (create, list, delete) of a worker's own lock. It compares this
// with go-zookeeper making the same three requests by hand. The server, Apache ZooKeeper, is a process of its own, so this process spends
// the client's time alone. Each round runs both ways one after the other; the figures are medians of the rounds.
//
//	go test -run '^$' -bench ClientCPU -benchtime 1x ./recipes
func BenchmarkClientCPU(b *testing.B) {
	srv := realzk.Start(b, realzk.Options{})
	for _, load := range []struct{ clients, workers, cycles int }{{1, 1, 500}, {8, 64, 12_000}} {
		b.Run(fmt.Sprintf("%d-workers-on-%d-clients", load.workers, load.clients), func(b *testing.B) {
			ways := []way{rawWay(b, srv.Addr, load.clients), mutexWay(b, srv.Addr, load.clients)}
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

// way is one way to take a worker's own lock and give it back.
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

// rawWay uses go-zookeeper alone: no proof, no deadline, no recovery of a lost reply.
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

// mutexWay uses a Mutex, and reads its token.
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

// queues creates the directories of 64 locks, unless an earlier load did.
func queues(b *testing.B, create func(string) error, root string) {
	err := create(root)
	for i := 0; i < 64 && (err == nil || errors.Is(err, zk.ErrNodeExists)); i++ {
		err = create(fmt.Sprintf("%s/%d", root, i))
	}
	if !errors.Is(err, zk.ErrNodeExists) {
		require.NoError(b, err)
	}
}

// BenchmarkMemory measures the memory (heap and stacks) and the goroutines that this process needs for a held lock, and for a waiter. Each
// lock has one waiter, which needs the goroutine of the waiting caller. The server, Apache ZooKeeper, is a process of its own.
//
//	go test -run '^$' -bench Memory -benchtime 1x ./recipes
func BenchmarkMemory(b *testing.B) {
	const locks = 1000
	for b.Loop() {
		before, held, waited := memory(b, locks)
		b.ReportMetric(float64(held.bytes-before.bytes)/locks, "B/held")
		b.ReportMetric(float64(held.goroutines-before.goroutines)/locks, "goroutines/held")
		b.ReportMetric(float64(waited.bytes-held.bytes)/locks, "B/waiter")
		b.ReportMetric(float64(waited.stacks-held.stacks)/locks, "stack-B/waiter")
		b.ReportMetric(float64(waited.goroutines-held.goroutines)/locks, "goroutines/waiter")
	}
}

// memory measures the usage before some locks are taken, while they are held, and while each also has a waiter.
func memory(tb testing.TB, locks int) (before, held, waited usage) {
	srv := realzk.Start(tb, realzk.Options{})
	dial := func() (*recipes.Client, func(watches int)) {
		c, err := recipes.Dial(tb.Context(), recipes.Config{Servers: []string{srv.Addr}, SessionTimeout: 30 * time.Second})
		require.NoError(tb, err)
		tb.Cleanup(func() { _ = c.Close() })
		s, err := c.Live(tb.Context())
		require.NoError(tb, err)
		return c, func(watches int) {
			require.Eventually(tb, func() bool { return len(s.Stats().Watches) >= watches*locks }, time.Minute, 100*time.Millisecond)
		}
	}
	lock := func(c *recipes.Client, i int) *recipes.Mutex {
		return c.Mutex(fmt.Sprintf("/locks/%d", i), recipes.WithParams(&kind.MutexParams{}), recipes.WithCreate())
	}
	holder, holderWatches := dial()
	waiter, waiterWatches := dial()
	for _, c := range []*recipes.Client{holder, waiter} { // the clients keep the declarations, which therefore do not count
		for i := range locks {
			cycle(tb, lock(c, i))
		}
	}
	before = inUse()
	leases := make([]*recipes.Lease, locks)
	for i := range leases {
		var err error
		leases[i], err = lock(holder, i).Lock(context.Background())
		require.NoError(tb, err)
	}
	holderWatches(2) // the declarations and the nodes
	held = inUse()
	ctx, cancel := context.WithCancel(context.Background())
	var waiting sync.WaitGroup
	for i := range locks {
		waiting.Go(func() { _, _ = lock(waiter, i).Lock(ctx) })
	}
	waiterWatches(3) // and the holders' nodes
	waited = inUse()
	cancel()
	waiting.Wait()
	for _, l := range leases {
		require.NoError(tb, l.Unlock(context.Background()))
	}
	return before, held, waited
}

type usage struct{ bytes, stacks, goroutines int64 }

// inUse collects the garbage twice, because the first collection shrinks stacks, and then measures.
func inUse() usage {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{int64(m.HeapAlloc + m.StackInuse), int64(m.StackInuse), int64(runtime.NumGoroutine())}
}

// The only waiter of a lock takes 12 kB: its goroutine's stack of 8 kB, and less than 4 kB of heap. The runtime doubles a stack of 4 kB
// when the goroutine's frames need more than some 3,100 bytes, and a waiter's frames need a little more. (The race detector makes frames
// larger.)
func TestAWaitersStackIsNotDoubledTwice(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	const locks = 500
	_, held, waited := memory(t, locks)
	stack, all := (waited.stacks-held.stacks)/locks, (waited.bytes-held.bytes)/locks
	t.Logf("a waiter takes %d bytes of stack and %d of heap", stack, all-stack)
	require.Less(t, stack, int64(10<<10), "most stacks have been doubled to 16 kB")
	require.Less(t, all-stack, int64(4<<10))
}
