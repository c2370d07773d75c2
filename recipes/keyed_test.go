package recipes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// families declares one family of each kind: /km, /krw, and /ks with three permits.
func (l *lab) families(change ...func(*kind.KeyedParams)) {
	l.T.Helper()
	for path, p := range map[string]*kind.KeyedParams{"/km": {Of: "mutex"}, "/krw": {Of: "rwlock"}, "/ks": {Of: "semaphore", Permits: simPermits}} {
		l.family(path, p, change...)
	}
}

func (l *lab) family(path string, p *kind.KeyedParams, change ...func(*kind.KeyedParams)) {
	l.T.Helper()
	for _, c := range change {
		c(p)
	}
	if p.Wire == "" {
		p.Wire = kind.WireCurator
	}
	if p.Foreign == "" {
		p.Foreign = "false"
	}
	l.Declare(path, p)
}

// noKeys requires that nothing is left, in the families' nodes or in the clients.
func (l *lab) noKeys(families ...string) {
	l.T.Helper()
	l.Settle()
	for _, c := range l.Clients {
		require.Empty(l.T, c.Leftovers())
	}
	for _, path := range families {
		require.Empty(l.T, l.Children(path), "left in %s", path)
	}
}

func TestAKeyLivesOnlyWhileItIsUsed(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		c := l.Client("a")
		for name, take := range map[string]taking{
			"/km/17":          c.Keyed("/km").Mutex("17").Lock,
			"/krw/17":         c.Keyed("/krw").RWMutex("17").RLock,
			"/ks/17":          permits(c.Keyed("/ks").Semaphore("17"), 2),
			"/km/a + /km/%2F": locked(c.Keyed("/km"), "a", "/"),
		} {
			x := l.Lock(take)
			require.Equal(t, name, x.Path())
			for _, node := range x.Nodes() {
				n, _ := l.Srv.Get(node)
				require.NotZero(t, n.Stat.EphemeralOwner)
				require.EqualValues(t, n.Stat.Czxid, x.Token())
			}
			for path := range strings.SplitSeq(name, " + ") {
				n, there := l.Srv.Get(path)
				require.True(t, there)
				require.Empty(t, n.Data)
			}
			l.Unlock(x)
			l.noKeys("/km", "/krw", "/ks")
		}
	})
}

func TestRequestBudgetsOfAKeyInUse(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		a, b := l.Client("a").Keyed("/km"), l.Client("b").Keyed("/km")
		for _, k := range []*recipes.Keyed{a, b} { // both know the declaration
			l.Unlock(l.Lock(locked(k, "warm")))
		}
		x := l.Lock(locked(a, "1"))
		require.Equal(t, spent(2, "delete exists 2getChildren2 2multi"), l.Cost(func() {
			_, err := b.TryLock(t.Context(), "1")
			require.ErrorIs(t, err, recipes.ErrHeld)
		}), "one round trip more than of a declared lock")
		w := l.Locking(b.Mutex("1"))
		require.Equal(t, spent(2, "delete exists 2getData multi setData"), l.Cost(func() { l.Unlock(x) }), "who did not know of its rival finds out")
		r := l.Got(w)
		require.Equal(t, spent(2, "2delete exists"), l.Cost(func() { l.Unlock(r) }), "who has waited expects others")
		l.noKeys("/km")
	})
}

func TestASetOfKeysWaitsForThoseInUse(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		a, b := l.Client("a").Keyed("/km"), l.Client("b").Keyed("/km")
		var keys []string
		var held []*recipes.Lease
		for i := range 8 {
			keys = append(keys, fmt.Sprint(i))
			if i%2 == 0 {
				held = append(held, l.Lock(locked(a, keys[i])))
			}
		}
		l.Unlock(l.Lock(locked(b, "warm")))
		require.Equal(t, 2, l.Cost(func() {
			_, err := b.TryLock(t.Context(), keys...)
			require.ErrorIs(t, err, recipes.ErrHeld)
		}).Trips, "the refusal tells of one key, the listings of all")
		w := async(func() (*recipes.Lease, error) { return b.Lock(context.Background(), keys...) })
		l.Settle()
		for _, x := range held {
			l.Unlock(x)
		}
		r := l.Got(w)
		require.Len(t, r.Nodes(), 8)
		l.Unlock(r)
		l.noKeys("/km")
	})
}

