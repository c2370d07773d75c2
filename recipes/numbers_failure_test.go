package recipes_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// What may go wrong for a client that expects nobody else in the queue.

// A caller that has had enough when it gives the lock back (a request that was cancelled, say) costs the next goroutine nothing.
func TestAnUnlockWithAnEndedContextHandsThePlaceOnAtOnce(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex())
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2 * settled {
			w := l.locking(m)
			l.srv.ResetCounts()
			start := time.Now()
			require.ErrorIs(t, x.Unlock(ended), recipes.ErrReleasePending)
			require.Zero(t, time.Since(start))
			r := <-w
			require.NoError(t, r.err)
			require.Equal(t, 2*oneWay, r.at.Sub(start))
			require.Equal(t, 1, l.srv.Counts().ByOp["multi"])
			require.Zero(t, l.srv.Counts().ByOp["create"])
			x = r.v
		}
		l.unlock(x)
	})
}

// So does one that gives it back while there is no connection.
func TestAnUnlockWithoutAConnectionHandsThePlaceOnWhenThereIsOne(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("a")
		m := c.Mutex(l.mutex())
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		w := l.locking(m)
		l.srv.RefuseDials(true)
		l.srv.Disconnect(l.session(c))
		l.settle()
		l.srv.ResetCounts()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, x.Unlock(ctx), recipes.ErrReleasePending)
		require.Equal(t, time.Second, time.Since(start))
		l.srv.RefuseDials(false)
		r := <-w
		require.NoError(t, r.err)
		require.Equal(t, 1, l.srv.Counts().ByOp["multi"])
		require.Zero(t, l.srv.Counts().ByOp["create"])
		l.unlock(r.v)
	})
}

// Whatever becomes of a request or its reply, and of the queue while there is no connection, two never believe to hold.
func TestALostRequestOfAnOwnLockOverlooksNobody(t *testing.T) {
	type upheaval func(l *lab, b *recipes.Mutex) <-chan result[*recipes.Lease]
	queued := func(l *lab, b *recipes.Mutex) <-chan result[*recipes.Lease] { return l.locking(b) }
	upheavals := map[string]upheaval{
		"nothing":       func(*lab, *recipes.Mutex) <-chan result[*recipes.Lease] { return nil },
		"a rival comes": queued,
	}
	for back := range int32(settled + 3) { // a new leader counts from there
		upheavals[fmt.Sprintf("the count goes back to %d", back)] = func(l *lab, b *recipes.Mutex) <-chan result[*recipes.Lease] {
			require.NoError(l.t, l.srv.SetCreateCount("/m", back))
			return queued(l, b)
		}
		upheavals[fmt.Sprintf("the queue is made again, %d", back)] = func(l *lab, b *recipes.Mutex) <-chan result[*recipes.Lease] {
			require.NoError(l.t, l.srv.Delete("/m"))
			l.mutex()
			require.NoError(l.t, l.srv.SetCreateCount("/m", back))
			return queued(l, b)
		}
	}
	for _, op := range []string{"create", "delete", "multi"} {
		for name, f := range map[string]zktest.Fault{
			"reply lost": zktest.DropReply, "cut before": zktest.CutBefore, "cut after": zktest.CutAfter, "reply cut": zktest.CutAt(3),
		} {
			for what, happens := range upheavals {
				t.Run(op+"/"+name+"/"+what, func(t *testing.T) {
					inLab(t, func(t *testing.T, l *lab) {
						c := l.client("a")
						a, b := c.Mutex(l.mutex()), l.client("b").Mutex("/m")
						l.own(a.Lock)
						id := l.session(c)
						var ours []<-chan result[*recipes.Lease]
						x, err := a.Lock(t.Context())
						require.NoError(t, err)
						if op == "multi" {
							ours = append(ours, l.locking(a))
						}
						rule := l.srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Session == id && r.Op == op }), f)
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
						l.srv.RefuseDials(true)
						l.srv.Disconnect(id)
						l.srv.RefuseDials(false)
						rival := happens(l, b)
						<-released
						ours = append(ours, async(func() (*recipes.Lease, error) { return a.Lock(context.Background()) }))
						l.alternate(append(ours, rival))
						require.Empty(t, l.children("/m"))
						require.Empty(t, c.Leftovers())
					})
				})
			}
		}
	}
}

