package apply_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

func of(what string) func(*plan.Node)  { return set("kind", what) }
func fanout(n string) func(*plan.Node) { return set("fanout", n) }

// orders is a tree with a family in a namespace.
func (s *site) orders(change ...func(*plan.Node)) *plan.Tree {
	return s.tree(declare("/shop", kind.Namespace), declare("/shop/orders", kind.Keyed, change...))
}

// family returns a server with that tree, its administrator, a program, and the tree.
func family(t testing.TB, change ...func(*plan.Node)) (*site, *recipes.Client, *recipes.Client, *plan.Tree) {
	s, c := provisioned(t)
	tree := s.orders(change...)
	s.apply(c, tree)
	return s, c, s.dial("worker:w"), tree
}

func keyPath(tree *plan.Tree, key string) string {
	n := tree.Nodes[1]
	path, err := n.Payload.Params.(*kind.KeyedParams).Path(n.Path, key)
	must(err)
	return path
}

// leave creates the node of a key as a crash leaves it.
func (s *site) leave(c *recipes.Client, tree *plan.Tree, key string) string {
	s.t.Helper()
	path := keyPath(tree, key)
	list := tree.Nodes[1].Payload.ChildACL
	s.create(c, path, "", list...)
	for _, part := range kind.Keyed.Key(tree.Nodes[1].Payload.Params).Kind().Children {
		s.create(c, path+"/"+part, "", list...)
	}
	return path
}

// hold creates the node of a key with a contender, and returns the contender's path.
func (s *site) hold(c *recipes.Client, tree *plan.Tree, key string) string {
	s.t.Helper()
	path := s.leave(c, tree, key)
	name := path + "/" + mutexName
	if kind.Keyed.Key(tree.Nodes[1].Payload.Params).Kind() == kind.Semaphore {
		name = path + "/leases/_c_01234567-89ab-cdef-0123-456789abcdef-lease-"
	}
	return s.stand(c, name, tree.Nodes[1].Payload.ChildACL)
}

func TestFamilyIsMadeWithItsDirectoriesAndGoesWithThem(t *testing.T) {
	for _, dirs := range []string{"", "16", "256"} {
		t.Run(dirs, func(t *testing.T) { families(t, inMemory(t), dirs) })
	}
}

func families(t *testing.T, s *site, dirs string) {
	c := s.provisioner()
	tree := s.orders(of("mutex"), fanout(dirs))
	res := s.apply(c, tree)
	require.Equal(t, 1, res.Transactions)
	names := s.children(c, s.root+"/shop/orders")
	require.ElementsMatch(t, tree.Nodes[1].Payload.Children(), names)
	for _, name := range names {
		require.True(t, s.list(c, s.root+"/shop/orders/"+name).Equal(kind.List{admin, worker}))
	}
	require.False(t, s.plan(c, tree).HasChanges())

	if dirs != "" {
		require.NoError(t, s.session(c).Delete(t.Context(), s.root+"/shop/orders/"+names[3], -1))
		p := s.plan(c, tree)
		require.Equal(t, []string{names[3]}, p.Changes[1].MissingParts)
		s.runs(c, p)
		require.False(t, s.plan(c, tree).HasChanges())
	}
	s.hold(s.dial("worker:w"), tree, "order-17")
	wider := s.orders(of("mutex"), fanout(dirs), set("max_waiters", 3))
	s.apply(c, wider)
	require.False(t, s.plan(c, wider).HasChanges(), "traffic is nothing to be planned")

	for _, other := range []*plan.Tree{s.orders(of("rwlock"), fanout(dirs)), s.orders(of("mutex"), fanout(map[string]string{"": "16", "16": "256", "256": ""}[dirs])), s.orders(of("mutex"), fanout(dirs), set("wire", "kazoo"))} {
		p := s.plan(c, other)
		require.Equal(t, plan.Replace, p.Changes[1].Action)
		require.Len(t, p.InUse(), 1)
	}
}

