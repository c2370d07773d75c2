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
		"asked back": {func(l *lab) { require.NoError(l.t, l.srv.Set(l.queue("/m")[0], []byte(kind.RevokeMessage))) }, recipes.ErrRevoked},
		"deleted":    {func(l *lab) { require.NoError(l.t, l.srv.Delete(l.queue("/m")[0])) }, recipes.ErrLost},
		"draining": {func(l *lab) {
			l.declare("/m", kind.Mutex.New(), func(p *kind.Payload) { p.State = kind.StateDraining })
		}, recipes.ErrDraining},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				l.everyKind()
				x, err := l.client("holder").Election("/e").Campaign(t.Context())
				require.NoError(t, err)
				w := l.locker(mixed(l.client("a")).Lock)
				l.settle() // the first look at four declarations takes its time
				notYet(t, w, "the election is not won")
				start := time.Now()
				c.do(l)
				r := <-w
				require.ErrorIs(t, r.err, c.want)
				require.Less(t, r.at.Sub(start), time.Second, "told long after")
				require.NoError(t, x.Unlock(t.Context()))
				l.nothingLeft()
			})
		})
	}
}

func TestASetIsRefusedByAFullQueueAndLeavesNothing(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.everyKind()
		p := kind.Election.New().(*kind.ElectionParams)
		p.MaxWaiters = 1
		l.declare("/e", p)
		_, err := l.client("leader").Election("/e").Campaign(t.Context())
		require.NoError(t, err)
		l.campaigning(l.client("second"))
		_, err = mixed(l.client("a")).Lock(t.Context())
		require.ErrorIs(t, err, recipes.ErrQueueFull)
		l.settle()
		require.Empty(t, l.children("/m"))
		require.Empty(t, l.children("/s/leases"))
		require.Empty(t, l.children("/s/locks"))
		require.Len(t, l.children("/e"), 2)
	})
}

func TestTheDeadlineOfAMixedSetIsOneForAllMembers(t *testing.T) { // Curator gives each member the full timeout
	inLab(t, func(t *testing.T, l *lab) {
		l.everyKind()
		holder := l.client("holder")
		m, err := holder.Mutex("/m").Lock(t.Context())
		require.NoError(t, err)
		s, err := holder.Election("/e").Campaign(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		time.AfterFunc(8*time.Second, func() { _ = m.Unlock(context.Background()) })
		start := time.Now()
		_, err = mixed(l.client("a")).Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var held *recipes.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, "/e", held.Path, "the mutex came in time")
		require.Less(t, time.Since(start), 10*time.Second+50*time.Millisecond)
		l.unlock(s)
		l.nothingLeft()
	})
}
