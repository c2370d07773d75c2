package apply_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// scenes are the applies that the engine strikes. In some of them, locks are in use (see users). In the scenes of traffic_test.go, programs
// take the locks all the time.
var scenes = []struct {
	name   string
	writes int // at least, those of the apply lock included
	stage  func(t *testing.T, s *site, c *recipes.Client) *scene
	server []zktest.Option
}{
	{"first apply", 3, firstScene, nil},
	{"all that is there changes", 8, richScene, nil},
	{"richest apply, in two transactions", 8, wealthScene, nil},
	{"two transactions and access lists, and other locks next", 8, closingScene, nil},
	{"drain", 8, drainScene(false), nil},
	{"drain, then declared again", 8, drainScene(true), nil},
	{"drain that takes too long", 5, reopenScene, nil},
	{"drain for the second transaction", 4, laterScene, nil},
	{"contenders broken by force", 5, forceScene, nil},
	{"rights granted to ourselves first", 8, widenScene, nil},
	{"cut by what the servers read", 6, cutScene, []zktest.Option{zktest.WithMaxFrame(100_000)}},
	{"paths changed of a namespace's locks", 3, pathScene, nil},
	{"record written anew", 4, lostScene, nil},
	{"all destroyed", 3, destroyScene(nil), nil},
	{"all destroyed, without a record", 3, destroyScene(losses["gone"]), nil},
	{"all destroyed, with a damaged record", 3, destroyScene(losses["cut off"]), nil},
	{"many destroyed, without a record", 4, deepScene, nil},
	{"imports, some made anew", 5, importScene, nil},
	{"keys in use get another access list", 8, relistScene, nil},
	{"family replaced that a crash littered", 6, litteredScene, nil},
	{"new administrator beside the old one, finished by the old one", rotated20, rotationScene(oldKeys, bothKeys, bothKeys, oldKeys), nil},
	{"new administrator beside the old one, finished by both", rotated20, rotationScene(oldKeys, bothKeys, bothKeys, bothKeys), nil},
	{"new administrator let in by the old one, finished by the old one", rotated20, rotationScene(oldKeys, bothKeys, oldKeys, oldKeys), nil},
	{"new administrator let in by the old one, finished by both", rotated20, rotationScene(oldKeys, bothKeys, oldKeys, bothKeys), nil},
	{"old administrator goes, finished by the new one", rotated20, rotationScene(bothKeys, newKeys, newKeys, newKeys), nil},
	{"old administrator goes, finished by both", rotated20, rotationScene(bothKeys, newKeys, newKeys, bothKeys), nil},
	{"administrators replaced in one step, finished by both", rotated20, rotationScene(oldKeys, newKeys, bothKeys, bothKeys), nil},
	{"administrators replaced in one step, finished by the one who can", rotated20, rotationScene(oldKeys, newKeys, bothKeys, nil), nil},
	{"paths change of idle locks that are called", 3, trafficScene(traffic{}), slow},
	{"paths change back of idle locks that are called", 3, trafficScene(traffic{back: true}), slow},
	{"paths change of locks that are drained and called", 3, trafficScene(traffic{drained: true}), slow},
	{"paths change back of locks that are drained and called", 3, trafficScene(traffic{drained: true, back: true}), slow},
}

// rich changes everything in the shop: an update, a replacement, a creation, a deletion and access lists.
func rich(s *site) *plan.Tree {
	tree := s.shop(set("wire", "kazoo"))
	for _, n := range tree.Nodes {
		adminOnly(n)
	}
	set("permits", 9)(tree.Nodes[4])
	tree.Nodes[5] = s.tree(declare("/new", tree.Nodes[5].Kind(), adminOnly)).Nodes[0]
	return tree
}

func firstScene(_ *testing.T, s *site, _ *recipes.Client) *scene { return &scene{tree: rich(s)} }

func richScene(_ *testing.T, s *site, c *recipes.Client) *scene {
	s.apply(c, s.shop())
	return &scene{tree: rich(s)}
}

