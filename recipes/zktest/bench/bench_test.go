//go:build linux

// Package bench_test puts the in-memory server beside real ZooKeeper on the
// same machine: operations per second, memory, and what a stretch of virtual
// time costs. Nothing here is asserted but that it works.
//
//	go test -run ^$ -bench . ./recipes/zktest/bench
package bench_test

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

type quiet struct{}

func (quiet) Printf(string, ...any) {}

var open = zk.WorldACL(zk.PermAll)

func connect(tb testing.TB, hosts []string, dialer zk.Dialer) *zk.Conn {
	tb.Helper()
	c, events, err := zk.Connect(hosts, 30*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}), zk.WithDialer(dialer))
	require.NoError(tb, err)
	tb.Cleanup(func() {
		c.Close()
		for range events {
		}
	})
	_, _, err = c.Exists("/")
	require.NoError(tb, err)
	return c
}

// servers runs a benchmark against each way to have a ZooKeeper.
func servers(b *testing.B, f func(b *testing.B, c *zk.Conn)) {
	b.Run("memory/pipe", func(b *testing.B) { f(b, connect(b, []string{"127.0.0.1"}, zktest.Start(b).Dialer())) })
	tcp := zk.Dialer(zktestTCP)
	b.Run("memory/tcp", func(b *testing.B) { f(b, connect(b, []string{zktest.Start(b).Addr()}, tcp)) })
	b.Run("zookeeper/tcp", func(b *testing.B) { f(b, connect(b, []string{realzk.Start(b, realzk.Options{}).Addr}, tcp)) })
}

func BenchmarkExists(b *testing.B) {
	servers(b, func(b *testing.B, c *zk.Conn) {
		for b.Loop() {
			_, _, err := c.Exists("/zookeeper")
			require.NoError(b, err)
		}
	})
}

// 64 requests under way at a time.
func BenchmarkExistsParallel(b *testing.B) {
	servers(b, func(b *testing.B, c *zk.Conn) {
		b.SetParallelism(32)
		b.ResetTimer() // unlike b.Loop, RunParallel counts what came before it
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, _, err := c.Exists("/zookeeper"); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

func BenchmarkGet(b *testing.B) {
	servers(b, func(b *testing.B, c *zk.Conn) {
		_, err := c.Create("/n", make([]byte, 100), 0, open)
		require.NoError(b, err)
		for b.Loop() {
			_, _, err := c.Get("/n")
			require.NoError(b, err)
		}
	})
}

func BenchmarkCreateDelete(b *testing.B) {
	servers(b, func(b *testing.B, c *zk.Conn) {
		for b.Loop() {
			_, err := c.Create("/n", nil, zk.FlagEphemeral, open)
			require.NoError(b, err)
			require.NoError(b, c.Delete("/n", -1))
		}
	})
}

// One transaction of 1,000 operations that leaves nothing behind.
func BenchmarkMulti1000(b *testing.B) {
	var ops []any
	for i := range 500 {
		ops = append(ops, &zk.CreateRequest{Path: fmt.Sprintf("/n%d", i), Acl: open})
	}
	for i := range 500 {
		ops = append(ops, &zk.DeleteRequest{Path: fmt.Sprintf("/n%d", i), Version: -1})
	}
	servers(b, func(b *testing.B, c *zk.Conn) {
		for b.Loop() {
			_, err := c.Multi(ops...)
			require.NoError(b, err)
		}
	})
}

func BenchmarkStart(b *testing.B) {
	b.Run("memory", func(b *testing.B) {
		for b.Loop() {
			s := zktest.New()
			s.Addr()
			s.Close()
		}
	})
	b.Run("zookeeper", func(b *testing.B) {
		for b.Loop() {
			realzk.Start(b, realzk.Options{}).Stop()
		}
	})
}

// The memory of 100,000 nodes of 100 bytes each, as one figure per server.
func BenchmarkMemory100kNodes(b *testing.B) {
	const nodes, batch = 100_000, 500
	fill := func(c *zk.Conn) {
		for i := range nodes / batch {
			var ops []any
			for j := range batch {
				ops = append(ops, &zk.CreateRequest{Path: fmt.Sprintf("/node-%06d", i*batch+j), Data: make([]byte, 100), Acl: open})
			}
			_, err := c.Multi(ops...)
			require.NoError(b, err)
		}
	}
	b.Run("memory", func(b *testing.B) {
		for b.Loop() {
			before := heap()
			s := zktest.New()
			fill(connect(b, []string{"127.0.0.1"}, s.Dialer()))
			b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
			s.Close()
		}
	})
	b.Run("zookeeper", func(b *testing.B) {
		for b.Loop() {
			s := realzk.Start(b, realzk.Options{Config: map[string]string{"forceSync": "no"}})
			before := resident(b, s.Pid)
			fill(connect(b, []string{s.Addr}, zktestTCP))
			b.ReportMetric((resident(b, s.Pid)-before)/(1<<20), "MiB")
			s.Stop()
		}
	})
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// resident is a process's resident set in bytes.
func resident(tb testing.TB, pid int) float64 {
	tb.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(tb, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	require.NoError(tb, err)
	return kib * 1024
}

// What 100 virtual hours of heartbeats cost in wall time.
func BenchmarkVirtual100Hours(b *testing.B) {
	for _, clients := range []int{1, 50} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			for b.Loop() {
				virtual(b, clients)
			}
		})
	}
}

// virtual needs a *testing.T for its bubble, so it runs as a test of its own.
func virtual(b *testing.B, clients int) {
	ok := testing.RunTests(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{
		Name: "hours", F: func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.New()
				var ends []func()
				for range clients {
					c, events, err := zk.Connect([]string{"127.0.0.1"}, 30*time.Second, zk.WithLogInfo(false),
						zk.WithLogger(quiet{}), zk.WithDialer(s.Dialer()))
					require.NoError(t, err)
					_, _, err = c.Exists("/")
					require.NoError(t, err)
					ends = append(ends, func() {
						c.Close()
						for range events {
						}
					})
				}
				time.Sleep(100 * time.Hour)
				require.Len(t, s.Sessions(), clients)
				for _, end := range ends {
					end()
				}
				s.Close()
			})
		},
	}})
	require.True(b, ok)
}

func zktestTCP(network, address string, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout(network, address, timeout)
}
