package recipes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// The numbers are those of the failure cases this package was written against: bugs that other clients have had.

// at matches the operation on a contender of /m or on /m itself.
func at(op string) func(zktest.Request) bool {
	return func(r zktest.Request) bool { return r.Op == op && strings.HasPrefix(r.Path, "/m") }
}

// nextIsServed requires that another client gets the lock, that is, that nothing was left in the queue.
func (l *lab) nextIsServed(m string) {
	l.T.Helper()
	ctx := l.Within(time.Minute)
	x, err := l.Client("next").Mutex(m).Lock(ctx)
	require.NoError(l.T, err)
	l.Unlock(x)
	l.Settle()
	l.Empty(m)
}

// warm takes and releases the lock once, so that the declaration is known.
func (l *lab) warm(m *recipes.Mutex) {
	l.T.Helper()
	l.Unlock(l.Lock(m.Lock))
	l.Settle()
}

func TestALostCreateReplyIsResolvedToItsNodesAndTheLockContinues(t *testing.T) { // cases 1, 47: samuel #229, CURATOR-45, -335, -315, -462
	for name, fault := range map[string]zktest.Fault{"applied": zktest.DropReply, "not applied": zktest.CutBefore, "half a reply": zktest.CutAt(9)} {
		t.Run(name, func(t *testing.T) {
			forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
				take := way.Take(l.Client("a"))
				l.Unlock(l.Lock(take))
				l.Settle()
				rule := l.Srv.Inject(zktest.Once(l.enqueues(way)), fault)
				x := l.Lock(take)
				require.Equal(t, 1, rule.Hits())
				l.Settle()
				require.ElementsMatch(t, x.Nodes(), l.nodes())
				l.Unlock(x)
				l.NothingLeft()
				l.Unlock(l.Lock(way.Take(l.Client("next"))))
			})
		})
	}
}

func TestALostReplyWhoseSearchFailsTooLeavesNoOrphan(t *testing.T) { // case 4, 5: CURATOR-264, samuel #237
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		l.warm(m)
		creates := 0
		l.Srv.Inject(func(r zktest.Request) bool {
			if at("create")(r) {
				creates++
			}
			return at("create")(r) && creates == 1
		}, zktest.DropReply)
		searches := l.Srv.Inject(func(r zktest.Request) bool { return r.Op == "multi" && r.N <= 4 }, zktest.CutBefore)
		x := l.Lock(m.Lock)
		require.Equal(t, 4, searches.Hits())
		require.Equal(t, 1, creates)
		require.Len(t, l.Children("/m"), 1)
		l.Unlock(x)
		l.nextIsServed("/m")
	})
}

func TestACreateThatCommitsAfterItsClientMovedOnIsFoundOnce(t *testing.T) { // go-zookeeper: CreateProtected leaves two nodes
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		m := c.Mutex(l.Mutex())
		l.warm(m)
		held := l.Srv.Inject(zktest.Once(at("create")), zktest.Hold)
		got := async(func() (*recipes.Lease, error) { return m.Lock(context.Background()) })
		<-held.Hit()
		l.Srv.Disconnect(l.SessionID(c))
		time.Sleep(100 * time.Millisecond)
		held.Release()
		r := l.Got(got)
		l.Settle()
		require.Len(t, l.Children("/m"), 1)
		l.Unlock(r)
		l.nextIsServed("/m")
	})
}

func TestCancellingACreateInFlightReturnsAtOnceAndLeavesNothing(t *testing.T) { // case 3: CURATOR-79, -62
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		l.warm(m)
		held := l.Srv.Inject(zktest.Once(at("create")), zktest.Hold)
		ctx, cancel := context.WithCancel(context.Background())
		got := async(func() (*recipes.Lease, error) { return m.Lock(ctx) })
		<-held.Hit()
		cancel()
		start := time.Now()
		r := <-got
		require.ErrorIs(t, r.Err, context.Canceled)
		require.Less(t, time.Since(start), oneWay)
		held.Release()
		l.nextIsServed("/m")
	})
}

func TestCancellingACreateWhoseReplyIsLostLeavesNothing(t *testing.T) { // case 3 and 5 together, over a reconnect
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		m := c.Mutex(l.Mutex())
		l.warm(m)
		rule := l.Srv.Inject(zktest.Once(at("create")), zktest.DropReply)
		ctx, cancel := context.WithCancel(context.Background())
		got := async(func() (*recipes.Lease, error) { return m.Lock(ctx) })
		<-rule.Hit()
		time.Sleep(oneWay + time.Millisecond) // it is applied; that the connection is cut is not known here yet
		l.Srv.RefuseDials(true)
		cancel()
		require.Error(t, (<-got).Err)
		require.Len(t, l.Children("/m"), 1, "the scenario needs the orphan")
		time.Sleep(3 * time.Second)
		l.Srv.RefuseDials(false)
		time.Sleep(3 * time.Second)
		l.Empty("/m")
		l.nextIsServed("/m")
	})
}

