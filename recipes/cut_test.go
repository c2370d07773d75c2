package recipes_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

func TestASessionThatWasIdleGrantsInOneRoundTripAndForAWhile(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		l.warm(m)
		time.Sleep(time.Hour)
		start := time.Now()
		x := l.Lock(m.Lock)
		require.Equal(t, 2*oneWay, time.Since(start))
		require.Greater(t, time.Until(x.Deadline()), 4*time.Second, "of half a session timeout of 12 s")
		time.Sleep(time.Hour)
		require.NoError(t, x.Context().Err())
		require.Greater(t, time.Until(x.Deadline()), 3*time.Second, "heartbeats move the deadline on")
		l.Unlock(x)
	})
}

func TestASearchIgnoresANodeOfAnotherSession(t *testing.T) { // case 2, 49: CURATOR-498; kazoo adopts it
	inLab(t, func(t *testing.T, l *lab) {
		c, other := l.Client("a"), l.Client("b")
		m := c.Mutex(l.Mutex())
		l.warm(m)
		s := l.live(c)
		ks, err := m.Contenders(t.Context(), s, 1)
		require.NoError(t, err)
		theirs := l.session(other)
		_, err = theirs.Create(t.Context(), kind.JoinPath("/m", ks[0].Prefix), nil, 3, openACL)
		require.NoError(t, err)
		name, err := recipes.Find(t.Context(), s, ks[0])
		require.NoError(t, err)
		require.Empty(t, name)
	})
}
