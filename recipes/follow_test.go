package recipes_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// forEveryMove runs f for each recipe. there is the way by handles on the path to which the lock moves.
func forEveryMove(t *testing.T, f func(t *testing.T, l *lab, m mover, way, there recipeWay)) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way recipeWay) {
		name := t.Name()[strings.LastIndex(t.Name(), "/")+1:]
		f(t, l, l.mover(), way, everyRecipeAt("-new")[name])
	})
}

func (l *lab) leads(x *recipes.Lease, there recipeWay) {
	l.t.Helper()
	require.Contains(l.t, strings.Split(x.Path(), " + "), there.path, "the lease names where the lock is")
	for _, node := range x.Nodes() {
		require.False(l.t, strings.HasPrefix(node, strings.TrimSuffix(there.path, "-new")+"/"), "%s stands at the old path", node)
	}
}

func TestAHandleFollowsALockThatHasMoved(t *testing.T) {
	forEveryMove(t, func(t *testing.T, l *lab, m mover, way, there recipeWay) {
		known, unknown := l.client("known"), l.client("unknown")
		before, err := way.take(known)(t.Context())
		require.NoError(t, err)
		l.unlock(before)
		l.moves(m, way.params(), way.path, there.path)
		l.settle()
		for _, c := range []*recipes.Client{known, unknown} {
			x, err := way.take(c)(t.Context())
			require.NoError(t, err)
			l.leads(x, there)
			require.Greater(t, x.Token(), before.Token())
			l.unlock(x)
		}
		l.srv.ResetCounts()
		asked := 0
		rule := l.srv.Inject(func(r zktest.Request) bool {
			if r.Path == way.path || strings.HasPrefix(r.Path, way.path+"/") {
				asked++
			}
			return false
		}, zktest.Fault{})
		x, err := way.take(known)(t.Context())
		require.NoError(t, err)
		l.unlock(x)
		rule.Remove()
		require.Zero(t, asked, "the mark is known, so nothing is asked at the old path")
		l.emptyAt(way.path, there.path)
	})
}

// emptyAt requires that the mark and the lock have no contenders.
func (l *lab) emptyAt(paths ...string) {
	l.t.Helper()
	l.settle()
	for _, path := range paths {
		for _, child := range l.children(path) {
			if child != "leases" && child != "locks" {
				require.Fail(l.t, "left", "%s in %s", child, path)
			}
			require.Empty(l.t, l.children(kind.JoinPath(path, child)))
		}
	}
}

// The holder finishes; who waits leaves the queue, and stands in the one at the new path once the lock is there.
func TestWhoWaitsForALockThatMovesQueuesAtItsNewPath(t *testing.T) {
	forEveryMove(t, func(t *testing.T, l *lab, m mover, way, there recipeWay) {
		x, err := way.block(l.client("holder"))(t.Context())
		require.NoError(t, err)
		first, second := l.client("first"), l.client("second")
		var waiters []<-chan result[*recipes.Lease]
		for _, c := range []*recipes.Client{first, first, second} {
			waiters = append(waiters, l.locker(way.take(c)))
		}
		l.redeclare(way, asIs, goingTo(there.path))
		l.settle()
		require.ErrorIs(t, m.move(t.Context(), way.params(), way.path, there.path), zk.ErrNotEmpty)
		late := l.locker(way.take(l.client("late")))
		for _, w := range append(waiters, late) {
			notYet(t, w, "the lock is about to move")
		}
		require.NoError(t, x.Verify(t.Context()), "the holder keeps it")
		l.unlock(x)
		l.settle()
		l.emptyAt(way.path)
		l.moves(m, way.params(), way.path, there.path)
		inside := 0
		for range 4 {
			var r result[*recipes.Lease]
			select {
			case r = <-waiters[0]:
				waiters[0] = nil
			case r = <-waiters[1]:
				waiters[1] = nil
			case r = <-waiters[2]:
				waiters[2] = nil
			case r = <-late:
				late = nil
			}
			require.NoError(t, r.err)
			l.leads(r.v, there)
			if way.kind != kind.RWLock || !r.v.Reads() {
				for _, w := range append(waiters, late) {
					if w != nil {
						notYet(t, w, "one holds it")
					}
				}
			}
			inside++
			l.unlock(r.v)
		}
		require.Equal(t, 4, inside)
		l.emptyAt(way.path, there.path)
	})
}

func TestALockThatDoesNotMoveInTheEndIsWaitedForWhereItIs(t *testing.T) {
	forEveryMove(t, func(t *testing.T, l *lab, _ mover, way, there recipeWay) {
		x, err := way.block(l.client("holder"))(t.Context())
		require.NoError(t, err)
		w := l.locker(way.take(l.client("waiter")))
		l.redeclare(way, asIs, goingTo(there.path))
		l.settle()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		_, err = way.take(l.client("impatient"))(ctx)
		require.ErrorIs(t, err, recipes.ErrDraining)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "is about to move to "+there.path+", and has not gone")
		require.Equal(t, time.Minute, time.Since(start))
		l.redeclare(way, asIs, active)
		l.settle()
		notYet(t, w, "it is held")
		l.unlock(x)
		l.unlock((<-w).v)
		l.nothingLeft()
	})
}