func TestASemaphoresKeyHasAGateWhenSomebodyWaits(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		a, b, c := l.Client("a").Keyed("/ks").Semaphore("k"), l.Client("b").Keyed("/ks").Semaphore("k"), l.Client("c").Keyed("/ks").Semaphore("k")
		x := l.Lock(permits(a, 2))
		require.ElementsMatch(t, []string{"leases"}, l.Children("/ks/k"))
		w := l.Waiting(permits(b, 2))
		require.ElementsMatch(t, []string{"leases", "locks"}, l.Children("/ks/k"))
		v := l.Waiting(permits(c, 3))
		l.Unlock(x)
		r := l.Granted(w)
		l.Unlock(r.V)
		r = l.Granted(v)
		require.Len(t, l.Children("/ks/k/leases"), 3)
		l.Unlock(r.V)
		l.noKeys("/ks")
	})
}

func TestAKeyOfAFannedOutFamilyIsOneLock(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.family("/f", &kind.KeyedParams{Of: "mutex", Fanout: "16"})
		p := &kind.KeyedParams{Fanout: "16"}
		path := must(p.Path("/f", "order 1"))(t)
		a := l.Client("a")
		x := l.Lock(locked(a.Keyed("/f"), "order 1"))
		require.Equal(t, path, x.Path())
		l.Refused(a.Mutex(path).TryLock, recipes.ErrHeld)
		l.Refused(l.Client("b").Mutex(path).TryLock, recipes.ErrHeld)
		_, err := a.Keyed("/f").Mutex("order 1").TryLock(x.Context())
		require.ErrorIs(t, err, recipes.ErrWouldDeadlock)
		l.Unlock(x)
		l.Settle()
		require.Empty(t, l.Children(kind.ParentPath(path)))
	})
}

func TestAKeyIsOpenedAsItsFamilyDeclares(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		l.Mutex()
		c := l.Client("a")
		for what, x := range map[string]struct {
			take taking
			want error
			text string
		}{
			"a mutex in a family of read-write locks": {c.Keyed("/krw").Mutex("1").Lock, recipes.ErrKindMismatch, "/krw is declared as a family of the kind rwlock"},
			"by the path of the key":                  {c.Mutex("/krw/1").Lock, recipes.ErrKindMismatch, "/krw is declared as a family of the kind rwlock"},
			"with parameters of its own":              {c.Mutex("/krw/1", recipes.WithParams(kind.Mutex.New()), recipes.WithCreate()).Lock, recipes.ErrKindMismatch, "rwlock"},
			"the family as a lock":                    {c.Mutex("/km").Lock, recipes.ErrKindMismatch, "/km is declared as keyed"},
			"a lock as a family":                      {c.Keyed("/m").Mutex("1").Lock, recipes.ErrKindMismatch, "/m is declared as mutex"},
			"a family that is not there":              {c.Keyed("/no").Mutex("1").Lock, recipes.ErrNotProvisioned, "/no does not exist"},
			"a key that is too long":                  {c.Keyed("/km").Mutex(strings.Repeat("x", 513)).Lock, recipes.ErrKeyTooLong, "513 bytes"},
			"parameters for a key":                    {c.Keyed("/km", recipes.WithParams(kind.Mutex.New())).Mutex("1").Lock, nil, "WithParams"},
			"no key":                                  {func(ctx context.Context) (*recipes.Lease, error) { return c.Keyed("/km").Lock(ctx) }, nil, "/km: name at least one key"},
			"a key that is not UTF-8":                 {c.Keyed("/km").Mutex("\xff").Lock, nil, "UTF-8"},
		} {
			_, err := x.take(t.Context())
			require.ErrorContains(t, err, x.text, what)
			if x.want != nil {
				require.ErrorIs(t, err, x.want, what)
			}
		}
		l.noKeys("/km", "/krw")
	})
}

