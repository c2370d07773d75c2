package recipes_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// outage cuts all clients off from the server for a time. A server that restarts gives every session its whole timeout again.
func (l *lab) outage(d time.Duration, restarts bool) {
	l.Srv.RefuseDials(true)
	if restarts {
		l.Srv.SetReadOnly(true)
	}
	l.Srv.Disconnect(0)
	time.Sleep(d)
	if restarts {
		l.Srv.SetReadOnly(false)
	}
	l.Srv.RefuseDials(false)
}

// again takes a lock as a program does: it repeats the call after each Retryable error.
func again(take taker, c *recipes.Client) (*recipes.Lease, error) {
	for {
		x, err := take(c)(context.Background())
		if err == nil || !recipes.Retryable(err) {
			return x, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// leaves has what a client can leave behind. Each function returns when the outage may begin.
var leaves = map[string]func(l *lab, take taker, c *recipes.Client){
	"a lease given back when it was lost": func(l *lab, take taker, c *recipes.Client) {
		x := l.Lock(take(c))
		context.AfterFunc(x.Context(), func() { _ = x.Unlock(context.Background()) })
	},
	"a lease given back during the outage": func(l *lab, take taker, c *recipes.Client) {
		x := l.Lock(take(c))
		time.AfterFunc(time.Second, func() { _ = x.Unlock(context.Background()) })
	},
	"Do": func(l *lab, take taker, c *recipes.Client) {
		x := l.Lock(take(c))
		go func() {
			_ = x.Do(context.Background(), func(ctx context.Context, _ *recipes.Lease) error {
				<-ctx.Done()
				return nil
			})
		}()
	},
	"a waiter": func(l *lab, take taker, c *recipes.Client) {
		other := l.Client("other")
		x := l.Lock(take(other))
		go func() {
			if x, err := again(take, c); err == nil {
				_ = x.Unlock(context.Background())
			}
		}()
		l.Settle()
		l.Unlock(x)
		require.NoError(l.T, other.Close())
	},
	"a create without an answer": func(l *lab, take taker, c *recipes.Client) {
		l.Srv.Inject(zktest.Once(zktest.On("create", "multi")), zktest.DropReply)
		go func() {
			if x, err := again(take, c); err == nil {
				_ = x.Unlock(context.Background())
			}
		}()
		synctest.Wait()
		time.Sleep(2 * oneWay)
	},
}

// After an outage a client waited for the nodes of its own lost session until the servers expired that session. It waited 8 s, or 16 s if
// the servers had been restarted.
func TestNobodyWaitsForTheNodesOfItsOwnLostSession(t *testing.T) {
	for what, leave := range leaves {
		for name, way := range harness.Ways() {
			t.Run(what+"/"+name, func(t *testing.T) {
				for _, restarts := range []bool{false, true} {
					for i, d := range []time.Duration{8 * time.Second, 12 * time.Second, 20 * time.Second, time.Minute, 10 * time.Minute} {
						if (i+len(what)+len(name))%effort.Of(1, 5) != 0 {
							continue
						}
						inLab(t, func(t *testing.T, l *lab) {
							l.EveryKind()
							c := l.Client("a")
							l.warm(way.Take(c))
							leave(l, way.Take, c)
							first := c.Newest().ID()
							l.outage(d, restarts)
							began := time.Now()
							x := must(again(way.Take, c))(t)
							// Between two passes over the servers the client pauses for a second and up to a sixth of the timeout: 3 s.
							require.Less(t, time.Since(began), 4*time.Second, "an outage of %v, restarts: %v", d, restarts)
							l.Unlock(x)
							l.Settle()
							require.NoError(t, c.Close())
							for _, s := range l.Srv.Sessions() {
								require.NotEqual(t, first, s.ID, "the lost session is closed too, after an outage of %v, restarts: %v", d, restarts)
							}
						})
					}
				}
			})
		}
	}
}

// The loss of a lease only asks its work to stop. The place stays until no work runs under it, and keeps out rivals and this client.
func TestWhatMayStillRunUnderALostLeaseKeepsItsPlace(t *testing.T) {
	// Each function starts something that keeps the place of x, and returns a function that ends it.
	keep := map[string]func(t *testing.T, x *recipes.Lease) (end func()){
		"a lease": func(t *testing.T, x *recipes.Lease) func() {
			return func() { require.ErrorIs(t, x.Unlock(context.Background()), recipes.ErrLost) }
		},
		"the function of Do, which has called Unlock": func(t *testing.T, x *recipes.Lease) func() {
			end, done := make(chan any), make(chan any)
			go func() {
				defer close(done)
				_ = x.Do(context.Background(), func(ctx context.Context, l *recipes.Lease) error {
					<-ctx.Done()
					_ = l.Unlock(context.Background())
					<-end
					return nil
				})
			}()
			return func() { close(end); <-done }
		},
	}
	for what, keep := range keep {
		for name, way := range harness.Ways() {
			t.Run(what+"/"+name, func(t *testing.T) {
				// If the session is lost while it still has a connection, no closeSession may leave on that connection.
				for cut, from := range map[string]func(l *lab, id int64) (heal func()){
					"connection lost": func(l *lab, id int64) func() {
						l.CutOff(id)
						return func() { l.Srv.RefuseDials(false) }
					},
					"partition": func(l *lab, id int64) func() {
						l.Srv.Partition(id, zktest.Both)
						return func() { l.Srv.Heal(id) }
					},
				} {
					for _, ends := range []bool{true, false} {
						inLab(t, func(t *testing.T, l *lab) {
							l.EveryKind()
							a, b := l.Client("a"), l.Client("b")
							l.warm(way.Take(a), way.Take(b))
							x := l.Lock(way.Take(a))
							l.Settle()
							end := keep(t, x)
							// A reader does not keep readers out.
							other := way.Take
							if name == "reader" {
								other = harness.Ways()["writer"].Take
							}
							rival := l.Waiting(other(b))
							began, heal := time.Now(), from(l, l.SessionID(a))
							<-x.Context().Done()
							heal()
							own := async(func() (*recipes.Lease, error) { return again(other, a) })
							time.Sleep(2 * time.Second)
							notYet(t, rival, cut)
							notYet(t, own, cut)
							if ends {
								end()
								l.Settle()
								require.Len(t, rival, 1, "%s: what ran has ended", cut)
							}
							r := l.Granted(rival)
							require.LessOrEqual(t, r.At.Sub(began), 18*time.Second+2*2*time.Second, "what was sent until the lease ended keeps the session")
							l.Unlock(r.V)
							r = l.Granted(own)
							l.Unlock(r.V)
							if !ends {
								end()
							}
							l.Settle()
							require.Len(t, l.Srv.Sessions(), 2, "a's and b's")
						})
					}
				}
			})
		}
	}
}

// lives reports whether the server knows a session.
func (l *lab) lives(id int64) bool {
	return slices.ContainsFunc(l.Srv.Sessions(), func(s zktest.Session) bool { return s.ID == id })
}

// cut keeps one client from the server until its session is lost.
func (l *lab) cut(c *recipes.Client) {
	s := c.Newest()
	l.CutOff(s.ID())
	<-s.Done()
	l.Settle()
	l.Srv.RefuseDials(false)
}

// To close a lost session the client must resume it, so failed tries must not keep it alive. A node that is gone, or may not be deleted,
// does not keep the other nodes.
func TestALostSessionThatCannotBeClosedIsNotKeptAliveForLong(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Mutexes(3)
		a := l.Client("a")
		id := l.SessionID(a)
		for i := range 3 {
			x := l.Lock(a.Mutex(fmt.Sprint("/m", i)).Lock)
			context.AfterFunc(x.Context(), func() { _ = x.Unlock(context.Background()) })
		}
		var tries []time.Time
		l.Srv.Inject(func(r zktest.Request) bool {
			if r.Op == "connect" && r.Session == id {
				tries = append(tries, time.Now())
			}
			return r.Op == "closeSession" && r.Session == 0 // session 0: it is read before the connect request ahead of it is answered
		}, zktest.CutBefore)
		refused := l.Queue("/m1")[0]
		l.Srv.Inject(func(r zktest.Request) bool { return slices.Contains(r.Paths, refused) }, zktest.Fail(zktest.CodeNoAuth))
		require.NoError(t, l.Srv.Delete(l.Queue("/m0")[0]))
		l.cut(a)
		tries = nil
		began := time.Now()
		_ = l.session(a)
		require.Less(t, time.Since(began), 3*time.Second)
		l.Empty("/m0")
		require.Len(t, l.Children("/m1"), 1)
		require.Empty(t, l.Children("/m2"), "before the session is handed out")
		require.True(t, l.lives(id), "the scenario needs a session that cannot be closed")
		time.Sleep(12*time.Second + 4*time.Second + 2*2*time.Second)
		require.False(t, l.lives(id), "a session timeout for the tries, and the shortest there is behind the last")
		require.Greater(t, len(tries), 1)
		require.LessOrEqual(t, tries[len(tries)-1].Sub(tries[0]), 12*time.Second)
		n := len(tries)
		time.Sleep(time.Minute)
		require.Len(t, tries, n)
		l.nextIsServed("/m1")
	})
}

// A server thread stood still with a create, and executed it after the client had a new session.
func TestALateCreateOfALostSessionIsRefused(t *testing.T) {
	for name, way := range harness.Ways() {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.EveryKind()
			a := l.Client("a")
			l.warm(way.Take(a))
			id := l.SessionID(a)
			l.Srv.Inject(zktest.Once(zktest.On("create", "multi")), zktest.DelayReader(11500*time.Millisecond))
			ctx := l.Within(time.Second)
			_, err := way.Take(a)(ctx)
			require.Error(t, err)
			l.cut(a)
			x := must(again(way.Take, a))(t)
			l.Unlock(x)
			l.Settle()
			require.False(t, l.lives(id))
			for range 100 {
				time.Sleep(100 * time.Millisecond)
				l.Empty(harness.Queues...)
			}
		})
	}
}

func TestSeveralLostSessionsAreRememberedUntilEachIsClosed(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Mutexes(4)
		a := l.Client("a")
		var held []*recipes.Lease
		var lost []int64
		for i := range 3 {
			lost = append(lost, l.SessionID(a))
			x := l.Lock(a.Mutex(fmt.Sprint("/m", i)).Lock)
			held = append(held, x)
			l.cut(a)
		}
		now := l.SessionID(a)
		l.Settle()
		require.True(t, l.lives(lost[2]), "it is held")
		for i := range 3 {
			require.ErrorIs(t, held[i].Unlock(t.Context()), recipes.ErrLost)
			l.Settle()
			require.False(t, l.lives(lost[i]))
			require.Empty(t, l.Children(fmt.Sprint("/m", i)))
		}
		require.Equal(t, now, l.SessionID(a))
		require.Empty(t, a.Leftovers())
	})
}
