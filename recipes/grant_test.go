package recipes_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// replace puts a node of another client in the place of node, before any client can have seen it gone.
func (l *lab) replace(node string) {
	l.T.Helper()
	require.NoError(l.T, l.Srv.Delete(node))
	require.NoError(l.T, l.Srv.Create(node, []byte("not yours")))
}

// A follower that has lost its leader commits nothing, but goes on answering reads and pings from the data it has. Two holders were measured
// for 5.82 s.
func TestAGrantNeedsAServerThatCommits(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		x := l.Lock(l.Client("a").Mutex(m).Lock)
		c := l.Client("b")
		w := l.Locking(c.Mutex(m))
		cutOff := l.Srv.Inject(l.By(c, "setData", "multi"), zktest.DropRequest)
		time.Sleep(c.Newest().Timeout()/6 + time.Second) // longer than an earlier commit may count
		l.Unlock(x)
		l.Settle()
		require.Positive(t, cutOff.Hits(), "it must try to commit something")
		notYet(t, w, "granted on what a server shows")
		cutOff.Remove()
		l.Srv.Disconnect(l.SessionID(c))
		r := hostile.Soon(t, w, "the server commits again")
		require.NoError(t, r.Err)
		l.Unlock(r.V)
	})
}

func TestAnyPermitThatComesBackIsNoticed(t *testing.T) { // case 45: Curator V1 watches one of them
	for which := range 2 {
		inLab(t, func(t *testing.T, l *lab) {
			l.Semaphore(2)
			var held [2]*recipes.Lease
			for i := range held {
				held[i] = l.Lock(draws(1)(l.Client("holder")))
			}
			w := l.drawing(l.Client("waiter"), 1)
			l.Unlock(held[which])
			r := hostile.Soon(t, w, "a permit is free")
			require.NoError(t, r.Err)
			l.Unlock(r.V)
			l.Unlock(held[1-which])
		})
	}
}

// Done is closed although no caller asks Err, which would look at the clock.
func TestALeaseEndsWithItsSession(t *testing.T) { // etcd #10811, consul #2332; ClickHouse #116690: no Expired event at all
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		c := l.Client("a")
		for how, end := range map[string]func(id int64){
			"expired": l.Srv.Expire,
			"swapped": func(id int64) { l.Srv.SwapSessionID(id); l.Srv.Disconnect(id) },
		} {
			x := l.Lock(way.Take(c))
			l.Settle()
			end(l.SessionID(c))
			time.Sleep(20 * time.Second) // a session timeout and more, in case only a deadline notices
			synctest.Wait()
			select {
			case <-ended(x):
			default:
				require.Fail(t, "the lease outlives its session", how)
			}
			require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
			require.ErrorContains(t, context.Cause(x.Context()), "session expired", how)
			require.ErrorIs(t, x.Unlock(t.Context()), recipes.ErrLost)
		}
		l.NothingLeft()
	})
}

// losses has the ways to take a node away from its owner.
func (l *lab) losses() map[string]func(node string) {
	return map[string]func(node string){
		"deleted":   func(node string) { require.NoError(l.T, l.Srv.Delete(node)) },
		"another's": l.replace,
	}
}

// The whole lease is lost with any of its nodes. If the event of the loss is late, Verify finds the loss.
func TestALeaseEndsAtOnceWithAnyOfItsNodes(t *testing.T) { // cases 28, 29: CURATOR-604, CURATOR-171
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		c := l.Client("a")
		all := l.losses()
		all["deleted unheard"] = all["deleted"]
		for how, lose := range all {
			for i, nodes := 0, 1; i < nodes; i++ {
				x := l.Lock(way.Take(c))
				l.Settle()
				nodes = len(x.Nodes())
				node := x.Nodes()[i]
				late := l.Srv.InjectEvent(func(e zktest.Event) bool { return how == "deleted unheard" && e.Path == node }, zktest.DropEvent)
				lose(node)
				start := time.Now()
				if how != "deleted unheard" {
					<-ended(x)
				}
				err := x.Verify(t.Context())
				require.ErrorIs(t, err, recipes.ErrLost, "node %d", i)
				require.ErrorContains(t, err, node)
				require.LessOrEqual(t, time.Since(start), 3*oneWay, "%s: the event and one read; a heartbeat would notice later", how)
				require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
				require.ErrorIs(t, x.Unlock(t.Context()), recipes.ErrLost)
				late.Remove()
				_ = l.Srv.Delete(node)
				l.NothingLeft()
			}
		}
	})
}

