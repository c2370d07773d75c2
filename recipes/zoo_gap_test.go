package recipes_test

import (
	"context"
	"net"
	"path"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
	"github.com/locktree/locktree/recipes/zktest"
)

// These tests exist because a variant of the bug zoo got past all others, or hung them: time in a bubble never stands
// still while a client pings, so a test that waits for what a wrong queue never sends would run for ever. They say by
// when.

// replace puts a node of somebody else into the place of one, before anybody can have seen it gone.
func (l *lab) replace(node string) {
	l.t.Helper()
	require.NoError(l.t, l.srv.Delete(node))
	require.NoError(l.t, l.srv.Create(node, []byte("not yours")))
}

func TestAHolderWhoseNodeIsGoneOrAnothersStopsAtOnce(t *testing.T) { // cases 28, 29: CURATOR-171, CURATOR-604
	for name, harm := range map[string]func(*lab, string){
		"gone":      func(l *lab, node string) { require.NoError(l.t, l.srv.Delete(node)) },
		"another's": (*lab).replace,
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				x, err := l.client("a").Mutex(l.mutex()).Lock(t.Context())
				require.NoError(t, err)
				l.settle()
				harm(l, x.Node())
				start := time.Now()
				hostile.Soon(t, x.Context().Done(), "the holder goes on")
				require.LessOrEqual(t, time.Since(start), 3*oneWay, "the event and one read; a heartbeat would notice later")
				require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
			})
		})
	}
}

func TestAWaiterWhoseNodeIsAnothersIsNeverGranted(t *testing.T) { // case 28, of a waiter
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		x, err := l.client("a").Mutex(m).Lock(t.Context())
		require.NoError(t, err)
		w := l.locking(l.client("b").Mutex(m))
		l.replace(l.queue(m)[1])
		l.unlock(x)
		r := hostile.Soon(t, w, "the waiter was not told")
		require.ErrorIs(t, r.err, recipes.ErrLost)
	})
}

// A follower that has lost its leader goes on answering reads and pings and showing what it has: 5.82 s of two holders
// were measured. It commits nothing.
func TestAGrantNeedsAServerThatCommits(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		x, err := l.client("a").Mutex(m).Lock(t.Context())
		require.NoError(t, err)
		c := l.client("b")
		w := l.locking(c.Mutex(m))
		id := l.session(c)
		cutOff := l.srv.Inject(func(r zktest.Request) bool {
			return r.Session == id && (r.Op == "setData" || r.Op == "multi")
		}, zktest.DropRequest)
		time.Sleep(c.Newest().Timeout()/6 + time.Second) // as long as that what was committed before may count
		l.unlock(x)
		l.settle()
		require.Positive(t, cutOff.Hits(), "it must try to commit something")
		notYet(t, w, "granted on what a server shows")
		cutOff.Remove()
		l.srv.Disconnect(id)
		r := hostile.Soon(t, w, "the server commits again")
		require.NoError(t, r.err)
		l.unlock(r.v)
	})
}

func TestTheQueueKeepsItsOrderWhereNumbersWrap(t *testing.T) { // case 58: ZooKeeper numbers on at -2147483648
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		order := []string{"b-lock-2147483646", "d-lock-2147483647", "c-lock--2147483648", "a-lock--2147483647"}
		for _, i := range []int{2, 0, 3, 1} {
			l.foreign(m, order[i], "")
		}
		in, err := inspect.Lock(t.Context(), l.client("who"), m)
		require.NoError(t, err)
		var got []string
		for _, k := range append(in.Holders, in.Waiters...) {
			got = append(got, path.Base(k.Path))
		}
		require.Equal(t, order, got)
		_, _, err = recipes.Decide(kind.Mutex.Queues[0], nil, order, order[2])
		require.NoError(t, err)
		granted, behind, err := recipes.Decide(kind.Mutex.Queues[0], nil, order, order[2])
		require.NoError(t, err)
		require.False(t, granted, "the first number beyond the wrap jumps the queue")
		require.Equal(t, order[1], behind)
	})
}

// movedTo makes a client connect to r while moved says so.
func (l *lab) movedTo(r *zktest.Replica, moved *atomic.Bool) func(*recipes.Config) {
	return func(cfg *recipes.Config) {
		cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			if !moved.Load() {
				return l.srv.DialContext(ctx, network, address)
			}
			return r.DialContext(ctx, network, address)
		}
	}
}

func TestASearchOnAServerThatLagsFindsTheNode(t *testing.T) { // case 2: a follower hides the node, a second one is made
	inLab(t, func(t *testing.T, l *lab) {
		follower := l.srv.Replica()
		var moved atomic.Bool
		c := l.client("a", l.movedTo(follower, &moved))
		m := c.Mutex(l.mutex())
		l.warm(m)
		before := l.changes("/m")
		follower.Lag()
		moved.Store(true)
		lost := l.srv.Inject(zktest.Once(at("create")), zktest.DropReply)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		x, err := m.Lock(ctx)
		require.Equal(t, 1, lost.Hits())
		require.NoError(t, err, "it stands behind itself: %v", l.children("/m"))
		require.Len(t, l.children("/m"), 1)
		require.EqualValues(t, 1, l.changes("/m")-before, "a second one was made, and one deleted")
		l.unlock(x)
	})
}