// wealthScene is the richest apply, in more than one transaction.
func wealthScene(t *testing.T, s *site, c *recipes.Client) *scene {
	before, after := wealth(s)
	s.apply(c, before)
	s.create(c, s.root+"/theirs", "", everybody...)
	require.Greater(t, len(s.plan(c, after).Batches), 1)
	return &scene{tree: after, finished: func() { require.NotNil(t, s.node(c, "/zone"), "it was forgotten, and stays") }}
}

// closing is the shop with lists for us alone, and some long declarations: two transactions, then access lists.
func (s *site) closing() *plan.Tree {
	nodes := append(bulk(44, 280, "x"), s.shopNodes()...)
	for _, n := range nodes[len(nodes)-6:] {
		adminOnly(n)
	}
	return s.tree(nodes...)
}

func closingScene(t *testing.T, s *site, c *recipes.Client) *scene {
	s.apply(c, s.shop())
	require.Greater(t, len(s.plan(c, s.closing()).Batches), 1)
	return &scene{tree: s.closing(), next: s.shop(set("description", "other"))}
}

// users takes two locks of the shop. The scenes below delete one and replace the other.
func users(t *testing.T, s *site) (ledger, pool *recipes.Lease) {
	program := s.dial("provisioner:secret")
	ledger = s.takes(program.Mutex(s.root + "/pay/ledger").Lock)
	pool, err := program.Semaphore(s.root+"/pay/pool").Acquire(t.Context(), 2)
	require.NoError(t, err)
	return ledger, pool
}

// drainScene deletes one lock in use and replaces another. No holder is disturbed. The next apply deletes a lock that was left draining, or
// opens it if it is declared again.
func drainScene(declaredAgain bool) func(*testing.T, *site, *recipes.Client) *scene {
	return func(t *testing.T, s *site, c *recipes.Client) *scene {
		s.apply(c, s.shop())
		ledger, pool := users(t, s)
		left, begun := make(chan struct{}), false
		leave := func() {
			defer close(left)
			for _, l := range []*recipes.Lease{ledger, pool} {
				assert.NoError(t, l.Context().Err(), "a holder was disturbed")
				assert.NoError(t, l.Unlock(t.Context()))
			}
		}
		sc := &scene{
			tree: s.shopWithout(), options: plan.Options{Drain: time.Minute, Replace: []string{"pay.pool.semaphore"}},
			draining: func() {
				begun = true
				time.AfterFunc(5*time.Second, leave) // fake time: the holders work that long
			},
			struck: func(bool) {
				if !begun {
					go leave()
				}
				<-left
				s.tellsOfDraining(c, s.shopWithout())
			},
		}
		if declaredAgain {
			sc.next = s.shop()
		}
		return sc
	}
}

// tellsOfDraining asserts that a plan says what it does about a lock that was left draining, and does not call it a change by hand.
func (s *site) tellsOfDraining(c *recipes.Client, tree *plan.Tree) {
	p := s.plan(c, tree)
	require.Empty(s.t, p.Drifted)
	told := map[string]bool{}
	for _, q := range p.Problems {
		told[q.Path] = told[q.Path] || q.Code == problem.Draining
	}
	for i := range p.Changes {
		if ch := &p.Changes[i]; ch.Before != nil && ch.Before.Payload.State == kind.StateDraining {
			require.Equal(s.t, !ch.Revive || ch.Action == plan.Replace, told[ch.Path], "%s", p)
		}
	}
}