// alternate requires that all are granted, or told that they lost their place, and one at a time.
func (l *lab) alternate(all []<-chan result[*recipes.Lease]) {
	l.t.Helper()
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
			if r.err != nil {
				if !recipes.Retryable(r.err) {
					l.t.Error(r.err)
				}
				return
			}
			if held != nil && held.Context().Err() == nil {
				l.t.Error("two believe to hold")
			}
			held = r.v
			time.Sleep(3 * time.Second)
			if held == r.v {
				held = nil
			}
			_ = r.v.Unlock(context.Background())
		}()
	}
	for range left {
		select {
		case <-over:
		case <-time.After(2 * time.Minute):
			require.Fail(l.t, "somebody still waits")
		}
	}
	l.settle()
}

// The end of the sequence is told to who leaves the listing out, too.
func TestAnOwnLockComesToTheEndOfTheSequence(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.client("a").Mutex(l.mutex())
		require.NoError(t, l.srv.SetCreateCount("/m", recipes.LastSequence-settled-1))
		l.own(m.Lock)
		for range 2 {
			x, err := m.Lock(t.Context())
			require.NoError(t, err)
			l.unlock(x)
		}
		_, err := m.Lock(t.Context())
		require.ErrorIs(t, err, recipes.ErrSequenceExhausted)
		l.settle()
		require.Empty(t, l.children("/m"))
	})
}

// Bounds and refusals hold for who expects nobody.
func TestARefusalMeetsWhoExpectsNobody(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.declare("/m", &kind.MutexParams{Common: kind.Common{MaxWaiters: 1}})
		a := l.client("a").Mutex("/m")
		l.own(a.Lock)
		x, err := l.client("b").Mutex("/m").Lock(t.Context())
		require.NoError(t, err)
		w := l.locking(l.client("c").Mutex("/m"))
		_, err = a.Lock(t.Context())
		require.ErrorIs(t, err, recipes.ErrQueueFull)
		l.unlock(x)
		l.unlock((<-w).v)

		l.own(a.Lock)
		got := async(func() (*recipes.Lease, error) { return a.Lock(t.Context()) })
		synctest.Wait()
		l.declare("/m", kind.Mutex.New(), draining)
		require.ErrorIs(t, (<-got).err, recipes.ErrDraining)
		l.settle()
		require.Empty(t, l.children("/m"))
	})
}

// An heir with another ID than the one that the place was made for writes its own, though nobody else is in the queue.
func TestAnHeirThatIsAloneNamesItself(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("a")
		m := c.Mutex(l.mutex())
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		for range settled { // by hand-overs
			w := l.locking(m)
			l.unlock(x)
			x = (<-w).v
		}
		ctx, cancel := context.WithCancel(t.Context())
		first := async(func() (*recipes.Lease, error) { return c.Mutex("/m", recipes.WithID("first")).Lock(ctx) })
		l.settle()
		second := l.locking(c.Mutex("/m", recipes.WithID("second")))
		done := async(func() (any, error) { return nil, x.Unlock(t.Context()) })
		synctest.Wait()
		cancel()
		require.Error(t, (<-first).err)
		require.NoError(t, (<-done).err)
		r := <-second
		require.NoError(t, r.err)
		require.Equal(t, "second", l.says("/m"))
		l.unlock(r.v)
	})
}

// Declarations that are pushed out take with them what was known of the numbers.
func TestNumbersGoWithADeclarationThatIsPushedOut(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("a")
		c.KeepDeclarations(1)
		l.declare("/n", kind.Mutex.New())
		a := c.Mutex(l.mutex())
		l.own(a.Lock)
		l.own(c.Mutex("/n").Lock)
		l.srv.ResetCounts()
		x, err := a.Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, l.srv.Counts().ByOp["getChildren2"])
		l.unlock(x)
	})
}
