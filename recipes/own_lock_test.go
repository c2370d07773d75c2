package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// A lock that one client takes again and again, with nobody or hardly anybody else.

func TestALockThatNobodyElseWantsCostsThreeRequestsAndTwoRoundTrips(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		l.warm(m)
		for range 5 {
			require.Equal(t, spent(2, "create delete getChildren2"), l.Cost(func() { l.Unlock(l.Lock(m.Lock)) }))
		}
	})
}

// Servers tell nothing to a client that may not read the queue any more, so it does not hear that the queue was deleted and
// created again, with a rival in it. A grant rests on a listing, which it does not get.
func TestAQueueThatWasMadeAgainUnheardGrantsNothing(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		l.warm(m)
		admin := l.session(l.Client("admin"))
		blind := []zk.ACL{{Scheme: "world", ID: "anyone", Perms: zk.PermCreate | zk.PermDelete | zk.PermAdmin}}
		_, err := admin.SetACL(t.Context(), "/m", blind, -1)
		require.NoError(t, err)
		require.NoError(t, l.Srv.Delete("/m"))
		l.Mutex()
		rival := l.Foreign("/m", "_c_6e1f1f43-5d9a-4b46-9c3e-0a4f1d2b3c4d-lock-0000000000", "rival")
		_, err = admin.SetACL(t.Context(), "/m", blind, -1)
		require.NoError(t, err)
		l.Refused(m.Lock, zk.ErrNoAuth)
		l.Settle()
		require.Equal(t, []string{rival}, l.Queue("/m"), "and nothing of it stays")
	})
}

// A caller that has had enough when it gives the lock back (a request that was cancelled, say) costs the next goroutine nothing.
func TestAnUnlockWithAnEndedContextHandsThePlaceOnAtOnce(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		x := l.Lock(m.Lock)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 6 {
			w := l.Locking(m)
			l.Srv.ResetCounts()
			start := time.Now()
			require.ErrorIs(t, x.Unlock(ended), recipes.ErrReleasePending)
			require.Zero(t, time.Since(start))
			r := l.Granted(w)
			require.Equal(t, 2*oneWay, r.At.Sub(start))
			require.Equal(t, 1, l.Srv.Counts().ByOp["multi"])
			require.Zero(t, l.Srv.Counts().ByOp["create"])
			x = r.V
		}
		l.Unlock(x)
	})
}

// Whatever becomes of a request or its reply, and of the queue while there is no connection, two never believe to hold.
func TestTwoNeverHoldALockWhenARequestOrReplyIsLost(t *testing.T) {
	type upheaval func(l *lab, b *recipes.Mutex) <-chan result[*recipes.Lease]
	queued := func(l *lab, b *recipes.Mutex) <-chan result[*recipes.Lease] { return l.Locking(b) }
	upheavals := map[string]upheaval{
		"nothing":       func(*lab, *recipes.Mutex) <-chan result[*recipes.Lease] { return nil },
		"a rival comes": queued,
		"the queue is made again": func(l *lab, b *recipes.Mutex) <-chan result[*recipes.Lease] {
			require.NoError(l.T, l.Srv.Delete("/m"))
			l.Mutex()
			return queued(l, b)
		},
	}
	for _, op := range []string{"create", "delete", "multi"} {
		for name, f := range map[string]zktest.Fault{
			"reply lost": zktest.DropReply, "cut before": zktest.CutBefore, "cut after": zktest.CutAfter, "reply cut": zktest.CutAt(3),
		} {
			for what, happens := range upheavals {
				runInLab(t, op+"/"+name+"/"+what, func(t *testing.T, l *lab) {
					c := l.Client("a")
					a, b := c.Mutex(l.Mutex()), l.Client("b").Mutex("/m")
					l.warm(a)
					id := l.SessionID(c)
					var ours []<-chan result[*recipes.Lease]
					x := l.Lock(a.Lock)
					if op == "multi" {
						ours = append(ours, l.Locking(a))
					}
					rule := l.Srv.Inject(zktest.Once(l.By(c, op)), f)
					released := make(chan struct{})
					go func() {
						_ = x.Unlock(context.Background()) // of a node that may have gone with its queue
						close(released)
					}()
					if op == "create" {
						<-released
						ours = append(ours, async(func() (*recipes.Lease, error) { return a.Lock(context.Background()) }))
					}
					<-rule.Hit()
					l.CutOff(id)
					l.Srv.RefuseDials(false)
					rival := happens(l, b)
					<-released
					ours = append(ours, async(func() (*recipes.Lease, error) { return a.Lock(context.Background()) }))
					l.alternate(append(ours, rival))
					l.Empty("/m")
					require.Empty(t, c.Leftovers())
				})
			}
		}
	}
}

// alternate requires that all are granted, or told that they lost their place, and one at a time.
func (l *lab) alternate(all []<-chan result[*recipes.Lease]) {
	l.T.Helper()
	over := make(chan struct{})
	var left int
	var held *recipes.Lease
	for _, ch := range all {
		if ch == nil {
			continue
		}
		left++
		go func() {
			defer func() { over <- struct{}{} }()
			r := <-ch
			if r.Err != nil {
				if !recipes.Retryable(r.Err) {
					l.T.Error(r.Err)
				}
				return
			}
			if held != nil && held.Context().Err() == nil {
				l.T.Error("two believe to hold")
			}
			held = r.V
			time.Sleep(3 * time.Second)
			if held == r.V {
				held = nil
			}
			_ = r.V.Unlock(context.Background())
		}()
	}
	for range left {
		select {
		case <-over:
		case <-time.After(2 * time.Minute):
			require.Fail(l.T, "somebody still waits")
		}
	}
	l.Settle()
}
