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

// Codes of the protocol that have no name in zktest.
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
		runInLab(t, name, func(t *testing.T, l *lab) {
			x := l.Lock(l.Client("0").Mutex(l.Mutex()).Lock)
			c2 := l.Client("1")
			id := l.SessionID(c2)
			w := l.Locking(c2.Mutex("/m"))
			third := l.Locking(l.Client("2").Mutex("/m"))
			event := l.Srv.InjectEvent(func(e zktest.Event) bool { return e.Session == id && e.Path == x.Node() }, c.fault)
			l.Unlock(x)
			start := time.Now()
			r := l.Granted(w)
			require.LessOrEqual(t, r.At.Sub(start), c.most)
			require.Equal(t, 1, event.Hits())
			notYet(t, third, "the second holds")
			l.Unlock(r.V)
			l.Unlock((<-third).V)
		})
	}
}

// A session makes one heartbeat at a time, on each node that it holds in turn.
func TestWhateverIsHeldLearnsItsUnreportedDeletionFromAHeartbeat(t *testing.T) { // rows 8 and 36
	for _, others := range []int{0, 1} {
		forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
			a := l.Client("a")
			var first *recipes.Lease
			if others > 0 {
				l.Declare("/first", kind.Mutex.New())
				first = l.Lock(a.Mutex("/first").Lock)
			}
			x := l.Lock(way.Take(a))
			l.Settle()
			node := x.Nodes()[len(x.Nodes())-1]
			l.Srv.InjectEvent(func(e zktest.Event) bool { return e.Path == node }, zktest.DropEvent)
			require.NoError(t, l.Srv.Delete(node))
			start := time.Now()
			within(t, time.Hour, func() struct{} { return <-ended(x) })
			nodes := time.Duration(others + len(x.Nodes()))
			require.LessOrEqual(t, time.Since(start), nodes*2*time.Second+2*oneWay, "a heartbeat every sixth of 12 s, on each in turn")
			require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
			require.ErrorContains(t, context.Cause(x.Context()), node)
			if first != nil {
				require.NoError(t, first.Context().Err(), "the session lives")
				l.Unlock(first)
			}
			l.NothingLeft()
		})
	}
}

// rewriting passes each frame that a server sends through f, without its length.
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
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.Mutex()
			var early atomic.Int32
			c := l.Client("a", func(cfg *recipes.Config) {
				cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := l.Srv.DialContext(ctx, network, address)
					if err != nil {
						return nil, err
					}
					return rewriting(conn, func(body []byte) [][]byte {
						const header, xidEvent = 16, -1
						reply := body[min(len(body), header):] // the reply to a create; no other frame parses as one
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
				x := l.Lock(c.Mutex("/m").Lock)
				require.NoError(t, x.Verify(t.Context()))
				l.Unlock(x)
			}
			require.EqualValues(t, 5, early.Load())
		})
	}
}

func TestAnExpiryBetweenTheFrontAndTheGrantGrantsNothing(t *testing.T) { // row 13: etcd #11456
	for name, free := range map[string]bool{"queued": false, "free": true} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			m := l.Mutex()
			c := l.Client("b")
			l.warm(c.Mutex(m).Lock)
			proof := map[bool]string{false: "multi", true: "create"}[free]
			x := l.Lock(l.Client("a").Mutex(m).Lock)
			if free {
				l.Unlock(x)
			}
			old := l.SessionID(c)
			held := l.Srv.Inject(l.By(c, proof), zktest.Hold)
			w := l.Locking(c.Mutex(m))
			if !free { // its heartbeats are held up for so long that it needs a proof of its own
				time.Sleep(c.Newest().Timeout()/6 + time.Second)
				l.Unlock(x)
			}
			<-held.Hit()
			l.Srv.Expire(old)
			rival := l.Lock(l.Client("rival").Mutex(m).Lock)
			held.Release()
			time.Sleep(time.Minute)
			require.NoError(t, rival.Context().Err())
			require.NoError(t, rival.Verify(t.Context()))
			select {
			case r := <-w:
				require.ErrorIs(t, r.Err, recipes.ErrSessionLost)
			default: // it queues again, in a new session, behind the rival
			}
			for _, path := range l.Queue(m) {
				n, _ := l.Srv.Get(path)
				require.NotEqual(t, old, n.Stat.EphemeralOwner)
			}
			l.Unlock(rival)
		})
	}
}

