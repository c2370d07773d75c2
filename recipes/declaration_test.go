package recipes_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// A declaration that changes while its waiter reads something else, and is read again by somebody else first.
func TestPermitsAddedAreNotMissedWhenAnotherOneSeesThemFirst(t *testing.T) {
	for range 20 {
		inLab(t, func(t *testing.T, l *lab) {
			l.Semaphore(1)
			l.Lock(draws(1)(l.Client("holder")))
			c := l.Client("c")
			require.NoError(t, c.Semaphore("/s").Declared(t.Context()))
			slow := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool {
				return r.Op == "getData" && strings.HasPrefix(r.Path, "/s/leases/")
			}), zktest.Delay(2*time.Second))
			waited := l.drawing(c, 1)
			<-slow.Hit()
			start := time.Now()
			l.Semaphore(2)
			l.Settle()
			require.NoError(t, c.Semaphore("/s").Declared(t.Context()))
			got := l.Granted(waited)
			require.Less(t, got.At.Sub(start), 4*time.Second)
		})
	}
}

// More locks waited for than declarations are kept: each that was pushed out was read again, and pushed out another.
func TestWaitingForMoreLocksThanDeclarationsAreKeptIsQuiet(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("c")
		kept := effort.Of(recipes.MaxDeclarations, 256) // a goroutine for each
		c.KeepDeclarations(kept)
		n := kept + 50
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for i := range n {
			path := fmt.Sprintf("/m%d", i)
			l.Declare(path, kind.Mutex.New())
			l.Foreign(path, "_c_2f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-lock-0000000000", "")
			require.NoError(t, l.Srv.SetCreateCount(path, 1))
			waiting.Go(func() { _, _ = c.Mutex(path).Lock(ctx) })
		}
		time.Sleep(time.Minute)
		l.Srv.ResetCounts()
		time.Sleep(time.Minute)
		require.Less(t, l.Srv.Counts().ByOp["getData"], 100)
		cancel()
		waiting.Wait()
	})
}

// The create of the lock's node is idempotent, but a connection lost with its answer failed Lock for good.
func TestWithCreateFailedWhereTheAnswerToACreateWasLost(t *testing.T) {
	for name, fault := range map[string]zktest.Fault{"applied": zktest.DropReply, "not applied": zktest.CutBefore, "half an answer": zktest.CutAt(9),
		"not applied, and the session is lost": zktest.CutBefore} {
		for _, path := range []string{"/a", "/a/b", "/a/b/s", "/a/b/s/leases", "/a/b/s/locks"} { // whose create meets the fault
			runInLab(t, name+" "+path, func(t *testing.T, l *lab) {
				c := l.Client("a")
				expires := name == "not applied, and the session is lost"
				rule := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool {
					if r.Op == "create" && r.Path == path && expires {
						l.Srv.Expire(r.Session)
					}
					return r.Op == "create" && r.Path == path
				}), fault)
				x := l.Lock(permits(c.Semaphore("/a/b/s", recipes.WithParams(&kind.SemaphoreParams{Permits: 2}), recipes.WithCreate()), 1))
				require.Equal(t, 1, rule.Hits())
				l.Unlock(x)
			})
		}
	}
}

// A layout that was made halfway, by a WithCreate that was interrupted or is under way elsewhere, is completed.
func TestWithCreateCompletesWhatIsMissing(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		require.NoError(t, l.Srv.Create("/s", nil))
		c := l.Client("c")
		open := []recipes.Option{recipes.WithParams(kind.Semaphore.New()), recipes.WithCreate()}
		l.Unlock(l.Lock(permits(c.Semaphore("/s", open...), 1)))
	})
}

