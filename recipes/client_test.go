package recipes_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// Close reports, and logs, only a server that does not confirm, and how long Close waited for it.
func TestCloseNamesOnlyAServerThatDoesNotConfirm(t *testing.T) {
	for name, test := range map[string]struct {
		held   bool
		waited string // "": the server confirms
	}{
		"confirmed":                         {},
		"something held, and confirmed":     {held: true},
		"nothing held, and not confirmed":   {waited: "1s"},
		"something held, and not confirmed": {held: true, waited: "12s"},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			var warnings atomic.Int32
			c := l.Client("a", func(cfg *recipes.Config) {
				cfg.Logger = slog.New(handler(func(line slog.Record) {
					if line.Level >= slog.LevelWarn {
						warnings.Add(1)
					}
				}))
			})
			if test.held {
				l.Lock(c.Mutex(l.Mutex()).Lock)
			}
			if test.waited == "" {
				require.NoError(t, c.Close())
				require.Zero(t, warnings.Load())
				l.Refused(c.Mutex("/m").Lock, recipes.ErrClosed)
				return
			}
			l.Srv.Inject(zktest.On("closeSession"), zktest.DropRequest)
			err := c.Close()
			require.ErrorContains(t, err, "zk:2181: ")
			require.ErrorContains(t, err, "did not confirm the end of the session within "+test.waited+")")
			require.Equal(t, 1, strings.Count(err.Error(), "2181"))
			require.EqualValues(t, 1, warnings.Load())
		})
	}
}

// inSession gives f the session of a client, and a node /a.
func inSession(t *testing.T, f func(t *testing.T, l *lab, c *recipes.Client, s *direct.Session)) {
	inLab(t, func(t *testing.T, l *lab) {
		require.NoError(t, l.Srv.Create("/a", []byte("1")))
		c := l.Client("a")
		s := l.session(c)
		f(t, l, c, s)
	})
}

