package recipes_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// Codes of the protocol for which zktest has no name.
const (
	codeOperationTimeout zktest.Code = -7
	codeSessionMoved     zktest.Code = -118
)

// The rows are those of the failure matrix in testdata/failure-cases.md.

func TestALateOrLostWatchEventCostsAtMostASessionTimeout(t *testing.T) { // row 8
	for name, c := range map[string]struct {
		fault zktest.Fault
		most  time.Duration
	}{
		"1 s late":          {zktest.Delay(time.Second), time.Second + 4*oneWay},
		"two timeouts late": {zktest.Delay(24 * time.Second), 12*time.Second + 6*oneWay},
		"lost":              {zktest.DropEvent, 12*time.Second + 6*oneWay},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				x, err := l.client("0").Mutex(l.mutex()).Lock(t.Context())
				require.NoError(t, err)
				c2 := l.client("1")
				id := l.session(c2)
				w := l.locking(c2.Mutex("/m"))
				third := l.locking(l.client("2").Mutex("/m"))
				event := l.srv.InjectEvent(func(e zktest.Event) bool { return e.Session == id && e.Path == x.Node() }, c.fault)
				l.unlock(x)
				start := time.Now()
				r := <-w
				require.NoError(t, r.err)
				require.LessOrEqual(t, r.at.Sub(start), c.most)
				require.Equal(t, 1, event.Hits())
				notYet(t, third, "the second holds")
				l.unlock(r.v)
				l.unlock((<-third).v)
			})
		})
	}
}

// A session makes one heartbeat, whatever it holds.
func TestWhateverIsHeldLearnsItsUnreportedDeletionFromAHeartbeat(t *testing.T) { // rows 8 and 36
	for name, c := range map[string]struct {
		lock func(context.Context, *recipes.Client) (*recipes.Lease, error)
		node int
	}{
		"a second lock": {func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) { return c.Mutex("/m").Lock(ctx) }, 0},
		"a permit of two": {func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
			return c.Semaphore("/s").Acquire(ctx, 2)
		}, 1},
		"a member of a set": {func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) { return mixed(c).Lock(ctx) }, 1},
		"a reader's, shared": {func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
			return c.RWMutex("/rw").RLock(ctx)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				l.everyKind()
				a := l.client("a")
				l.declare("/first", kind.Mutex.New())
				first, err := a.Mutex("/first").Lock(t.Context())
				require.NoError(t, err)
				x, err := c.lock(t.Context(), a)
				require.NoError(t, err)
				l.settle()
				node := x.Nodes()[c.node]
				l.srv.InjectEvent(func(e zktest.Event) bool { return e.Path == node }, zktest.DropEvent)
				require.NoError(t, l.srv.Delete(node))
				start := time.Now()
				select {
				case <-x.Context().Done():
				case <-time.After(time.Hour):
					require.Fail(t, "never")
				}
				nodes := time.Duration(1 + len(x.Nodes()))
				require.LessOrEqual(t, time.Since(start), nodes*2*time.Second+2*oneWay, "a heartbeat every sixth of 12 s, on each in turn")
				require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
				require.ErrorContains(t, context.Cause(x.Context()), node)
				require.NoError(t, first.Context().Err(), "the session lives")
				l.unlock(first)
				l.nothingLeft()
			})
		})
	}
}

// rewriting passes what a server says through f, frame by frame without the lengths.
func rewriting(server net.Conn, f func(body []byte) [][]byte) net.Conn {
	ours, theirs := net.Pipe()
	go func() {
		hostile.Relay(server, theirs)
		_ = server.Close()
	}()
	go func() {
		defer theirs.Close()
		defer server.Close()
		for body := hostile.ReadFrame(server); body != nil; body = hostile.ReadFrame(server) {
			for _, b := range f(body) {
				if _, err := theirs.Write(hostile.Frame(b...)); err != nil {
					return
				}
			}
		}
	}()
	return ours
}