// reopenScene keeps the holder, so the apply opens the lock again; if it is stopped, the next apply does.
func reopenScene(t *testing.T, s *site, c *recipes.Client) *scene {
	s.apply(c, s.shop())
	ledger, pool := users(t, s)
	return &scene{
		tree: s.shopWithout(), options: plan.Options{Drain: 2 * time.Second}, next: s.shop(),
		ends: func(err error) {
			errorAs[*failure.InUseError](t, err)
			// The error said that nothing was written, although the lock had been closed and opened.
			require.ErrorContains(t, err, "Nothing of the plan was written, but locks that were closed in order to drain them are open again. Run the command again")
			require.NotContains(t, err.Error(), "Nothing was written")
		},
		struck: func(stopped bool) {
			require.NoError(t, ledger.Verify(t.Context()), "the holder was disturbed")
			again := s.plan(c, s.shop())
			if again.HasChanges() {
				require.True(t, stopped, "an apply that comes to its end opens the lock again")
				require.True(t, again.Changes[3].Revive, "%s", again)
			}
			s.tellsOfDraining(c, s.shop())
			s.tellsOfDraining(c, s.shopWithout())
			s.apply(c, s.shop()) // while it is held
			require.NoError(t, ledger.Verify(t.Context()))
			require.NoError(t, ledger.Unlock(t.Context()))
			require.NoError(t, pool.Unlock(t.Context()))
		},
	}
}

// laterScene drains a lock that the second transaction creates again.
func laterScene(t *testing.T, s *site, c *recipes.Client) *scene {
	s.apply(c, s.tree(declare("/zz", kind.Mutex)))
	lease := s.locks("provisioner:secret", s.root+"/zz")
	tree := s.tree(append(bulk(44, 280, "x"), declare("/zz", kind.Mutex, set("wire", "kazoo")))...)
	leave := func() { assert.NoError(t, lease.Unlock(t.Context())) }
	return &scene{tree: tree, options: plan.Options{Drain: time.Minute}, draining: leave, struck: func(bool) {
		leave()
		s.tellsOfDraining(c, tree)
	}}
}

// forceScene breaks locks. Their holders lose them with the transaction or not at all.
func forceScene(t *testing.T, s *site, c *recipes.Client) *scene {
	s.apply(c, s.shop())
	ledger, pool := users(t, s)
	leader := s.takes(s.dial("provisioner:secret").Election(s.root + "/solo").Campaign)
	force := plan.Options{ForceBreak: []string{"pay.ledger.mutex", "pay.pool.semaphore"}, Replace: []string{"pay.pool.semaphore"}}
	again := force
	again.Replace = nil
	was := map[*recipes.Lease]zktest.Node{ledger: s.at("/pay/ledger"), pool: s.at("/pay/pool")}
	return &scene{
		tree: s.shopWithout(), options: force, again: again,
		struck: func(bool) {
			for l, lock := range was {
				if now, there := s.server.Get(lock.Path); there && now.Stat.Czxid == lock.Stat.Czxid {
					require.NoError(t, l.Verify(t.Context()), "broken, but not applied")
				} else {
					require.ErrorIs(t, l.Verify(t.Context()), recipes.ErrLost)
				}
			}
			require.NoError(t, leader.Verify(t.Context()), "no option names this one")
		},
		finished: func() { require.NoError(t, leader.Unlock(t.Context())) },
	}
}

// widenScene changes nodes on which we have only ADMIN and READ.
func widenScene(_ *testing.T, s *site, c *recipes.Client) *scene {
	s.apply(c, s.shop())
	for _, path := range []string{"/pay", "/pay/ledger"} {
		s.setByHand(c, s.root+path, kind.ACL{Scheme: "digest", ID: admin.ID, Perms: kind.PermAdmin | kind.PermRead})
	}
	return &scene{tree: s.tree(append(s.shopNodes(set("description", "new")), declare("/pay/another", kind.Mutex))...)}
}

// cutScene has more changes than the server reads in one transaction.
func cutScene(_ *testing.T, s *site, c *recipes.Client) *scene {
	s.apply(c, s.tree(longNames(0, 11)...))
	return &scene{tree: s.tree(longNames(0, 40)...)}
}

