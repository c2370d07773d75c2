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
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// A declaration changes while its waiter reads another node, and another call reads the declaration again first.
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

// A client waited for more locks than it keeps declarations: each declaration that was pushed out was read again, and pushed out another.
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

// The create of the lock's node is idempotent, but Lock failed for good if the connection was lost with the create's answer.
func TestWithCreateFailedWhereTheAnswerToACreateWasLost(t *testing.T) {
	for name, fault := range map[string]zktest.Fault{"applied": zktest.DropReply, "not applied": zktest.CutBefore, "half an answer": zktest.CutAt(9),
		"not applied, and the session is lost": zktest.CutBefore} {
		for _, path := range []string{"/a", "/a/b", "/a/b/s", "/a/b/s/leases", "/a/b/s/locks"} { // the node whose create meets the fault
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

// WithCreate creates the two children of a semaphore one after the other. A caller that came in between was refused with "children
// /s/locks: zk: node does not exist". Every caller was refused for good if the second child was never created, or was one of Curator's,
// which servers reap when idle.
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
			bare := fmt.Sprint("/bare", i) // by a WithCreate that was interrupted, or is under way elsewhere
			require.NoError(t, l.Srv.Create(bare, nil))
			x := must(take(t.Context(), l.Client("a"), bare))(t)
			l.Unlock(x)

			half := fmt.Sprint("/half", i)
			require.NoError(t, l.Srv.Create(half, nil))
			require.NoError(t, l.Srv.Create(half+"/leases", nil))
			x = must(take(t.Context(), l.Client("a"), half))(t)
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
		err := l.Refused(permits(l.Client("c").Semaphore("/half0", open[0]), 1), recipes.ErrNotProvisioned)
		require.ErrorContains(t, err, "run apply")
		l.Settle()
		require.Empty(t, l.Queue("/half0/leases"))
	})
}

// The nodes that WithCreate made were open to all clients, whatever access list the program wanted.
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

// A call for a lock, of any kind, goes on in the next session if its session is lost meanwhile.
func TestSessionLostWhileTheDeclarationIsRead(t *testing.T) {
	for name := range reentry(new(recipes.Client)) {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.EveryKind()
			c := l.Client("c")
			slow := l.Srv.Inject(zktest.Once(zktest.On("getData")), zktest.Delay(time.Second))
			got := async(func() (*recipes.Lease, error) { return reentry(c)[name](t.Context()) })
			<-slow.Hit()
			expired := l.SessionID(c)
			l.Srv.Expire(expired)
			x := l.Got(got)
			require.NotEqual(t, expired, x.SessionID())
			l.Unlock(x)
		})
	}
}

// A call that waits for a lock keeps the lock's declaration, and nothing keeps the declaration longer.
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

// A payload without child_acl must not open contenders to the world if the lock node is not open to it.
func TestContendersAreNotMoreOpenThanTheirLock(t *testing.T) {
	app, ops := zktest.DigestID("app:x1"), zktest.DigestID("ops:x2")
	crd := zk.PermCreate | zk.PermRead | zk.PermDelete
	as := func(c string) func(*recipes.Config) {
		return func(cfg *recipes.Config) {
			cfg.Auth = []recipes.Auth{{Scheme: "digest", Credentials: recipes.Secret(c)}}
		}
	}
	for name, c := range map[string]struct {
		node   []zk.ACL
		client func(*recipes.Config)
		want   []zktest.ACL
	}{
		"open": {zk.WorldACL(zk.PermAll), as("app:x1"), []zktest.ACL{{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}}},
		"open to contend, not to administer": {append(zk.WorldACL(int32(crd)), zk.DigestACL(zk.PermAll, "ops", "x2")...), nil,
			[]zktest.ACL{{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}}},
		"ours, digests of others hidden": {[]zk.ACL{{Perms: int32(crd), Scheme: "digest", ID: app}, {Perms: zk.PermAll, Scheme: "digest", ID: ops}}, as("app:x1"),
			[]zktest.ACL{{Perms: zk.PermAll, Scheme: "digest", ID: app}}},
		"ours, and everybody may look": {append(zk.WorldACL(zk.PermRead), zk.ACL{Perms: int32(crd), Scheme: "digest", ID: app}), as("app:x1"),
			[]zktest.ACL{{Perms: zk.PermAll, Scheme: "digest", ID: app}, {Perms: zk.PermRead, Scheme: "world", ID: "anyone"}}},
		"we administer": {[]zk.ACL{{Perms: zk.PermAll, Scheme: "digest", ID: ops}, {Perms: int32(crd), Scheme: "digest", ID: app}}, as("ops:x2"),
			[]zktest.ACL{{Perms: zk.PermAll, Scheme: "digest", ID: ops},
				{Perms: zk.PermRead | zk.PermWrite | zk.PermAdmin, Scheme: "digest", ID: ops}, {Perms: zk.PermRead | zk.PermWrite, Scheme: "digest", ID: app}}},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			m := l.Mutex()
			admin := l.session(l.Client("admin"))
			_, err := admin.SetACL(t.Context(), m, c.node, -1)
			require.NoError(t, err)
			if c.client == nil {
				c.client = func(*recipes.Config) {}
			}
			one, two := l.Client("one", c.client).Mutex(m), l.Client("two", c.client).Mutex(m)
			x := l.Lock(one.Lock)
			n, ok := l.Srv.Get(x.Node())
			require.True(t, ok)
			require.Equal(t, c.want, n.ACL)
			w := l.Locking(two)
			l.Unlock(x)
			r := l.Got(w) // the lock must still work
			require.NoError(t, r.Verify(t.Context()))
			l.Unlock(r)
		})
	}
}

