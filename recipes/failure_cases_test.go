package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestAParentThatVanishesBetweenTwoTriesEndsTheLock(t *testing.T) { // case 9: CURATOR-180, -308, -724
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		l.warm(m)
		rule := l.Srv.Inject(zktest.Once(at("create")), zktest.CutBefore)
		got := async(func() (*recipes.Lease, error) { return m.Lock(context.Background()) })
		<-rule.Hit()
		require.NoError(t, l.Srv.Delete("/m"))
		require.ErrorIs(t, (<-got).Err, recipes.ErrNotProvisioned)
		l.Mutex()
		l.nextIsServed("/m")
	})
}

func TestAWaiterWhoseWholeLockIsDeletedIsTold(t *testing.T) { // case 9: a waiter must not hang when the parent vanishes
	inLab(t, func(t *testing.T, l *lab) {
		x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
		w := l.Locking(l.Client("b").Mutex("/m"))
		require.NoError(t, l.Srv.Delete("/m"))
		start := time.Now()
		require.ErrorIs(t, (<-w).Err, recipes.ErrLost)
		<-x.Context().Done()
		require.LessOrEqual(t, time.Since(start), 6*oneWay)
	})
}

func TestALeaderChangeThatProlongsSessionsProlongsNoLease(t *testing.T) { // case 30: a new leader gives every session its full timeout again
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		x := l.Lock(c.Mutex(l.Mutex()).Lock)
		rival := l.Locking(l.Client("b").Mutex("/m"))
		l.Srv.Partition(l.SessionID(c), zktest.Both)
		cut := time.Now()
		told := make(chan time.Time, 1)
		context.AfterFunc(x.Context(), func() { told <- time.Now() })
		time.Sleep(4 * time.Second)
		l.Srv.SetReadOnly(true) // no quorum, then a new leader
		l.Srv.SetReadOnly(false)
		r := l.Granted(rival)
		lost := <-told
		require.LessOrEqual(t, lost.Sub(cut), 6*time.Second, "half a session timeout after the last commit, whatever servers do")
		require.GreaterOrEqual(t, r.At.Sub(cut), 16*time.Second, "the scenario needs the session to be prolonged")
		require.Greater(t, r.V.Token(), x.Token())
		l.Unlock(r.V)
	})
}

func TestUnlockOfANodeThatIsGoneIsDone(t *testing.T) { // case 39: NoNode is what a release wants
	inLab(t, func(t *testing.T, l *lab) {
		x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
		l.Settle()
		l.Srv.InjectEvent(func(zktest.Event) bool { return true }, zktest.DropEvent) // or the holder would know
		require.NoError(t, l.Srv.Delete(x.Node()))
		l.Unlock(x)
		l.Unlock(x)
	})
}

func TestAHeartbeatInFlightDoesNotKeepARelease(t *testing.T) { // case 40: pglock #36 marked released, and skipped the release
	for name, fault := range map[string]zktest.Fault{"held back": zktest.Hold, "cut": zktest.CutBefore, "its answer lost": zktest.DropReply} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			c := l.Client("a")
			x := l.Lock(c.Mutex(l.Mutex()).Lock)
			id := l.SessionID(c)
			beat := l.Srv.Inject(zktest.Once(at("multi")), fault)
			<-beat.Hit()
			released := async(func() (struct{}, error) { return struct{}{}, x.Unlock(context.Background()) })
			time.Sleep(oneWay)
			beat.Release()
			require.NoError(t, (<-released).Err)
			l.Empty("/m")
			require.Equal(t, id, l.SessionID(c), "released by a delete, not with the session")
		})
	}
}

func TestAReleaseThatIsRefusedForLongCostsNoSession(t *testing.T) { // case 40, the other way round
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		x := l.Lock(c.Mutex(l.Mutex()).Lock)
		id := l.SessionID(c)
		refused := l.Srv.Inject(at("delete"), zktest.Fail(zktest.CodeThrottled))
		ctx := l.Within(time.Minute)
		require.ErrorIs(t, x.Unlock(ctx), recipes.ErrReleasePending)
		require.Len(t, l.Children("/m"), 1)
		refused.Remove()
		time.Sleep(10 * time.Second)
		l.Empty("/m")
		require.Equal(t, id, l.SessionID(c))
	})
}