func TestAnEventForAContenderMayComeBeforeTheReplyThatNamesIt(t *testing.T) { // row 10
	for name, kind := range map[string]zk.EventType{"deleted": zk.EventNodeDeleted, "changed": zk.EventNodeDataChanged, "created": zk.EventNodeCreated} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				l.mutex()
				var early atomic.Int32
				c := l.client("a", func(cfg *recipes.Config) {
					cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
						conn, err := l.srv.DialContext(ctx, network, address)
						if err != nil {
							return nil, err
						}
						return rewriting(conn, func(body []byte) [][]byte {
							const header, xidEvent = 16, -1
							reply := body[min(len(body), header):] // what a create answers with, and nothing else that parses as one
							if len(reply) < 7 || int(binary.BigEndian.Uint32(reply)) != len(reply)-4 || string(reply[4:7]) != "/m/" {
								return [][]byte{body}
							}
							early.Add(1)
							path := reply[4:]
							event := hostile.Cat(hostile.Be32(xidEvent), hostile.Be64(-1), hostile.Be32(0), hostile.Be32(int32(kind)), hostile.Be32(3), hostile.Be32(int32(len(path))), path)
							return [][]byte{event, body}
						}), nil
					}
				})
				for range 5 {
					x, err := c.Mutex("/m").Lock(t.Context())
					require.NoError(t, err)
					require.NoError(t, x.Verify(t.Context()))
					l.unlock(x)
				}
				require.EqualValues(t, 5, early.Load())
			})
		})
	}
}

func TestAnExpiryBetweenTheFrontAndTheGrantGrantsNothing(t *testing.T) { // row 13: etcd #11456
	for name, free := range map[string]bool{"queued": false, "free": true} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				m := l.mutex()
				c := l.client("b")
				l.warm(c.Mutex(m))
				proof := map[bool]string{false: "multi", true: "create"}[free]
				x, err := l.client("a").Mutex(m).Lock(t.Context())
				require.NoError(t, err)
				if free {
					l.unlock(x)
				}
				old := l.session(c)
				held := l.srv.Inject(func(r zktest.Request) bool { return r.Op == proof && r.Session == old }, zktest.Hold)
				w := l.locking(c.Mutex(m))
				if !free { // its heartbeats are under way for so long that it needs a proof of its own
					time.Sleep(c.Newest().Timeout()/6 + time.Second)
					l.unlock(x)
				}
				<-held.Hit()
				l.srv.Expire(old)
				rival, err := l.client("rival").Mutex(m).Lock(t.Context())
				require.NoError(t, err)
				held.Release()
				time.Sleep(time.Minute)
				require.NoError(t, rival.Context().Err())
				require.NoError(t, rival.Verify(t.Context()))
				select {
				case r := <-w:
					require.ErrorIs(t, r.err, recipes.ErrSessionLost)
				default: // it queues again, in a new session, behind the rival
				}
				for _, path := range l.queue(m) {
					n, _ := l.srv.Get(path)
					require.NotEqual(t, old, n.Stat.EphemeralOwner)
				}
				l.unlock(rival)
			})
		})
	}
}

func TestASessionEndedInItsOwnersNameIsLost(t *testing.T) { // rows 11 and 12: forged expiry while holding and while waiting
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		a, b := &harness.Thief{Next: l.srv.DialContext}, &harness.Thief{Next: l.srv.DialContext}
		holder := l.client("holder", func(c *recipes.Config) { c.Dialer = a.Dial })
		x, err := holder.Mutex(m).Lock(t.Context())
		require.NoError(t, err)
		waiter := l.client("waiter", func(c *recipes.Config) { c.Dialer = b.Dial })
		w := l.locking(waiter.Mutex(m))
		last := l.locking(l.client("last").Mutex(m))
		b.End(t, waiter.Newest())
		require.ErrorIs(t, (<-w).err, recipes.ErrSessionLost)
		notYet(t, last, "the holder holds")
		a.End(t, holder.Newest())
		<-x.Context().Done()
		require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
		r := <-last
		require.NoError(t, r.err)
		require.Greater(t, r.v.Token(), x.Token())
		l.unlock(r.v)
	})
}

func TestACallGivenUpAtAnyInstantLeavesNothing(t *testing.T) { // row 46: 1,000 instants
	effort.Proof(t, effort.Raced)
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		a, b := l.client("a").Mutex(m), l.client("b").Mutex(m)
		l.warm(a)
		l.warm(b)
		granted, gaveUp := 0, 0
		for i := range 1000 {
			x, err := b.Lock(t.Context())
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*240*time.Microsecond)
			w := async(func() (*recipes.Lease, error) { return a.Lock(ctx) })
			time.Sleep(100 * time.Millisecond)
			l.unlock(x)
			if r := <-w; r.err == nil {
				granted++
				l.unlock(r.v)
			} else {
				gaveUp++
				require.ErrorIs(t, r.err, context.DeadlineExceeded)
			}
			cancel()
			time.Sleep(time.Second)
			require.Empty(t, l.children(m), "given up after %d x 240 us", i)
		}
		require.Greater(t, granted, 200)
		require.Greater(t, gaveUp, 400)
	})
}