// pathScene gives a namespace and everything in it another path.
func pathScene(_ *testing.T, s *site, c *recipes.Client) *scene {
	s.apply(c, s.shop())
	nodes := s.shopNodes()
	for _, n := range nodes {
		n.Path = strings.Replace(n.Path, "/pay", "/billing", 1)
	}
	return &scene{tree: s.tree(nodes...)}
}

// lostScene changes much while the record is damaged.
func lostScene(t *testing.T, s *site, c *recipes.Client) *scene {
	s.apply(c, s.tree(longNames(0, 110)...))
	require.NoError(t, s.server.Set(record.IndexPath(s.root, stack), []byte("x")))
	tree := s.tree(longNames(60, 320)...)
	require.Greater(t, len(s.plan(c, tree).Batches), 1)
	return &scene{tree: tree}
}

// destroyScene destroys everything. Unless lose is nil, it loses the record first.
func destroyScene(lose func(*testing.T, *zktest.Server, string)) func(*testing.T, *site, *recipes.Client) *scene {
	return func(t *testing.T, s *site, c *recipes.Client) *scene {
		s.apply(c, s.shop())
		if lose != nil {
			lose(t, s.server, record.IndexPath(s.root, stack))
		}
		destroy := plan.Options{Destroy: true}
		return &scene{tree: s.shop(), options: destroy, next: s.tree(), again: destroy}
	}
}

// deepScene destroys more than a transaction holds, without a record. The plan fits only once, although everything that it found absent is
// absent again.
func deepScene(t *testing.T, s *site, c *recipes.Client) *scene {
	at, nodes := "", []*plan.Node(nil)
	for range 20 { // paths of four kilobytes make several transactions of few deletions
		at += "/" + strings.Repeat("n", 200)
		nodes = append(nodes, declare(at, kind.Namespace))
	}
	for i := range 300 {
		nodes = append(nodes, declare(fmt.Sprintf("%s/%04d", at, i), kind.Mutex))
	}
	tree, destroy := s.tree(nodes...), plan.Options{Destroy: true}
	s.apply(c, tree)
	require.NoError(t, s.server.Delete(record.IndexPath(s.root, stack)))
	p := s.plan(c, tree, destroy)
	require.Greater(t, len(p.Batches), 1)
	return &scene{tree: tree, options: destroy, next: s.tree(), again: destroy, finished: func() {
		require.Nil(t, s.node(c, strings.TrimPrefix(tree.Nodes[0].Path, s.root)))
		_, err := executor(c).Run(t.Context(), p)
		require.True(t, refused(err), "%v", err)
	}}
}

// importScene imports what other programs made. Idle locks are created again, because they may be containers. One in use is imported as it
// is.
func importScene(t *testing.T, s *site, c *recipes.Client) *scene {
	s.apply(c, s.tree(declare("/pay", kind.Namespace)))
	for _, path := range []string{"/idle", "/pool", "/pool/locks", "/pool/leases", "/busy"} {
		s.create(c, s.root+path, "", everybody...)
	}
	s.create(c, s.root+"/text", "10.0.0.1", everybody...)
	foreign := s.dial("")
	at := s.contend(foreign, "/busy", kind.WorldAll())
	tree := s.tree(declare("/pay", kind.Namespace), declare("/idle", kind.Mutex), declare("/pool", kind.Semaphore, set("permits", 2)),
		declare("/busy", kind.Mutex), declare("/text", kind.RWLock))
	for to, path := range map[string]string{
		"idle.mutex": "/idle", "pool.semaphore": "/pool", "busy.mutex": "/busy", "text.rwlock": "/text",
	} {
		tree.Intent.Imports = append(tree.Intent.Imports, plan.Import{To: plan.Addr(to), Path: s.root + path})
	}
	told := []problem.Code{problem.Container} // of the lock in use
	return &scene{tree: tree, options: plan.Options{OverwriteData: true}, again: plan.Options{OverwriteData: true}, told: told, struck: func(bool) {
		_, there := s.server.Get(at)
		require.True(t, there, "the foreign holder was harmed")
		require.NoError(t, foreign.Close())
	}}
}