func TestKeysInUseAreCountedAndNamed(t *testing.T) {
	for _, dirs := range []string{"", "256"} {
		t.Run(dirs, func(t *testing.T) {
			s, c, _, tree := family(t, of("semaphore"), set("permits", 2), fanout(dirs))
			w := s.dial("worker:w")
			for i := range 3 {
				s.hold(w, tree, fmt.Sprintf("order/%d", i))
			}
			s.leave(w, tree, "left")
			use := s.usage(c, tree)
			require.Equal(t, kind.Keys{Nodes: 4, Looked: 4, Used: 3}, use.Keys)
			require.Len(t, use.Holders, 3)
			require.Contains(t, use.String(), "3 keys in use: 3 holders")
			require.True(t, slices.ContainsFunc(use.List(), func(line string) bool { return strings.HasPrefix(line, `key "order/1" held by `) }), "%s", use.List())

			for i := range 5000 {
				require.NoError(t, s.server.Create(keyPath(tree, fmt.Sprint(i))+"/leases", nil))
			}
			s.server.ResetCounts()
			use = s.usage(c, tree)
			require.Equal(t, 5004, use.Keys.Nodes)
			require.Equal(t, 16, use.Keys.Looked)
			require.Contains(t, use.String(), "5004 keys, of which 16 were looked at (")
			n := s.server.SessionCounts(s.session(c).ID()).Total - len(tree.Nodes[1].Payload.Children())
			require.LessOrEqual(t, n, 200)
		})
	}
}

// usage returns who uses the family.
func (s *site) usage(c *recipes.Client, tree *plan.Tree) *kind.Usage {
	s.t.Helper()
	return s.read(c, tree).Nodes[1].Live.Usage
}

func TestFamilyWithAKeyInUseIsNotDestroyed(t *testing.T) { familyHeld(t, inMemory(t)) }

func familyHeld(t *testing.T, s *site) {
	c, w := s.provisioner(), s.dial("worker:w")
	for _, what := range []string{"mutex", "rwlock", "semaphore"} {
		tree := s.orders(of(what), fanout("16"), func(n *plan.Node) {
			if what == "semaphore" {
				set("permits", 2)(n)
			}
		})
		s.apply(c, tree)
		held := s.hold(w, tree, "order-17")
		for i := range 70 {
			s.leave(w, tree, fmt.Sprintf("left-%d", i))
		}
		p := s.plan(c, tree, plan.Options{Destroy: true})
		s.unchanged(c, func() {
			_, err := executor(c).Run(t.Context(), p)
			require.ErrorContains(t, err, "order-17")
		})
		s.leaves(w, held)
		s.runs(c, p)
		require.False(t, s.plan(c, s.tree()).HasChanges())
	}
}

func TestNodeOfAKeyThatHoldsSomethingIsNobodysLeftover(t *testing.T) {
	s, c, _, tree := family(t, of("mutex"))
	for _, path := range []string{"/locks/shop/orders/precious", "/locks/shop/orders/%2/x"} {
		require.NoError(t, s.server.Create(path, []byte("data")))
		require.Len(t, s.usage(c, tree).Junk, 1)
		require.ErrorContains(t, s.destroy(c, tree), "foreign child")
		require.NoError(t, s.server.Delete("/locks/shop/orders/"+strings.Split(path, "/")[4]))
	}
	require.NoError(t, s.destroy(c, tree))
}

// In each round, a program locks the key just before another request of the apply.
func TestKeyLockedWhileItsFamilyIsDestroyedIsUnharmed(t *testing.T) {
	for i, more := 1, true; more; i++ {
		s, c, w, tree := family(t, of("mutex"))
		left, rival := s.leave(w, tree, "order-17"), s.session(w)
		p, session := s.plan(c, tree, plan.Options{Destroy: true}), s.session(c).ID()
		n := 0
		in := s.server.Inject(func(r zktest.Request) bool {
			if r.Session != session || r.Op == "ping" {
				return false
			}
			n++
			return n == i
		}, zktest.Hold)
		held := make(chan string, 1)
		go func() {
			select {
			case <-in.Hit():
			case <-t.Context().Done():
			}
			at, err := rival.Create(context.Background(), left+"/_c_01234567-89ab-cdef-0123-456789abcdef-lock-", []byte{}, zk.FlagEphemeral|zk.FlagSequence, wire.ToZK(kind.List{crew}))
			if err != nil {
				at = ""
			}
			in.Release()
			held <- at
		}()
		_, err := executor(c).Run(t.Context(), p)
		if more = in.Hits() > 0; !more {
			require.NoError(t, err)
			break
		}
		if at := <-held; at != "" {
			_, there := s.server.Get(at)
			require.True(t, there, "request %d", i)
			errorAs[*failure.InUseError](t, err, "request %d", i)
		}
	}
}

