//go:build linux

package ensemble_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// families declares one family of each kind and returns how to take a key of it.
func families(t *testing.T, c *recipes.Client) map[string]func(*recipes.Client, string) harness.Take {
	common := kind.Common{Wire: kind.WireCurator}
	declareReal(t, c, "/km", &kind.KeyedParams{Common: common, Of: "mutex", Foreign: "false"})
	declareReal(t, c, "/krw", &kind.KeyedParams{Common: common, Of: "rwlock", Foreign: "false"})
	declareReal(t, c, "/ks", &kind.KeyedParams{Common: common, Of: "semaphore", Permits: 2, Foreign: "false"})
	return map[string]func(*recipes.Client, string) harness.Take{
		"/km": func(c *recipes.Client, key string) harness.Take {
			return func(ctx context.Context) (*recipes.Lease, error) { return c.Keyed("/km").Lock(ctx, key) }
		},
		"/krw": func(c *recipes.Client, key string) harness.Take { return c.Keyed("/krw").RWMutex(key).Lock },
		"/ks": func(c *recipes.Client, key string) harness.Take {
			return func(ctx context.Context) (*recipes.Lease, error) {
				return c.Keyed("/ks").Semaphore(key).Acquire(ctx, 2)
			}
		},
	}
}

// emptied waits until a family has no keys.
func emptied(t *testing.T, c *recipes.Client, family string) {
	t.Helper()
	s := live(t, c)
	for deadline := time.Now().Add(hostile.Patience); ; {
		names, _, err := s.Children(t.Context(), family)
		require.NoError(t, err)
		if len(names) == 0 {
			return
		}
		require.True(t, time.Now().Before(deadline), "left in %s: %v", family, names)
		require.NoError(t, harness.Pause(t.Context(), 20*time.Millisecond))
	}
}

// What lives and goes with the transactions does so on the real server too; what a crash leaves, the real collector takes, of each
// kind, with a gate that somebody waited at.
func TestRealKeysComeAndGo(t *testing.T) {
	t.Parallel()
	srv := realzk.Start(t, realzk.Options{TickTime: realTick, Config: longSessions,
		Properties: map[string]string{"znode.container.checkIntervalMs": "100"}})
	admin := realClient(t, srv, "admin")
	for family, take := range families(t, admin) {
		a, b := realClient(t, srv, "a"), realClient(t, srv, "b")
		var last uint64
		for range 5 { // lives of one key, each with a waiter
			x := held(t, take(a, "order/7"))
			got := async(func() (*recipes.Lease, error) { return take(b, "order/7")(t.Context()) })
			require.NoError(t, harness.Pause(t.Context(), 20*time.Millisecond))
			require.Greater(t, x.Token(), last)
			require.NoError(t, x.Unlock(t.Context()))
			y := <-got
			require.NoError(t, y.Err)
			require.Greater(t, y.V.Token(), x.Token())
			last = y.V.Token()
			require.NoError(t, y.V.Unlock(t.Context()))
			names, _, err := live(t, admin).Children(t.Context(), family)
			require.NoError(t, err)
			require.Empty(t, names, "left in %s by those who were there", family)
		}
		held(t, take(a, "1"))
		waits, cancel := context.WithCancel(t.Context())
		go func() { _, _ = take(b, "1")(waits) }()
		require.NoError(t, harness.Pause(t.Context(), 50*time.Millisecond))
		require.NoError(t, a.Close(), "its nodes go with its session, as in a crash")
		require.NoError(t, b.Close())
		cancel()
		emptied(t, admin, family)
	}
}

// Twenty thousand keys of one family, each used once: the tree of the servers, their watches and the memory of the client are what
// they were.
func TestRealKeysLeaveNothing(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	keys := 20_000
	if n, err := strconv.Atoi(os.Getenv("KEYS")); err == nil {
		keys = n
	}
	keysLeaveNothing(t, keys)
}

func keysLeaveNothing(t *testing.T, keys int) {
	srv := realzk.Start(t, realzk.Options{TickTime: realTick, Config: longSessions})
	c := realClient(t, srv, "a")
	family := families(t, c)["/km"]
	use := func(from, n int) {
		const workers = 16
		errs := make(chan error)
		for w := range workers {
			go func() {
				for i := from + w; i < from+n; i += workers {
					x, err := family(c, fmt.Sprint("order ", i))(t.Context())
					if err == nil {
						err = x.Unlock(t.Context())
					}
					if err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		for range workers {
			require.NoError(t, <-errs)
		}
	}
	use(0, 1000)
	nodes, watches, heap := measured(t, srv)
	use(1000, keys)
	nodesNow, watchesNow, heapNow := measured(t, srv)
	t.Logf("%d keys: %d nodes, %d watches, %d KiB of heap; before %d, %d, %d", keys, nodesNow, watchesNow, heapNow>>10, nodes, watches, heap>>10)
	require.Equal(t, nodes, nodesNow)
	require.Equal(t, watches, watchesNow)
	require.Less(t, heapNow, heap+512<<10)
}

// measured are the servers' nodes and watches, and this process's heap.
func measured(t *testing.T, srv *realzk.Server) (nodes, watches int, heap uint64) {
	t.Helper()
	count := func(name string) (n int) {
		for line := range strings.Lines(srv.Word("mntr")) {
			if value, ok := strings.CutPrefix(line, name+"\t"); ok {
				_, err := fmt.Sscan(value, &n)
				require.NoError(t, err)
			}
		}
		return n
	}
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return count("zk_znode_count"), count("zk_watch_count"), m.HeapAlloc
}