func TestContendersOfALockThatHidesItsACLAreTheCreators(t *testing.T) {
	require.Equal(t, zk.AuthACL(zk.PermAll), recipes.ContendersACL(nil, true))
	require.Equal(t, zk.WorldACL(zk.PermRead), recipes.ContendersACL(nil, false), "nobody may write what nobody is known to own")
}

func TestTheLockNodesACLIsReadOnceBesideItsDeclaration(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		start := time.Now()
		l.warmDeclaration(m)
		require.Equal(t, 2*oneWay, time.Since(start), "one round trip for both")
		l.warm(m.Lock)
		l.warm(m.Lock)
		require.Equal(t, 1, l.Srv.Counts().ByOp["getACL"], "once per client and path")
	})
}

// For a node without a declaration, a handle's parameters serve as one. It is kept for the next call of that handle, and of no other.
func TestHandlesOfOneNodeHaveTheirOwnParameters(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("c")
		curators := c.Mutex("/m", recipes.WithParams(&kind.MutexParams{}), recipes.WithCreate())
		kazoos := c.Mutex("/m", recipes.WithParams(&kind.MutexParams{Common: kind.Common{Wire: kind.WireKazoo}}), recipes.WithCreate())
		for range 2 {
			x := l.Lock(curators.Lock)
			require.Contains(t, x.Node(), "-lock-")
			l.Unlock(x)
			lost := l.Srv.Inject(zktest.Once(at("create")), zktest.DropReply) // its name must be found again, too
			y := l.Lock(kazoos.Lock)
			require.Equal(t, 1, lost.Hits())
			require.Regexp(t, `^/m/[0-9a-f]{32}__lock__\d{10}$`, y.Node())
			l.Unlock(y)
		}
	})
}

func TestWhatParametersLeaveOutIsDefault(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("c")
		brought := &kind.SemaphoreParams{Permits: 3}
		m := c.Semaphore("/s", recipes.WithParams(brought), recipes.WithCreate())
		brought.Permits = 1 // the handle keeps the parameters as they were given
		l.Unlock(l.Lock(permits(m, 3)))
		l.Unlock(l.Lock(c.RWMutex("/rw", recipes.WithParams(&kind.RWLockParams{}), recipes.WithCreate()).RLock))
		for leader, err := range c.Election("/e", recipes.WithParams(&kind.ElectionParams{}), recipes.WithCreate()).Observe(t.Context()) {
			require.NoError(t, err)
			require.Empty(t, leader.Name)
			break
		}
		require.Equal(t, &kind.SemaphoreParams{Permits: 1}, brought)
	})
}

