package recipes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// redeclare changes the declaration; the semaphore keeps its three permits.
func (l *lab) redeclare(way harness.Way, common func(*kind.Common), payload func(*kind.Payload)) {
	l.T.Helper()
	p := way.Kind.New()
	var c *kind.Common
	switch p := p.(type) {
	case *kind.MutexParams:
		c = &p.Common
	case *kind.RWLockParams:
		c = &p.Common
	case *kind.SemaphoreParams:
		p.Permits, c = 3, &p.Common
	case *kind.ElectionParams:
		c = &p.Common
	}
	common(c)
	l.Declare(way.Path, p, payload)
}

func asIs(*kind.Common)                      {}
func active(*kind.Payload)                   {}
func draining(p *kind.Payload)               { p.State = kind.StateDraining }
func oneWaiter(p *kind.Common)               { p.MaxWaiters = 1 }
func unbounded(p *kind.Common)               { p.MaxWaiters = 0 }
func ended(l *recipes.Lease) <-chan struct{} { return l.Context().Done() }

func TestMaxWaitersBoundsTheQueueOfEveryRecipe(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		l.redeclare(way, oneWaiter, active)
		x := l.Lock(way.Block(l.Client("holder")))
		w := l.Waiting(way.Take(l.Client("first")))
		notYet(t, w, "one may wait")
		before := len(l.Children(way.Queue))
		err := l.Refused(way.Take(l.Client("second")), recipes.ErrQueueFull)
		require.ErrorContains(t, err, "max_waiters is 1")
		l.Settle()
		require.Len(t, l.Children(way.Queue), before, "who was refused left something")
		l.redeclare(way, unbounded, active)
		late := l.Waiting(way.Take(l.Client("third")))
		l.Unlock(x)
		l.Unlock((<-w).V)
		l.Unlock((<-late).V)
		l.NothingLeft()
	})
}

func TestADrainedLockGrantsNothingNewWhateverItsRecipe(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		x := l.Lock(way.Block(l.Client("holder")))
		w := l.Waiting(way.Take(l.Client("waiter")))
		l.redeclare(way, asIs, draining)
		require.ErrorIs(t, (<-w).Err, recipes.ErrDraining, "a waiter is sent away")
		l.Refused(way.Take(l.Client("new")), recipes.ErrDraining)
		require.NoError(t, x.Context().Err(), "a holder keeps what it has")
		require.NoError(t, x.Verify(t.Context()))
		l.Unlock(x)
		l.NothingLeft()
		l.redeclare(way, asIs, active)
		l.Unlock(l.Lock(way.Take(l.Client("again"))))
	})
}

// The client compared the declaration, and then repeated a listing that was lost with its connection. So the new listing granted a set, and
// permits, although the lock had been drained meanwhile.
func TestALockThatIsDrainedWhileItsListingIsLostIsNotGranted(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		c := l.Client("a")
		l.Unlock(l.Lock(way.Take(c))) // c keeps the declaration
		lost := l.Srv.Inject(zktest.Once(zktest.On("getChildren2")), zktest.CutBefore)
		go func() { <-lost.Hit(); l.Srv.RefuseDials(true) }()
		took := make(chan error, 1)
		go func() {
			x, err := way.Take(c)(t.Context())
			if err == nil {
				err = x.Unlock(t.Context())
			}
			took <- err
		}()
		<-lost.Hit()
		l.Settle() // the client sees that the connection has ended
		l.redeclare(way, asIs, draining)
		l.Srv.RefuseDials(false)
		require.ErrorIs(t, <-took, recipes.ErrDraining)
		l.NothingLeft()
	})
}

