package recipes_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestAWriterWaitsForTheReadersAheadOfItAndNoOthers(t *testing.T) { // failure matrix, row 48: writer starvation
	inLab(t, func(t *testing.T, l *lab) {
		l.RWLock()
		read := func(who string) <-chan error {
			m := l.Client(who).RWMutex("/rw")
			done := make(chan error, 1)
			go func() {
				done <- m.RDo(context.Background(), func(context.Context, *recipes.Lease) error { time.Sleep(5 * time.Second); return nil })
			}()
			l.Settle()
			return done
		}
		var readers []<-chan error
		for i := range 3 {
			readers = append(readers, read(fmt.Sprint("before ", i)))
		}
		start := time.Now()
		w := l.Waiting(l.Client("writer").RWMutex("/rw").Lock)
		for i := range 8 { // a reader arrives more often than one leaves
			readers = append(readers, read(fmt.Sprint("after ", i)))
		}
		got := l.Granted(w)
		require.Less(t, got.At.Sub(start), 5*time.Second+4*oneWay, "readers that came later went first")
		l.Unlock(got.V)
		for _, r := range readers {
			require.NoError(t, <-r)
		}
	})
}

// A downgrade that is known not to have happened is no failure. While its outcome is found out, a heartbeat on the writer's node
// finds it gone, as it should be.
func TestAnExchangeOutlivesALostRequestOrReply(t *testing.T) {
	for name, c := range map[string]struct {
		fault zktest.Fault
		times int
	}{"requests lost": {zktest.CutBefore, 2}, "reply lost": {zktest.DropReply, 1}} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			a := l.Client("a")
			m := a.RWMutex(l.RWLock())
			w := l.Lock(m.Lock)
			l.Settle()
			id, cuts := l.SessionID(a), 0
			rule := l.Srv.Inject(func(q zktest.Request) bool {
				hit := q.Session == id && q.Op == "multi" && cuts < c.times
				if hit {
					cuts++
				}
				return hit
			}, c.fault)
			r, err := m.Downgrade(t.Context(), w)
			require.NoError(t, err)
			require.Equal(t, c.times, rule.Hits())
			require.ErrorIs(t, context.Cause(w.Context()), recipes.ErrReleased)
			require.NotErrorIs(t, context.Cause(w.Context()), recipes.ErrLost)
			require.NoError(t, r.Context().Err())
			l.Settle()
			require.Equal(t, []string{r.Node()}, l.Queue("/rw"))
			l.Unlock(r)
			l.Settle()
			l.Empty("/rw")
		})
	}
}

func TestAnExchangeWhoseContextEndsKeepsTheLease(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		m := c.RWMutex(l.RWLock())
		w := l.Lock(m.Lock)
		l.Settle()
		rule := l.Srv.Inject(l.By(c, "multi"), zktest.CutBefore)
		ctx := l.Within(2 * time.Second)
		_, err := m.Downgrade(ctx, w)
		require.Error(t, err)
		rule.Remove()
		if w.Context().Err() == nil { // else the outcome was unknown when ctx ended, and the lease was given up
			require.NoError(t, w.Verify(t.Context()))
			l.Unlock(w)
		}
		time.Sleep(time.Minute)
		l.Empty("/rw")
	})
}

