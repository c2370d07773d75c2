package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// Heartbeats and releases waited for a slot behind all other requests of their client, first come first served: a crowd of
// goroutines that read cost an unrelated lease, on a healthy server (20,000 at a latency of 200 ms and a session timeout of 6 s).
func TestACrowdThatReadsCostAnUnrelatedLease(t *testing.T) {
	effort.Proof(t)
	for name, read := range map[string]func(ctx context.Context, s *direct.Session) error{
		"nodes":    func(ctx context.Context, s *direct.Session) error { _, err := s.Exists(ctx, "/m"); return err },
		"listings": func(ctx context.Context, s *direct.Session) error { _, _, err := s.Children(ctx, "/"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const roundTrip = 1500 * time.Millisecond
				l := &lab{harness.NewLab(t, zktest.WithLatency(roundTrip/2))}
				l.Mutex()
				l.Declare("/other", kind.Mutex.New())
				c := l.Client("a")
				x := l.Lock(c.Mutex("/m").Lock)
				y := l.Lock(c.Mutex("/other").Lock)
				s := l.session(c)
				ctx, end := context.WithCancel(t.Context())
				var crowd sync.WaitGroup
				callers := effort.Of(5<<10, 2<<10)
				for range callers {
					crowd.Go(func() {
						for read(ctx, s) == nil {
						}
					})
				}
				time.Sleep(s.Timeout())
				asked := time.Now()
				require.NoError(t, y.Unlock(t.Context()))
				require.LessOrEqual(t, time.Since(asked), roundTrip, "a release waited behind the crowd")
				select {
				case <-x.Context().Done():
					assert.NoError(t, context.Cause(x.Context()))
				case <-time.After(2 * s.Timeout()):
				}
				end()
				crowd.Wait()
				require.NoError(t, x.Unlock(t.Context()))
			})
		})
	}
}

// received counts the bytes that a client receives.
type received struct {
	net.Conn
	n *atomic.Int64
}

func (r received) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	r.n.Add(int64(n))
	return n, err
}

// Every caller that asked for a permit listed all of them, and the bound on such callers grew with the limit: 2, 8, 30, 121 and
// 346 MB for 250 to 4,000 permits that were all free, with as many goroutines on 10 clients; sessions were lost, and servers ran
// out of memory. A client that asks in a crowd shares its listings.
func TestEveryCallerOfACrowdReadAllPermits(t *testing.T) {
	effort.Proof(t)
	const clients, asking, own = 10, 64, 8
	sizes := []int{250, 500, 1000, 2000, 4000}
	for _, permits := range effort.Of(sizes, sizes[:3]) {
		runInLab(t, fmt.Sprint(permits), func(t *testing.T, l *lab) {
			l.Semaphore(permits)
			var bytes atomic.Int64
			var all sync.WaitGroup
			for i := range clients {
				c := l.Client(fmt.Sprint(i), func(cfg *recipes.Config) {
					dial := cfg.Dialer
					cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
						conn, err := dial(ctx, network, address)
						return received{conn, &bytes}, err
					}
				})
				for range permits / clients {
					all.Go(func() {
						_, err := c.Semaphore("/s").Acquire(t.Context(), 1)
						assert.NoError(t, err, "all are free")
					})
				}
			}
			l.Srv.ResetCounts()
			all.Wait()
			require.Equal(t, permits, l.permits())
			waves := (permits/clients + asking - 1) / asking
			listings := clients * (own + 2*waves)
			require.LessOrEqual(t, l.Srv.Counts().ByOp["getChildren2"], 2*listings, "permits and gate")
			const name, perCaller = 64, 1 << 10
			require.LessOrEqual(t, bytes.Load(), int64(listings*permits*name+permits*perCaller))
		})
	}
}

// More goroutines than permits, on several clients, and nobody gives any back: all permits are taken, also those that were
// created and withdrawn.
func TestNobodyOfACrowdWaitsWhileAPermitIsFree(t *testing.T) {
	for _, limit := range []int{1, 3, 40, 100, 300} {
		runInLab(t, fmt.Sprint(limit), func(t *testing.T, l *lab) {
			l.Semaphore(limit)
			ctx, end := context.WithCancel(t.Context())
			var granted atomic.Int64
			var all sync.WaitGroup
			for i := range 4 {
				m := l.Client(fmt.Sprint(i)).Semaphore("/s")
				for range 100 {
					all.Go(func() {
						switch _, err := m.Acquire(ctx, 1); {
						case err == nil:
							granted.Add(1)
						default:
							assert.ErrorIs(t, err, context.Canceled)
						}
					})
				}
			}
			time.Sleep(time.Minute)
			require.Equal(t, int64(limit), granted.Load())
			require.Equal(t, limit, l.permits())
			end()
			all.Wait()
			l.Settle()
			require.Equal(t, limit, l.permits(), "who gave up left some")
			l.Empty("/s/locks")
		})
	}
}

// Callers that want one permit and callers that want many, patient ones and others, tries, and a limit that shrinks and grows.
func TestACrowdIsServedWhateverItWants(t *testing.T) {
	effort.Proof(t, effort.Raced)
	const most = 120
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(most)
		var held, grants, gaveUp atomic.Int64
		var all sync.WaitGroup
		for i := range 4 {
			m := l.Client(fmt.Sprint(i)).Semaphore("/s")
			for j := range 90 {
				rnd := rand.New(rand.NewPCG(uint64(i), uint64(j)))
				all.Go(func() {
					for range 3 {
						n, ctx, stop := 1, t.Context(), func() {}
						switch {
						case j%15 == 0:
							n = 10
						case j%3 == 0:
							ctx, stop = context.WithTimeout(ctx, time.Duration(rnd.IntN(2000))*time.Millisecond)
						}
						take := m.Acquire
						if j%10 == 1 {
							take = m.TryAcquire
						}
						x, err := take(ctx, n)
						stop()
						if err != nil {
							assert.True(t, errors.Is(err, recipes.ErrHeld) || errors.Is(err, context.DeadlineExceeded), err)
							assert.True(t, j%3 == 0 && j%15 != 0 || j%10 == 1, err)
							gaveUp.Add(1)
							continue
						}
						assert.LessOrEqual(t, held.Add(int64(n)), int64(most))
						grants.Add(1)
						time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
						held.Add(-int64(n))
						assert.NoError(t, x.Unlock(t.Context()))
					}
				})
			}
		}
		for _, limit := range []int{20, 60, 10, most, 15} {
			time.Sleep(time.Second)
			l.Semaphore(limit)
		}
		all.Wait() // nobody waits for ever: the bubble would hang
		t.Log(grants.Load(), "grants,", gaveUp.Load(), "gave up")
		l.Settle()
		require.Zero(t, l.permits())
		l.Empty("/s/locks")
	})
}