func TestACallGivenUpAtAnyInstantLeavesNothing(t *testing.T) { // row 46: 1,000 instants
	effort.Proof(t, effort.Raced)
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		a, b := l.Client("a").Mutex(m), l.Client("b").Mutex(m)
		l.warm(a.Lock)
		l.warm(b.Lock)
		granted, gaveUp := 0, 0
		for i := range 1000 {
			x := l.Lock(b.Lock)
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*240*time.Microsecond)
			w := async(func() (*recipes.Lease, error) { return a.Lock(ctx) })
			time.Sleep(100 * time.Millisecond)
			l.Unlock(x)
			if r := <-w; r.Err == nil {
				granted++
				l.Unlock(r.V)
			} else {
				gaveUp++
				require.ErrorIs(t, r.Err, context.DeadlineExceeded)
			}
			cancel()
			time.Sleep(time.Second)
			require.Empty(t, l.Children(m), "given up after %d x 240 us", i)
		}
		require.Greater(t, granted, 200)
		require.Greater(t, gaveUp, 400)
	})
}

func TestClosingAtAnyInstantEndsEverything(t *testing.T) { // row 47
	for i := range 200 { // a lab each: one lab would keep 400 closed clients
		inLab(t, func(t *testing.T, l *lab) {
			m := l.Mutex()
			other := l.Client("other")
			c := l.Client("closing")
			x := l.Lock(other.Mutex(m).Lock)
			id := l.SessionID(c)
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
			l.Unlock(x)
			time.Sleep(time.Duration(i) * time.Millisecond)
			_ = c.Close()
			wg.Wait()
			for _, path := range l.Queue(m) {
				n, _ := l.Srv.Get(path)
				require.NotEqual(t, id, n.Stat.EphemeralOwner)
			}
			require.NoError(t, other.Close())
		})
	}
}

func TestARefusalIsNeverTakenForSuccess(t *testing.T) { // row 51: throttled, over quota, moved
	for _, code := range []zktest.Code{zktest.CodeThrottled, zktest.CodeQuotaExceeded, codeSessionMoved, zktest.CodeSystemError, codeOperationTimeout} {
		for _, op := range []string{"create", "getChildren2", "getData", "setData", "delete", "multi"} {
			runInLab(t, code.String()+" "+op, func(t *testing.T, l *lab) {
				m := l.Mutex()
				c := l.Client("a")
				l.warmDeclaration(c.Mutex(m))
				x := l.Lock(l.Client("b").Mutex(m).Lock)
				rule := l.Srv.Inject(zktest.Once(l.By(c, op)), zktest.Fail(code))
				w := l.Locking(c.Mutex(m))
				require.True(t, len(w) == 0 || rule.Hits() == 1, "an answer while another holds")
				start := time.Now()
				l.Unlock(x)
				r := <-w
				if r.Err == nil {
					require.False(t, r.At.Before(start), "granted while another holds")
					if proof := r.V.Verify(t.Context()); op == "multi" && (code == zktest.CodeQuotaExceeded || code == codeSessionMoved) {
						require.Error(t, proof, "a proof that was refused")
					} else { // no proof was refused, or it was asked for again
						require.NoError(t, proof)
					}
					require.NoError(t, r.V.Verify(t.Context()))
					require.Len(t, l.Children(m), 1)
					_ = r.V.Unlock(t.Context())
				} else {
					var failed *direct.OpError
					require.ErrorAs(t, r.Err, &failed, "%v", r.Err)
				}
				time.Sleep(10 * time.Second)
				l.Empty(m)
				l.nextIsServed(m)
				if op == "create" {
					require.Equal(t, 1, rule.Hits())
				}
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
				return l.Srv.DialContext(ctx, network, address)
			}})
		require.NoError(t, err)
		defer c.Close()
		x := l.Lock(c.Mutex(l.Mutex()).Lock)
		here.Store("10.0.0.2")
		l.Srv.Disconnect(l.SessionID(c))
		time.Sleep(time.Minute)
		require.NoError(t, x.Context().Err(), "go-zookeeper alone dials 10.0.0.1 for ever")
		l.Unlock(x)
	})
}