// Nor does a proof, or a guarded write, that finds the writer's node gone meanwhile end the lease as lost.
func TestAProofDuringADowngradeIsNoLoss(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		var lost []recipes.Event
		c := l.Client("c", func(cfg *recipes.Config) {
			cfg.Observer = func(e recipes.Event) {
				if e.Type == recipes.EventLost {
					lost = append(lost, e)
				}
			}
		})
		m := c.RWMutex(l.RWLock())
		w := l.Lock(m.Lock)
		l.Settle()
		l.Srv.Inject(zktest.Once(zktest.On("multi")), zktest.DropReply)
		search := l.Srv.Inject(zktest.On("getChildren2"), zktest.Hold) // of Downgrade, for what became of the exchange
		exchanged := async(func() (*recipes.Lease, error) { return m.Downgrade(t.Context(), w) })
		time.Sleep(time.Second)
		verified := async(func() (any, error) { return nil, w.Verify(t.Context()) })
		wrote := async(func() (any, error) {
			_, err := w.Multi(t.Context(), &zk.CheckVersionRequest{Path: "/rw", Version: -1})
			return nil, err
		})
		l.Settle()
		search.Release()
		r := l.Got(exchanged)
		for _, err := range []error{(<-verified).Err, (<-wrote).Err} {
			require.Error(t, err)
			require.NotErrorIs(t, err, recipes.ErrLost)
		}
		require.ErrorIs(t, context.Cause(w.Context()), recipes.ErrReleased)
		l.Unlock(r)
		l.Settle()
		require.Empty(t, lost)
	})
}

func TestAnExchangeOfALeaseThatIsGivenBackMeanwhileLeavesNoGoroutine(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a", func(cfg *recipes.Config) { cfg.Observer = func(recipes.Event) {} }).RWMutex(l.RWLock())
		l.Unlock(l.Lock(m.Lock))
		l.Settle()
		goroutines := l.Goroutines()
		w := l.Lock(m.Lock)
		shed := l.Srv.Inject(zktest.On("multi"), zktest.Fail(zktest.CodeThrottled))
		exchanged := async(func() (*recipes.Lease, error) { return m.Downgrade(t.Context(), w) })
		<-shed.Hit()
		l.Unlock(w)
		l.Settle()
		shed.Remove()
		require.Error(t, (<-exchanged).Err)
		l.Settle()
		require.LessOrEqual(t, l.Goroutines(), goroutines)
	})
}

// Nothing was sent, and the lease was given up: "whether it was exchanged for another lease is unknown".
func TestADowngradeInASessionThatIsFullKeepsTheLease(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		m := c.RWMutex(l.RWLock())
		w := l.Lock(m.Lock)
		full := c.PathBytes(c.Newest())
		full.Add(recipes.MaxEphemeralBytes)
		same, err := m.Downgrade(t.Context(), w)
		full.Add(-recipes.MaxEphemeralBytes)
		require.Same(t, w, same)
		require.ErrorIs(t, err, recipes.ErrSessionFull)
		require.NoError(t, w.Verify(t.Context()))
		r, err := m.Downgrade(t.Context(), w)
		require.NoError(t, err)
		l.Unlock(r)
		l.Settle()
		l.Empty("/rw")
	})
}

// A loop around all calls whose errors are worth another try would have repeated the work of the writer.
func TestNoErrorOfADowngradeIsWorthAnotherCallOfTheWork(t *testing.T) {
	for name, fail := range map[string]func(*lab, *recipes.Client, string){
		"session lost": func(l *lab, c *recipes.Client, _ string) {
			l.CutOff(0)
			time.AfterFunc(20*time.Second, func() { l.Srv.RefuseDials(false) })
		},
		"shed": func(l *lab, _ *recipes.Client, _ string) {
			l.Srv.Inject(zktest.On("multi"), zktest.Fail(zktest.CodeThrottled))
		},
		"deleted": func(l *lab, _ *recipes.Client, node string) { _ = l.Srv.Delete(node) },
		"lost while it is exchanged": func(l *lab, c *recipes.Client, _ string) {
			l.Srv.Inject(func(r zktest.Request) bool {
				if r.Op == "multi" {
					time.AfterFunc(time.Second, func() { l.Srv.Expire(r.Session) })
				}
				return r.Op == "multi"
			}, zktest.DropReply)
		},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			c := l.Client("a")
			w := l.Lock(c.RWMutex(l.RWLock()).Lock)
			fail(l, c, w.Node())
			_, err := c.RWMutex("/rw").Downgrade(t.Context(), w)
			require.Error(t, err)
			require.False(t, recipes.Retryable(err), "%v", err)
			_ = w.Unlock(t.Context())
		})
	}
}