func TestTheEndOfTheSequenceStartsNoStormOfElections(t *testing.T) { // case 59: kazoo #730
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		e := l.Election()
		for _, dir := range []string{m, e} {
			require.NoError(t, l.Srv.SetCreateCount(dir, recipes.LastSequence))
		}
		holder := l.Client("holder")
		x := l.Lock(holder.Mutex(m).Lock)
		leading := l.Lock(holder.Election(e).Campaign)
		late := l.Client("late")
		l.Srv.ResetCounts()
		for range 10 {
			l.Refused(late.Mutex(m).Lock, recipes.ErrSequenceExhausted)
			err := late.Election(e).Lead(t.Context(), func(context.Context, *recipes.Lease) error { return nil })
			require.ErrorIs(t, err, recipes.ErrSequenceExhausted)
		}
		time.Sleep(time.Hour)
		n := l.Srv.SessionCounts(l.SessionID(late))
		require.LessOrEqual(t, n.ByOp["create"], 20, "one try each, and nobody tries by itself")
		require.NoError(t, x.Context().Err())
		require.NoError(t, leading.Context().Err())
		require.Len(t, l.Children(m), 1)
		require.Len(t, l.Children(e), 1)
	})
}

func TestTheOrderHoldsAcrossTheEndOfTheSequence(t *testing.T) { // failure matrix, row 33: 2147483647 is followed by -2147483648
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		require.NoError(t, l.Srv.SetCreateCount(m, recipes.LastSequence))
		l.Foreign(m, fmt.Sprintf("lock-%010d", math.MaxInt32), "behind")
		l.Foreign(m, fmt.Sprintf("lock-%d", math.MinInt32), "behind")
		ahead := l.Foreign(m, fmt.Sprintf("lock-%010d", recipes.LastSequence-1), "ahead")
		require.NoError(t, l.Srv.SetCreateCount(m, recipes.LastSequence))
		w := l.Locking(l.Client("a").Mutex(m))
		notYet(t, w, "one is ahead")
		require.NoError(t, l.Srv.Delete(ahead))
		r := l.Got(w) // those behind the end of the sequence are behind
		l.Unlock(r)
	})
}

func TestATreeMadeAnewBetweenTheStepsIsQueuedInAndNumbersTokensOn(t *testing.T) { // failure matrix, row 34
	for op, fault := range map[string]zktest.Fault{"create": zktest.Hold, "getChildren2": zktest.Hold, "getData": zktest.Hold} {
		runInLab(t, op, func(t *testing.T, l *lab) {
			m := l.Client("a").Mutex(l.Mutex())
			l.warm(m)
			first := l.Lock(l.Client("b").Mutex("/m").Lock)
			token := first.Token()
			l.Unlock(first)
			rule := l.Srv.Inject(zktest.Once(at(op)), fault)
			got := async(func() (*recipes.Lease, error) {
				x, err := m.Lock(context.Background())
				if err == nil {
					err = x.Verify(context.Background())
				}
				return x, err
			})
			<-rule.Hit()
			time.Sleep(oneWay)
			require.NoError(t, l.Srv.Delete("/m"))
			l.Mutex()
			rule.Release()
			r := <-got
			time.Sleep(4 * oneWay) // until it is known whether that was its node
			if r.Err == nil && r.V.Context().Err() == nil {
				require.Greater(t, r.V.Token(), token)
				require.Len(t, l.Children("/m"), 1)
				l.Unlock(r.V)
			} else if r.Err == nil {
				require.ErrorIs(t, context.Cause(r.V.Context()), recipes.ErrLost)
			} else {
				require.True(t, errors.Is(r.Err, recipes.ErrLost) || errors.Is(r.Err, recipes.ErrNotProvisioned), "%v", r.Err)
			}
			x := l.Lock(m.Lock)
			require.Greater(t, x.Token(), token)
			l.Unlock(x)
			l.nextIsServed("/m")
		})
	}
}