func TestAWaiterWhoseNodeIsDeletedOrAnothersIsNeverGranted(t *testing.T) { // cases 16, 28, 44: CURATOR-307, -211 index out of bounds
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		for how, lose := range l.losses() {
			for _, free := range []bool{false, true} {
				x := l.Lock(way.Block(l.Client("holder")))
				w := l.Waiting(way.Take(l.Client("waiter")))
				line := l.Queue(way.Queue)
				node := line[len(line)-1]
				lose(node)
				if free {
					l.Unlock(x)
				}
				r := hostile.Soon(t, w, "the waiter was not told that its node is "+how)
				require.ErrorIs(t, r.Err, recipes.ErrLost)
				if !free {
					require.NoError(t, x.Context().Err())
					l.Unlock(x)
				}
				_ = l.Srv.Delete(node)
				l.NothingLeft()
			}
		}
	})
}

// The reply to the create is lost, and the reconnect is given another session.
func TestANodeOfAnotherSessionIsNeverOurs(t *testing.T) { // cases 2, 28, 35, 49: CURATOR-498, CURATOR-604
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		c := l.Client("a")
		l.warm(way.Take(c))
		id := l.SessionID(c)
		rule := l.Srv.Inject(zktest.Once(l.enqueues(way)), zktest.DropReply)
		got := async(func() (*recipes.Lease, error) { return way.Take(c)(context.Background()) })
		<-rule.Hit()
		l.Srv.SwapSessionID(id)
		if r := <-got; r.Err == nil {
			require.NotEqual(t, id, l.SessionID(c))
			for _, node := range r.V.Nodes() {
				n, ok := l.Srv.Get(node)
				require.True(t, ok)
				require.Equal(t, l.SessionID(c), n.Stat.EphemeralOwner)
			}
			l.Unlock(r.V)
		} else {
			require.ErrorIs(t, r.Err, recipes.ErrSessionLost)
		}
		l.Unlock(l.Lock(bounded(time.Minute, way.Take(l.Client("next"))), "a node was left behind"))
		l.NothingLeft()
	})
}

// The tests below have the cases against which a grant must be proven, one at a time. They check the effect, which is what each client
// believes, and not the requests. (For a server that commits nothing see TestAGrantNeedsAServerThatCommits.)

// line is a queue of three: a holder and a rival at the leader, and between them a waiter at a follower.
type line struct {
	*lab
	path     string
	follower *zktest.Replica
	waiting  *recipes.Client
	held     *recipes.Lease
	next     <-chan result[*recipes.Lease] // of the waiter
	rival    <-chan result[*recipes.Lease]
}

// inLine runs f when all three have been in the queue for several session timeouts, so the proofs from their creates are old. The waiter
// was next from the start, or it came while another contender was ahead of the holder. In the second case it listed the queue when that
// contender left (lookAhead in package wait).
func inLine(t *testing.T, f func(t *testing.T, l *line)) {
	for name, ahead := range map[string]bool{"next": false, "looked ahead": true} {
		runInLab(t, name, func(t *testing.T, lab *lab) {
			l := &line{lab: lab, path: lab.Mutex(), follower: lab.Srv.Replica()}
			first := l.Lock(l.Client("holder").Mutex(l.path).Lock)
			var second <-chan result[*recipes.Lease]
			if l.held = first; ahead {
				second = l.Locking(l.Client("second").Mutex(l.path))
			}
			var moved atomic.Bool
			moved.Store(true)
			l.waiting = l.Client("waiter", l.movedTo(l.follower, &moved))
			l.next = l.Locking(l.waiting.Mutex(l.path))
			l.rival = l.Locking(l.Client("rival").Mutex(l.path))
			if ahead {
				l.Srv.ResetCounts()
				l.Unlock(first)
				l.held = (<-second).V
				l.Settle()
				n := l.Srv.SessionCounts(l.SessionID(l.waiting))
				require.Equal(t, 1, n.ByOp["getChildren2"], "it looks ahead")
			}
			time.Sleep(time.Minute)
			f(t, l)
		})
	}
}

// node is the waiter's contender.
func (l *line) node() string { return l.Queue(l.path)[1] }

// heartbeat commits a write in the waiter's session, as the session of the next in line does.
func (l *line) heartbeat() {
	l.T.Helper()
	l.Declare("/fresh", kind.Mutex.New())
	l.Unlock(l.Lock(l.waiting.Mutex("/fresh").Lock))
}

// busy gives the waiter something to read first when the follower catches up.
func (l *line) busy(yes bool) {
	l.T.Helper()
	if n, there := l.Srv.Get(l.held.Node()); yes && there {
		require.NoError(l.T, l.Srv.Set(l.held.Node(), n.Data))
	}
}