func TestARevocationRequestReachesHoldersAndWaitersOfEveryRecipe(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		admin := l.Client("admin")
		x := l.Lock(way.Take(l.Client("holder")))
		for _, node := range x.Nodes() { // a request in any of the lease's nodes will do
			l.Unlock(x)
			x = l.Lock(way.Take(l.Client("holder")))
			in := l.look(admin, strings.TrimSuffix(kind.ParentPath(node), "/leases"))
			require.NotEmpty(t, in.Holders)
			require.NoError(t, admin.Revoke(t.Context(), in.Holders[len(in.Holders)-1].Path))
			<-ended(x)
			require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrRevoked)
			require.NoError(t, x.Verify(t.Context()), "it is held until it is given back")
		}
		l.Unlock(x)
		l.NothingLeft()

		x = l.Lock(way.Block(l.Client("holder")))
		w := l.Waiting(way.Take(l.Client("waiter")))
		in := l.look(admin, way.Path)
		require.Len(t, in.Waiters, 1)
		require.NoError(t, admin.Revoke(t.Context(), in.Waiters[0].Path))
		r := <-w
		require.ErrorIs(t, r.Err, recipes.ErrRevoked, "a waiter leaves")
		require.ErrorContains(t, admin.Revoke(t.Context(), way.Path), "not a contender")
		require.NoError(t, x.Context().Err())
		l.Unlock(x)
		l.NothingLeft()
	})
}

func TestTheHolderIsNamedToWhoeverGivesUpWaitingWhateverTheRecipe(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		x := l.Lock(way.Block(l.Client("the holder")))
		ctx := l.Within(3 * time.Second)
		start := time.Now()
		_, err := way.Take(l.Client("waiter"))(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		held := heldBy(t, err)
		require.Equal(t, way.Path, held.Path)
		require.Equal(t, x.Node(), held.Holder.Path)
		require.Equal(t, "the holder", held.Holder.ID)
		require.Less(t, time.Since(start), 3*time.Second+50*time.Millisecond)
		l.Unlock(x)
		l.NothingLeft()
	})
}

func TestASemaphoreOfKazoosWireIsRefusedWithTheReasonAndNothingIsWritten(t *testing.T) {
	// kazoo's permits are other nodes, and are not counted again after their creation. Sharing a semaphore with kazoo would admit too many.
	inLab(t, func(t *testing.T, l *lab) {
		const why = `"kazoo" is not allowed: kazoo's semaphore uses other nodes`
		l.Semaphore(2)
		c := l.Client("a")
		require.NoError(t, l.Srv.Create("/undeclared", nil))
		p := kind.Semaphore.New().(*kind.SemaphoreParams)
		p.Wire = kind.WireKazoo
		brought := c.Semaphore("/undeclared", recipes.WithParams(p))
		_, err := brought.Acquire(t.Context(), 1)
		require.ErrorContains(t, err, "/undeclared")
		require.ErrorContains(t, err, why)

		n, _ := l.Srv.Get("/s")
		declared := strings.Replace(string(n.Data), `"wire":"curator"`, `"wire":"kazoo"`, 1)
		require.NotEqual(t, string(n.Data), declared)
		require.NoError(t, l.Srv.Set("/s", []byte(declared)))
		err = l.Refused(permits(c.Semaphore("/s"), 1), recipes.ErrNotProvisioned)
		require.ErrorContains(t, err, why)
		l.Empty("/undeclared", "/s/leases", "/s/locks")
	})
}

// An idle lock is drained while a contender's create is under way. apply has seen no contender, so none may be granted. The create itself
// succeeds, because ZooKeeper does not compare the parent's version with anything.
func TestACreateUnderWayWhenTheLockIsDrainedIsNotGranted(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		client := l.Client("late")
		x := l.Lock(way.Take(client)) // the declaration is known from here on
		l.Unlock(x)
		l.NothingLeft()
		rule := l.Srv.Inject(zktest.Once(l.enqueues(way)), zktest.Hold)
		w := l.Waiting(way.Take(client))
		<-rule.Hit()
		l.redeclare(way, asIs, draining)
		rule.Release()
		r := <-w
		require.ErrorIs(t, r.Err, recipes.ErrDraining)
		l.NothingLeft()
		l.redeclare(way, asIs, active)
		l.Settle()
		l.Unlock(l.Lock(way.Take(client)))
	})
}

// The lock is drained when a waiter's turn has come, and the write that proves its grant is under way. Its heartbeats before that write have
// had no reply. It is not granted.
func TestAProofUnderWayWhenTheLockIsDrainedGrantsNothing(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		x := l.Lock(way.Block(l.Client("holder")))
		c := l.Client("waiter")
		w := l.Waiting(way.Take(c))
		notYet(t, w, "it is held")
		rule := l.Srv.Inject(func(r zktest.Request) bool {
			return (r.Op == "setData" || r.Op == "multi") && r.Session != l.SessionID(x.Client())
		}, zktest.Hold)
		time.Sleep(c.Newest().Timeout()/6 + time.Second)
		l.Unlock(x)
		<-rule.Hit()
		l.redeclare(way, asIs, draining)
		rule.Release()
		require.ErrorIs(t, (<-w).Err, recipes.ErrDraining)
		l.NothingLeft()
	})
}

