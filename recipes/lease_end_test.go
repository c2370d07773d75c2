package recipes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
)

// Deadline moved on with the session of a lease that had been given back, or lost by itself.
func TestTheDeadlineOfALeaseThatHasEndedIsPast(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way recipeWay) {
		c := l.client("a")
		held, err := c.Mutex("/other", WithParams(kind.Mutex.New()), WithCreate()).Lock(t.Context())
		require.NoError(t, err)
		end := map[string]func(*Lease){
			"released": func(x *Lease) { l.unlock(x) },
			"lost":     func(x *Lease) { require.NoError(t, l.srv.Delete(x.Node())) },
		}
		for how, end := range end {
			x, err := way.take(c)(t.Context())
			require.NoError(t, err)
			require.True(t, time.Now().Before(x.Deadline()))
			end(x)
			<-ended(x)
			over := time.Now()
			time.Sleep(time.Minute)
			require.NoError(t, held.Verify(t.Context()), "the session lives on")
			require.False(t, x.Deadline().After(over), how)
		}
	})
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").RWMutex(l.rwlock())
		x, err := m.RLock(t.Context())
		require.NoError(t, err)
		y, err := m.RLock(t.Context())
		require.NoError(t, err)
		l.unlock(x)
		over := time.Now()
		time.Sleep(time.Minute)
		require.False(t, x.Deadline().After(over), "of one share")
		require.True(t, y.Deadline().After(over), "and not of the other")
	})
}
