package recipes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/once"
	"github.com/locktree/locktree/recipes/zktest"
)

// A lost lease said "recipes:" three times.
func TestAnErrorHasOnePrefix(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		l.Declare("/job", kind.Once.New())
		c := l.Client("a")
		o := once.New(c, "/job")
		var job []error
		for _, code := range []zktest.Code{zktest.CodeNoAuth, zktest.CodeNoNode} {
			hold := l.Srv.Inject(func(r zktest.Request) bool { return strings.HasSuffix(r.Path, "once-record") }, zktest.Fail(code))
			job = append(job, o.Skip(t.Context(), "b"))
			hold.Remove()
		}
		start, err := o.Start(t.Context(), "a")
		require.NoError(t, err)
		m := c.Mutex("/m")
		x := l.Lock(m.Lock)
		y := l.Lock(c.RWMutex("/rw").Lock)
		s := l.session(c)
		l.Srv.Expire(x.SessionID())
		<-x.Context().Done()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, recipes.ErrQueueFull)
		defer cancel()
		_, _, get := s.Get(t.Context(), "/m")
		errs := []error{context.Cause(x.Context()), x.Verify(t.Context()), x.Unlock(t.Context()), get}
		l.Srv.RefuseDials(true)
		_, try := m.TryLock(t.Context())
		_, _, leader := c.Election("/e").Leader(ctx)
		_, waited := m.Lock(ctx)
		ended := start.End(ctx, nil)
		_, wrong := c.Mutex("/m", recipes.WithParams(kind.RWLock.New())).Lock(t.Context())
		require.NoError(t, c.Close())
		_, closed := m.Lock(t.Context())
		_, session := c.Session(t.Context())
		for _, err := range append(append(errs, job...), try, leader, waited, ended, wrong, y.Unlock(t.Context()), closed, session) {
			require.Error(t, err)
			require.Equal(t, 1, strings.Count(err.Error(), "recipes: "), err)
		}
	})
}