// Such a handle caused a panic, or an error that did not say which option was missing.
func TestAHandleThatWasMadeWronglySaysWhatIsWrong(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("c")
		require.NoError(t, l.Srv.Create("/bare", nil))
		for want, lock := range map[string]taking{
			"recipes: mutex /m: an option is nil; leave it out":                                                 c.Mutex("/m", nil).Lock,
			"recipes: rwlock /m: an option is nil; leave it out":                                                c.RWMutex("/m", recipes.WithID("a"), nil).TryRLock,
			"recipes: mutex /m: the parameters are nil":                                                         c.Mutex("/m", recipes.WithParams((*kind.MutexParams)(nil))).Lock,
			"recipes: mutex /: the root of the tree is no lock; name a node below":                              c.Mutex("/").TryLock,
			`recipes: rwlock: the path "m" must start with a slash`:                                             c.RWMutex("m").RLock,
			`recipes: mutex: the path "/a\nb" is not legal`:                                                     c.Mutex("/a\nb").Lock,
			"recipes: multi-lock: a member is nil":                                                              c.MultiLock(c.Mutex("/m"), nil).Lock,
			"recipes: multi-lock: a member is nil ":                                                             c.MultiLock((*recipes.Mutex)(nil)).TryLock,
			"recipes: mutex /: the root of the tree is no lock; name a node below ":                             c.MultiLock(c.Mutex("/")).Lock,
			"run apply; WithCreate also needs WithParams":                                                       c.Mutex("/m", recipes.WithCreate()).Lock,
			"run apply, or let WithCreate make it with those parameters":                                        c.Mutex("/m", recipes.WithParams(kind.Mutex.New())).Lock,
			"/bare has no declaration that this program can read; declare it and run apply, or pass WithParams": c.Mutex("/bare", recipes.WithCreate()).Lock,
			// WithCreate checks the parameters before it creates.
			"recipes: mutex /a/b/wrong-kind: lock is of another kind":            c.Mutex("/a/b/wrong-kind", recipes.WithParams(kind.RWLock.New()), recipes.WithCreate()).Lock,
			`recipes: semaphore /a/none: parameter "permits": 0 is out of range`: permits(c.Semaphore("/a/none", recipes.WithParams(&kind.SemaphoreParams{}), recipes.WithCreate()), 1),
			"recipes: mutex /a/wrong: ": c.MultiLock(c.Mutex("/a/m", recipes.WithParams(kind.Mutex.New()), recipes.WithCreate()),
				c.Mutex("/a/wrong", recipes.WithParams(kind.RWLock.New()), recipes.WithCreate())).Lock,
		} {
			_, err := lock(t.Context())
			require.ErrorContains(t, err, strings.TrimSpace(want))
		}
		for _, err := range c.Election("/").Observe(t.Context()) {
			require.ErrorContains(t, err, "the root of the tree is no lock")
		}
		require.Zero(t, l.Srv.Counts().ByOp["create"])
		l.Srv.ResetCounts()
		_, _, err := c.Election("/").Leader(t.Context()) // formerly it listed the root, and said that there was no leader
		require.ErrorContains(t, err, "the root of the tree is no lock")
		require.Zero(t, l.Srv.Counts().Total)
		x := l.Lock(c.RWMutex(l.RWLock()).Lock)
		_, err = c.RWMutex("/rw", nil).Downgrade(t.Context(), x) // formerly it exchanged the lease
		require.ErrorContains(t, err, "an option is nil")
		l.Unlock(x)
	})
}

// With Locker, a program that knows no recipe can take a lock of every kind. Kinds that are no locks are refused.
func TestTakeServesEveryKind(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("anyone")
		for _, k := range append(kind.All(), nil) {
			path := "/" + k.String()
			if k == nil || k.Container || k == kind.Keyed { // a family's locks are those of its keys
				l.Refused(c.Locker(k, path, false, 0).Lock, recipes.ErrKindMismatch)
				continue
			}
			l.Declare(path, k.New())
			for _, shared := range []bool{false, true} { // in a kind without readers, both are the same
				lease := l.Lock(c.Locker(k, path, shared, 1).TryLock, k)
				in := l.look(c, path)
				require.Same(t, k, in.Kind)
				require.Equal(t, shared && k == kind.RWLock, in.Holders[0].Shared)
				require.NoError(t, lease.Unlock(t.Context()))
			}
		}
	})
}

// The event of the refusal named the key, while every other event names the node.
func TestALockerOfAKeyThatIsOfNoKindOfLockNamesTheNodeOfTheKey(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c, b := l.tallied()
		l.Refused(c.Keyed("/users").Locker(kind.Namespace, "1", false, 0).Lock, recipes.ErrKindMismatch)
		l.Settle()
		require.Equal(t, "/users/1", b.latest(recipes.EventRefused).Path)
	})
}