// A leader that was cut off answers a sync by itself: the node was taken for absent, and a second one stood behind it.
func TestASearchOnALeaderThatWasCutOffFindsTheNode(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		old := l.srv.Replica()
		var moved atomic.Bool
		c := l.client("a", l.movedTo(old, &moved))
		m := c.Mutex(l.mutex())
		l.warm(m)
		before := l.changes("/m")
		old.CutOff()
		moved.Store(true)
		lost := l.srv.Inject(zktest.Once(at("create")), zktest.DropReply)
		w := async(func() (*recipes.Lease, error) { return m.Lock(t.Context()) })
		<-lost.Hit()
		time.Sleep(3 * time.Second) // it is asked there, for as long as it has not noticed
		require.Empty(t, w)
		moved.Store(false)
		l.srv.Disconnect(l.session(c))
		time.Sleep(3 * time.Second)
		require.Len(t, w, 1, "it stands behind itself: %v", l.children("/m"))
		r := <-w
		require.NoError(t, r.err)
		require.Len(t, l.children("/m"), 1)
		require.EqualValues(t, 1, l.changes("/m")-before, "a second one was made, and one deleted")
		l.unlock(r.v)
	})
}

func TestAReleaseIsTriedUntilItIsDone(t *testing.T) { // case 36: CURATOR-486, CURATOR-678, vault #4491
	inLab(t, func(t *testing.T, l *lab) {
		// A session long enough to outlast the cuts: one that is lost takes its node along, and Unlock is content.
		c := l.client("a", func(cfg *recipes.Config) { cfg.SessionTimeout = 40 * time.Second })
		x, err := c.Mutex(l.mutex()).Lock(t.Context())
		require.NoError(t, err)
		cuts := l.srv.Inject(func(r zktest.Request) bool { return r.Op == "delete" && r.N <= 4 }, zktest.CutBefore)
		l.unlock(x)
		require.Equal(t, 4, cuts.Hits())
		require.Empty(t, l.children("/m"), "Unlock said that it is gone")
	})
}

// Nothing else is asked in this session, so no later answer tells that this one will not come.
func TestAReleaseThatIsNeverAnsweredIsAskedAgain(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("a")
		x, err := c.Mutex(l.mutex()).Lock(t.Context())
		require.NoError(t, err)
		l.settle() // until the node is watched
		l.srv.Inject(zktest.Once(zktest.On("delete")), zktest.DropRequest)
		done := async(func() (any, error) { return nil, x.Unlock(context.Background()) })
		time.Sleep(15 * time.Second) // a session timeout, and a quarter
		require.Len(t, done, 1, "it is held by nobody, and nobody can have it")
		require.NoError(t, (<-done).err)
		require.Empty(t, l.children("/m"))
	})
}

func TestAnExpiredSessionEndsItsLeases(t *testing.T) { // etcd #10811, consul #2332
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("a")
		x, err := c.Mutex(l.mutex()).Lock(t.Context())
		require.NoError(t, err)
		l.settle()
		l.srv.Expire(l.session(c))
		time.Sleep(20 * time.Second) // a session timeout and more, in case only a deadline notices
		synctest.Wait()
		select { // Err would look at the clock: what counts is that the lease ends though nobody looks
		case <-x.Context().Done():
		default:
			require.Fail(t, "the lease outlives its session")
		}
		require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
	})
}

func TestAWaiterIsToldOfTheLossOfItsSessionByThatAlone(t *testing.T) { // case 15: etcd #19597
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		x, err := l.client("a").Mutex(m).Lock(t.Context())
		require.NoError(t, err)
		c := l.client("b")
		w := l.locking(c.Mutex(m))
		l.srv.Partition(l.session(c), zktest.Both) // no event comes any more
		time.Sleep(12 * time.Second)
		require.ErrorIs(t, hostile.Soon(t, w, "it waits for a turn that cannot come").err, recipes.ErrSessionLost)
		l.unlock(x)
		l.srv.Heal(0)
	})
}

func TestASwappedSessionIsNoticedByItsNumber(t *testing.T) { // ClickHouse#116690
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("a")
		s, err := c.Session(t.Context())
		require.NoError(t, err)
		id := s.ID()
		l.srv.SwapSessionID(id)
		l.srv.Disconnect(id)
		time.Sleep(10 * time.Second)
		require.Equal(t, session.StateLost, s.State())
		require.Equal(t, id, s.ID())
	})
}