func TestServerThatDoesNotDeleteALeftoverIsNotTakenForALostLock(t *testing.T) {
	s, c, _, tree := family(t, of("mutex"))
	s.leave(s.dial("worker:w"), tree, "order-17")
	p := s.plan(c, tree, plan.Options{Destroy: true})
	x := executor(c, on(func(event.Verified) {
		s.server.Inject(zktest.Once(func(r zktest.Request) bool { return len(r.Paths) > 1 }), zktest.Fail(zktest.CodeThrottled)) // a heartbeat has one
	}))
	_, err := x.Run(t.Context(), p)
	require.ErrorContains(t, err, "The transaction was not committed")
	s.runs(c, p)
}

// The error said "Nothing was written" although the apply had deleted nodes of keys.
func TestRefusedApplySaysThatLeftoversWereDeleted(t *testing.T) {
	for n, said := range map[int]string{0: "Nothing was written.", 1: "the unused node of a key was deleted.", 3: "the nodes of 3 keys that were not used were deleted."} {
		s, c, _, tree := family(t, of("mutex"))
		for i := range n {
			s.leave(s.dial("worker:w"), tree, fmt.Sprint(i))
		}
		p := s.plan(c, tree, plan.Options{Destroy: true})
		x := executor(c, func(e event.Event) {
			if _, ok := e.(event.Verified); ok { // the last moment: the fault does not strike the sweep
				family := s.root + "/shop/orders"
				s.server.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "multi" && slices.Contains(r.Paths, family) }), zktest.Fail(zktest.Code(-111)))
			}
		})
		_, err := x.Run(t.Context(), p)
		require.Error(t, err)
		require.Contains(t, explain.Of(err).Text(), said)
		for i := range n {
			_, there := s.server.Get(keyPath(tree, fmt.Sprint(i)))
			require.False(t, there)
		}
	}
}

// If a part of a key's lock had data, an apply found the lock in use, and a plan did not.
func TestDataInAPartOfAKeyIsNobodysLeftover(t *testing.T) {
	s, c, w, tree := family(t, of("semaphore"), set("permits", 2))
	part := s.leave(w, tree, "order-17") + "/leases"
	require.NoError(t, s.server.Set(part, []byte("somebody's")))
	require.Equal(t, []string{"order-17"}, s.usage(c, tree).Junk)
	require.ErrorContains(t, s.destroy(c, tree), "order-17")
	require.NoError(t, s.server.Set(part, nil))
	require.NoError(t, s.destroy(c, tree))
}

// A drain waits for the keys in use. It listed the family and looked at all its keys every quarter of a second.
func TestDrainOfAFamilyLooksAtOneKeyAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c, w, tree := family(t, of("mutex"), fanout("16"))
		held, looked := s.hold(w, tree, "order-17"), 0
		for i := range 50 {
			s.leave(w, tree, fmt.Sprint("left-", i))
		}
		id, worker := s.session(c).ID(), s.session(w)
		x := executor(c, on(func(d event.Draining) {
			require.Equal(t, 1, d.Usage.Keys.Used)
			require.Equal(t, kind.StateDraining, s.payload("/locks/shop/orders").State)
			go func() {
				time.Sleep(100 * time.Millisecond)
				before := s.server.SessionCounts(id).Total
				time.Sleep(1500 * time.Millisecond)
				looked = s.server.SessionCounts(id).Total - before
				_ = worker.Delete(t.Context(), held, -1)
			}()
		}))
		s.succeeds(x, s.plan(c, s.tree(declare("/shop", kind.Namespace)), plan.Options{Drain: time.Minute}))
		require.Positive(t, looked)
		require.Less(t, looked, 6*(16+8), "requests of six rounds, one for each directory")
		_, there := s.server.Get("/locks/shop/orders")
		require.False(t, there)
	})
}

func TestFamilyBrokenByForceGoesWithItsKeys(t *testing.T) {
	s, c, w, tree := family(t, of("semaphore"), set("permits", 2), fanout("16"))
	s.hold(w, tree, "order-17")
	s.hold(w, tree, "order-18")
	s.leave(w, tree, "left")
	p := s.plan(c, tree, plan.Options{Destroy: true, ForceBreak: []string{"shop.orders.keyed"}})
	s.runs(c, p)
	require.False(t, s.plan(c, s.tree()).HasChanges())
}

