package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

func TestASetIsGivenUpWhenSomethingHappensToAMemberItHasAlready(t *testing.T) {
	// The member is granted, the set still waits for another: nobody sleeps on the queue of the first.
	for name, c := range map[string]struct {
		do   func(l *lab)
		want error
	}{
		"asked back": {func(l *lab) { require.NoError(l.T, l.Srv.Set(l.Queue("/m")[0], []byte(kind.RevokeMessage))) }, recipes.ErrRevoked},
		"deleted":    {func(l *lab) { require.NoError(l.T, l.Srv.Delete(l.Queue("/m")[0])) }, recipes.ErrLost},
		"draining": {func(l *lab) {
			l.Declare("/m", kind.Mutex.New(), func(p *kind.Payload) { p.State = kind.StateDraining })
		}, recipes.ErrDraining},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.EveryKind()
			x := l.Lock(l.Client("holder").Election("/e").Campaign)
			w := l.Waiting(mixed(l.Client("a")).Lock)
			l.Settle() // the first look at four declarations takes its time
			notYet(t, w, "the election is not won")
			start := time.Now()
			c.do(l)
			r := <-w
			require.ErrorIs(t, r.Err, c.want)
			require.Less(t, r.At.Sub(start), time.Second, "told long after")
			require.NoError(t, x.Unlock(t.Context()))
			l.NothingLeft()
		})
	}
}

func TestASetIsRefusedByAFullQueueAndLeavesNothing(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		p := kind.Election.New().(*kind.ElectionParams)
		p.MaxWaiters = 1
		l.Declare("/e", p)
		l.Lock(l.Client("leader").Election("/e").Campaign)
		l.campaigning(l.Client("second"))
		l.Refused(mixed(l.Client("a")).Lock, recipes.ErrQueueFull)
		l.Settle()
		l.Empty("/m", "/s/leases", "/s/locks")
		require.Len(t, l.Children("/e"), 2)
	})
}

func TestTheDeadlineOfAMixedSetIsOneForAllMembers(t *testing.T) { // Curator gives each member the full timeout
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		holder := l.Client("holder")
		m := l.Lock(holder.Mutex("/m").Lock)
		s := l.Lock(holder.Election("/e").Campaign)
		ctx := l.Within(10 * time.Second)
		time.AfterFunc(8*time.Second, func() { _ = m.Unlock(context.Background()) })
		start := time.Now()
		_, err := mixed(l.Client("a")).Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		held := heldBy(t, err)
		require.Equal(t, "/e", held.Path, "the mutex came in time")
		require.Less(t, time.Since(start), 10*time.Second+50*time.Millisecond)
		l.Unlock(s)
		l.NothingLeft()
	})
}
