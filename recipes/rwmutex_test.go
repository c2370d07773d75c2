package recipes_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestReadersShareAndWritersExclude(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		p := l.RWLock()
		r1 := l.Lock(l.Client("r1").RWMutex(p).RLock)
		r2 := l.Lock(l.Client("r2").RWMutex(p).RLock)
		w := l.Waiting(l.Client("w").RWMutex(p).Lock)
		var behind []<-chan result[*recipes.Lease]
		for range 5 {
			behind = append(behind, l.Waiting(l.Client("r3").RWMutex(p).RLock))
		}
		l.Unlock(r2)
		l.Settle()
		notYet(t, w, "a writer beside a reader")
		for _, r3 := range behind {
			notYet(t, r3, "a reader overtook the writer before it")
		}
		l.Refused(l.Client("try").RWMutex(p).TryRLock, recipes.ErrHeld)
		l.Unlock(r1)
		writer := l.Granted(w)
		l.Settle()
		notYet(t, behind[0], "a reader beside a writer")
		start := time.Now()
		l.Unlock(writer.V)
		for _, r3 := range behind {
			require.LessOrEqual(t, l.Granted(r3).At.Sub(start), 6*oneWay, "the release, a listing and perhaps a proof, for all of them at once")
		}
	})
}

func TestAReaderBehindTwoWritersWaitsForTheNearest(t *testing.T) { // case 42, kazoo #649
	inLab(t, func(t *testing.T, l *lab) {
		p := l.RWLock()
		w1 := l.Lock(l.Client("w1").RWMutex(p).Lock)
		w2 := l.Waiting(l.Client("w2").RWMutex(p).Lock)
		reader := l.Client("r")
		r := l.Waiting(reader.RWMutex(p).RLock)
		w3 := l.Waiting(l.Client("w3").RWMutex(p).Lock)
		id := l.SessionID(reader)
		l.Settle()
		l.Srv.ResetCounts()
		l.Unlock(w1)
		second := l.Granted(w2)
		l.Settle()
		require.Zero(t, l.Srv.SessionCounts(id).WatchEvents, "the reader was woken by a writer that is not its nearest")
		notYet(t, r, "a reader beside the second writer")
		l.Unlock(second.V)
		got := l.Granted(r)
		l.Settle()
		notYet(t, w3, "a writer beside the reader before it")
		l.Unlock(got.V)
		l.Unlock(l.Got(w3))
	})
}

func TestDowngradeLetsNobodyInBetween(t *testing.T) { // case 43, CURATOR-276, CURATOR-621
	inLab(t, func(t *testing.T, l *lab) {
		p := l.RWLock()
		m := l.Client("a").RWMutex(p)
		w := l.Lock(m.Lock)
		other := l.Waiting(l.Client("w").RWMutex(p).Lock)
		behind := l.Waiting(l.Client("r").RWMutex(p).RLock)
		first := async(func() (*recipes.Lease, error) { return m.Downgrade(t.Context(), w) })
		synctest.Wait()
		_, err := m.Downgrade(t.Context(), w) // it would find its node gone, because the first call exchanges it
		require.ErrorContains(t, err, "recipes: /rw is being exchanged by another call of Downgrade")
		r := l.Got(first)
		require.ErrorIs(t, context.Cause(w.Context()), recipes.ErrReleased)
		require.NoError(t, r.Context().Err())
		_, err = m.Downgrade(t.Context(), r)
		require.ErrorContains(t, err, "Downgrade needs a write lease of /rw")
		require.Equal(t, w.Node()[len(w.Node())-10:], r.Node()[len(r.Node())-10:], "the reader must stand where the writer stood")
		l.Settle()
		notYet(t, other, "a writer got in while the lock is read")
		require.NoError(t, r.Context().Err(), "the read lease ended with the write lease")
		r2, err := l.Client("b").RWMutex(p).TryRLock(t.Context())
		require.ErrorIs(t, err, recipes.ErrHeld, "a reader overtook the waiting writer: %v", r2)
		l.Unlock(r)
		got := l.Granted(other)
		l.Settle()
		notYet(t, behind, "reader beside writer")
		l.Unlock(got.V)
		l.Unlock((<-behind).V)
	})
}