func TestATryForALockThatIsAboutToMoveIsRefused(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.everyKind()
		x, err := l.client("holder").Mutex("/m", recipes.WithReentrancy()).Lock(t.Context())
		require.NoError(t, err)
		l.declare("/m", kind.Mutex.New(), goingTo("/there"))
		_, err = l.client("a").Mutex("/m").TryLock(t.Context())
		require.ErrorIs(t, err, recipes.ErrDraining)
		require.False(t, recipes.Retryable(err))
		again, err := x.Client().Mutex("/m", recipes.WithReentrancy()).Lock(x.Context())
		require.NoError(t, err, "who holds it enters it again")
		l.unlock(again)
		l.unlock(x)
		l.nothingLeft()
	})
}

// The client knows the declaration of before the move, and its create is under way: the server refuses it.
func TestACreateUnderWayWhenTheLockMovesIsMadeAtItsNewPath(t *testing.T) {
	forEveryMove(t, func(t *testing.T, l *lab, m mover, way, there recipeWay) {
		c := l.client("late")
		x, err := way.take(c)(t.Context())
		require.NoError(t, err)
		l.unlock(x)
		l.settle()
		rule := l.srv.Inject(zktest.Once(l.enqueues(way)), zktest.Hold)
		w := l.locker(way.take(c))
		<-rule.Hit()
		l.moves(m, way.params(), way.path, there.path)
		rule.Release()
		r := <-w
		require.NoError(t, r.err)
		l.leads(r.v, there)
		l.unlock(r.v)
		l.emptyAt(way.path, there.path)
	})
}

// Servers that enforce no access lists (skipACL) let a contender into the mark.
func TestAContenderInTheMarkOfAMovedLockIsGrantedNothing(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.everyKind()
		c := l.client("late")
		l.warm(c.Mutex("/m"))
		rule := l.srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "create" }), zktest.Hold)
		w := l.locking(c.Mutex("/m"))
		<-rule.Hit()
		require.NoError(t, l.srv.Delete("/m"))
		l.declare("/there", kind.Mutex.New())
		l.declare("/m", kind.Mutex.New(), movedTo("/there")) // open to everybody
		holder, err := l.client("holder").Mutex("/there").Lock(t.Context())
		require.NoError(t, err)
		rule.Release()
		l.settle()
		notYet(t, w, "the lock is held at its new path")
		l.unlock(holder)
		r := <-w
		require.NoError(t, r.err)
		require.Equal(t, "/there", r.v.Path())
		l.unlock(r.v)
		l.emptyAt("/m", "/there")
	})
}

// There and back, more often than marks are followed in one direction.
func TestAHandleFollowsALockThereAndBack(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mover()
		paths := []string{"/m", "/there"}
		l.declare("/m", kind.Mutex.New())
		c := l.client("a")
		var last uint64
		for i := range 12 {
			for _, path := range paths[:min(2, i+1)] {
				x, err := c.Mutex(path).Lock(t.Context())
				require.NoError(t, err)
				require.Equal(t, paths[i%2], x.Path())
				require.Greater(t, x.Token(), last)
				last = x.Token()
				l.unlock(x)
			}
			l.settle()
			l.moves(m, kind.Mutex.New(), paths[i%2], paths[(i+1)%2])
		}
		l.emptyAt(paths...)
	})
}

