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
				tried <- turns.Enter(context.Background(), "k", "a", true) == nil
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
		path := l.Mutex()
		held := l.Lock(l.Client("holder").Mutex(path).Lock)
		c := l.Client("c")
		m := c.Mutex(path)
		first, cancel := l.Leaving(m.Lock)
		slow := l.Srv.Inject(zktest.On("delete"), zktest.Delay(2*time.Second))
		cancel()
		require.ErrorIs(t, (<-first).Err, context.Canceled)
		second, third := l.Locking(m), l.Locking(m)
		time.Sleep(3 * time.Second)
		l.Settle()
		slow.Remove()
		require.Len(t, l.Children(path), 2, "one client, two contenders")
		l.Unlock(held)
		l.Unlock((<-second).V)
		l.Unlock((<-third).V)
	})
}

// Who waited for the turn gives up while its successor's place is being made: that place was met as a rival.
func TestATryDuringAHandOffIsNotRefusedByThePlaceHandedOn(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("c")
		m := c.Mutex(l.Mutex())
		x := l.Lock(m.Lock)
		waiting, cancel := l.Leaving(m.Lock)
		slow := l.Srv.Inject(zktest.Once(zktest.On("delete")), zktest.Delay(time.Second))
		unlocked := async(func() (any, error) { return nil, x.Unlock(t.Context()) })
		synctest.Wait()
		cancel()
		require.ErrorIs(t, (<-waiting).Err, context.Canceled)
		<-slow.Hit()
		next := l.Lock(m.TryLock)
		require.NoError(t, (<-unlocked).Err)
		l.Unlock(next)
	})
}