// relistScene replaces the credential with which a key is in use. The family keeps that credential as long as the key's node has the former
// list. An apply that was struck between the lists of the key's node and of its parts once left the parts as they were.
func relistScene(t *testing.T, s *site, c *recipes.Client) *scene {
	tree := s.orders(of("semaphore"), set("permits", 2))
	s.apply(c, tree)
	w := s.dial("worker:w")
	held := s.hold(w, tree, "order-17")
	lists := func() (key, family kind.List) {
		return s.list(c, keyPath(tree, "order-17")), s.list(c, s.root+"/shop/orders")
	}
	next := s.orders(of("semaphore"), set("permits", 2), to(kind.List{admin, joiner}, kind.List{admin, joined}))
	return &scene{tree: next, struck: func(bool) {
		key, family := lists()
		sure, _ := family.Rights(worker)
		require.False(t, key.Covers(kind.List{crew}) && sure == 0, "the key is of a credential that the family has lost: %s, %s", key, family)
		_, there := s.server.Get(held)
		require.True(t, there)
	}, finished: func() {
		key, family := lists()
		require.True(t, key.Equal(kind.List{admin, joined}), "the key was forgotten: %s", key)
		for _, part := range kind.Semaphore.Children {
			require.True(t, s.list(c, keyPath(tree, "order-17")+"/"+part).Equal(key), part)
		}
		require.True(t, family.Equal(kind.List{admin, joiner}), "%s", family)
		require.NoError(t, w.Close())
	}}
}

// litteredScene replaces a family in which a crash has left nodes of keys.
func litteredScene(_ *testing.T, s *site, c *recipes.Client) *scene {
	tree, w := s.orders(of("mutex")), s.dial("worker:w")
	s.apply(c, tree)
	for i := range 3 {
		s.leave(w, tree, fmt.Sprint(i))
	}
	return &scene{tree: s.orders(of("mutex"), fanout("16"))}
}

const rotated20 = 20 // writes: lock, transaction, the lists of sixteen nodes at least, journal, unlock

var oldKeys, newKeys, bothKeys = []string{oldKey}, []string{newKey}, []string{oldKey, newKey}

// rotationScene replaces administrators: the parameter before has the old ones, and after the new ones. The parameter by has the
// credentials of the apply, and next those of the apply that finishes it. If next is nil, one administrator with all rights finishes it
// with its own configuration, which may be the earlier one. A program holds a lock throughout, and a reader can plan at any moment.
func rotationScene(before, after, by, next []string) func(*testing.T, *site, *recipes.Client) *scene {
	return func(t *testing.T, s *site, _ *recipes.Client) *scene {
		readers := []string{ciKey}
		s.settle(may(before, readers), before...)
		lease := s.locks("worker:w", s.root+"/pay/ledger")
		sc := &scene{by: by, tree: s.grown(may(after, readers)), nextBy: next, told: []problem.Code{problem.Unmanaged}}
		if next == nil {
			sc.nextBy = by // of the rival; see below
		}
		admins := after
		sc.struck = func(bool) {
			able := s.somebodyCanDoEverything(before, after)
			ci := s.as(ciKey)
			live, err := read.Tree(t.Context(), s.session(ci), sc.tree)
			require.NoError(t, err, "a reader plans at any moment")
			require.Empty(t, live.Unreadable)
			require.NoError(t, lease.Verify(t.Context()), "the program was disturbed")
			if next == nil {
				sc.nextBy, sc.next = []string{able}, sc.tree
				if !slices.Contains(after, able) {
					admins, sc.next = before, s.estate(may(before, readers))
				}
			}
		}
		sc.finished = func() {
			tree := sc.next
			if tree == nil {
				tree = sc.tree
			}
			s.arrived(tree, admins)
			require.NoError(t, lease.Unlock(t.Context()))
		}
		return sc
	}
}