func TestAMarkIsFollowedOnlyToTheLockItWasWrittenFor(t *testing.T) {
	chain := func(n int) func(l *lab) {
		return func(l *lab) {
			for i := range n {
				l.declare(fmt.Sprintf("/m%d", i), kind.Mutex.New(), movedTo(fmt.Sprintf("/m%d", i+1)))
			}
			l.declare(fmt.Sprintf("/m%d", n), kind.Mutex.New())
		}
	}
	owner := func(stack, addr string) func(*kind.Payload) {
		return func(p *kind.Payload) { p.Owner = kind.Owner{Stack: stack, Addr: addr} }
	}
	for name, c := range map[string]struct {
		declare func(l *lab)
		says    string // "" is followed
	}{
		"eight marks": {chain(8), ""},
		"nine marks":  {chain(9), "/m8 is now /m9, and 8 times before that from /m0 on: use its present path"},
		"another stack": {func(l *lab) {
			l.declare("/m0", kind.Mutex.New(), movedTo("/m1"))
			l.declare("/m1", kind.Mutex.New(), owner("other", "x"))
		}, `/m0 is now /m1, which is a lock of stack "other" (x) by now; it was written for stack "test" (x)`},
		"another address": {func(l *lab) {
			l.declare("/m0", kind.Mutex.New(), movedTo("/m1"))
			l.declare("/m1", kind.Mutex.New(), owner("test", "y"))
		}, `/m0 is now /m1, which is a lock of stack "test" (y) by now; it was written for stack "test" (x)`},
		"another kind": {func(l *lab) {
			l.declare("/m0", kind.Mutex.New(), movedTo("/m1"))
			l.declare("/m1", kind.Election.New())
		}, "/m0 is now /m1, which is declared as election by now; it was a mutex"},
		"a mark of another address on the way": {func(l *lab) {
			l.declare("/m0", kind.Mutex.New(), movedTo("/m1"))
			l.declare("/m1", kind.Mutex.New(), owner("test", "y"), movedTo("/m2"))
			l.declare("/m2", kind.Mutex.New(), owner("test", "y"))
		}, "/m0 is now /m1, which is a lock of"},
		"a circle": {func(l *lab) {
			l.declare("/m0", kind.Mutex.New(), movedTo("/m1"))
			l.declare("/m1", kind.Mutex.New(), movedTo("/m0"))
		}, `/m1 is now /m0, from where it came: the marks lead in a circle; apply the configuration of stack "test" (x) again`},
		"itself":   {func(l *lab) { l.declare("/m0", kind.Mutex.New(), movedTo("/m0")) }, "the marks lead in a circle"},
		"nowhere":  {func(l *lab) { l.declare("/m0", kind.Mutex.New(), movedTo("/m1")) }, "/m0 is now /m1, which does not exist"},
		"no path":  {func(l *lab) { l.declare("/m0", kind.Mutex.New(), movedTo("m1/../")) }, "which is no path of a lock"},
		"no words": {func(l *lab) { l.declare("/m0", kind.Mutex.New(), movedTo("")) }, "which is no path of a lock"},
		"what carries no declaration": {func(l *lab) {
			l.declare("/m0", kind.Mutex.New(), movedTo("/m1"))
			require.NoError(l.t, l.srv.Create("/m1", nil))
		}, "/m0 is now /m1, which has no declaration that this program can read"},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				c.declare(l)
				client := l.client("a")
				for _, opts := range [][]recipes.Option{nil, {recipes.WithParams(kind.Mutex.New()), recipes.WithCreate()}} {
					for range 2 { // read, and known
						x, err := client.Mutex("/m0", opts...).TryLock(t.Context())
						if c.says == "" {
							require.NoError(t, err)
							require.Equal(t, "/m8", x.Path())
							l.unlock(x)
							continue
						}
						require.ErrorIs(t, err, recipes.ErrMoved)
						require.ErrorContains(t, err, c.says)
						require.False(t, recipes.Retryable(err))
					}
				}
			})
		})
	}
}

// The events of a call name where the lock is by then.
func TestEventsOfACallThatFollowsALockNameBothPaths(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.everyKind()
		m := l.mover()
		c, told := l.observed("a")
		x, err := l.client("holder").Mutex("/m").Lock(t.Context())
		require.NoError(t, err)
		w := l.locking(c.Mutex("/m"))
		told.say("queued")
		require.Equal(t, "/m", told.last["queued"].Path)
		l.declare("/m", kind.Mutex.New(), goingTo("/there"))
		l.settle()
		l.unlock(x)
		l.settle()
		l.moves(m, kind.Mutex.New(), "/m", "/there")
		r := <-w
		require.NoError(t, r.err)
		l.unlock(r.v)
		told.say("acquired", "released")
		for _, what := range []recipes.EventType{recipes.EventAcquired, recipes.EventReleased} {
			e := told.last[what]
			require.Equal(t, "/there", e.Path)
			require.Equal(t, "/there", e.Locks[0].Path)
			require.Equal(t, told.last["queued"].Call, e.Call)
		}
		l.emptyAt("/m", "/there")
	})
}

func TestWhoFollowsAnElectionFollowsItWhereItGoes(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.election()
		m := l.mover()
		old, err := l.client("old").Election("/e").Campaign(t.Context())
		require.NoError(t, err)
		watcher := l.client("watcher")
		var seen []string
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for leader, err := range watcher.Election("/e").Observe(ctx) {
				if err == nil {
					seen = append(seen, leader.Path)
				}
			}
		}()
		l.settle()
		l.declare("/e", kind.Election.New(), goingTo("/there"))
		l.settle()
		l.unlock(old)
		l.settle()
		l.moves(m, kind.Election.New(), "/e", "/there")
		l.settle()
		next, err := l.client("new").Election("/there").Campaign(t.Context())
		require.NoError(t, err)
		l.settle()
		require.Equal(t, []string{old.Node(), "", next.Node()}, seen)
		leader, ok, err := watcher.Election("/e").Leader(t.Context())
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, next.Node(), leader.Path)
		l.unlock(next)
		cancel()
		<-done
		synctest.Wait()
		l.emptyAt("/e", "/there")
	})
}