// enqueues matches the requests that create a contender of the recipe.
func (l *lab) enqueues(way harness.Way) func(zktest.Request) bool {
	return func(r zktest.Request) bool {
		return r.Op == "create" && strings.HasPrefix(r.Path, way.Path+"/") || r.Op == "multi"
	}
}

// relocks has, for each way to hold a lock, the ways that lock it again.
var relocks = map[string][]string{
	"mutex":     {"mutex", "mutex, try", "set"},
	"writer":    {"writer", "writer, try", "reader", "reader, try", "set"},
	"reader":    {"writer", "writer, try", "reader", "reader, try", "set"},
	"semaphore": {"semaphore", "semaphore, try"},
	"election":  {"election", "set"},
	"set":       {"mutex", "mutex, try", "writer", "writer, try", "reader", "reader, try", "election", "set", "set, try"},
}

// When a context alone was enough to enter again, an errgroup inside Do had ten goroutines inside one mutex at once.
func TestLockingAgainIsRefusedUnlessReentrancyIsAskedFor(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("a")
		for first, seconds := range relocks {
			outer, err := reentry(c, recipes.WithReentrancy())[first](t.Context()) // the handle that locks again decides
			require.NoError(t, err, first)
			for _, second := range seconds {
				l.Settle()
				l.Srv.ResetCounts()
				start := time.Now()
				_, err := reentry(c)[second](outer.Context())
				require.ErrorIs(t, err, recipes.ErrWouldDeadlock, "%s in %s", second, first)
				if first == second && first != "set" { // a set's caller should leave the member out instead
					require.ErrorContains(t, err, "to nest, open the handle WithReentrancy", first)
				}
				require.Zero(t, time.Since(start), "%s in %s", second, first)
				require.Zero(t, l.Srv.Counts().Total, "%s in %s: %v", second, first, l.Srv.Counts().ByOp)
			}
			other, err := c.Election("/other", recipes.WithParams(kind.Election.New()), recipes.WithCreate()).Campaign(outer.Context())
			require.NoError(t, err, "another lock with that context")
			l.Unlock(other)
			l.Unlock(outer)
			l.NothingLeft()
		}
	})
}

// nodes returns all contenders of the locks of EveryKind.
func (l *lab) nodes() []string {
	var all []string
	for _, dir := range []string{"/m", "/rw", "/s/leases", "/s/locks", "/e"} {
		all = append(all, l.Queue(dir)...)
	}
	return all
}

func TestReentrancyAcrossModes(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("a")
		for first, seconds := range relocks {
			for _, second := range seconds {
				outer := l.Lock(reentry(c)[first], first)
				before := l.nodes()
				inner, err := reentry(c, recipes.WithReentrancy())[second](outer.Context())
				switch {
				case strings.HasPrefix(second, "set"):
					require.ErrorIs(t, err, recipes.ErrWouldDeadlock, "%s in %s", second, first)
				case (first == "reader" || first == "set") && strings.HasPrefix(second, "writer"): // a set has it for reading
					require.ErrorIs(t, err, recipes.ErrWouldDeadlock, "%s in %s", second, first)
				default:
					require.NoError(t, err, "%s in %s", second, first)
					require.Equal(t, outer.Token(), inner.Token(), "%s in %s", second, first)
					l.Unlock(outer)
					l.Unlock(outer) // the second call does not count
					require.NoError(t, inner.Context().Err(), "%s in %s", second, first)
					require.Equal(t, before, l.nodes(), "%s in %s: given back by the first of two", second, first)
					outer = inner
				}
				l.Unlock(outer)
				l.NothingLeft()
			}
		}
	})
}

func TestMorePermitsThanAreHeldAreNotEntered(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		m := l.Client("a").Semaphore("/s", recipes.WithReentrancy())
		x := l.Lock(permits(m, 2))
		_, err := m.Acquire(x.Context(), 3)
		require.ErrorIs(t, err, recipes.ErrWouldDeadlock)
		require.ErrorContains(t, err, "a lease of 2 permits of /s, 3 are wanted")
		y := must(m.Acquire(x.Context(), 1))(t)
		require.Len(t, l.Children("/s/leases"), 2)
		beside := l.Lock(permits(m, 1)) // another context asks for further permits
		l.Unlock(beside)
		l.Unlock(y)
		l.Unlock(x)
		l.NothingLeft()
	})
}