func TestAQueueThatIsClosedToAWaiterTellsItAndKeepsNoNode(t *testing.T) { // failure matrix, row 38: ACL revoked while waiting
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		first, second := l.Foreign(m, "lock-0000000000", ""), l.Foreign(m, "lock-0000000001", "")
		require.NoError(t, l.Srv.SetCreateCount(m, 2))
		w := l.Locking(l.Client("a").Mutex(m))
		admin := l.session(l.Client("admin", func(c *recipes.Config) { c.Auth = []recipes.Auth{{Scheme: "digest", Credentials: "admin:x"}} }))
		_, err := admin.SetACL(t.Context(), m, zk.DigestACL(zk.PermAll, "admin", "x"), -1)
		require.NoError(t, err)
		require.NoError(t, l.Srv.Delete(second)) // which stood before us: who is next must be read, and may not be
		r := <-w
		require.ErrorIs(t, r.Err, zk.ErrNoAuth)
		require.ErrorContains(t, r.Err, m)
		require.NoError(t, l.Srv.Delete(first))
		_, err = admin.SetACL(t.Context(), m, zk.WorldACL(zk.PermAll), -1)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		require.Empty(t, l.Children(m), "the node is deleted as soon as that is allowed")
	})
}

func TestALockWaitsForServersThatComeUpLate(t *testing.T) { // failure matrix, row 27
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		l.Srv.RefuseDials(true)
		start := time.Now()
		_, err := recipes.Dial(t.Context(), recipes.Config{Servers: []string{"zk"}, Dialer: l.Srv.DialContext})
		require.ErrorIs(t, err, recipes.ErrUnreachable)
		require.Equal(t, 5*time.Second, time.Since(start), "ConnectTimeout")
		l.Srv.RefuseDials(false)
		c := l.Client("a")
		l.Srv.RefuseDials(true)
		l.Srv.Expire(l.SessionID(c))
		start = time.Now()
		ctx := l.Within(7 * time.Second)
		_, err = c.Mutex(m).Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.InDelta(t, 7*time.Second, time.Since(start), float64(100*time.Millisecond))
		got := async(func() (*recipes.Lease, error) { return c.Mutex(m).Lock(context.Background()) })
		time.Sleep(time.Hour)
		notYet(t, got, "nobody is up")
		l.Srv.RefuseDials(false)
		l.Unlock(l.Got(got))
	})
}

func TestDeclaredIsReadAgainAfterALostWatch(t *testing.T) { // failure matrix, row 9: it changed while there was no connection
	inLab(t, func(t *testing.T, l *lab) {
		x := l.Lock(l.Client("0").Mutex(l.Mutex()).Lock)
		c := l.Client("1")
		w := l.Locking(c.Mutex("/m"))
		l.CutOff(l.SessionID(c))
		time.Sleep(time.Second)
		require.NoError(t, l.Srv.Delete(x.Node()))
		l.Declare("/m", kind.Mutex.New(), func(p *kind.Payload) { p.Gen++ })
		l.Srv.RefuseDials(false)
		l.Unlock(l.Got(w))
	})
}

func TestAReleaseCutOverAndOverIsNotReportedDoneWhileItsNodeIsThere(t *testing.T) { // zoo: half a session timeout passed in the middle of it
	for name, cuts := range map[string]int{"some cuts": 6, "until the session is over": 1000} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			c := l.Client("a")
			x := l.Lock(c.Mutex(l.Mutex()).Lock)
			id := l.SessionID(c)
			l.Srv.Inject(func(r zktest.Request) bool { return r.Op == "delete" && r.N <= cuts }, zktest.CutBefore)
			err := x.Unlock(context.Background())
			if err == nil {
				l.Empty("/m")
			} else {
				require.ErrorIs(t, err, recipes.ErrReleasePending)
			}
			if cuts < 10 {
				require.NoError(t, err)
				require.Equal(t, id, l.SessionID(c))
			}
		})
	}
}
