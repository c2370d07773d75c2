package zktest_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// Every kind can be used as soon as it is provisioned, with the defaults of all parameters that have one.
func TestWhatIsProvisionedCanBeUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.Start(t)
		for path, p := range map[string]kind.Params{
			"/a/m": &kind.MutexParams{}, "/a/rw": &kind.RWLockParams{}, "/a/s": &kind.SemaphoreParams{Permits: 2}, "/a/e": &kind.ElectionParams{},
		} {
			require.NoError(t, s.Provision(path, &kind.Payload{Params: p}))
		}
		c, err := recipes.Dial(t.Context(), recipes.Config{Servers: []string{"zk"}, Dialer: s.DialContext})
		require.NoError(t, err)
		defer c.Close()
		for _, take := range []func(context.Context) (*recipes.Lease, error){
			c.Mutex("/a/m").Lock, c.RWMutex("/a/rw").RLock, c.RWMutex("/a/rw").Lock,
			func(ctx context.Context) (*recipes.Lease, error) { return c.Semaphore("/a/s").Acquire(ctx, 2) },
			c.Election("/a/e").Campaign,
		} {
			x, err := take(t.Context())
			require.NoError(t, err)
			require.NoError(t, x.Unlock(t.Context()))
		}
		for leader, err := range c.Election("/a/e").Observe(t.Context()) {
			require.NoError(t, err)
			require.Empty(t, leader.Name)
			break
		}
	})
}

func TestProvisionDeclaresAnew(t *testing.T) {
	s := zktest.Start(t)
	declare := func(p kind.Payload) error { return s.Provision("/s", &p) }
	require.NoError(t, declare(kind.Payload{Params: &kind.SemaphoreParams{Permits: 2}}))
	require.NoError(t, s.Delete("/s/leases"))
	require.NoError(t, declare(kind.Payload{Params: &kind.SemaphoreParams{Permits: 3}, State: kind.StateDraining}))
	n, ok := s.Get("/s")
	require.True(t, ok)
	require.Equal(t, []string{"leases", "locks"}, n.Children)
	p, err := kind.Decode(n.Data)
	require.NoError(t, err)
	require.Equal(t, 3, p.Params.(*kind.SemaphoreParams).Permits)
	require.Equal(t, kind.StateDraining, p.State)

	before := s.Dump()
	require.EqualError(t, declare(kind.Payload{}), "zktest: provision /s: kind: payload without parameters")
	require.ErrorContains(t, declare(kind.Payload{Params: &kind.SemaphoreParams{}}), `parameter "permits"`)
	require.ErrorIs(t, s.Provision("no/slash", &kind.Payload{Params: kind.Mutex.New()}), codeBadArguments)
	require.Equal(t, before, s.Dump())
}

// As net.Dialer.DialContext: the context ends the dial, and the error says so in net's way and in the context's.
func TestADialObeysItsContext(t *testing.T) {
	const oneWay = 100 * time.Millisecond
	enough := errors.New("enough")
	for name, c := range map[string]struct {
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		took time.Duration
		want error
	}{
		"no limit": {context.WithCancel, 2 * oneWay, nil},
		"just in time": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 2*oneWay)
		}, 2 * oneWay, nil},
		"too late": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, oneWay)
		}, oneWay, context.DeadlineExceeded},
		"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(oneWay, func() { cancel(enough) })
			return ctx, func() { cancel(nil) }
		}, oneWay, context.Canceled},
		"ended before": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, 0, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.Start(t, zktest.WithLatency(oneWay))
				for _, dial := range []func(context.Context, string, string) (net.Conn, error){s.DialContext, s.Replica().DialContext} {
					ctx, cancel := c.ctx(t.Context())
					start := time.Now()
					conn, err := dial(ctx, "tcp", "zk:2181")
					cancel()
					require.Equal(t, c.took, time.Since(start))
					if c.want == nil {
						require.NoError(t, err)
						require.NoError(t, conn.Close())
						continue
					}
					require.ErrorIs(t, err, c.want)
					var op *net.OpError
					require.ErrorAs(t, err, &op)
					require.Equal(t, c.want == context.DeadlineExceeded, op.Timeout())
				}
			})
		})
	}
}

func TestADialWithATimeoutObeysIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := zktest.Start(t, zktest.WithLatency(100*time.Millisecond)).Dialer()
		for timeout, ok := range map[time.Duration]bool{-1: true, 0: true, 199 * time.Millisecond: false, 200 * time.Millisecond: true} {
			conn, err := dial("tcp", "zk:2181", timeout)
			if !ok {
				require.ErrorContains(t, err, "dial tcp zk:2181: i/o timeout")
				continue
			}
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		}
	})
}