// oneAtATime watches the waiter and the rival at every moment of the time d, and returns the leases that they got. At most one of them may
// believe that it holds. No lease may be over when it is given, or have no node.
func (l *line) oneAtATime(d time.Duration) (next, rival *recipes.Lease) {
	l.T.Helper()
	believed := func(x *recipes.Lease) bool { return x != nil && x.Context().Err() == nil }
	take := func(ch <-chan result[*recipes.Lease], x **recipes.Lease) {
		select {
		case r := <-ch:
			if *x = r.V; r.Err == nil {
				require.NoError(l.T, r.V.Context().Err(), "over when it was given: nothing had proven the session")
			}
		default:
		}
	}
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(oneWay / 4) {
		synctest.Wait()
		take(l.next, &next)
		take(l.rival, &rival)
		require.False(l.T, believed(next) && believed(rival), "two believe to hold %s", l.path)
		for _, x := range []*recipes.Lease{next, rival} {
			if believed(x) {
				_, there := l.Srv.Get(x.Node())
				require.True(l.T, there, "the lease of %s outlives it", x.Node())
			}
		}
	}
	return next, rival
}

// The follower tells the waiter of the release. After that no message of the follower reaches the leader, which expires the waiter's session,
// so the rival is granted. The waiter's last commit bounds how long the waiter may believe that it holds, whatever the follower answers.
func TestAWaiterBehindAServerThatIsCutOffIsNoSecondHolder(t *testing.T) {
	effort.Proof(t, effort.Raced)
	for name, c := range map[string]struct {
		fresh  bool // the waiter's session has committed something lately
		before time.Duration
		reads  bool // the waiter's session asks that server for something all the time
		after  func(l *line)
	}{
		"idle session":               {},
		"fresh heartbeat":            {fresh: true},
		"heartbeat a moment too old": {fresh: true, before: 5 * time.Second},
		"cut off for half a session": {before: 6 * time.Second},
		"cut off for nearly all":     {before: 11 * time.Second},
		"cut off, and read from":     {before: 11 * time.Second, reads: true},
		"the connection changes":     {fresh: true, after: func(l *line) { l.Srv.Disconnect(l.SessionID(l.waiting)) }},
	} {
		t.Run(name, func(t *testing.T) {
			inLine(t, func(t *testing.T, l *line) {
				if c.fresh {
					l.heartbeat()
				}
				if c.reads {
					s := l.session(l.waiting)
					var reading sync.WaitGroup
					defer reading.Wait()
					reading.Go(func() {
						for range 40 {
							_, _ = s.Exists(t.Context(), l.path) // neither the answer nor its absence matters
							time.Sleep(time.Second)
						}
					})
				}
				if c.before > 0 {
					l.follower.CutOff()
					time.Sleep(c.before)
				}
				require.NoError(t, l.held.Unlock(t.Context()))
				l.follower.CutOff()
				l.follower.Advance()
				if c.after != nil {
					c.after(l)
				}
				_, rival := l.oneAtATime(30 * time.Second)
				require.NotNil(t, rival, "the waiter's session has expired")
				l.Unlock(rival)
				l.follower.CatchUp()
			})
		})
	}
}

// The follower is behind and reports everything at once. The waiter's own node went first, or the lock drains, so the departure of its
// predecessor is no grant. An idle waiter learns of its own node first. A busy one finds both, in any order.
func TestAWaiterWhoseNodeWentFirstIsNotGranted(t *testing.T) {
	for name, first := range map[string]func(l *line){
		"deleted": func(l *line) { require.NoError(l.T, l.Srv.Delete(l.node())) },
		// A watch fires once: the deletion after the change has no event.
		"changed and deleted": func(l *line) {
			node := l.node()
			require.NoError(l.T, l.Srv.Set(node, []byte("x")))
			require.NoError(l.T, l.Srv.Delete(node))
		},
		"another's":    func(l *line) { l.replace(l.node()) },
		"with session": func(l *line) { l.Srv.Expire(l.SessionID(l.waiting)) },
		"while disconnected": func(l *line) {
			node := l.node()
			l.Srv.Disconnect(l.SessionID(l.waiting))
			require.NoError(l.T, l.Srv.Delete(node))
		},
		"session swapped": func(l *line) {
			l.Srv.SwapSessionID(l.SessionID(l.waiting))
			l.Srv.Disconnect(l.SessionID(l.waiting))
		},
		"lock drained": func(l *line) { l.Declare(l.path, kind.Mutex.New(), draining) },
	} {
		t.Run(name, func(t *testing.T) {
			for i := range effort.Of(6, 2) {
				inLine(t, func(t *testing.T, l *line) {
					l.heartbeat() // so the grant needs no other write
					l.follower.Lag()
					l.busy(i%2 == 0)
					first(l)
					l.Unlock(l.held)
					l.follower.CatchUp()
					next, rival := l.oneAtATime(5 * time.Second)
					require.Nil(t, next, "granted although the waiter's node had gone or the lock drains")
					if rival != nil {
						l.Unlock(rival)
					}
				})
			}
		})
	}
}

