package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
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

// permits counts the nodes below /s/leases.
func (l *lab) permits() int { return len(l.Children("/s/leases")) }

// The transaction that takes the permits also deletes the place at the gate. Its caller did not wait for the outcome. The place was left to
// the next goroutine, which found it deleted.
func TestPlaceThatIsBeingDeletedWasInherited(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(1)
		held := l.Lock(draws(1)(l.Client("holder")))
		c := l.Client("c")
		first, cancel := l.Leaving(permits(c.Semaphore("/s"), 1))
		second := l.drawing(c, 1)
		l.Settle()
		slow := l.Srv.Inject(zktest.Once(zktest.On("multi")), zktest.DelayReply(2*time.Second))
		l.Unlock(held)
		<-slow.Hit()
		cancel()
		require.ErrorIs(t, (<-first).Err, context.Canceled)
		l.Unlock(l.Got(second))
		l.vacant("/s/locks", "/s/leases")
	})
}

// The first at the gate takes its permits under the number that it knows. If the event of another number was lost, the server refused the
// transaction. The waiter then sent it under the same number again, for ever and without a pause.
func TestAWaiterLearnsTheNumberOfPermitsFromARefusalWhereItsEventIsLost(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(1)
		x := l.Lock(draws(1)(l.Client("b")))
		a := l.Client("a")
		id := l.SessionID(a)
		w := l.drawing(a, 1)
		lost := l.Srv.InjectEvent(func(e zktest.Event) bool { return e.Session == id && e.Path == "/s" }, zktest.DropEvent)
		l.Semaphore(2)
		l.Settle()
		require.Equal(t, 1, lost.Hits())
		l.Unlock(x)
		l.Unlock(within(t, time.Minute, func() *recipes.Lease { return l.Got(w) }))
	})
}

// Goroutines that asked for permits at the same moment each created one, and each listed the permits of all. A thousand goroutines read 60
// MB. With some thousands no answer came within the session timeout. (Programs use Go's own semaphores like that: one goroutine for each
// task.)
func TestAThousandGoroutinesThatWantPermitsAtOnceDoNotAllAskForThem(t *testing.T) {
	effort.Proof(t, effort.Raced)
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(3)
		var most atomic.Int64
		l.Srv.Inject(func(r zktest.Request) bool {
			if n, _ := l.Srv.Get("/s/leases"); r.Op == "getChildren2" {
				most.Store(max(most.Load(), int64(len(n.Children))))
			}
			return false
		}, zktest.DropReply)
		s := l.Client("a").Semaphore("/s")
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				x, err := s.Acquire(t.Context(), 1)
				if assert.NoError(t, err) {
					assert.NoError(t, x.Unlock(t.Context()))
				}
			})
		}
		all.Wait()
		require.LessOrEqual(t, most.Load(), int64(70))
		l.Settle()
		var refused atomic.Int64
		for range 100 {
			all.Go(func() {
				x, err := s.TryAcquire(t.Context(), 1)
				if err == nil {
					time.Sleep(time.Second)
					err = x.Unlock(t.Context())
				} else if assert.ErrorIs(t, err, recipes.ErrHeld) {
					refused.Add(1)
					return
				}
				assert.NoError(t, err)
			})
		}
		all.Wait()
		require.Equal(t, int64(97), refused.Load())
	})
}

// The first at the gate asked again every 10 ms, with a listing each time, although the servers shed the load.
func TestTheFirstAtAGateAsksServersThatShedItsRequestEverMoreRarely(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		x := l.Lock(draws(3)(l.Client("holder")))
		w := l.Waiting(permits(l.Client("waiter").Semaphore("/s"), 1))
		l.Unlock(x)
		shed := l.Srv.Inject(func(r zktest.Request) bool { return r.Op == "multi" && r.Session != l.SessionID(x.Client()) }, zktest.Fail(zktest.CodeThrottled))
		time.Sleep(time.Minute)
		require.Less(t, shed.Hits(), 100)
		shed.Remove()
		l.Unlock(l.Got(w))
		l.NothingLeft()
	})
}