// A contender comes after the apply has looked.
func TestLockTakenAtTheLastMomentKeepsItsPath(t *testing.T) {
	for _, k := range []*kind.Kind{kind.Mutex, kind.Keyed} {
		t.Run(k.Name, func(t *testing.T) {
			s := inMemory(t)
			c, w := s.provisioner(), s.dial("worker:w")
			s.apply(c, s.tree(declare("/here", k, at("lock."+k.Name))))
			p, x := s.plan(c, s.tree(declare("/there", k, at("lock."+k.Name)))), executor(c)
			x.Events = on(func(event.Verified) {
				path := "/here"
				if k == kind.Keyed {
					path += "/order-17"
					s.create(w, s.root+path, "", crew)
				}
				s.contend(w, path, kind.List{crew})
			})
			_, err := x.Run(t.Context(), p)
			used := errorAs[*failure.InUseError](t, err)
			require.Equal(t, s.root+"/here", used.Path, "the address has a node to delete and one to create")
			require.True(t, used.Usage.Busy())
		})
	}
}

// A transaction that creates a key's node checks the version of the declaration that its program read. A family that replaces another one
// must have a different version.
func TestNoLateTransactionFitsTheFamilyThatTookThePlace(t *testing.T) {
	for raised := range int32(4) {
		s, c, _, _ := family(t, of("mutex"))
		for i := range raised {
			s.apply(c, s.orders(of("mutex"), set("max_waiters", int(i)+1)))
		}
		n, _ := s.server.Get("/locks/shop/orders")
		require.Equal(t, raised, n.Stat.Version)
		s.apply(c, s.orders(of("mutex"), fanout("16")))
		now, _ := s.server.Get("/locks/shop/orders")
		require.NotContains(t, []int32{n.Stat.Version, n.Stat.Version - 1}, now.Stat.Version)
		require.False(t, s.plan(c, s.orders(of("mutex"), fanout("16"))).HasChanges())
	}
}

// A family is imported from a running program that locks a node for each key. Errors name the keys in use. A replacement that drains waits
// for them, and creates the family's node again, without what the program left behind.
func TestFamilyIsImportedWhileItsKeysAreInUse(t *testing.T) { familyImported(t, inMemory(t)) }

func familyImported(t *testing.T, s *site) {
	c, theirs := s.provisioner(), s.dial("")
	s.apply(c, s.tree(declare("/shop", kind.Namespace)))
	s.create(c, s.root+"/shop/orders", "", everybody...)
	for _, path := range []string{"/order-17", "/order-18"} {
		s.create(theirs, s.root+"/shop/orders"+path, "", everybody...)
	}
	held := s.contend(theirs, "/shop/orders/order-17", everybody)
	tree := s.orders(of("mutex"), set("foreign", "true"))
	tree.Intent.Imports = []plan.Import{{To: tree.Nodes[1].Addr, Path: s.root + "/shop/orders"}}
	p := s.plan(c, tree)
	require.Equal(t, kind.Keys{Nodes: 2, Looked: 2, Used: 1}, p.Changes[1].Usage.Keys)
	require.Equal(t, plan.Update, p.Changes[1].Action)
	s.runs(c, p)
	require.Equal(t, kind.MadeElsewhere, s.made(c))

	done := make(chan error)
	replace := func(drain time.Duration) error {
		_, err := executor(c).Run(t.Context(), s.plan(c, tree, plan.Options{Replace: []string{string(tree.Nodes[1].Addr)}, Drain: drain}))
		return err
	}
	err := replace(300 * time.Millisecond)
	errorAs[*failure.InUseError](t, err)
	require.ErrorContains(t, err, `key "order-17" held by`)
	go func() { done <- replace(time.Minute) }()
	s.leaves(theirs, held)
	require.NoError(t, <-done)
	require.Equal(t, kind.MadeHere, s.made(c))
	require.Empty(t, s.children(c, s.root+"/shop/orders"))
}

func (s *site) made(c *recipes.Client) kind.Made {
	s.t.Helper()
	return s.read(c, s.orders()).Find(s.root + "/shop/orders").Payload.Made
}

var (
	joiner = kind.ACL{Scheme: "digest", ID: digest("joiner:j"), Perms: kind.PermCreate | kind.PermRead | kind.PermDelete}
	joined = kind.ACL{Scheme: "digest", ID: digest("joiner:j"), Perms: kind.PermCreate | kind.PermRead | kind.PermWrite | kind.PermDelete}
)

