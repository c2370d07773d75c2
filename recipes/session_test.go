package recipes_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/zktest"
)

// inSession gives f the session of a client, and a node /a.
func inSession(t *testing.T, f func(t *testing.T, l *lab, c *recipes.Client, s *direct.Session)) {
	inLab(t, func(t *testing.T, l *lab) {
		require.NoError(t, l.Srv.Create("/a", []byte("1")))
		c := l.Client("a")
		s := l.session(c)
		f(t, l, c, s)
	})
}

func TestOperationsOfAProgramsOwn(t *testing.T) {
	inSession(t, func(t *testing.T, l *lab, _ *recipes.Client, s *direct.Session) {
		ctx := t.Context()
		path, err := s.Create(ctx, "/a/n-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		require.Equal(t, "/a/n-0000000000", path)
		stat, err := s.Set(ctx, path, []byte("x"), 0)
		require.NoError(t, err)
		require.Equal(t, s.ID(), stat.EphemeralOwner)
		_, err = s.SetACL(ctx, path, zk.WorldACL(zk.PermAll&^zk.PermWrite), 0)
		require.NoError(t, err)
		acl, _, err := s.GetACL(ctx, path)
		require.NoError(t, err)
		require.Equal(t, zk.WorldACL(zk.PermAll&^zk.PermWrite), acl)
		names, _, err := s.Children(ctx, "/a")
		require.NoError(t, err)
		require.Equal(t, []string{"n-0000000000"}, names)
		results, err := s.Multi(ctx, &zk.SetDataRequest{Path: "/a", Version: -1}, &zk.DeleteRequest{Path: path, Version: 7})
		require.ErrorIs(t, err, zk.ErrBadVersion)
		require.Len(t, results, 2)
		var failed *direct.OpError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, path, failed.Path)
		require.Equal(t, direct.OutcomeDefinite, failed.Outcome)
		require.NoError(t, s.Delete(ctx, path, -1))
		require.NoError(t, s.Sync(ctx, "/"))
		stat, err = s.Exists(ctx, path)
		require.NoError(t, err)
		require.Nil(t, stat)

		_, err = s.Set(ctx, "/a", make([]byte, 1<<20), -1)
		require.ErrorIs(t, err, recipes.ErrTooLarge)
		require.ErrorAs(t, err, &failed)
		require.Equal(t, direct.OutcomeNotSent, failed.Outcome)
		l.Srv.Inject(zktest.Once(zktest.On("setData")), zktest.LoseReply)
		ended, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = s.Set(ended, "/a", []byte("2"), -1)
		require.ErrorAs(t, err, &failed)
		require.Equal(t, direct.OutcomeUnknown, failed.Outcome)
	})
}

func TestReadsOfAProgramAreSentTogether(t *testing.T) {
	inSession(t, func(t *testing.T, l *lab, _ *recipes.Client, s *direct.Session) {
		began := time.Now()
		ahead := s.ReadAhead(t.Context(), direct.Reads{Get: []string{"/a"}, GetACL: []string{"/a"}, Exists: []string{"/a", "/none"}})
		for _, node := range []struct {
			path   string
			exists bool
		}{{"/a", true}, {"/none", false}} {
			stat, err := ahead.Exists(t.Context(), node.path)
			require.NoError(t, err)
			require.Equal(t, node.exists, stat != nil)
		}
		acl, _, err := ahead.GetACL(t.Context(), "/a")
		require.NoError(t, err)
		require.Equal(t, openACL, acl)
		data, _, err := ahead.Get(t.Context(), "/a")
		require.NoError(t, err)
		require.Equal(t, "1", string(data))
		require.Equal(t, 2*oneWay, time.Since(began))

		require.NoError(t, l.Srv.Set("/a", []byte("2")))
		data, _, err = ahead.Get(t.Context(), "/a")
		require.NoError(t, err)
		require.Equal(t, "2", string(data), "an answer is given once")
	})
}

// farContext is a context of another package, which tells how many calls it owes at its end.
type farContext struct {
	context.Context
	done chan struct{}
	owes atomic.Int32
}

func (c *farContext) Done() <-chan struct{} { return c.done }
func (c *farContext) AfterFunc(func()) (stop func() bool) {
	c.owes.Add(1)
	var once atomic.Bool
	return func() bool {
		if !once.Swap(true) {
			c.owes.Add(-1)
		}
		return true
	}
}

// A program that follows a node as long as it runs has one context for all its watches.
func TestAWatchThatHasFiredLeavesNothing(t *testing.T) {
	inSession(t, func(t *testing.T, l *lab, c *recipes.Client, s *direct.Session) {
		ctx := &farContext{Context: t.Context(), done: make(chan struct{})}
		for range 10 {
			_, stat, data, err := s.GetW(ctx, "/a")
			require.NoError(t, err)
			_, _, list, err := s.ChildrenW(ctx, "/a")
			require.NoError(t, err)
			require.EqualValues(t, 2, ctx.owes.Load())
			require.NoError(t, l.Srv.Set("/a", nil))
			<-data
			synctest.Wait()
			require.Len(t, c.Newest().Stats().Watches, 1, "that of the list")
			require.NoError(t, l.Srv.Create("/a/b", nil))
			require.NoError(t, l.Srv.Delete("/a/b"))
			<-list
			synctest.Wait()
			require.Empty(t, c.Newest().Stats().Watches)
			require.Zero(t, ctx.owes.Load())
			require.NotZero(t, stat.Mzxid)
		}
		_, _, changed, err := s.GetW(ctx, "/none")
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.Nil(t, changed)
		require.Zero(t, ctx.owes.Load())
	})
}

func TestAWatchEndsWithItsContextOrItsSession(t *testing.T) {
	inSession(t, func(t *testing.T, l *lab, c *recipes.Client, s *direct.Session) {
		ctx, cancel := context.WithCancel(t.Context())
		_, _, changed, err := s.GetW(ctx, "/a")
		require.NoError(t, err)
		cancel()
		<-changed
		synctest.Wait()
		require.Empty(t, c.Newest().Stats().Watches)

		_, _, changed, err = s.GetW(t.Context(), "/a")
		require.NoError(t, err)
		l.Srv.Expire(s.ID())
		<-changed
		<-s.Done()
		_, _, err = s.Get(t.Context(), "/a")
		require.ErrorIs(t, err, recipes.ErrSessionLost)
		next := l.session(c)
		require.NotEqual(t, s.ID(), next.ID())
	})
}
