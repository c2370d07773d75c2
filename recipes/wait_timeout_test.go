package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// declareAll declares, n times, what takers take.
func (l *lab) declareAll(n int) (queues []string) {
	for i := range n {
		s := kind.Semaphore.New().(*kind.SemaphoreParams)
		s.Permits = 3
		for path, p := range map[string]kind.Params{"/m": kind.Mutex.New(), "/rw": kind.RWLock.New(), "/s": s, "/e": kind.Election.New()} {
			l.Declare(fmt.Sprint(path, i), p)
		}
		queues = append(queues, fmt.Sprint("/m", i), fmt.Sprint("/rw", i), fmt.Sprint("/s", i)+"/locks", fmt.Sprint("/s", i)+"/leases", fmt.Sprint("/e", i))
	}
	return queues
}

// read lets clients read the declarations, so that what they ask for next is the lock alone.
func (l *lab) read(take taker, cs ...*recipes.Client) {
	l.T.Helper()
	for _, c := range cs {
		l.Unlock(l.Lock(take(c, 0)))
	}
	l.Settle()
}

// A client whose callers gave up before the network had answered left a contender for each behind, and cleaned up one at a
// time: ten seconds of 30 ms timeouts at 40 ms of round trip kept the lock from everybody else for 43 s.
func TestCallersThatTimeOutBeforeTheNetworkAnswersCostTheLockNothing(t *testing.T) {
	effort.Proof(t, effort.Raced)
	for name, take := range takers {
		runInLab(t, name, func(t *testing.T, l *lab) {
			queues := l.declareAll(1)
			a, b := l.Client("a"), l.Client("b")
			l.read(take, a, b)
			most, sid := 0, l.SessionID(a)
			l.Srv.Inject(func(zktest.Request) bool {
				for _, dir := range queues {
					own := 0
					for _, child := range l.Children(dir) {
						if n, ok := l.Srv.Get(kind.JoinPath(dir, child)); ok && n.Stat.EphemeralOwner == sid {
							own++
						}
					}
					most = max(most, own)
				}
				return false
			}, zktest.Fault{})
			end := time.Now().Add(20 * time.Second)
			var callers sync.WaitGroup
			for range impatient(name) {
				callers.Go(func() {
					for time.Now().Before(end) {
						ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
						x, err := take(a, 0)(ctx)
						cancel()
						if err == nil {
							_ = x.Unlock(context.Background())
						}
					}
				})
			}
			time.Sleep(10 * time.Second)
			l.Unlock(l.Lock(take(b, 0)))
			callers.Wait()
			ctx := l.Within(time.Second)
			x, err := take(b, 0)(ctx)
			require.NoError(t, err, "%s", l.Srv.Dump())
			l.Unlock(x)
			l.Settle()
			require.LessOrEqual(t, most, contenders(name), "contenders of one client in one queue")
			l.Empty(queues...)
		})
	}
}

// impatient is how many goroutines call at once: permits and read locks are taken side by side, so of them one.
func impatient(recipe string) int {
	if recipe == "semaphore" || recipe == "set" || recipe == "reader" {
		return 1
	}
	return 5
}

// contenders is how many nodes one acquisition has in one queue.
func contenders(recipe string) int {
	if recipe == "semaphore" {
		return 3
	}
	return 1
}

// The goroutine that was to send a create was preempted before it did, and the caller's context ended in that time.
// The search for the contender found none and was done with it; then the create went out: a contender nobody knew of.
func TestACreateHandedOverLateIsNotForgotten(t *testing.T) {
	for name, take := range takers {
		runInLab(t, name, func(t *testing.T, l *lab) {
			queues := l.declareAll(1)
			ctx, cancel := context.WithCancel(t.Context())
			var due atomic.Bool
			l.Seams.Preempt = func() {
				if due.CompareAndSwap(true, false) {
					cancel()
					time.Sleep(10 * time.Second)
				}
			}
			a, b := l.Client("a"), l.Client("b")
			l.read(take, a, b)
			due.Store(true)
			_, err := take(a, 0)(ctx)
			require.ErrorIs(t, err, context.Canceled)
			time.Sleep(11 * time.Second)
			l.Settle()
			l.Empty(queues...)
			ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			x, err := take(b, 0)(ctx)
			require.NoError(t, err)
			l.Unlock(x)
		})
	}
}

// A create that a slow server executes when its session has been elsewhere and come back, behind the write that had shown it
// absent: a contender nobody knew of stood for as long as the session lived.
func TestACreateExecutedLateIsDeleted(t *testing.T) {
	for name, take := range takers {
		runInLab(t, name, func(t *testing.T, l *lab) {
			queues := l.declareAll(1)
			a, b := l.Client("a"), l.Client("b")
			l.read(take, a)
			sid := l.SessionID(a)
			rule := l.Srv.Inject(zktest.Once(zktest.On("create", "multi")), zktest.DelayReader(20*time.Second))
			go func() {
				<-rule.Hit()
				l.Settle()
				l.Srv.Disconnect(sid)
			}()
			l.Unlock(l.Lock(take(a, 0)))
			time.Sleep(21 * time.Second)
			ctx := l.Within(time.Minute)
			x, err := take(b, 0)(ctx)
			require.NoError(t, err)
			l.Unlock(x)
			time.Sleep(20 * time.Second)
			l.Empty(queues...)
		})
	}
}

// Who may write its own node but not read it, and whose first confirming write lost its reply, wrote with an old version again
// and again, without a pause: 7,483 requests in five minutes, and never granted.
func TestAnUnreadableNodeWhoseMarkLostItsReplyIsConfirmedAtAnyVersion(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Declare("/m", kind.Mutex.New(), func(p *kind.Payload) {
			p.ChildACL = kind.List{{Perms: kind.PermWrite, Scheme: "world", ID: "anyone"}}
		})
		a, b := l.Client("a"), l.Client("b")
		b.Crowd(1)
		x := l.Lock(a.Mutex("/m").Lock)
		ctx := l.Within(time.Minute)
		ch := async(func() (*recipes.Lease, error) { return b.Mutex("/m").Lock(ctx) })
		time.Sleep(b.Newest().Timeout() / 3) // it cannot heartbeat on it either: the grant takes a write
		l.Srv.Inject(zktest.Once(zktest.On("setData")), zktest.DropReply)
		before := l.Srv.Counts().Total
		l.Unlock(x)
		r := l.Got(ch)
		require.Less(t, l.Srv.Counts().Total-before, 40)
		l.Unlock(r)
	})
}

// A Dialer that never returned, whatever became of its context, kept Close and every later session waiting.
func TestADialerThatNeverReturnsHoldsUpNothing(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		forever, blocked := make(chan struct{}), make(chan struct{}, 1)
		var block atomic.Bool
		l.Mutex()
		c := l.Client("c", func(cfg *recipes.Config) {
			cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				if block.CompareAndSwap(true, false) {
					blocked <- struct{}{}
					<-forever
					return nil, errors.New("too late")
				}
				return l.Srv.DialContext(ctx, network, address)
			}
		})
		block.Store(true)
		l.Srv.Disconnect(0)
		<-blocked
		x := l.Lock(c.Mutex("/m").Lock) // the next attempt is made beside the one that hangs
		l.Unlock(x)
		block.Store(true)
		l.Srv.Disconnect(0)
		<-blocked
		_ = c.Close() // of a session whose end no server has confirmed; that it returns is what counts
		close(forever)
		synctest.Wait()
	})
}
