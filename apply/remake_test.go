package apply_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// curator is a program that makes lock nodes as Curator does: as containers.
type curator struct {
	t    *testing.T
	conn *zk.Conn
}

func (s *site) curator(t *testing.T) *curator {
	conn, events, err := zk.Connect([]string{"127.0.0.1:2181"}, 10*time.Second, zk.WithLogInfo(false), zk.WithDialer(s.server.Dialer()))
	require.NoError(t, err)
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	require.NoError(t, conn.AddAuth("digest", []byte("worker:w")))
	t.Cleanup(conn.Close)
	return &curator{t, conn}
}

// enter queues in a directory, and makes it if it is not there: CreateBuilder.creatingParentContainersIfNeeded.
func (c *curator) enter(dir, name string) (string, error) {
	for {
		at, err := c.conn.Create(dir+"/"+name, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		if !errors.Is(err, zk.ErrNoNode) {
			return at, err
		}
		for i := range dir {
			if i > 0 && dir[i] == '/' {
				_, _ = c.conn.CreateContainer(dir[:i], nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
			}
		}
		_, _ = c.conn.CreateContainer(dir, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
	}
}

func (c *curator) leave(at string) { require.NoError(c.t, c.conn.Delete(at, -1)) }

const mutexName = "_c_01234567-89ab-cdef-0123-456789abcdef-lock-"

// busy adopts a lock that a program of Curator's is in.
func (s *site) busy(t *testing.T, k *kind.Kind, dir, name string) (x *applying, tree *plan.Tree, n *plan.Node, c *curator, at string) {
	c = s.curator(t)
	at, err := c.enter(s.root+"/solo"+dir, name)
	require.NoError(t, err)
	if k == kind.Semaphore {
		_, err = c.conn.CreateContainer(s.root+"/solo/locks", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	tree = s.tree(declare("/solo", k))
	n = tree.Nodes[0]
	tree.Intent.Imports = []plan.Import{{To: n.Addr, Path: n.Path}}
	me := s.provisioner()
	x = executor(me)
	p := s.plan(me, tree)
	require.True(t, mayVanish(p), p.String())
	require.NoError(t, runPlan(t, x, p))
	require.True(t, mayVanish(s.plan(me, tree)))
	return x, tree, n, c, at
}

func runPlan(t *testing.T, x *applying, p *plan.Plan) error {
	_, err := x.Run(t.Context(), p)
	return err
}

// mayVanish reports whether the plan still warns of a container.
func mayVanish(p *plan.Plan) bool {
	return slices.ContainsFunc(p.Problems, func(q plan.Problem) bool { return q.Code == plan.ProblemContainer })
}

// A Curator container that was taken over while it was in use was deleted with its declaration, and programs of this library
// got "lock not provisioned".
func TestBusyContainerIsMadeAnewInTheInstantTheLastOneLeaves(t *testing.T) {
	for _, c := range []struct {
		k         *kind.Kind
		dir, name string
	}{{kind.Mutex, "", mutexName}, {kind.Semaphore, "/leases", "lease-"}} {
		synctest.Test(t, func(t *testing.T) {
			s := inMemory(t)
			x, tree, n, java, at := s.busy(t, c.k, c.dir, c.name)
			var left time.Time
			var programs sync.WaitGroup
			programs.Go(func() {
				time.Sleep(7*time.Minute + 300*time.Millisecond)
				left = time.Now()
				java.leave(at)
			})
			require.NoError(t, x.applier().Remake(t.Context(), tree, n, 10*time.Minute))
			programs.Wait()
			require.Equal(t, left, time.Now(), "at once, not at the next look")
			p := s.plan(s.provisioner(), tree)
			require.False(t, mayVanish(p), p.String())
			require.False(t, p.HasChanges(), p.String())
			_, err := java.enter(n.Path+c.dir, c.name) // who comes next finds it
			require.NoError(t, err)
			require.NoError(t, java.conn.Delete(mustOnly(t, java, n.Path+c.dir), -1))
			time.Sleep(5 * time.Minute)
			_, there := s.server.Get(n.Path)
			require.True(t, there, "the servers delete a container within a minute")
		})
	}
}

func mustOnly(t *testing.T, c *curator, dir string) string {
	names, _, err := c.conn.Children(dir)
	require.NoError(t, err)
	require.Len(t, names, 1)
	return dir + "/" + names[0]
}

// What is waited for must not be paid for by the request.
func TestWaitForABusyContainerCostsNothingWhileNothingHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t)
		x, tree, n, java, at := s.busy(t, kind.Mutex, "", mutexName)
		waiters := []string{at}
		for range 20 {
			next, err := java.enter(n.Path, mutexName)
			require.NoError(t, err)
			waiters = append(waiters, next)
		}
		var programs sync.WaitGroup
		programs.Go(func() {
			for _, at := range waiters {
				time.Sleep(20*time.Second + time.Millisecond) // the servers look for empty containers at each full minute
				java.leave(at)
			}
		})
		s.server.ResetCounts()
		require.NoError(t, x.applier().Remake(t.Context(), tree, n, 10*time.Minute))
		programs.Wait()
		counts := s.server.Counts()
		require.LessOrEqual(t, counts.ByOp["getChildren2"]+counts.ByOp["getChildren"]+counts.ByOp["getData"], 12, "%v", counts.ByOp)
	})
}

// Two programs that always follow each other leave an instant, at best. The node exists in each of them.
func TestContainerOfAQuickLockIsMadeAnewWithoutAMomentWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t, zktest.WithReapInterval(time.Second))
		x, tree, n, java, at := s.busy(t, kind.Mutex, "", mutexName)
		var programs sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for i := range 3 {
			programs.Go(func() {
				mine, err := at, error(nil)
				if i > 0 {
					mine, err = java.conn.Create(n.Path+"/"+mutexName, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
				}
				for ctx.Err() == nil {
					assert.NoError(t, err, "somebody found no lock")
					time.Sleep(time.Duration(7+i) * time.Millisecond)
					java.leave(mine)
					time.Sleep(time.Duration(1+i) * 3 * time.Millisecond)
					mine, err = java.conn.Create(n.Path+"/"+mutexName, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
				}
			})
		}
		require.NoError(t, x.applier().Remake(t.Context(), tree, n, time.Minute))
		stop()
		programs.Wait()
		require.False(t, mayVanish(s.plan(s.provisioner(), tree)))
	})
}