func TestAProgramsOwnOperationsUseTheLocksSession(t *testing.T) {
	inSession(t, func(t *testing.T, l *lab, _ *recipes.Client, s *direct.Session) {
		ctx := t.Context()
		path := must(s.Create(ctx, "/a/n-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll)))(t)
		require.Equal(t, "/a/n-0000000000", path)
		stat := must(s.Set(ctx, path, []byte("x"), 0))(t)
		require.Equal(t, s.ID(), stat.EphemeralOwner)
		_, err := s.SetACL(ctx, path, zk.WorldACL(zk.PermAll&^zk.PermWrite), 0)
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
		stat = must(s.Exists(ctx, path))(t)
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
			stat := must(ahead.Exists(t.Context(), node.path))(t)
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

// farContext is a context of another package. It counts the functions that it still has to call at its end.
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

// A program that follows a node for as long as it runs has one context for all its watches.
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

// keeper answers a connect request as ClickHouse Keeper does: the session has a password of zeros.
var keeper = hostile.Saying(hostile.Frame(hostile.Cat(hostile.Be32(0), hostile.Be32(9000), hostile.Be64(7), hostile.Be32(16), make([]byte, 16))...))

func TestAKeeperIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		cfg := recipes.Config{Servers: []string{"zk"}, ConnectTimeout: time.Hour, Dialer: func(context.Context, string, string) (net.Conn, error) {
			dials++ // one attempt at a time
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				keeper(theirs)
			}()
			return ours, nil
		}}
		const says = "recipes: zk:2181 is a ClickHouse Keeper, whose sessions end with their connection, " +
			"so a lock there cannot survive a reconnect; locktree needs Apache ZooKeeper: name its servers instead"
		began := time.Now()
		_, err := recipes.Dial(t.Context(), cfg)
		require.EqualError(t, err, says)
		require.Equal(t, 1, dials)

		cfg.Lazy = true
		c, err := recipes.Dial(t.Context(), cfg)
		require.NoError(t, err)
		calls := reentry(c)
		calls["Session"] = func(ctx context.Context) (*recipes.Lease, error) { _, err := c.Session(ctx); return nil, err }
		calls["Lead"] = func(ctx context.Context) (*recipes.Lease, error) { return nil, c.Election("/e").Lead(ctx, nil) }
		calls["a set of keys"] = locked(c.Keyed("/k"), "a", "b")
		for name, call := range calls {
			dials = 0
			_, err := call(t.Context())
			require.ErrorContains(t, err, "zk:2181 is a ClickHouse Keeper", name)
			require.NotErrorIs(t, err, recipes.ErrUnreachable, name)
			require.False(t, recipes.Retryable(err), name)
			most := 1
			if strings.HasSuffix(name, "try") { // a Try begins to dial before it asks for the session, which may be over by then
				most = 2
			}
			require.LessOrEqual(t, dials, most, name)
		}
		require.Zero(t, time.Since(began))
		dials = 0
		time.Sleep(3 * time.Hour)
		require.Zero(t, dials, "none behind its callers' backs")
		require.NoError(t, c.Close())
	})
}

// lazy makes a lazy client while no server can be reached.
func (l *lab) lazy(change ...func(*recipes.Config)) *recipes.Client {
	l.T.Helper()
	l.Srv.RefuseDials(true)
	return l.Client("a", append(change, func(cfg *recipes.Config) { cfg.Lazy = true })...)
}

func TestALazyClientConnectsWhenItIsFirstUsed(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		never := l.lazy()
		require.NoError(t, never.Close())
		l.Refused(never.Mutex("/m").TryLock, recipes.ErrClosed)
		_, err := recipes.Dial(t.Context(), recipes.Config{Servers: []string{"zk/chroot"}, Lazy: true})
		require.ErrorContains(t, err, "chroot")
		seen := newTally()
		start := time.Now()
		c := l.lazy(func(cfg *recipes.Config) { cfg.Observer = seen.Observe })
		require.Zero(t, time.Since(start))
		require.Equal(t, "world:anyone:", c.Identities().String())
		require.NoError(t, c.SetServers([]string{"zk"}))
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(t, seen.told, "there was no session to tell of")
		for name, try := range tries(c) {
			start := time.Now()
			err := l.Refused(try, recipes.ErrUnreachable, name)
			require.ErrorContains(t, err, "zk:2181: connection refused", name)
			require.Equal(t, sixth, time.Since(start), name)
			time.Sleep(time.Minute)
		}
		err = l.Refused(bounded(time.Second, c.Mutex("/m").Lock), recipes.ErrUnreachable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		waits := l.Waiting(c.Mutex("/m").Lock)
		time.Sleep(time.Minute)
		notYet(t, waits, "nobody is there")
		l.Srv.RefuseDials(false)
		l.Unlock(l.Got(waits))
	})
}

// A lazy client said "unreachable" to a call whose context had ended beforehand, although nothing had tried to reach a server.
func TestAnEndedContextSendsNothing(t *testing.T) { // case 7: pre-cancelled ctx on a free lock (matrixone #25790)
	for name, lazy := range map[string]bool{"lazy client": true, "client": false} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.EveryKind()
			c := l.Client("a", func(cfg *recipes.Config) { cfg.Lazy = lazy })
			ctx, stop := context.WithCancel(t.Context())
			stop()
			l.Srv.ResetCounts()
			for name, call := range reentry(c) {
				_, err := call(ctx)
				require.ErrorIs(t, err, context.Canceled, name)
				require.NotErrorIs(t, err, recipes.ErrUnreachable, name)
				require.Equal(t, "cancelled", recipes.ResultOf(err), name)
			}
			_, _, err := c.Election("/e").Leader(ctx)
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, recipes.ErrUnreachable)
			l.Settle()
			require.Zero(t, l.Srv.Counts().Total)
		})
	}
}

// watchesOn returns the number of watches, of all clients, on the server that c is connected to.
func watchesOn(t *testing.T, c *recipes.Client) (n int) {
	t.Helper()
	s := must(c.Live(t.Context()))(t)
	require.NoError(t, s.Aside(t.Context(), s.At(), []byte("mntr"), func(r io.Reader) error {
		text, err := io.ReadAll(r)
		_, count, _ := strings.Cut(string(text), "zk_watch_count\t")
		n, _ = strconv.Atoi(strings.Fields(count)[0])
		return err
	}))
	return n
}