// A proxy or a server loses one frame of a connection that lives on. The first contender in the queue waited for ever if its listing was
// lost.
func TestAReplyLostAloneIsMissedWithinTwoTimeouts(t *testing.T) {
	for name, lose := range map[string]zktest.Fault{"request": zktest.DropRequest, "reply": zktest.LoseReply} {
		t.Run(name, func(t *testing.T) {
			forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
				for n := 1; ; n++ {
					a, b := l.Client(fmt.Sprint("a", n)), l.Client(fmt.Sprint("b", n))
					id, seen := l.SessionID(b), 0
					rule := l.Srv.Inject(func(r zktest.Request) bool {
						if r.Session != id || r.Op == "ping" || r.Op == "closeSession" || r.Op == "connect" {
							return false
						}
						seen++
						return seen == n
					}, lose)
					x := l.Lock(way.Block(a))
					done := async(func() (any, error) {
						x, err := way.Take(b)(context.Background())
						if err != nil {
							return nil, err
						}
						return nil, x.Unlock(context.Background())
					})
					time.Sleep(2 * b.Newest().Timeout())
					l.Unlock(x)
					time.Sleep(2*b.Newest().Timeout() + 10*oneWay)
					synctest.Wait()
					require.Len(t, done, 1, "request %d: it still waits", n)
					require.NoError(t, (<-done).Err, "request %d", n)
					l.Settle()
					rule.Remove()
					require.NoError(t, a.Close())
					require.NoError(t, b.Close())
					if rule.Hits() == 0 {
						break
					}
				}
				l.NothingLeft()
			})
		})
	}
}

// The error named the caller, which waits, as the holder.
func TestHeldErrorNamesTheGoroutineThatHoldsAndNotTheCaller(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("c")
		for path, lock := range named(c, "holder") {
			x := l.Lock(lock)
			long, cancelLong := context.WithTimeout(t.Context(), time.Minute)
			waiting := async(func() (*recipes.Lease, error) { return named(c, "first")[path](long) })
			l.Settle()
			_, err := bounded(time.Second, named(c, "second")[path])(t.Context())
			for position, err := range []error{(<-waiting).Err, err} {
				held := heldBy(t, err)
				require.Equal(t, "holder", held.Holder.ID, path)
				require.Equal(t, recipes.Hostname(), held.Holder.Host)
				require.NotZero(t, held.Holder.PID)
				require.True(t, held.Local)
				require.ErrorContains(t, err, fmt.Sprintf(" is held by this client (holder), %d ahead, gave up after 1", position+1))
				require.NotErrorIs(t, err, recipes.ErrUnreachable)
				require.Equal(t, position+1, held.Position)
			}
			cancelLong()
			l.Unlock(x)
			l.NothingLeft()
		}
		x := l.Lock(c.Mutex("/m", recipes.WithID("holder")).Lock)
		_, err := c.Mutex("/m", recipes.WithID("caller")).TryLock(t.Context())
		require.EqualError(t, err, "recipes: lock /m is held by this client (holder), 1 ahead")
		l.Unlock(x)
	})
}

// Formerly, the error of a call that takes no turn in its client named a contender and said of it "its node was not read".
func TestHeldErrorSaysThisClientOfItsOtherWaysToTheLock(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("c")
		ways := reentry(c)
		for has, wants := range map[string]string{"writer": "reader", "reader": "writer", "semaphore": "semaphore"} {
			x := l.Lock(ways[has])
			_, err := ways[wants+", try"](t.Context())
			require.ErrorContains(t, err, " is held by this client, ")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			behind := async(func() (*recipes.Lease, error) {
				time.Sleep(time.Second / 4)
				ctx, cancel := context.WithTimeout(ctx, time.Second/2)
				defer cancel()
				return ways[wants](ctx)
			})
			_, err = ways[wants](ctx)
			cancel()
			for _, err := range []error{err, (<-behind).Err} {
				held := heldBy(t, err)
				require.True(t, held.Local)
				require.ErrorContains(t, err, " is held by this client (c), ")
			}
			l.Unlock(x)
		}
		l.NothingLeft()
	})
}