// A semaphore that programs make as they go was refused with "children /s/locks: zk: node does not exist" to whoever came between
// the making of its two children; and for good where the second was never made, or was Curator's, which servers reap when idle.
func TestASemaphoreWhoseGateIsMissingIsCompleted(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		open := []recipes.Option{recipes.WithParams(&kind.SemaphoreParams{Permits: 2}), recipes.WithCreate()}
		for i, take := range []func(context.Context, *recipes.Client, string) (*recipes.Lease, error){
			func(ctx context.Context, c *recipes.Client, path string) (*recipes.Lease, error) {
				return c.Semaphore(path, open...).Acquire(ctx, 1)
			},
			func(ctx context.Context, c *recipes.Client, path string) (*recipes.Lease, error) {
				return c.Semaphore(path, open...).TryAcquire(ctx, 1)
			},
		} {
			half := fmt.Sprint("/half", i)
			require.NoError(t, l.Srv.Create(half, nil))
			require.NoError(t, l.Srv.Create(half+"/leases", nil))
			x, err := take(t.Context(), l.Client("a"), half)
			require.NoError(t, err)
			require.ElementsMatch(t, []string{"leases", "locks"}, l.Children(half))
			l.Unlock(x)

			fresh := fmt.Sprint("/fresh", i)
			a, b := l.Client("a"), l.Client("b")
			var got []<-chan result[*recipes.Lease]
			for _, c := range []*recipes.Client{a, b} {
				got = append(got, async(func() (*recipes.Lease, error) { return take(t.Context(), c, fresh) }))
				time.Sleep(3 * oneWay)
			}
			for _, w := range got {
				l.Unlock(l.Got(w))
			}
		}
		require.NoError(t, l.Srv.Delete("/half0/locks"))
		_, err := l.Client("c").Semaphore("/half0", open[0]).Acquire(t.Context(), 1)
		require.ErrorIs(t, err, recipes.ErrNotProvisioned)
		require.ErrorContains(t, err, "run apply")
		l.Settle()
		require.Empty(t, l.Queue("/half0/leases"))
	})
}

// What WithCreate made was open to everybody, whatever the program wanted.
func TestWhatWithCreateMakesHasTheListOfItsCaller(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		known := func(cfg *recipes.Config) { cfg.Auth = []recipes.Auth{{Scheme: "digest", Credentials: "team:secret"}} }
		team := zk.DigestACL(zk.PermAll, "team", "secret")
		create := []recipes.Option{recipes.WithParams(&kind.SemaphoreParams{Permits: 1}), recipes.WithCreate(team...)}
		x := l.Lock(permits(l.Client("a", known).Semaphore("/pools/p", create...), 1))
		admin := l.session(l.Client("admin", known))
		for _, path := range []string{"/pools", "/pools/p", "/pools/p/leases", "/pools/p/locks"} {
			acl, _, err := admin.GetACL(t.Context(), path)
			require.NoError(t, err)
			require.Equal(t, team, acl, path)
		}
		acl, _, err := admin.GetACL(t.Context(), x.Node())
		require.NoError(t, err)
		require.NotContains(t, acl, zk.WorldACL(zk.PermAll)[0], "the contender's is made from it")
		_, err = l.Client("b").Semaphore("/pools/p", create...).TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		l.Unlock(x)
	})
}

// Servers look at the rights before they look whether the node is there.
func TestWithCreateBelowWhatIsNotOursToCreateIn(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		require.NoError(t, l.Srv.Create("/locks", nil))
		admin := l.Client("admin")
		s := l.session(admin)
		_, err := s.SetACL(t.Context(), "/", zk.WorldACL(zk.PermRead), -1)
		require.NoError(t, err)
		l.Unlock(l.Lock(admin.Mutex("/locks/a/b", recipes.WithParams(kind.Mutex.New()), recipes.WithCreate()).Lock))
	})
}

// Locks, of any kind, that are asked for while the session is being lost go on in the next one.
func TestSessionLostWhileTheDeclarationIsRead(t *testing.T) {
	for name := range reentry(new(recipes.Client)) {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.EveryKind()
			c := l.Client("c")
			slow := l.Srv.Inject(zktest.Once(zktest.On("getData")), zktest.Delay(time.Second))
			got := async(func() (*recipes.Lease, error) { return reentry(c)[name](t.Context()) })
			<-slow.Hit()
			l.Srv.Expire(l.SessionID(c))
			l.Unlock(l.Got(got))
		})
	}
}

// Whatever waits for a lock keeps its declaration, and nothing keeps it longer.
func TestAWaitKeepsItsDeclarations(t *testing.T) {
	forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
		a := l.Client("a")
		x := l.Lock(way.Block(l.Client("b")))
		waiting := l.Waiting(way.Take(a))
		notYet(t, waiting, "it is held")
		require.Contains(t, a.Pinned(), way.Path)
		l.Unlock(x)
		y := (<-waiting).V
		pinned := strings.Split(y.Path(), " + ")
		l.Unlock(y)
		require.Empty(t, a.Pinned())

		x = l.Lock(way.Block(l.Client("b")))
		waiting = l.Waiting(way.Take(a))
		require.ElementsMatch(t, pinned, a.Pinned(), "of all members")
		l.Unlock(x)
		l.Unlock((<-waiting).V)
	})
}
