package apply_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// shopWithout is the shop after its ledger was taken out of the configuration.
func (s *site) shopWithout() *plan.Tree {
	tree := s.shop()
	for i, n := range tree.Nodes {
		if n.Path == s.root+"/pay/ledger" {
			tree.Nodes = append(tree.Nodes[:i:i], tree.Nodes[i+1:]...)
			return tree
		}
	}
	panic("no ledger")
}

func (s *site) expire(c *recipes.Client) { s.server.Expire(s.session(c).ID()) }

// struckWhileDraining applies the shop, takes its lock, and lets another client drain and remove it, who is struck meanwhile.
func (s *site) struckWhileDraining(c *recipes.Client, strike func(*site, *recipes.Client)) (*recipes.Lease, error) {
	s.apply(c, s.shop())
	lease, err := s.dial("provisioner:secret").Mutex(s.root + "/pay/ledger").Lock(s.t.Context())
	require.NoError(s.t, err)
	victim := s.provisioner()
	x := executor(victim, on(func(event.Draining) { strike(s, victim) }))
	_, err = x.Run(s.t.Context(), s.plan(victim, s.shopWithout(), plan.Options{Drain: time.Minute}))
	return lease, err
}

// A lock that is drained because its path changes sends its waiters away, so that the apply finds the queue empty. Where the apply,
// or the next one after a crash, leaves the lock, programs have it; and at the other path they learn that it is not there.
func TestWaitersOfALockThatIsDrainedForAnotherPathAreSentAway(t *testing.T) {
	for name, c := range map[string]struct{ crash, back bool }{"changed": {}, "crashed, changed": {crash: true}, "crashed, taken back": {crash: true, back: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inMemory(t)
				before, after := s.tree(declare("/old", kind.Mutex, at("a.mutex"))), s.tree(declare("/new", kind.Mutex, at("b.mutex")))
				after.Intent.Moves = []plan.Move{{From: "a.mutex", To: "b.mutex"}}
				victim, next := s.provisioner(), s.provisioner()
				s.apply(victim, before)
				held := s.locks("provisioner:secret", s.root+"/old")
				waiter, sent := s.dial("provisioner:secret"), make(chan error, 1)
				go func() {
					_, err := waiter.Mutex(s.root + "/old").Lock(t.Context())
					sent <- err
				}()
				synctest.Wait()
				x := executor(victim, on(func(event.Draining) {
					if c.crash {
						s.expire(victim)
					}
					time.AfterFunc(20*time.Second, func() { assert.NoError(t, held.Unlock(context.Background())) })
				}))
				_, err := x.Run(t.Context(), s.plan(victim, after, plan.Options{Drain: time.Minute}))
				there, gone, tree := "/new", "/old", after
				if c.crash {
					require.Error(t, err)
					time.Sleep(30 * time.Second)
					if c.back {
						there, gone, tree = "/old", "/new", before
					}
					for c := range s.plan(next, tree).Each() {
						require.False(t, c.Drift, "draining is no change by hand")
					}
					s.apply(next, tree)
				} else {
					require.NoError(t, err)
				}
				require.ErrorIs(t, <-sent, recipes.ErrDraining)
				l, err := waiter.Mutex(s.root + there).TryLock(t.Context())
				require.NoError(t, err)
				require.NoError(t, l.Unlock(t.Context()))
				_, err = waiter.Mutex(s.root + gone).Lock(t.Context())
				require.ErrorIs(t, err, recipes.ErrNotProvisioned)
				require.ErrorContains(t, err, s.root+gone)
				require.False(t, s.plan(next, tree).HasChanges())
			})
		})
	}
}