func TestADrainedFamilyGrantsNothingNew(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		a, b := l.Client("a").Keyed("/km"), l.Client("b").Keyed("/km")
		x := l.Lock(locked(a, "1"))
		w := l.Locking(b.Mutex("1"))
		l.Declare("/km", &kind.KeyedParams{Of: "mutex", Common: kind.Common{Wire: kind.WireCurator}, Foreign: "false"}, draining)
		require.ErrorIs(t, (<-w).Err, recipes.ErrDraining)
		_, err := b.Lock(t.Context(), "2")
		require.ErrorIs(t, err, recipes.ErrDraining)
		require.NoError(t, x.Verify(t.Context()))
		l.Unlock(x)
		l.noKeys("/km")
		l.families()
		l.Settle()
		x = l.Lock(locked(b, "2"))
		l.Unlock(x)
	})
}

func TestManyKeysLeaveNothingInTheClient(t *testing.T) {
	effort.Proof(t, effort.Raced)
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		c := l.Client("a")
		id := l.SessionID(c)
		for i := range 1000 {
			for _, take := range []taking{
				c.Keyed("/km").Mutex(fmt.Sprint(i)).Lock, c.Mutex(fmt.Sprint("/km/by path ", i)).Lock,
				permits(c.Keyed("/ks").Semaphore(fmt.Sprint(i)), 1),
			} {
				l.Unlock(l.Lock(take))
			}
		}
		require.Equal(t, 2, c.Declarations(), "of the families")
		require.Empty(t, c.Pinned())
		require.Equal(t, 256, c.Crowds("/ks"))
		read := 0
		for op, n := range l.Srv.SessionCounts(id).ByOp {
			if op == "getACL" {
				read += n
			}
		}
		require.Equal(t, 2, read, "each declaration is read once")
		l.noKeys("/km", "/ks")
	})
}

func TestAKeysLockIsLikeAnyOther(t *testing.T) { // reentrancy, downgrade
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		c := l.Client("a")
		again := c.Keyed("/km", recipes.WithReentrancy())
		require.NoError(t, again.Do(t.Context(), func(ctx context.Context, outer *recipes.Lease) error {
			return again.Do(ctx, func(_ context.Context, inner *recipes.Lease) error {
				require.Equal(t, outer.Token(), inner.Token())
				return nil
			}, "3")
		}, "3"))
		l.noKeys("/km")

		m := c.Keyed("/krw").RWMutex("4")
		x := l.Lock(m.Lock)
		x = must(m.Downgrade(t.Context(), x))(t)
		r := l.Lock(l.Client("c").Keyed("/krw").RWMutex("4").TryRLock)
		l.Unlock(x)
		l.Unlock(r)
		l.noKeys("/krw")
	})
}

// warmed returns the handle of a new client on a family whose declaration the client knows.
func (l *lab) warmed(id, path string) *recipes.Keyed {
	l.T.Helper()
	k := l.Client(id).Keyed(path)
	l.Unlock(l.Lock(locked(k, "warm")))
	return k
}

// of matches a client's requests.
func (l *lab) of(k *recipes.Keyed, ops ...string) func(zktest.Request) bool {
	return l.By(k.Mutex("").Client(), ops...)
}

