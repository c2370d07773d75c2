package recipes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// hide makes the server one of 3.8.4 and later (ZOOKEEPER-2590) for what is below a path: exists is refused, until
// shown is called. Such a server answers of a node that is gone, so shown goes with a deletion.
func (l *lab) hide(path string) (shown func()) {
	in := l.Srv.Inject(func(r zktest.Request) bool {
		return r.Op == "exists" && strings.HasPrefix(r.Path, path)
	}, zktest.Fail(zktest.CodeNoAuth))
	return in.Remove
}

// A refused exists was taken for the end of the lease.
func TestALeaseWhoseNodeIsHiddenFromItsHolderIsKept(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		beats := l.unreadable(c)
		shown := l.hide("/m/")
		x := l.Lock(c.Mutex("/m").Lock)
		require.NotZero(t, x.Token(), "the reply to the create tells")
		time.Sleep(5 * time.Minute)
		require.NoError(t, context.Cause(x.Context()))
		l.Unlock(x)

		x = l.Lock(c.Mutex("/m").Lock)
		shown()
		require.NoError(t, l.Srv.Delete(x.Node()))
		<-x.Context().Done()
		require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
		l.Unlock(beats)
	})
}

// Whether the create was applied was asked for ever, and its node blocked the queue. Now it is known, and as the grant
// cannot be proven by a heartbeat on a node that may not be read, it ends there.
func TestALostReplyIsResolvedWhereOurNodeIsHidden(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		beats := l.unreadable(c)
		l.hide("/m/")
		l.warm(c.Mutex("/m"))
		lost := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool {
			return strings.HasPrefix(r.Path, "/m/") && (r.Op == "multi" || r.Op == "create")
		}), zktest.DropReply)
		l.Refused(c.Mutex("/m").Lock, session.ErrCannotHeartbeat)
		require.Equal(t, 1, lost.Hits())
		time.Sleep(time.Second) // it is taken away in the background
		l.Empty("/m")
		l.Unlock(beats)
	})
}

func TestInspectNamesAContenderThatIsHidden(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		beats := l.unreadable(c)
		l.hide("/m/")
		x := l.Lock(c.Mutex("/m").Lock)
		in := l.look(l.Client("who"), "/m")
		require.Len(t, in.Holders, 1)
		require.Equal(t, x.Node(), in.Holders[0].Path)
		require.Zero(t, in.Holders[0].Session)
		l.Unlock(x)
		l.Unlock(beats)
	})
}

// A node above that is not ours to read is there all the same. Who may not create beside it is told NoAuth, whether or
// not it exists.
func TestWithCreateBelowANodeThatIsHidden(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		require.NoError(t, l.Srv.Create("/theirs", nil))
		c := l.Client("a")
		s := l.live(c)
		_, err := s.SetACL(t.Context(), "/", zk.WorldACL(zk.PermRead), -1)
		require.NoError(t, err)
		hidden := l.Srv.Inject(func(r zktest.Request) bool { return r.Op == "exists" && r.Path == "/theirs" }, zktest.Fail(zktest.CodeNoAuth))
		x := l.Lock(c.Mutex("/theirs/a/m", recipes.WithParams(kind.Mutex.New()), recipes.WithCreate()).Lock)
		require.Zero(t, hidden.Hits(), "asked for only when its own creation is refused")
		require.NoError(t, recipes.CreateNode(t.Context(), s, "/theirs", zk.WorldACL(zk.PermAll)))
		require.Equal(t, 1, hidden.Hits())
		l.Unlock(x)
	})
}