func TestClosingAtAnyInstantEndsEverything(t *testing.T) { // row 47
	for i := range 200 { // a world each: one would keep 400 closed clients
		inLab(t, func(t *testing.T, l *lab) {
			m := l.mutex()
			other := l.client("other")
			c := l.client("closing")
			x, err := other.Mutex(m).Lock(t.Context())
			require.NoError(t, err)
			id := l.session(c)
			var wg sync.WaitGroup
			for range 3 { // waiting, granted, releasing and locking again while it closes
				wg.Go(func() {
					for {
						y, err := c.Mutex(m).Lock(context.Background())
						if err != nil {
							require.True(t, errors.Is(err, recipes.ErrClosed) || errors.Is(err, recipes.ErrSessionLost), "%v", err)
							if _, err := c.Session(context.Background()); errors.Is(err, recipes.ErrClosed) {
								return
							}
							continue
						}
						_ = y.Unlock(context.Background())
						<-y.Context().Done()
					}
				})
			}
			time.Sleep(50 * time.Millisecond)
			l.unlock(x)
			time.Sleep(time.Duration(i) * time.Millisecond)
			_ = c.Close()
			wg.Wait()
			for _, path := range l.queue(m) {
				n, _ := l.srv.Get(path)
				require.NotEqual(t, id, n.Stat.EphemeralOwner)
			}
			require.NoError(t, other.Close())
		})
	}
}

func TestARefusalIsNeverTakenForSuccess(t *testing.T) { // row 51: throttled, over quota, moved
	for _, code := range []zktest.Code{zktest.CodeThrottled, zktest.CodeQuotaExceeded, codeSessionMoved, zktest.CodeSystemError, codeOperationTimeout} {
		for _, op := range []string{"create", "getChildren2", "getData", "setData", "delete", "multi"} {
			t.Run(code.String()+" "+op, func(t *testing.T) {
				inLab(t, func(t *testing.T, l *lab) {
					m := l.mutex()
					c := l.client("a")
					l.warmDeclaration(c.Mutex(m))
					x, err := l.client("b").Mutex(m).Lock(t.Context())
					require.NoError(t, err)
					id := l.session(c)
					rule := l.srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == op && r.Session == id }), zktest.Fail(code))
					w := l.locking(c.Mutex(m))
					require.True(t, len(w) == 0 || rule.Hits() == 1, "an answer while another holds")
					start := time.Now()
					l.unlock(x)
					r := <-w
					if r.err == nil {
						require.False(t, r.at.Before(start), "granted while another holds")
						if proof := r.v.Verify(t.Context()); op == "multi" && (code == zktest.CodeQuotaExceeded || code == codeSessionMoved) {
							require.Error(t, proof, "a proof that was refused")
						} else { // or asked for again
							require.NoError(t, proof)
						}
						require.NoError(t, r.v.Verify(t.Context()))
						require.Len(t, l.children(m), 1)
						_ = r.v.Unlock(t.Context())
					} else {
						var failed *direct.OpError
						require.ErrorAs(t, r.err, &failed, "%v", r.err)
					}
					time.Sleep(10 * time.Second)
					require.Empty(t, l.children(m))
					l.nextIsServed(m)
					if op == "create" {
						require.Equal(t, 1, rule.Hits())
					}
				})
			})
		}
	}
}

func TestAServerThatMovesToAnotherAddressIsFollowed(t *testing.T) { // row 52: pods come back with other addresses
	inLab(t, func(t *testing.T, l *lab) {
		var here atomic.Value
		here.Store("10.0.0.1")
		ctx := seam.With(t.Context(), seam.Seams{Resolve: func(context.Context, string) ([]string, error) { return []string{here.Load().(string)}, nil }})
		c, err := recipes.Dial(ctx, recipes.Config{Servers: []string{"zk"}, SessionTimeout: 12 * time.Second,
			Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
				if address != here.Load().(string)+":2181" {
					return nil, errors.New("connection refused")
				}
				return l.srv.DialContext(ctx, network, address)
			}})
		require.NoError(t, err)
		defer c.Close()
		x, err := c.Mutex(l.mutex()).Lock(t.Context())
		require.NoError(t, err)
		here.Store("10.0.0.2")
		l.srv.Disconnect(l.session(c))
		time.Sleep(time.Minute)
		require.NoError(t, x.Context().Err(), "go-zookeeper alone dials 10.0.0.1 for ever")
		l.unlock(x)
	})
}