// cycle takes a lock and gives it back.
func cycle(tb testing.TB, m *recipes.Mutex) {
	l, err := m.Lock(context.Background())
	if err == nil {
		err = l.Unlock(context.Background())
	}
	if err != nil {
		tb.Error(err)
	}
}

// useOnce takes 200 locks once each, while it holds another lock. It returns the number of watches on the server afterwards.
func useOnce(t *testing.T, c *recipes.Client, kept int) int {
	t.Helper()
	c.KeepDeclarations(kept)
	m := func(i int) *recipes.Mutex {
		return c.Mutex(fmt.Sprintf("/once/%03d", i), recipes.WithCreate(), recipes.WithParams(kind.Mutex.New()))
	}
	x := must(m(0).Lock(t.Context()))(t)
	for i := range 200 {
		cycle(t, m(1+i))
	}
	require.NoError(t, x.Verify(t.Context()), "and behind all requests before it")
	require.NoError(t, x.Unlock(t.Context()))
	return watchesOn(t, c)
}

// 100,000 locks that were used once left 100,000 watches on the server, and 13 MB in the client, until the connection ended.
func TestALockThatIsForgottenLeavesNoWatch(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		require.LessOrEqual(t, useOnce(t, c, 10), 11)
		require.LessOrEqual(t, len(c.Newest().Stats().Watches), 10)
	})
}

func TestRealServersForgetTheWatchesOfForgottenLocks(t *testing.T) {
	t.Parallel()
	srv := realzk.Start(t, realzk.Options{Config: map[string]string{"4lw.commands.whitelist": "*", "forceSync": "no"}})
	c := must(recipes.Dial(t.Context(), recipes.Config{Servers: []string{srv.Addr}, SessionTimeout: 40 * time.Second, ConnectTimeout: time.Minute}))(t)
	defer c.Close()
	require.LessOrEqual(t, useOnce(t, c, 10), 11)
}

// A kept declaration referred to the session in which it was read, so 27 kB stayed in memory until another declaration pushed it out.
func TestALostSessionIsFreed(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		var sessions []weak.Pointer[session.Session]
		for i := range 20 {
			path := fmt.Sprintf("/own/%d", i)
			l.Declare(path, kind.Mutex.New())
			require.NoError(t, c.Mutex(path).Do(t.Context(), func(_ context.Context, x *recipes.Lease) error { return x.Verify(t.Context()) }))
			s := must(c.Live(t.Context()))(t)
			sessions = append(sessions, weak.Make(s))
			l.Srv.Expire(s.ID())
			<-s.Done()
			l.Settle()
		}
		require.Zero(t, c.Declarations())
		alive := len(sessions)
		for round := 0; alive > 1 && round < 20; round++ { // for a moment, timers and the stacks of ended goroutines may refer to it
			time.Sleep(time.Second)
			runtime.GC()
			alive = 0
			for _, s := range sessions {
				if s.Value() != nil {
					alive++
				}
			}
		}
		require.LessOrEqual(t, alive, 1, "the newest, until there is another")
	})
}

// Each node that was held for longer than 100 ms had a goroutine, and with an Observer a second one.
func TestALockThatIsHeldHasNoGoroutineOfItsOwn(t *testing.T) {
	observed := func(cfg *recipes.Config) { cfg.Observer = func(recipes.Event) {} }
	strict := func(cfg *recipes.Config) { cfg.LoseOnSuspect = true }
	for name, change := range map[string]func(*recipes.Config){"plain": func(*recipes.Config) {}, "observed": observed, "lose on suspect": strict} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			const locks = 50
			c := l.Client("a", change)
			var leases []*recipes.Lease
			before := 0
			for i := range locks + 1 {
				path := fmt.Sprintf("/m%d", i)
				l.Declare(path, kind.Mutex.New())
				leases = append(leases, l.Lock(c.Mutex(path).Lock))
				if i == 0 { // the session has these in any case
					time.Sleep(time.Second)
					l.Settle()
					before = l.Goroutines()
				}
			}
			time.Sleep(time.Second)
			l.Settle()
			require.Less(t, l.Goroutines()-before, locks/2, "goroutines more for %d locks", locks)
			for _, x := range leases { // and yet each node is watched
				require.NoError(t, l.Srv.Delete(x.Node()))
				<-x.Context().Done()
			}
		})
	}
}