func TestAKeysNodeThatAnotherProgramMadeIsRefusedUnlessTheFamilyAllowsIt(t *testing.T) {
	for foreign, want := range map[string]error{"false": recipes.ErrKeyForeign, "true": nil} {
		inLab(t, func(t *testing.T, l *lab) {
			l.Declare("/km", &kind.KeyedParams{Of: "mutex", Foreign: foreign, Common: kind.Common{Wire: kind.WireCurator}}, func(p *kind.Payload) {
				p.ChildACL = kind.List{{Scheme: "world", ID: "anyone", Perms: kind.PermAll &^ kind.PermAdmin}}
			})
			k := l.warmed("a", "/km")
			require.NoError(t, l.Srv.Create("/km/1", nil)) // open to all clients, for ADMIN too
			got := l.Cost(func() {
				x, err := k.Lock(t.Context(), "1")
				require.ErrorIs(t, err, want)
				if err == nil {
					l.Unlock(x)
				}
			})
			require.LessOrEqual(t, got.Trips, 3, got.Ops)
			x := l.Lock(locked(k, "2")) // a node with the family's own access list is not foreign
			w := l.Locking(l.warmed("b", "/km").Mutex("2"))
			notYet(t, w, "it waits")
			l.Unlock(x)
			l.Unlock((<-w).V)
			l.noKeys("/km") // the last contender deletes the key's node, whoever made it
		})
	}
}

// A client that finds its key's node deleted between two steps begins again. After three times it no longer depends on luck.
func TestAKeyThatComesAndGoesIsTakenAllTheSame(t *testing.T) {
	for name, keys := range map[string][]string{"a key": {"1"}, "a set": {"1", "2", "3"}} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.families()
			a, b := l.warmed("a", "/km"), l.warmed("b", "/km")
			var x *recipes.Lease
			toggle := func() {
				if x != nil {
					l.Unlock(x)
					x = nil
					return
				}
				x = l.Lock(locked(a, "1"))
			}
			toggle()
			refused := 0
			var rule *zktest.Injection
			next := func() { rule = l.Srv.Inject(zktest.Once(l.of(b, "multi")), zktest.Hold) }
			next()
			l.Srv.ResetCounts()
			w := async(func() (*recipes.Lease, error) { return b.Lock(context.Background(), keys...) })
			for ; refused < 3; refused++ { // it always guesses wrong
				<-rule.Hit()
				if refused > 0 {
					toggle()
				}
				held := rule
				next()
				held.Release()
			}
			<-rule.Hit() // the versions of the fourth try, which no earlier event can spoil
			toggle()
			rule.Release()
			if x != nil {
				l.Settle()
				l.Unlock(x)
			}
			r := l.Got(w)
			require.Equal(t, len(keys), l.Srv.Counts().ByOp["create"], "one form of each key's anchor")
			for _, node := range r.Nodes() {
				require.Len(t, l.Children(kind.ParentPath(node)), 1, "an anchor is left")
			}
			l.Unlock(r)
			l.noKeys("/km")
		})
	}
}

func TestNoKeyIsMadeUnderAnOlderDeclaration(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		k := l.warmed("a", "/km")
		rule := l.Srv.Inject(zktest.Once(l.of(k, "multi")), zktest.Hold)
		w := l.Locking(k.Mutex("1"))
		<-rule.Hit()
		l.Declare("/km", &kind.KeyedParams{Of: "mutex", Foreign: "false", Common: kind.Common{Wire: kind.WireCurator}}, draining)
		before := l.Changes("/km")
		rule.Release()
		require.ErrorIs(t, (<-w).Err, recipes.ErrDraining)
		require.Equal(t, before, l.Changes("/km"), "a key was made all the same")
		l.noKeys("/km")
	})
}