func to(lock, contender kind.List) func(*plan.Node) {
	return func(n *plan.Node) { n.ACL, n.Payload.ChildACL = lock, contender }
}

func TestChangedListReachesTheKeysInUse(t *testing.T) { relisted(t, inMemory(t)) }

func relisted(t *testing.T, s *site) {
	c, w := s.provisioner(), s.dial("worker:w")
	tree := s.orders(of("semaphore"), set("permits", 2), fanout("16"))
	s.apply(c, tree)
	for i := range 20 {
		s.hold(w, tree, fmt.Sprintf("order-%d", i))
	}
	foreign := keyPath(tree, "foreign")
	s.create(w, foreign, "", everybody...)

	next := s.orders(of("semaphore"), set("permits", 2), fanout("16"), to(kind.List{admin, joiner}, kind.List{admin, joined}))
	p := s.plan(c, next)
	require.Equal(t, "21 keys have a node. Of 16 that were looked at, 15 have the former access list. Apply replaces it on every node that has it", relists(p))
	res := s.runs(c, s.resaved(p))
	require.Equal(t, 20*3+1+16, res.ACLs, "the nodes of each key, the family with its directories, and no other")
	for i := range 20 {
		for _, part := range []string{"", "/leases", "/locks"} {
			require.True(t, s.list(c, keyPath(tree, fmt.Sprintf("order-%d", i))+part).Equal(kind.List{admin, joined}))
		}
	}
	require.True(t, s.list(c, foreign).Equal(everybody), "what another program made is its own")
	require.False(t, s.plan(c, next).HasChanges())
	require.Empty(t, s.index(c).Pending)
}

// A family was forgotten while its keys were in use. It is imported with another list of contenders.
func TestImportedFamilyGivesItsListToTheKeysInUse(t *testing.T) {
	s, c, w, tree := family(t, of("mutex"))
	held := s.hold(w, tree, "order-17")
	gone := s.tree(declare("/shop", kind.Namespace))
	gone.Intent.Removals = []plan.Removal{{From: tree.Nodes[1].Addr}}
	s.apply(c, gone)

	next := s.orders(of("mutex"), to(kind.List{admin, joiner}, kind.List{admin, joined}))
	next.Intent.Imports = []plan.Import{{To: next.Nodes[1].Addr, Path: s.root + "/shop/orders"}}
	p := s.plan(c, next)
	require.Equal(t, "1 key has a node with the former access list: apply sets the new one", relists(p))
	s.runs(c, p)
	require.True(t, s.list(c, keyPath(tree, "order-17")).Equal(kind.List{admin, joined}))
	_, there := s.server.Get(held)
	require.True(t, there, "its holder holds on")
	require.False(t, s.plan(c, next).HasChanges())
}

func (s *site) setACL(c *recipes.Client, path string, list kind.List) error {
	_, err := s.session(c).SetACL(s.t.Context(), path, wire.ToZK(list), -1)
	return err
}

func relists(p *plan.Plan) string {
	for c := range p.Each() {
		if text := c.Relists(); text != "" {
			return text
		}
	}
	return ""
}

// If we cannot set the list of a key's node, the family keeps the key's credential until the key is unused.
func TestNoCredentialGoesWhileAKeyHasIt(t *testing.T) {
	s, c, w, tree := family(t, of("mutex"), to(kind.List{admin, worker}, kind.List{crew}))
	held := s.hold(w, tree, "order-17")
	next := s.orders(of("mutex"), to(kind.List{admin, joiner}, kind.List{joined}))
	for range 2 {
		p := s.plan(c, next)
		require.True(t, p.HasChanges())
		_, err := executor(c).Run(t.Context(), p)
		errorAs[*failure.ACLPhaseError](t, err)
		require.ErrorContains(t, err, "order-17")
		sure, _ := s.list(c, "/locks/shop/orders").Rights(worker)
		require.Equal(t, worker.Perms, sure)
	}
	s.leaves(w, held)
	require.NoError(t, s.session(w).Delete(t.Context(), kind.ParentPath(held), -1))
	s.apply(c, next)
	require.True(t, s.list(c, "/locks/shop/orders").Equal(kind.List{admin, joiner}))
	require.False(t, s.plan(c, next).HasChanges())
}
