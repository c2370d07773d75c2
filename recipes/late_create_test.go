package recipes_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/zktest"
)

// A client that was closed stayed in memory for up to an hour, if one of its creates had been lost: a timer was to look for what
// a slow server had made of it.
func TestNothingLooksForALateCreateOnceTheClientIsClosed(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Mutex()
		closed := func() weak.Pointer[session.Session] {
			c, err := recipes.Dial(t.Context(), recipes.Config{Servers: []string{"zk"}, Dialer: l.Srv.DialContext})
			require.NoError(t, err)
			lost := l.Srv.Inject(zktest.Once(zktest.On("create")), zktest.CutBefore)
			x := l.Lock(c.Mutex("/m").Lock)
			require.Equal(t, 1, lost.Hits())
			lost.Remove()
			l.Unlock(x)
			require.NoError(t, c.Close())
			return weak.Make(x.Session())
		}()
		l.Settle()
		for range 5 {
			runtime.GC()
			synctest.Wait()
		}
		require.True(t, closed.Value() == nil, "something still refers to the session")
	})
}
