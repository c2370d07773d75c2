package recipes_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// lives reports whether the server knows a session.
func (l *lab) lives(id int64) bool {
	return slices.ContainsFunc(l.Srv.Sessions(), func(s zktest.Session) bool { return s.ID == id })
}

// cut keeps one client from the server until its session is lost.
func (l *lab) cut(c *recipes.Client) {
	s := c.Newest()
	l.CutOff(s.ID())
	<-s.Done()
	l.Settle()
	l.Srv.RefuseDials(false)
}

// To close a session is to resume it: tries that do not succeed must not keep it alive. One node that is gone, or may not be
// deleted, keeps none of the others.
func TestALostSessionThatCannotBeClosedIsNotKeptAliveForLong(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.declareAll(3)
		a := l.Client("a")
		id := l.SessionID(a)
		for i := range 3 {
			x := l.Lock(takers["mutex"](a, i))
			context.AfterFunc(x.Context(), func() { _ = x.Unlock(context.Background()) })
		}
		var tries []time.Time
		l.Srv.Inject(func(r zktest.Request) bool {
			if r.Op == "connect" && r.Session == id {
				tries = append(tries, time.Now())
			}
			return r.Op == "closeSession" && r.Session == 0 // read before the connect request in front of it is answered
		}, zktest.CutBefore)
		refused := l.Queue("/m1")[0]
		l.Srv.Inject(func(r zktest.Request) bool { return slices.Contains(r.Paths, refused) }, zktest.Fail(zktest.CodeNoAuth))
		require.NoError(t, l.Srv.Delete(l.Queue("/m0")[0]))
		l.cut(a)
		tries = nil
		began := time.Now()
		_ = l.session(a)
		require.Less(t, time.Since(began), 3*time.Second)
		l.Empty("/m0")
		require.Len(t, l.Children("/m1"), 1)
		require.Empty(t, l.Children("/m2"), "before the session is handed out")
		require.True(t, l.lives(id), "the scenario needs a session that cannot be closed")
		time.Sleep(12*time.Second + 4*time.Second + 2*2*time.Second)
		require.False(t, l.lives(id), "a session timeout for the tries, and the shortest there is behind the last")
		require.Greater(t, len(tries), 1)
		require.LessOrEqual(t, tries[len(tries)-1].Sub(tries[0]), 12*time.Second)
		n := len(tries)
		time.Sleep(time.Minute)
		require.Len(t, tries, n)
		l.nextIsServed("/m1")
	})
}

// A server thread stood still with a create, and executed it when its client had a new session.
func TestALateCreateOfALostSessionIsRefused(t *testing.T) {
	for name, take := range takers {
		runInLab(t, name, func(t *testing.T, l *lab) {
			queues := l.declareAll(1)
			a := l.Client("a")
			l.read(take, a)
			id := l.SessionID(a)
			l.Srv.Inject(zktest.Once(zktest.On("create", "multi")), zktest.DelayReader(11500*time.Millisecond))
			ctx := l.Within(time.Second)
			_, err := take(a, 0)(ctx)
			require.Error(t, err)
			l.cut(a)
			x, err := again(take, a)
			require.NoError(t, err)
			l.Unlock(x)
			l.Settle()
			require.False(t, l.lives(id))
			for range 100 {
				time.Sleep(100 * time.Millisecond)
				l.Empty(queues...)
			}
		})
	}
}

func TestSeveralLostSessionsAreRememberedUntilEachIsClosed(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.declareAll(4)
		a := l.Client("a")
		var held []*recipes.Lease
		var lost []int64
		for i := range 3 {
			lost = append(lost, l.SessionID(a))
			x := l.Lock(takers["mutex"](a, i))
			held = append(held, x)
			l.cut(a)
		}
		now := l.SessionID(a)
		l.Settle()
		require.True(t, l.lives(lost[2]), "it is held")
		for i := range 3 {
			require.ErrorIs(t, held[i].Unlock(t.Context()), recipes.ErrLost)
			l.Settle()
			require.False(t, l.lives(lost[i]))
			require.Empty(t, l.Children(fmt.Sprint("/m", i)))
		}
		require.Equal(t, now, l.SessionID(a))
		require.Empty(t, a.Leftovers())
	})
}

// The first request that the recipes send in the new session is the one that deletes: a Try would meet its own ghost.
func TestATryAfterAnOutageDoesNotMeetItsOwnGhost(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		a := l.Client("a")
		m := a.Mutex(l.Mutex())
		x := l.Lock(m.Lock)
		context.AfterFunc(x.Context(), func() { _ = x.Unlock(context.Background()) })
		l.cut(a)
		l.Srv.ResetCounts()
		l.Unlock(l.Lock(m.TryLock))
	})
}