// beating makes a client that holds another lock. So its session is proven all the time, whatever becomes of the node that waits.
func (l *lab) beating() (c *recipes.Client, beats *recipes.Lease) {
	l.T.Helper()
	l.Declare("/beats", kind.Mutex.New())
	c = l.Client("b")
	beats = l.Lock(c.Mutex("/beats").Lock)
	return c, beats
}

// The waiter sees that its predecessor, the front of the queue, has gone. Its own node went earlier, without an event that the waiter could
// receive; or its own node stays, and then it is next.
func TestADepartureIsNoTurnWhereOurOwnNodeWentUnheard(t *testing.T) {
	for name, c := range map[string]struct {
		parked bool  // it has watched both for long
		deaf   bool  // to its own node's event
		fails  error // nil: its own node stays
		again  func(l *lab, b *recipes.Client, front string)
	}{
		"not watched yet":            {fails: recipes.ErrLost},
		"not watched yet, and stays": {}, // case 13
		"on a connection that ended": {parked: true, deaf: true, fails: recipes.ErrLost,
			again: func(l *lab, b *recipes.Client, _ string) { l.Srv.Disconnect(l.SessionID(b)) }},
		"while it looks again": {parked: true, fails: recipes.ErrLost},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
			front := x.Node()
			b, beats := l.beating()
			l.warmDeclaration(b.Mutex("/m"))
			var w <-chan result[*recipes.Lease]
			if c.parked {
				w = l.Locking(b.Mutex("/m"))
			}
			look := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "getData" && r.Path == front }), zktest.Hold)
			if c.parked {
				n, _ := l.Srv.Get(front)
				require.NoError(t, l.Srv.Set(front, n.Data)) // so the waiter reads that node
			} else {
				w = async(func() (*recipes.Lease, error) { return b.Mutex("/m").Lock(context.Background()) })
			}
			<-look.Hit()
			own := l.Queue("/m")[1]
			if c.deaf {
				l.Srv.InjectEvent(func(e zktest.Event) bool { return e.Path == own }, zktest.DropEvent)
			}
			if c.fails != nil {
				require.NoError(t, l.Srv.Delete(own))
			}
			require.NoError(t, l.Srv.Delete(front))
			if c.again != nil {
				c.again(l, b, front)
			}
			look.Release()
			r := hostile.Soon(t, w, "it waits for nobody")
			if require.ErrorIs(t, r.Err, c.fails); c.fails == nil {
				l.Unlock(r.V)
			}
			_ = x.Unlock(t.Context()) // of a lease that is lost
			l.Unlock(beats)
		})
	}
}

// A server that has forgotten one watch may have forgotten all. So a waiter that finds out without an event that its predecessor has gone
// looks for its own node too.
func TestAServerThatForgetsWatchesTellsOfNoTurn(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
		b, beats := l.beating()
		w := l.Locking(b.Mutex("/m"))
		id := l.SessionID(b)
		l.Srv.InjectEvent(func(e zktest.Event) bool { return e.Session == id }, zktest.DropEvent)
		require.NoError(t, l.Srv.Delete(l.Queue("/m")[1]))
		require.NoError(t, l.Srv.Delete(x.Node()))
		time.Sleep(2 * b.Newest().Timeout()) // it looks once in each timeout
		require.ErrorIs(t, hostile.Soon(t, w, "it waits for nobody").Err, recipes.ErrLost)
		_ = x.Unlock(t.Context()) // of a lease that is lost
		l.Unlock(beats)
	})
}

// A waiter whose session was quiet for a long time is granted a lease that lasts. So the grant must be proven, and not only believed.
func TestALeaseAfterALongWaitLasts(t *testing.T) {
	inLine(t, func(t *testing.T, l *line) {
		l.Unlock(l.held)
		next, _ := l.oneAtATime(time.Minute)
		require.NotNil(t, next)
		require.NoError(t, context.Cause(next.Context()))
		require.NoError(t, next.Verify(t.Context()))
		l.Unlock(next)
		l.Unlock((<-l.rival).V)
	})
}