// Nothing is left of a key, whatever happens to a request that takes it or gives it back, or to the answer.
func TestNothingIsLeftOfAKeyWhateverIsLost(t *testing.T) {
	takes := map[string]func(*recipes.Client) taking{
		"mutex":   func(c *recipes.Client) taking { return c.Keyed("/km").Mutex("1").Lock },
		"reader":  func(c *recipes.Client) taking { return c.Keyed("/krw").RWMutex("1").RLock },
		"permits": func(c *recipes.Client) taking { return permits(c.Keyed("/ks").Semaphore("1"), 2) },
		"set":     func(c *recipes.Client) taking { return locked(c.Keyed("/km"), "1", "2") },
	}
	for name, take := range takes {
		for what, fault := range map[string]zktest.Fault{"before": zktest.CutBefore, "after": zktest.CutAfter, "reply": zktest.DropReply, "half": zktest.CutAt(7), "throttled": zktest.Fail(zktest.CodeThrottled)} {
			for nth := 1; nth <= 3; nth++ {
				runInLab(t, fmt.Sprint(name, " ", what, " ", nth), func(t *testing.T, l *lab) {
					l.families()
					c := l.Client("a")
					l.Unlock(l.Lock(take(c)))
					seen := 0
					lost := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool {
						if zktest.On("multi", "delete")(r) {
							seen++
						}
						return seen == nth
					}), fault)
					for range 2 {
						x, err := take(c)(t.Context())
						if err == nil {
							_ = x.Unlock(t.Context())
						}
					}
					require.Equal(t, 1, lost.Hits())
					time.Sleep(12 * time.Second)
					l.noKeys("/km", "/krw", "/ks")
					l.Unlock(l.Lock(take(c)))
					l.noKeys("/km", "/krw", "/ks")
				})
			}
		}
	}
}

func TestAKeyIsMadeAnewByALateTransactionAndFound(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		k := l.warmed("a", "/km")
		late := l.Srv.Inject(zktest.Once(l.of(k, "multi")), zktest.HoldReader)
		w := async(func() (*recipes.Lease, error) { return k.Lock(context.Background(), "1") })
		<-late.Hit()
		l.Srv.Disconnect(l.SessionID(k.Mutex("").Client()))
		l.Unlock(l.Got(w)) // by another transaction
		l.noKeys("/km")
		late.Release()
		time.Sleep(oneWay)
		require.NotEmpty(t, l.Children("/km"), "the late one has made the key anew")
		time.Sleep(5 * time.Second)
		l.noKeys("/km")
	})
}

// The servers collect the keys' nodes that a crash leaves, because the nodes of all kinds have had children.
func TestWhatACrashLeavesOfKeysIsCollected(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		c := l.Client("a")
		for _, take := range []taking{c.Keyed("/km").Mutex("1").Lock, c.Keyed("/krw").RWMutex("1").Lock,
			permits(c.Keyed("/ks").Semaphore("1"), 3)} {
			l.Lock(take)
		}
		waiting, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := async(func() (*recipes.Lease, error) { return l.Client("b").Keyed("/ks").Semaphore("1").Acquire(waiting, 1) })
		l.Settle()
		require.Len(t, l.Children("/ks/1"), 2)
		for _, s := range l.Srv.Sessions() {
			l.Srv.Partition(s.ID, zktest.Both)
			l.Srv.Expire(s.ID)
		}
		cancel()
		<-w
		require.NotEmpty(t, l.Children("/km"))
		time.Sleep(3 * time.Minute)
		l.Empty("/km", "/krw", "/ks")
	})
}