func TestTenThousandFailedSearchesAreOneGoroutine(t *testing.T) { // case 6: Curator's finder recursed to a stack overflow
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a", func(cfg *recipes.Config) { cfg.SessionTimeout = 40 * time.Second })
		m := c.Mutex(l.Mutex())
		l.warm(m)
		s := l.live(c)
		ks, err := m.Contenders(t.Context(), s, 10_000)
		require.NoError(t, err)
		rule := l.Srv.Inject(zktest.On("multi"), zktest.Fail(zktest.CodeThrottled))
		before := l.Goroutines()
		gone := c.Remove(s, ks...)
		time.Sleep(10 * time.Second)
		require.Positive(t, rule.Hits())
		require.LessOrEqual(t, l.Goroutines(), before+5)
		require.NoError(t, c.Close())
		gone.Wait() // every one is answered when the session is over
	})
}

func TestAClosedClientAndAMissingServerAnswer(t *testing.T) { // case 8: kazoo #83, #482 hang
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		m := c.Mutex(l.Mutex())
		l.warm(m)
		l.CutOff(0)
		ctx := l.Within(2 * time.Second)
		start := time.Now()
		_, err := m.Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.LessOrEqual(t, time.Since(start), 2*time.Second+50*time.Millisecond)
		l.Srv.RefuseDials(false)
		_ = c.Close()
		l.Refused(m.Lock, recipes.ErrClosed)
		l.Refused(m.TryLock, recipes.ErrClosed)
	})
}

func TestAMissingOrForeignNodeIsNotProvisionedAndNothingIsWritten(t *testing.T) { // case 9
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		err := l.Refused(c.Mutex("/nowhere/lock").Lock, recipes.ErrNotProvisioned)
		require.ErrorContains(t, err, "/nowhere/lock")
		require.NoError(t, l.Srv.Create("/foreign", []byte("10.0.0.1")))
		err = l.Refused(c.Mutex("/foreign").Lock, recipes.ErrNotProvisioned)
		require.ErrorIs(t, err, kind.ErrForeign)
		l.RWLock()
		err = l.Refused(c.Mutex("/rw").Lock, recipes.ErrKindMismatch)
		require.ErrorContains(t, err, "declared as rwlock by ")
		require.NotContains(t, err.Error(), `stack "" ()`, "one whose stack has let it go")
		payload := &kind.Payload{Params: kind.RWLock.New(), State: kind.StateActive}
		require.NoError(t, l.Srv.Provision("/let-go", payload))
		_, err = c.Mutex("/let-go").Lock(t.Context())
		require.ErrorContains(t, err, "declared as rwlock by no stack, this program opens it as mutex")
		payload.Owner = kind.Owner{Stack: "shop", Addr: "rwlock.x"}
		require.NoError(t, l.Srv.Provision("/let-go-2", payload))
		_, err = c.Mutex("/let-go-2").Lock(t.Context())
		require.ErrorContains(t, err, `declared as rwlock by stack "shop" (rwlock.x), this`)
		l.Empty("/foreign", "/rw")
		_, there := l.Srv.Get("/nowhere")
		require.False(t, there)
		// Provisioned later: the next try finds it, nothing is remembered against it.
		l.Declare("/nowhere/lock", kind.Mutex.New())
		l.Unlock(l.Lock(c.Mutex("/nowhere/lock").Lock))
	})
}

func TestBroughtParametersServeUnprovisionedTreesButNeverOverruleADeclaration(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		l.Refused(c.Mutex("/own/lock", recipes.WithParams(kind.Mutex.New())).Lock, recipes.ErrNotProvisioned, "without WithCreate the node must exist")
		l.Unlock(l.Lock(c.Mutex("/own/lock", recipes.WithParams(kind.Mutex.New()), recipes.WithCreate()).Lock))
		sem := &kind.SemaphoreParams{Permits: 2}
		l.Unlock(l.Lock(permits(c.Semaphore("/own/sem", recipes.WithParams(sem), recipes.WithCreate()), 2)))
		l.Semaphore(1)
		_, err := c.Semaphore("/s", recipes.WithParams(sem)).Acquire(t.Context(), 2)
		require.ErrorContains(t, err, "1 are declared")
	})
}

func TestJunkChildrenAreIgnored(t *testing.T) { // case 11: CURATOR-43, samuel #64; case 10: go-zookeeper panics on "_c_x"
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		for _, junk := range []string{"config", "0-meta", "_c_x", "lock-", "lock-12", "sub/lock-0000000000", "lock-99999999999"} {
			require.NoError(t, l.Srv.Create(m+"/"+junk, nil))
		}
		x := l.Lock(l.Client("a").Mutex(m).Lock)
		w := l.Locking(l.Client("b").Mutex(m))
		notYet(t, w, "held")
		l.Unlock(x)
		require.NoError(t, (<-w).Err)
		in := l.look(l.Client("i"), m)
		require.Len(t, in.Junk, 7)
		require.Len(t, in.Holders, 1)
	})
}

func TestAPredecessorWeMayNotReadIsWaitedForAllTheSame(t *testing.T) { // case 12
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Mutex()
		l.Declare(m, kind.Mutex.New(), func(p *kind.Payload) {
			p.ChildACL = kind.List{{Scheme: "digest", ID: zktest.DigestID("a:a"), Perms: kind.PermAll}}
		})
		x := l.Lock(l.Client("a", func(c *recipes.Config) { c.Auth = []recipes.Auth{{Scheme: "digest", Credentials: "a:a"}} }).Mutex(m).Lock)
		l.Declare(m, kind.Mutex.New())
		w := l.Locking(l.Client("b").Mutex(m))
		notYet(t, w, "held by a contender we may not read")
		l.Unlock(x)
		l.Unlock(l.Got(w))
	})
}