func TestAPredecessorThatVanishesCostsNoWait(t *testing.T) { // case 13: ZooKeeper's WriteLock never wakes
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		x, err := l.client("a").Mutex(m).Lock(t.Context())
		require.NoError(t, err)
		b := l.client("b").Mutex(m)
		l.warmDeclaration(b)
		look := l.srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "getData" && r.Path == x.Node() }), zktest.Hold)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w := async(func() (*recipes.Lease, error) { return b.Lock(ctx) })
		<-look.Hit()
		l.unlock(x)
		look.Release()
		r := hostile.Soon(t, w, "nobody is ahead any more")
		require.NoError(t, r.err)
		l.unlock(r.v)
	})
}

func TestJunkCostsNoWait(t *testing.T) { // case 11: CURATOR-43, samuel #64
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		for _, name := range []string{"config", "0-meta", "_c_x", "zzz", "lock-12"} {
			l.foreign(m, name, "")
		}
		w := async(func() (*recipes.Lease, error) { return l.client("a").Mutex(m).Lock(t.Context()) })
		r := hostile.Soon(t, w, "it waits for a child that is nobody's")
		require.NoError(t, r.err)
		l.unlock(r.v)
	})
}

func TestAnotherProcessGetsItsTurnBetweenTwoOfOurs(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		a := l.client("a").Mutex(m)
		x, err := a.Lock(t.Context())
		require.NoError(t, err)
		second := l.locking(a)
		other := l.locking(l.client("b").Mutex(m))
		l.unlock(x)
		r := hostile.Soon(t, other, "it came before the goroutine's new place")
		require.NoError(t, r.err)
		notYet(t, second, "two hold")
		l.unlock(r.v)
		r = hostile.Soon(t, second, "now it is ours")
		require.NoError(t, r.err)
		l.unlock(r.v)
	})
}

func TestARevocationIsHeardSoon(t *testing.T) { // Curator's makeRevocable
	inLab(t, func(t *testing.T, l *lab) {
		x, err := l.client("a").Mutex(l.mutex()).Lock(t.Context())
		require.NoError(t, err)
		l.settle()
		require.NoError(t, l.srv.Set(x.Node(), []byte(kind.RevokeMessage)))
		hostile.Soon(t, x.Context().Done(), "the holder was asked to step back")
		require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrRevoked)
		l.unlock(x)
	})
}

// Two that take their first place at the same moment, each where the other takes its second.
func TestMultiLocksOfOppositeOrderStartedAtOnceBothGetTheirTurn(t *testing.T) { // case 50: Curator InterProcessMultiLock
	inLab(t, func(t *testing.T, l *lab) {
		l.declare("/x", kind.Mutex.New())
		l.declare("/y", kind.Mutex.New())
		done := make(chan error, 2)
		for _, order := range [][]string{{"/x", "/y"}, {"/y", "/x"}} {
			c := l.client("c")
			l.warmDeclaration(c.Mutex("/x"))
			l.warmDeclaration(c.Mutex("/y"))
			start := time.Now().Truncate(time.Second).Add(2 * time.Second)
			go func() {
				time.Sleep(time.Until(start))
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				both := c.MultiLock(c.Mutex(order[0]), c.Mutex(order[1]))
				done <- both.Do(ctx, func(context.Context, *recipes.Lease) error { return nil })
			}()
		}
		require.NoError(t, <-done)
		require.NoError(t, <-done)
	})
}

func TestAnyPermitThatComesBackIsNoticed(t *testing.T) { // case 45: Curator V1 watches one of them
	for which := range 2 {
		inLab(t, func(t *testing.T, l *lab) {
			l.semaphore(2)
			var held [2]*recipes.Lease
			for i := range held {
				x, err := l.client("holder").Semaphore("/s").Acquire(t.Context(), 1)
				require.NoError(t, err)
				held[i] = x
			}
			w := l.drawing(l.client("waiter"), 1)
			l.unlock(held[which])
			r := hostile.Soon(t, w, "a permit is free")
			require.NoError(t, r.err)
			l.unlock(r.v)
			l.unlock(held[1-which])
		})
	}
}

func TestAChangedLimitReachesWhoWaits(t *testing.T) { // case 48
	inLab(t, func(t *testing.T, l *lab) {
		l.semaphore(1)
		x, err := l.client("a").Semaphore("/s").Acquire(t.Context(), 1)
		require.NoError(t, err)
		w := l.drawing(l.client("b"), 1)
		l.semaphore(2)
		r := hostile.Soon(t, w, "there are two permits now")
		require.NoError(t, r.err)
		l.unlock(r.v)
		l.unlock(x)
	})
}

// Which of the requests that wait for a connection goes first is chance in go-zookeeper: one reconnect proves little.
// go-zookeeper#163: when it cannot send the authentication again it leaves the reply it made up itself where its next
// one then does not fit, and waits there for ever, holding its locks.