// After a failed exchange Downgrade returned nil, and a deferred Unlock of the result panicked.
func TestDowngradeReturnsTheLeaseThatItCouldNotExchange(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		m := c.RWMutex(l.RWLock(), recipes.WithReentrancy())
		x := l.Lock(m.Lock)
		inner := must(m.Lock(x.Context()))(t)
		x, err := m.Downgrade(t.Context(), x)
		require.ErrorContains(t, err, "/rw was entered 2 times")
		require.NoError(t, x.Context().Err())
		l.Unlock(inner)
		refused := l.Srv.Inject(zktest.On("multi"), zktest.Fail(zktest.CodeNoAuth))
		x, err = m.Downgrade(t.Context(), x)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		refused.Remove()
		full := c.PathBytes(c.Newest())
		full.Add(recipes.MaxEphemeralBytes)
		same, err := m.Downgrade(t.Context(), x) // nothing is sent
		l.Refused(c.Mutex(l.Mutex()).Lock, recipes.ErrSessionFull)
		full.Add(-recipes.MaxEphemeralBytes)
		require.Same(t, x, same)
		require.ErrorIs(t, err, recipes.ErrSessionFull)
		require.NoError(t, x.Verify(t.Context()), "a refused exchange cost the lease")
		l.Unlock(x)
		l.vacant("/rw")
	})
	var none *recipes.Lease
	require.NoError(t, none.Unlock(t.Context()))
}

// Many tries at once on a free lock all succeed. On a lock that is held, no try waits for the lock.
func TestTryRLockWaitsForAnAnswerNotForTheLock(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		m := l.Client("readers").RWMutex("/rw")
		tries := func() []<-chan result[*recipes.Lease] {
			all := make([]<-chan result[*recipes.Lease], 10)
			for i := range all {
				all[i] = async(func() (*recipes.Lease, error) { return m.TryRLock(context.Background()) })
			}
			return all
		}
		for _, r := range tries() {
			l.Unlock(l.Got(r))
		}
		l.NothingLeft()
		x := l.Lock(l.Client("writer").RWMutex("/rw").Lock)
		waiting := []<-chan result[*recipes.Lease]{l.Waiting(m.RLock), l.Waiting(m.RLock)}
		start := time.Now()
		for _, r := range tries() {
			held := heldBy(t, (<-r).Err)
			require.Equal(t, x.Node(), held.Holder.Path)
		}
		require.Less(t, time.Since(start), time.Second)
		l.Unlock(x)
		for _, r := range waiting {
			l.Unlock(l.Got(r))
		}
		l.NothingLeft()
	})
}

// If an exchange is known not to have been applied, Downgrade tries again and does not fail. While the client looks for the outcome, a
// heartbeat finds the writer's node gone, which is no loss.
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
			rule := l.Srv.Inject(func(q zktest.Request) bool { return q.Op == "multi" && q.N <= c.times }, c.fault)
			r := must(m.Downgrade(t.Context(), w))(t)
			require.Equal(t, c.times, rule.Hits())
			require.ErrorIs(t, context.Cause(w.Context()), recipes.ErrReleased)
			require.NotErrorIs(t, context.Cause(w.Context()), recipes.ErrLost)
			require.NoError(t, r.Context().Err())
			l.Settle()
			require.Equal(t, []string{r.Node()}, l.Queue("/rw"))
			l.Unlock(r)
			l.vacant("/rw")
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
		if w.Context().Err() == nil { // otherwise the outcome was unknown when ctx ended, and the lease was given up
			require.NoError(t, w.Verify(t.Context()))
			l.Unlock(w)
		}
		time.Sleep(time.Minute)
		l.Empty("/rw")
	})
}

// A proof or a guarded write may find the writer's node gone during the exchange. The lease does not end as lost then either.
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
		search := l.Srv.Inject(zktest.On("getChildren2"), zktest.Hold) // Downgrade's search for the outcome of the exchange
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
		l.warm(m.Lock)
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

// A loop that repeats a call after each Retryable error would have repeated the work of the writer.
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

// A struct with many fields has states that have no name.
func TestNoStructHasMoreThanFifteenFields(t *testing.T) {
	files := must(filepath.Glob("*.go"))(t)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		syntax := must(parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution))(t)
		ast.Inspect(syntax, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok {
				if fields, ok := s.Type.(*ast.StructType); ok {
					require.LessOrEqual(t, fields.Fields.NumFields(), 15, "%s in %s", s.Name, file)
				}
			}
			return true
		})
	}
}