// Who loses the apply lock while others wait to get in must not write any more: the lock stays
// shut, which was not told, or told as "nothing was written".
func TestLockThatADrainLeavesShutIsTold(t *testing.T) {
	for name, fail := range map[string]func(*site, *recipes.Client){
		"session expired": (*site).expire,
		"not ours to write any more": func(s *site, c *recipes.Client) {
			s.setByHand(c, s.root+"/pay/ledger", kind.ACL{Scheme: "digest", ID: digest("x:y"), Perms: kind.PermAll})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := provisioned(t)
				_, err := s.struckWhileDraining(c, fail)
				e := errorAs[*failure.ClosedError](t, err)
				require.Equal(t, []string{"pay.ledger.mutex (/locks/pay/ledger)"}, e.Locks)
				require.Contains(t, err.Error(), "they admit no new contender: pay.ledger.mutex (/locks/pay/ledger)")
				require.NotContains(t, strings.ToLower(err.Error()), "nothing was written")
				n, _ := s.server.Get(s.root + "/pay/ledger")
				require.Contains(t, string(n.Data), "draining")
			})
		})
	}
}

// One lock that other programs took between plan and apply stopped the apply of all of them. It stays in its node, which may be a
// container, and the next apply that finds it idle creates it again.
func TestAContainerInUseIsLeftAndEachApplyTriesAgain(t *testing.T) {
	for name, late := range map[string]bool{"since the plan": false, "since the apply looked": true} {
		for _, data := range []string{"10.0.0.1", ""} {
			t.Run(name+", data "+data, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := inMemory(t)
					ours := s.provisioner()
					s.apply(ours, s.shop())
					tree := s.shop()
					var addrs []plan.Addr
					foreign := s.session(s.dial("provisioner:secret"))
					for _, name := range []string{"/far", "/idle"} {
						_, err := s.session(ours).Create(t.Context(), s.root+name, []byte(data), 0, wire.ToZK(kind.WorldAll()))
						require.NoError(t, err)
						n := s.tree(declare(name, kind.Mutex)).Nodes[0]
						tree.Nodes, addrs = append(tree.Nodes, n), append(addrs, n.Addr)
						tree.Intent.Imports = append(tree.Intent.Imports, plan.Import{To: n.Addr, Path: n.Path})
					}
					far := s.root + "/far"
					// made says who made the nodes, and which locks an apply left while one of them was used.
					made := func(p *plan.Plan, used bool) (far, idle kind.Made, left []plan.Addr) {
						require.True(t, p.Applyable(), "%s", p)
						contender := ""
						hold := func() {
							var err error
							contender, err = foreign.Create(t.Context(), s.root+"/far/_c_01234567-89ab-cdef-0123-456789abcdef-lock-", nil, zk.FlagEphemeral|zk.FlagSequence, wire.ToZK(kind.WorldAll()))
							require.NoError(t, err)
						}
						if used && !late {
							hold()
						}
						x := executor(s.provisioner())
						x.Events = func(e event.Event) {
							switch e := e.(type) {
							case event.Left:
								left = e.Addrs
							case event.Started:
								if used && contender == "" {
									hold()
								}
							}
						}
						_, err := x.Run(t.Context(), p)
						require.NoError(t, err)
						if contender != "" {
							require.NoError(t, foreign.Delete(t.Context(), contender, -1))
						}
						live := s.read(ours, tree)
						return live.Find(s.root + "/far").Payload.Made, live.Find(s.root + "/idle").Payload.Made, left
					}
					opts := plan.Options{OverwriteData: true}
					for range 2 { // first the import, then another apply
						farMade, idleMade, left := made(s.resaved(s.plan(ours, tree, opts)), true)
						require.Equal(t, kind.MadeElsewhere, farMade)
						require.Equal(t, kind.MadeHere, idleMade)
						require.Equal(t, addrs[:1], left)
					}
					p := s.plan(ours, tree)
					require.Equal(t, plan.ReasonReplaceContainer, p.Changes[slices.IndexFunc(p.Changes, func(c plan.Change) bool { return c.Path == far })].Reason)
					farMade, _, left := made(p, false)
					require.Equal(t, kind.MadeHere, farMade)
					require.Empty(t, left)
					require.False(t, s.plan(ours, tree).HasChanges())
				})
			})
		}
	}
}

// text is the detail of the first problem that has some words in it.
func text(p *plan.Plan, words string) string {
	for _, q := range p.Problems {
		if strings.Contains(q.Detail, words) {
			return q.Detail
		}
	}
	return ""
}