func TestOneKeyAndSetsOfEightForSixtyFourClients(t *testing.T) { // progress is bounded, in time and in requests
	effort.Proof(t, effort.Raced)
	for name, draw := range map[string]func(k *recipes.Keyed, i, n int) []string{
		"one key":        func(*recipes.Keyed, int, int) []string { return []string{"1"} },
		"sets of eight":  func(_ *recipes.Keyed, i, n int) []string { return some(8, 64, i*7+n*13) },
		"sets of many":   func(_ *recipes.Keyed, i, n int) []string { return some(8, 600, i*7+n*13) },
		"different keys": func(_ *recipes.Keyed, i, n int) []string { return []string{fmt.Sprint(i, n%2)} },
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.families()
			const clients, rounds = 64, 5
			var all []*recipes.Keyed
			for i := range clients {
				all = append(all, l.warmed(fmt.Sprint(i), "/km"))
			}
			l.Settle()
			l.Srv.ResetCounts()
			start := time.Now()
			done := make(chan error)
			for i, k := range all {
				go func() {
					for n := range rounds {
						time.Sleep(time.Duration((i*31+n*17)%40) * time.Millisecond)
						x, err := k.Lock(context.Background(), draw(k, i, n)...)
						if err == nil {
							time.Sleep(time.Duration((i+n)%3) * oneWay)
							err = x.Unlock(context.Background())
						}
						if err != nil {
							done <- err
							return
						}
					}
					done <- nil
				}()
			}
			for range clients {
				require.NoError(t, <-done)
			}
			took, requests := time.Since(start), 0
			by := l.Srv.Counts().ByOp
			for op, n := range by {
				if op != "ping" {
					requests += n
				}
			}
			t.Logf("%v, %d requests: %v", took, requests, by)
			require.Less(t, by["multi"], 10*clients*rounds, "transactions in vain")
			require.Less(t, took, clients*rounds*8*oneWay)
			l.noKeys("/km")
		})
	}
}

// some returns n different keys; of is the number of keys to choose from.
func some(n, of, seed int) (keys []string) {
	for _, k := range rand.New(rand.NewPCG(uint64(seed), 8)).Perm(of)[:n] {
		keys = append(keys, fmt.Sprint(k))
	}
	return keys
}

func TestAQuotaIsReportedAsOne(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		l.Mutex()
		c := l.Client("a")
		for name, take := range map[string]taking{"a key": c.Keyed("/km").Mutex("1").Lock, "a lock": c.Mutex("/m").Lock} {
			full := l.Srv.Inject(zktest.On("multi", "create"), zktest.Fail(-125))
			err := l.Refused(take, recipes.ErrQuotaExceeded, name)
			require.Equal(t, "quota", recipes.ResultOf(err))
			full.Remove()
		}
		l.noKeys("/km")
	})
}

// A family that was destroyed and declared again begins with a version that the former one had too. A transaction that knew the former
// declaration made the node of a key where no other client looks for it. The key was granted there.
func TestNoKeyIsGrantedByTheDeclarationOfADestroyedFamily(t *testing.T) {
	for _, cut := range []bool{false, true} {
		runInLab(t, fmt.Sprint("cut ", cut), func(t *testing.T, l *lab) {
			l.family("/km", &kind.KeyedParams{Of: "mutex"})
			k := l.warmed("a", "/km")
			fault := zktest.Hold
			if cut {
				fault = zktest.HoldReader // it comes later than the requests that the client sends on the next connection
			}
			held := l.Srv.Inject(zktest.Once(l.of(k, "multi")), fault)
			got := async(func() (*recipes.Lease, error) { return k.Lock(t.Context(), "order-17") })
			<-held.Hit()
			if cut { // its reply is lost
				l.Srv.Disconnect(0)
			}
			require.NoError(t, l.Srv.Delete("/km"))
			l.family("/km", &kind.KeyedParams{Of: "mutex", Fanout: "16"})
			n, _ := l.Srv.Get("/km")
			require.Zero(t, n.Stat.Version)
			if cut {
				l.Settle()
			}
			held.Release()
			r := l.Got(got)
			require.Equal(t, "/km/4/order-17", r.Path())
			now, _ := l.Srv.Get("/km")
			require.Greater(t, now.Stat.Cversion, n.Stat.Cversion, "the late transaction was applied")
			l.Unlock(r)
			time.Sleep(time.Minute)
			for _, dir := range []string{"/km", "/km/4"} {
				n, _ = l.Srv.Get(dir)
				require.NotContains(t, n.Children, "order-17")
			}
		})
	}
}