// The error named a node of the layout, and did not mention the place.
func TestAPlaceAtTheGateThatWentWithItsSemaphoreIsLost(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Semaphore(1)
		holder := l.Lock(draws(1)(l.Client("a")))
		c := l.Client("b")
		waiting := l.Waiting(permits(c.Semaphore("/s"), 1))
		held := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Path == "/s/leases" && strings.HasPrefix(r.Op, "getChildren") }), zktest.Hold)
		l.Unlock(holder)
		<-held.Hit()
		place := "/s/locks/" + l.Children("/s/locks")[0]
		for _, path := range []string{place, "/s/locks", "/s/leases"} {
			require.NoError(t, l.Srv.Delete(path))
		}
		held.Release()
		got := <-waiting
		require.ErrorIs(t, got.Err, recipes.ErrLost)
		require.ErrorContains(t, got.Err, place)
		require.ErrorContains(t, got.Err, "run apply")
		require.True(t, recipes.Retryable(got.Err), "it was never granted")
	})
}

func TestNeverMorePermitsThanDeclared(t *testing.T) { // case 48: kazoo #213 admits too many without blocking; CURATOR-376
	for name, c := range map[string]struct {
		clients, goroutines int
		take                func(*recipes.Semaphore, context.Context, int) (*recipes.Lease, error)
	}{
		"clients that wait":          {8, 1, (*recipes.Semaphore).Acquire},
		"clients that try":           {6, 1, (*recipes.Semaphore).TryAcquire},
		"goroutines with one handle": {1, 8, (*recipes.Semaphore).Acquire},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.Semaphore(3)
			var mu sync.Mutex
			now, most, grants := 0, 0, 0
			count := func(n int) {
				mu.Lock()
				defer mu.Unlock()
				now += n
				most, grants = max(most, now), grants+1
			}
			var all sync.WaitGroup
			for i := range c.clients {
				m := l.Client(fmt.Sprint(i)).Semaphore("/s")
				for j := range c.goroutines {
					rnd := rand.New(rand.NewPCG(uint64(i), uint64(j)))
					all.Go(func() {
						for range 40 {
							time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
							x, err := c.take(m, context.Background(), 1+rnd.IntN(2))
							if errors.Is(err, recipes.ErrHeld) {
								continue
							}
							if !assert.NoError(t, err) {
								return
							}
							count(len(x.Nodes()))
							time.Sleep(time.Duration(200+rnd.IntN(200)) * time.Millisecond) // longer than a call takes at the gate, so that leases overlap
							assert.NoError(t, context.Cause(x.Context()), "granted and over")
							count(-len(x.Nodes()))
							assert.NoError(t, x.Unlock(context.Background()))
						}
					})
				}
			}
			all.Wait()
			require.Equal(t, 3, most, "the limit, reached and not passed")
			require.Greater(t, grants, 40, "the test refused nearly everything")
			l.Settle()
			require.Zero(t, l.permits())
			l.Empty("/s/locks")
		})
	}
}

// Heartbeats and releases waited in order of arrival for a slot, behind all other requests of their client. So a crowd of goroutines that
// read cost an unrelated lease, on a healthy server. There were 20,000 of them, at a latency of 200 ms and a session timeout of 6 s.
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

// Every caller that asked for a permit listed all permits, and the bound on such callers grew with the limit. On 10 clients, with a
// goroutine for each of 250 to 4,000 free permits, that was 2, 8, 30, 121 and 346 MB. Sessions were lost, and servers ran out of memory.
// The calls of a crowd in one client share listings.
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

// More goroutines than permits ask, on several clients, and none gives a permit back. All permits are taken, also those that were created
// and withdrawn.
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

// Some callers want one permit and some want many. Some are patient, some give up, some only try. Meanwhile the limit shrinks and grows.
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
		all.Wait() // if a caller waited for ever, the bubble would hang
		t.Log(grants.Load(), "grants,", gaveUp.Load(), "gave up")
		l.Settle()
		require.Zero(t, l.permits())
		l.Empty("/s/locks")
	})
}
