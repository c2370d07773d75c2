package recipes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// warmed is a client's family whose declaration it knows.
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
			require.NoError(t, l.Srv.Create("/km/1", nil)) // open to everybody, administrators of all sorts too
			got := l.Cost(func() {
				x, err := k.Lock(t.Context(), "1")
				require.ErrorIs(t, err, want)
				if err == nil {
					l.Unlock(x)
				}
			})
			require.LessOrEqual(t, got.Trips, 3, got.Ops)
			l.noKeys("/km") // the last contender takes the node along, whoever made it
		})
	}
}

func TestAKeysNodeOfTheFamilysOwnListIsNotForeign(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.Declare("/km", &kind.KeyedParams{Of: "mutex", Foreign: "false", Common: kind.Common{Wire: kind.WireCurator}}, func(p *kind.Payload) {
			p.ChildACL = kind.List{{Scheme: "world", ID: "anyone", Perms: kind.PermAll &^ kind.PermAdmin}}
		})
		a, b := l.warmed("a", "/km"), l.warmed("b", "/km")
		x := l.Lock(locked(a, "1"))
		w := l.Locking(b.Mutex("1"))
		notYet(t, w, "it waits")
		l.Unlock(x)
		l.Unlock((<-w).V)
		l.noKeys("/km")
	})
}

// A client that meets its key's node deleted between two steps begins again. After three times it depends on luck no more.
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
			<-rule.Hit() // the forms of the fourth, which nothing that happened before can spoil
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

// Whatever happens to the answer of a request that takes or gives back a key, nothing is left.
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
					x := l.Lock(take(c))
					l.Unlock(x)
					seen := 0
					l.Srv.Inject(zktest.Once(func(r zktest.Request) bool {
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
					time.Sleep(12 * time.Second)
					l.noKeys("/km", "/krw", "/ks")
					x = l.Lock(take(c))
					l.Unlock(x)
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

// What a crash leaves is collected by the servers: the nodes of all kinds have had children.
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

func TestAPersistentNodeOfAKeyGoesWithOurLastContender(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		k := l.warmed("a", "/km")
		require.NoError(t, l.Srv.Create("/km/1", nil))
		theirs := l.Foreign("/km/1", "_c_00000000-0000-0000-0000-000000000000-lock-0000000000", "")
		w := l.Locking(k.Mutex("1"))
		notYet(t, w, "they hold it")
		require.NoError(t, l.Srv.Delete(theirs))
		l.Unlock((<-w).V)
		l.noKeys("/km")
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

// some are n different keys of so many.
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

// A family that was destroyed and declared anew begins with the version that the former one had too. A transaction that knew the former
// one made the node of a key where nobody else looks for it, and the key was granted there.
func TestNoKeyIsGrantedByTheDeclarationOfADestroyedFamily(t *testing.T) {
	for _, cut := range []bool{false, true} {
		runInLab(t, fmt.Sprint("cut ", cut), func(t *testing.T, l *lab) {
			l.family("/km", &kind.KeyedParams{Of: "mutex"})
			k := l.warmed("a", "/km")
			fault := zktest.Hold
			if cut {
				fault = zktest.HoldReader // it comes later than what the client sends on the next connection
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