// The error said only "context canceled". So the caller repaired its contexts, and the locker was still unusable.
func TestACanceledContextDoesNotHideThatTheLockerIsUnusable(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		unusable := l.Client("a").Locker(kind.Namespace, "/ns", false, 0)
		for _, take := range []taking{unusable.Lock, unusable.TryLock} {
			_, err := take(canceled)
			require.ErrorIs(t, err, recipes.ErrKindMismatch)
		}
	})
}

// Leader named the holder of a mutex, a Try said "held by this client", Lock waited for its own caller, and a nil lease caused a panic.
func TestAHandleOfAnotherKindIsRefusedByEveryMethodAlsoWhileItsClientHoldsTheLock(t *testing.T) {
	paths := map[*kind.Kind]string{kind.Mutex: "/m", kind.RWLock: "/rw", kind.Semaphore: "/s", kind.Election: "/e"}
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("a")
		for declared, path := range paths {
			held := l.Lock(c.Locker(declared, path, false, 1).Lock)
			for opened := range paths {
				if opened == declared {
					continue
				}
				for what, outer := range map[string]context.Context{"its holder": held.Context(), "another caller": t.Context()} {
					for _, try := range []bool{false, true} {
						ctx, cancel := context.WithTimeout(outer, time.Minute)
						lock := c.Locker(opened, path, false, 1)
						take := lock.Lock
						if try {
							take = lock.TryLock
						}
						_, err := take(ctx)
						cancel()
						require.ErrorIs(t, err, recipes.ErrKindMismatch, fmt.Sprint(what, opened, path, try))
					}
					for k, member := range map[*kind.Kind]recipes.Member{kind.Mutex: c.Mutex(path), kind.RWLock: c.RWMutex(path), kind.Election: c.Election(path)} {
						if k == opened {
							_, err := c.MultiLock(member).TryLock(outer)
							require.ErrorIs(t, err, recipes.ErrKindMismatch, fmt.Sprint(what, opened, path))
						}
					}
				}
			}
			if declared != kind.Election {
				_, _, err := c.Election(path).Leader(t.Context())
				require.ErrorIs(t, err, recipes.ErrKindMismatch)
				for _, err := range c.Election(path).Observe(t.Context()) {
					require.ErrorIs(t, err, recipes.ErrKindMismatch)
				}
			}
			if declared != kind.RWLock {
				same, err := c.RWMutex(path).Downgrade(t.Context(), held)
				require.ErrorContains(t, err, "needs a write lease")
				require.Same(t, held, same)
			}
			none, err := c.RWMutex(path).Downgrade(t.Context(), nil)
			require.ErrorContains(t, err, "needs a write lease")
			require.Nil(t, none)
			require.NoError(t, held.Verify(t.Context()))
			l.Unlock(held)
		}
		l.NothingLeft()
	})
}

// placed declares a lock with a place in an order.
func (l *lab) placed(path string, p kind.Params, of string, rank int) {
	l.T.Helper()
	for _, f := range p.Fields() {
		if f.Name == "order" {
			require.NoError(l.T, f.Set(kind.Place{Of: of, Rank: rank}.String()))
		}
	}
	l.Declare(path, p)
}

func TestLocksTakenAgainstTheDeclaredOrderAreRefusedAtOnce(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.placed("/first", kind.Mutex.New(), "/bank", 1)
		l.placed("/second", kind.RWLock.New(), "/bank", 2)
		l.placed("/keys", &kind.KeyedParams{Of: "mutex", Foreign: "false"}, "/bank", 3)
		l.placed("/other", kind.Mutex.New(), "/shop", 1)
		l.Declare("/none", kind.Mutex.New())
		c := l.Client("A")
		take := func(ctx context.Context, f taking) *recipes.Lease {
			x := must(f(ctx))(t)
			return x
		}
		key := func(k string) taking {
			return locked(c.Keyed("/keys"), k)
		}
		second := take(t.Context(), c.RWMutex("/second").RLock)
		for name, f := range map[string]taking{
			"Lock": c.Mutex("/first").Lock, "Try": c.Mutex("/first").TryLock,
			"a set": multi(c, "/none", "/first").Lock,
		} {
			_, err := f(second.Context())
			require.ErrorIs(t, err, recipes.ErrLockOrder, name)
			require.Empty(t, l.Children("/first"), name)
		}
		_, err := c.Mutex("/first").Lock(second.Context())
		require.EqualError(t, err, "recipes: wrong order of locks: /first comes before /second in the order that /bank declares, "+
			"and the caller's context comes from a lease of /second; take /first first")
		// Granted are locks with a later place, of another order, of none, or with the same place.
		one := take(second.Context(), key("a"))
		two := take(one.Context(), key("b"))
		for _, x := range []*recipes.Lease{take(two.Context(), c.Mutex("/other").Lock), take(two.Context(), c.Mutex("/none").Lock), two, one, second} {
			l.Unlock(x)
		}
		first := take(context.WithoutCancel(second.Context()), c.Mutex("/first").Lock) // the lease is over
		l.Unlock(first)
	})
}