// Nobody else can apply while one waits: it took ten minutes.
func TestWaitForABusyContainerKeepsNoOtherApplyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t)
		x, tree, n, java, at := s.busy(t, kind.Mutex, "", mutexName)
		ended := make(chan error, 1)
		go func() { ended <- x.applier().Remake(t.Context(), tree, n, 10*time.Minute) }()
		synctest.Wait()
		more := s.tree(declare("/solo", kind.Mutex, func(n *plan.Node) { n.Payload.Protect = true }), declare("/other", kind.Mutex))
		s.apply(s.provisioner(), more)
		java.leave(at)
		require.NoError(t, <-ended)
		p := s.plan(s.provisioner(), more)
		require.False(t, p.HasChanges(), "what the other apply wrote is kept: %s", p)
		require.False(t, mayVanish(p), p.String())
	})
}

// However the wait ends, the lock is as it was, and who waits is told who is in it.
func TestWaitForABusyContainerThatEndsLeavesTheLockAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t)
		x, tree, n, _, _ := s.busy(t, kind.Mutex, "", mutexName)
		me := s.provisioner()
		s.unchanged(me, func() {
			var used *apply.InUseError
			require.ErrorAs(t, x.applier().Remake(t.Context(), tree, n, time.Minute), &used)
			require.Len(t, used.Usage.Holders, 1)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("interrupted"))
			defer cancel()
			require.EqualError(t, x.applier().Remake(ctx, tree, n, time.Hour), "interrupted")
		})
	})
}

// The servers may be faster: they delete the container, and programs make another one. What another apply lets go of meanwhile
// does not come back.
func TestContainerThatVanishesWhileItIsWaitedForComesBackAsANode(t *testing.T) {
	for _, then := range []string{"gone", "made by a program", "let go by an apply"} {
		synctest.Test(t, func(t *testing.T) {
			s := inMemory(t)
			x, tree, n, java, _ := s.busy(t, kind.Mutex, "", mutexName)
			ended := make(chan error, 1)
			go func() { ended <- x.applier().Remake(t.Context(), tree, n, 10*time.Minute) }()
			synctest.Wait()
			other := s.provisioner()
			if then == "let go by an apply" {
				require.NoError(t, runPlan(t, executor(other), s.plan(other, s.tree(), plan.Options{ForceBreak: []string{string(n.Addr)}})))
				var node *apply.NodeError
				require.ErrorAs(t, <-ended, &node)
				require.Contains(t, node.Why, "another apply finished while the node was gone")
				return
			}
			holding := executor(other) // so that the order is certain
			_, err := holding.Lock(t.Context(), tree)
			require.NoError(t, err)
			require.NoError(t, s.server.Delete(n.Path))
			if then == "made by a program" {
				at, err := java.enter(n.Path, mutexName)
				require.NoError(t, err)
				time.Sleep(time.Second)
				java.leave(at)
			}
			holding.Unlock()
			require.NoError(t, <-ended)
			require.False(t, s.plan(other, tree).HasChanges())
		})
	}
}

// The reply to the transaction may be lost, and the session too.
func TestBusyContainerIsMadeAnewAcrossALostReplyAndALostSession(t *testing.T) {
	for _, lost := range []string{"reply", "session"} {
		synctest.Test(t, func(t *testing.T) {
			s := inMemory(t)
			x, tree, n, java, at := s.busy(t, kind.Mutex, "", mutexName)
			if lost == "reply" {
				s.server.Inject(zktest.Once(zktest.On("multi")), zktest.DropReply)
			}
			var programs sync.WaitGroup
			programs.Go(func() {
				time.Sleep(time.Minute + time.Second)
				if lost == "session" {
					for _, one := range s.server.Sessions() {
						if one.ID != java.conn.SessionID() {
							s.server.Expire(one.ID)
						}
					}
				}
				time.Sleep(time.Minute)
				java.leave(at)
			})
			require.NoError(t, x.applier().Remake(t.Context(), tree, n, 10*time.Minute))
			programs.Wait()
			require.False(t, mayVanish(s.plan(s.provisioner(), tree)))
		})
	}
}
