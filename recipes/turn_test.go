package recipes_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// Two goroutines that try at the same moment: the one that was beaten waited for the other's whole holding.
func TestTryThatIsBeatenToTheTurnWaitedForIt(t *testing.T) {
	for range 50000 {
		turns := &recipes.Turns{}
		var ready atomic.Int32
		tried := make(chan bool, 2)
		for range cap(tried) {
			go func() {
				for ready.Add(1); ready.Load() < 2; {
					runtime.Gosched()
				}
				tried <- turns.Enter(context.Background(), "k", "a", true, false) == nil
			}()
		}
		for len(tried) < cap(tried) {
			if turns.Heir("k") != "" {
				turns.Leave("k")
				require.FailNow(t, "a try waits for the turn")
			}
			runtime.Gosched()
		}
		require.NotEqual(t, <-tried, <-tried)
	}
}

// The turn that nobody inherited was given up twice: at once, and when the contender was gone. By then it was another
// goroutine's, and a third one got it as well.
func TestTurnGivenUpTwice(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		path := l.mutex()
		held, err := l.client("holder").Mutex(path).Lock(t.Context())
		require.NoError(t, err)
		c := l.client("c")
		m := c.Mutex(path)
		ctx, cancel := context.WithCancel(t.Context())
		first := async(func() (*recipes.Lease, error) { return m.Lock(ctx) })
		l.settle()
		slow := l.srv.Inject(zktest.On("delete"), zktest.Delay(2*time.Second))
		cancel()
		require.ErrorIs(t, (<-first).err, context.Canceled)
		second, third := l.locking(m), l.locking(m)
		time.Sleep(3 * time.Second)
		l.settle()
		slow.Remove()
		require.Len(t, l.children(path), 2, "one client, two contenders")
		l.unlock(held)
		l.unlock((<-second).v)
		l.unlock((<-third).v)
	})
}

// A machine that sleeps at any moment of an upgrade must not leave the turn to write with nobody.
func TestUpgradeCutShortBySleepKeptTheTurnToWrite(t *testing.T) {
	for n := range int64(40) {
		inLab(t, func(t *testing.T, l *lab) {
			l.rwlock()
			var looks atomic.Int64
			looks.Store(-1 << 40)
			c := l.asleep("c", l.srv.DialContext, func() time.Duration {
				if looks.Add(1) > n {
					return time.Hour
				}
				return 0
			})
			m := c.RWMutex("/rw")
			lease, err := m.RLock(t.Context())
			require.NoError(t, err)
			l.settle()
			looks.Store(0)
			if w, err := m.TryUpgrade(t.Context(), lease); err == nil {
				_ = w.Unlock(t.Context())
			}
			l.settle()
			require.False(t, c.TurnTaken("/rw"), "asleep after %d looks at the clock", n)
		})
	}
}

// Who waited for the turn gives up while its successor's place is being made: that place was met as a rival.
func TestTryMeetsThePlaceNobodyInherited(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("c")
		m := c.Mutex(l.mutex())
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		waiting := async(func() (*recipes.Lease, error) { return m.Lock(ctx) })
		l.settle()
		slow := l.srv.Inject(zktest.Once(zktest.On("delete")), zktest.Delay(time.Second))
		unlocked := async(func() (any, error) { return nil, x.Unlock(t.Context()) })
		synctest.Wait()
		cancel()
		require.ErrorIs(t, (<-waiting).err, context.Canceled)
		<-slow.Hit()
		next, err := m.TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, (<-unlocked).err)
		l.unlock(next)
	})
}