// hide makes the server refuse exists below a path, as servers of 3.8.4 and later do (ZOOKEEPER-2590), until shown is called. Such a server
// still answers for a node that is gone, so a test that deletes the node calls shown.
func (l *lab) hide(path string) (shown func()) {
	in := l.Srv.Inject(func(r zktest.Request) bool {
		return r.Op == "exists" && strings.HasPrefix(r.Path, path)
	}, zktest.Fail(zktest.CodeNoAuth))
	return in.Remove
}

// A refused exists was taken for the end of the lease.
func TestALeaseWhoseNodeIsHiddenFromItsHolderIsKept(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		beats := l.unreadable(c)
		shown := l.hide("/m/")
		x := l.Lock(c.Mutex("/m").Lock)
		require.NotZero(t, x.Token(), "the reply to the create tells")
		time.Sleep(5 * time.Minute)
		require.NoError(t, context.Cause(x.Context()))
		in := l.look(l.Client("who"), "/m")
		require.Len(t, in.Holders, 1)
		require.Equal(t, x.Node(), in.Holders[0].Path)
		require.Zero(t, in.Holders[0].Session)
		l.Unlock(x)

		x = l.Lock(c.Mutex("/m").Lock)
		shown()
		require.NoError(t, l.Srv.Delete(x.Node()))
		start := time.Now()
		<-x.Context().Done()
		require.LessOrEqual(t, time.Since(start), 12*time.Second+2*oneWay, "a session timeout")
		require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
		l.Unlock(beats)
	})
}

// The client asked for ever whether the create had been applied, and its node blocked the queue. Now the client finds out. The call then
// fails, because a heartbeat on a node that the client may not read cannot prove the grant.
func TestALostReplyIsResolvedWhereOurNodeIsHidden(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		beats := l.unreadable(c)
		l.hide("/m/")
		l.warm(c.Mutex("/m").Lock)
		lost := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool {
			return strings.HasPrefix(r.Path, "/m/") && (r.Op == "multi" || r.Op == "create")
		}), zktest.DropReply)
		l.Refused(c.Mutex("/m").Lock, session.ErrCannotHeartbeat)
		require.Equal(t, 1, lost.Hits())
		time.Sleep(time.Second) // the node is deleted in the background
		l.Empty("/m")
		l.Unlock(beats)
	})
}

// A parent that we may not read exists all the same. If we may not create nodes in its own parent, the server answers NoAuth, whether or
// not it exists.
func TestWithCreateBelowANodeThatIsHidden(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		require.NoError(t, l.Srv.Create("/theirs", nil))
		c := l.Client("a")
		s := l.live(c)
		_, err := s.SetACL(t.Context(), "/", zk.WorldACL(zk.PermRead), -1)
		require.NoError(t, err)
		hidden := l.Srv.Inject(func(r zktest.Request) bool { return r.Op == "exists" && r.Path == "/theirs" }, zktest.Fail(zktest.CodeNoAuth))
		x := l.Lock(c.Mutex("/theirs/a/m", recipes.WithParams(kind.Mutex.New()), recipes.WithCreate()).Lock)
		require.Zero(t, hidden.Hits(), "asked for only when its own creation is refused")
		require.NoError(t, recipes.CreateNode(t.Context(), s, "/theirs", zk.WorldACL(zk.PermAll)))
		require.Equal(t, 1, hidden.Hits())
		l.Unlock(x)
	})
}