// A goroutine that waited behind another one of its client was told that its own client held the lock, while another process held it.
func TestHeldErrorNamesWhomTheTurnOfThisClientWaitsFor(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c, other := l.Client("c"), l.Client("other")
		permits := func(c *recipes.Client, id string) func(context.Context) (*recipes.Lease, error) {
			return permits(c.Semaphore("/s", recipes.WithID(id)), 2)
		}
		for _, path := range []string{"/m", "/rw", "/e", "/s"} {
			lock := func(c *recipes.Client, id string) func(context.Context) (*recipes.Lease, error) {
				if path == "/s" {
					return permits(c, id)
				}
				return named(c, id)[path]
			}
			x := l.Lock(lock(other, "stranger"))
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			first := async(func() (*recipes.Lease, error) { return lock(c, "first")(ctx) })
			l.Settle()
			_, err := bounded(2*time.Second, lock(c, "second"))(t.Context())
			require.ErrorIs(t, (<-first).Err, context.DeadlineExceeded)
			cancel()
			held := heldBy(t, err, path)
			require.Equal(t, "stranger", held.Holder.ID, path)
			require.False(t, held.Local, path)
			require.Greater(t, held.Position, 1, path)
			l.Settle()
			w := l.Waiting(lock(c, "third"))
			l.Unlock(x)
			x = (<-w).V
			if path != "/s" { // permits have no turn
				_, err = bounded(time.Second, lock(c, "fourth"))(t.Context())
				require.ErrorAs(t, err, &held, path)
				require.Equal(t, "third", held.Holder.ID, "%s: it waited, and holds now", path)
			}
			l.Unlock(x)
			l.NothingLeft()
		}
	})
}

func TestAHoldersDataKeepsWhatElseItSays(t *testing.T) {
	about := recipes.HolderSelf("a")
	about.Limit = 3
	var h kind.Holder
	require.NoError(t, json.Unmarshal(recipes.HeldData(kind.Semaphore.Queues[0], about.Encode(), "b", time.Now()), &h))
	require.Equal(t, "b", h.ID)
	require.Equal(t, 3, h.Limit)
	require.NotNil(t, h.Held)
	require.True(t, about.Since.Equal(h.Since))
	require.Equal(t, `{"id":"x"}`, string(recipes.HeldData(kind.Election.Queues[0], []byte("7"), `{"id":"x"}`, time.Now())), "an id and no mark, whatever it looks like")
}

// A goroutine gives up while its place is being created, and another goroutine gets the place.
func TestAPlaceMadeForAnotherIsRenamed(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("c")
		for path := range named(c, "") {
			x := l.Lock(named(c, "same")[path])
			l.Settle()
			gone, cancel := l.Leaving(named(c, "same")[path])
			w := l.Waiting(named(c, "heir")[path])
			slow := l.Srv.Inject(zktest.Once(zktest.On("multi")), zktest.Delay(time.Second))
			go func() { _ = x.Unlock(context.Background()) }()
			<-slow.Hit()
			cancel()
			if g := <-gone; g.Err == nil { // the grant was quicker than the cancel
				l.Unlock(g.V)
			}
			r := <-w
			slow.Remove()
			require.NoError(t, r.Err)
			require.Equal(t, "heir", l.look(c, path).Holders[0].ID, path)
			l.Unlock(r.V)
			l.NothingLeft()
		}
	})
}

// Other processes were told the name of a goroutine that had given the lock up.
func TestTheNodeNamesTheGoroutineThatHolds(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("c")
		for path := range named(c, "") {
			x := l.Lock(named(c, "0")[path])
			for _, id := range []string{"1", "2", "2", "3"} {
				w := l.Waiting(named(c, id)[path])
				l.Srv.ResetCounts()
				l.Unlock(x)
				x = (<-w).V
				writes := 0
				for _, op := range []string{"create", "delete", "setData", "multi"} {
					writes += l.Srv.Counts().ByOp[op]
				}
				require.LessOrEqual(t, writes, 1, "%s to %s: %v", path, id, l.Srv.Counts().ByOp)
				require.Equal(t, id, l.look(c, path).Holders[0].ID, path)
			}
			l.Unlock(x)
			l.NothingLeft()
		}
	})
}
