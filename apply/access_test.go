package apply_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

const (
	oldKey = "provisioner:secret" // admin has its digest
	newKey = "successor:s3cr3t"
	ciKey  = "ci:looks"
)

func allOf(key string) kind.ACL {
	return kind.ACL{Scheme: "digest", ID: digest(key), Perms: kind.PermAll}
}

func may(admins, readers []string) *plan.Access {
	a := &plan.Access{}
	for _, key := range admins {
		a.Admins = append(a.Admins, allOf(key))
	}
	for _, key := range readers {
		a.Readers = append(a.Readers, kind.ACL{Scheme: "digest", ID: digest(key), Perms: kind.PermRead})
	}
	a.Admins, a.Readers = a.Admins.Normalize(), a.Readers.Normalize()
	return a
}

// administered returns a tree with one lock in a namespace. It has the access lists that a configuration would give it.
func (s *site) administered(a *plan.Access) *plan.Tree {
	return s.granted(a, declare("/pay", kind.Namespace), declare("/pay/ledger", kind.Mutex))
}

// granted returns a tree whose access lists name the administrators and readers. The lists of locks also name a program.
func (s *site) granted(a *plan.Access, nodes ...*plan.Node) *plan.Tree {
	tree := s.tree(nodes...)
	for _, n := range tree.Nodes {
		n.ACL = a.List()
		if !n.Kind().Container {
			n.ACL, n.Payload.ChildACL = append(a.List(), worker), append(a.List(), crew)
		}
	}
	tree.Intent.Access = a
	return tree
}

// as connects with several credentials.
func (s *site) as(keys ...string) *recipes.Client {
	s.t.Helper()
	cfg := s.config
	for _, key := range keys {
		cfg.Auth = append(cfg.Auth, recipes.Auth{Scheme: "digest", Credentials: recipes.Secret(key)})
	}
	return s.connect(cfg)
}

// settled asserts that nothing is left to do, and that the tool's own nodes have the access list of the tree.
func (s *site) settled(c *recipes.Client, tree *plan.Tree) {
	s.t.Helper()
	p := s.plan(c, tree)
	require.False(s.t, p.HasChanges(), "%s %+v", p, p.Access)
	require.Empty(s.t, p.Problems)
	require.Empty(s.t, p.Drifted)
	require.Equal(s.t, []string{tree.Intent.Access.List().String()}, s.ownOf(c, stack))
	require.Equal(s.t, tree.Intent.Access.List(), s.index(c).Access)
	require.Empty(s.t, s.index(c).Pending)
}

// Declared access costs a plan no further round trip: it reads the lists in any case, and in parallel.
func TestDeclaredAccessCostsNoRoundTrip(t *testing.T) {
	cost := func(access *plan.Access) (trips, requests int) {
		s := inMemory(t)
		tree := s.administered(may([]string{oldKey}, nil))
		tree.Intent.Access = access
		s.apply(s.as(oldKey), tree)
		c := s.as(oldKey) // a session of its own, without the background work of the apply
		require.False(t, s.plan(c, tree).HasChanges())
		s.server.ResetCounts()
		require.False(t, s.plan(c, tree).HasChanges())
		n := s.server.SessionCounts(s.session(c).ID())
		all := 0
		for op, k := range n.ByOp {
			if op != "ping" {
				all += k
			}
		}
		return n.RoundTrips, all
	}
	plainTrips, plain := cost(nil)
	trips, requests := cost(may([]string{oldKey}, nil))
	require.Equal(t, plainTrips, trips)
	require.Equal(t, plain, requests)
}

// setByHand sets the list of one node as zkCli.sh would.
func (s *site) setByHand(c *recipes.Client, path string, acl ...kind.ACL) {
	s.t.Helper()
	_, err := s.session(c).SetACL(s.t.Context(), path, wire.ToZK(acl), -1)
	require.NoError(s.t, err)
}

func TestListsOfTheToolsNodesThatWereChangedByHandArePutBack(t *testing.T) {
	s := inMemory(t)
	tree := s.administered(may([]string{oldKey}, []string{ciKey}))
	c := s.as(oldKey)
	s.apply(c, tree)
	index, dir := record.IndexPath(s.root, stack), record.ScaffoldPath(s.root)
	s.setByHand(c, index, admin)
	s.setByHand(c, dir, admin)
	p := s.plan(c, tree)
	require.Len(t, p.Drifted, 2)
	require.Equal(t, plan.Drift{Addr: "ensemble.main", Path: index,
		Attributes: []plan.Attribute{{Name: "acl", Declared: "[digest:ci:r, digest:provisioner:cdrwa]", Found: "[digest:provisioner:cdrwa]"}}}, p.Drifted[1])
	require.Len(t, p.Access, 2)
	saved := s.runs(c, p)
	require.Equal(t, 2, saved.ACLs)
	s.settled(c, tree)

	p = s.plan(c, s.administered(may([]string{oldKey}, nil)))
	s.setByHand(c, index, admin)
	_, err := executor(c).Run(t.Context(), p)
	errorAs[*failure.StaleError](t, err)
	require.Contains(t, err.Error(), "access list changed")
	require.NotContains(t, err.Error(), "access list changed, at", "the servers note when data changes")
}

// One apply deletes most of 1,500 locks and gives the rest another administrator.
func TestAdministratorsOfManyLocksFollowWhileMostOfThemGo(t *testing.T) {
	s := inMemory(t)
	c := s.as(oldKey, newKey)
	many := func(n int, key string) *plan.Tree {
		var nodes []*plan.Node
		for i := range n {
			nodes = append(nodes, declare(fmt.Sprintf("/lock-%04d", i), kind.Mutex))
		}
		tree := s.tree(nodes...)
		tree.Intent.Access = may([]string{key}, nil)
		for _, n := range tree.Nodes {
			n.ACL = tree.Intent.Access.List()
		}
		return tree
	}
	s.apply(c, many(1500, oldKey))
	s.apply(c, many(1500, newKey))
	s.settled(s.as(newKey), many(1500, newKey))
	s.apply(c, many(100, oldKey))
	s.settled(s.as(oldKey), many(100, oldKey))
}

// The apply of a reader writes nothing, not even a node in the queue of the apply lock.
func TestNobodyButAnAdministratorApplies(t *testing.T) {
	s := inMemory(t)
	tree := s.administered(may([]string{oldKey}, []string{ciKey}))
	s.apply(s.as(oldKey), tree)
	ci := s.as(ciKey)
	next := s.tree(tree.Nodes[0])
	next.Intent.Access = tree.Intent.Access
	s.wroteNothing(ci, func() {
		x := executor(ci)
		_, err := x.Lock(t.Context(), tree)
		require.ErrorContains(t, err, "the administrators declared in the ensemble block are digest:provisioner")
		require.ErrorContains(t, x.applier().Check(t.Context(), s.plan(s.as(oldKey), s.administered(may([]string{oldKey}, nil)))), "Nothing was written")
	})
	ip := may([]string{oldKey}, nil)
	ip.Admins = kind.List{{Scheme: "ip", ID: "10.0.0.0/8", Perms: kind.PermAll}}
	require.NoError(t, executor(ci).applier().Among(ip), "whether an address is ours the servers know")
}

// The root was created by hand and is open to everybody, as zkCli.sh creates it.
func TestRootThatIsOpenToEverybodyIsWarnedOf(t *testing.T) {
	s := inMemory(t)
	require.NoError(t, s.server.Create(s.root, nil))
	c := s.provisioner()
	warned := func() []plan.Problem { return s.plan(c, s.shop()).Problems }
	require.Len(t, warned(), 1, "before the first apply, too")
	s.apply(c, s.shop())
	require.Len(t, warned(), 1)
	require.Equal(t, problem.Open, warned()[0].Code)
	require.Contains(t, warned()[0].Detail, "/locks grants world:anyone:cdrwa")
	require.NotContains(t, warned()[0].Detail, ".locktree", "the tool's own nodes are ours")
	s.shut(c)
	require.Empty(t, warned())
}

// estate declares every sort of node with an access list: namespaces, and locks with and without structural children. An apply adds the
// tool's own nodes. settle adds namespaces that are no longer declared, but stay because of another program's node.
func (s *site) estate(a *plan.Access, more ...*plan.Node) *plan.Tree {
	return s.granted(a, append(more,
		declare("/pay", kind.Namespace), declare("/pay/ledger", kind.Mutex),
		declare("/pay/pool", kind.Semaphore, set("permits", 3)), declare("/bills", kind.Mutex), declare("/solo", kind.Election),
	)...)
}

// grown is an estate with more nodes: an apply from an estate to it creates every sort of declared node.
func (s *site) grown(a *plan.Access) *plan.Tree {
	tree := s.estate(a, declare("/more", kind.Namespace), declare("/more/pool", kind.Semaphore, set("permits", 3)), declare("/pay/new", kind.Mutex))
	s.rebase(tree, "/solo", "/more/solo")
	return tree
}

// rebase moves a declared node from one path to another.
func (s *site) rebase(tree *plan.Tree, from, to string) {
	for _, n := range tree.Nodes {
		if n.Path == s.root+from {
			n.Path = s.root + to
		}
	}
	slices.SortFunc(tree.Nodes, func(a, b *plan.Node) int { return strings.Compare(a.Path, b.Path) })
}

// settle applies an earlier tree and then an estate. Two namespaces of the earlier tree stay.
func (s *site) settle(a *plan.Access, keys ...string) {
	s.t.Helper()
	first := s.estate(a, declare("/old", kind.Namespace), declare("/odd", kind.Namespace), declare("/odd/in", kind.Namespace))
	s.rebase(first, "/bills", "/old/invoices")
	c := s.as(keys...)
	s.apply(c, first)
	s.create(c, s.root+"/odd/in"+foreign, "hi", everybody...)
	s.apply(c, s.estate(a))
}

// foreign is the name of nodes that other programs make.
const foreign = "/theirs"

// A rotation of administrators needs several transactions, and ends between two of them. The nodes created so far admit both
// administrators, and no node seems changed by hand.
func TestRotationThatEndsBetweenTransactionsLeavesBothIn(t *testing.T) {
	s := inMemory(t)
	readers := []string{ciKey}
	s.settle(may([]string{oldKey}, readers), oldKey)
	more := bulk(1500, 0, strings.Repeat("long ", 100))
	before, after := s.estate(may([]string{oldKey}, readers)), s.estate(may([]string{newKey}, readers), more...)
	both := s.as(oldKey, newKey)
	p := s.plan(both, after)
	require.Greater(t, len(p.Batches), 1)
	lists := len(p.ACLSteps()) + len(more)
	require.GreaterOrEqual(t, p.Transaction.ACLPhase, lists, "what is created has a list to set, too")
	ctx, stop := context.WithCancel(t.Context())
	x := executor(both, func(e event.Event) {
		if e, ok := e.(event.Committed); ok && e.Batch == 1 {
			stop()
		}
	})
	_, err := x.Run(ctx, p)
	errorAs[*failure.PartialError](t, err)

	s.somebodyCanDoEverything([]string{oldKey}, []string{newKey})
	for _, tree := range []*plan.Tree{before, after} {
		p := s.plan(s.as(oldKey), tree)
		require.True(t, p.HasChanges())
		require.Empty(t, p.Drifted)
	}
	s.apply(both, after)
	s.arrived(after, []string{newKey})
}

// somebodyCanDoEverything asserts that one identity alone has all rights on every node of the stack, so that it can finish the apply or go
// back. It returns that identity; if both can, the new one.
func (s *site) somebodyCanDoEverything(before, after []string) string {
	s.t.Helper()
	lacks := map[string]string{}
	for _, key := range append(slices.Clone(after), before...) {
		who := allOf(key)
		for path, list := range s.everyList() {
			if !slices.ContainsFunc(list, func(a kind.ACL) bool { return a.ID == who.ID && kind.PermAll&^a.Perms == 0 }) {
				lacks[key] += " " + path
			}
		}
		if lacks[key] == "" {
			return key
		}
	}
	require.Fail(s.t, "nobody alone can do everything", "%v", lacks)
	return ""
}

// everyList returns the server's access lists of the root and all nodes below it, except contenders and foreign nodes.
func (s *site) everyList() map[string]kind.List {
	out := map[string]kind.List{}
	var walk func(string)
	walk = func(path string) {
		n, ok := s.server.Get(path)
		if !ok || n.Stat.EphemeralOwner != 0 || strings.HasSuffix(path, foreign) {
			return
		}
		for _, a := range n.ACL {
			out[path] = append(out[path], kind.ACL{Scheme: a.Scheme, ID: a.ID, Perms: kind.Perm(a.Perms)})
		}
		for _, name := range n.Children {
			walk(kind.JoinPath(path, name))
		}
	}
	walk(s.root)
	return out
}

// arrived asserts that every declared identity can plan, that nothing is left to do, and that no list names another identity.
func (s *site) arrived(tree *plan.Tree, admins []string) {
	s.t.Helper()
	for _, keys := range append([]string{ciKey}, admins...) {
		p := s.plan(s.as(keys), tree)
		require.False(s.t, p.HasChanges(), "%s: %s %+v", keys, p, p.Access)
		require.Empty(s.t, p.Resumes)
		require.Empty(s.t, p.Drifted)
	}
	known := append(tree.Intent.Access.List(), worker)
	for path, list := range s.everyList() {
		for _, a := range list {
			require.True(s.t, slices.ContainsFunc(known, func(b kind.ACL) bool { return a.ID == b.ID && a.Perms&^b.Perms == 0 }), "%s: %s", path, a)
		}
	}
}

// closed is the shop with every access list reduced to the administrator's.
func closed(s *site) *plan.Tree {
	tree := s.shop()
	for _, n := range tree.Nodes {
		adminOnly(n)
	}
	return tree
}

func TestAccessListsAreSetAfterTheTransaction(t *testing.T) { accessLists(t, inMemory(t)) }

func accessLists(t *testing.T, s *site) {
	c := s.provisioner()
	s.apply(c, s.shop())
	p := s.plan(c, closed(s))
	require.Equal(t, 8, p.Transaction.ACLPhase)
	var ev events
	x := executor(c, ev.add)
	res := s.succeeds(x, p)
	require.Equal(t, 8, res.ACLs)
	require.Equal(t, 8, find[event.ACLPhase](ev).Total)
	for _, path := range []string{"/pay", "/pay/pool", "/pay/pool/leases", "/pay/pool/locks", "/solo"} {
		require.True(t, kind.List{admin}.Equal(s.list(c, s.root+path)), path)
	}
	again := s.plan(c, closed(s))
	require.False(t, again.HasChanges())
	require.Empty(t, again.Resumes)
	x2 := s.index(c)
	require.Empty(t, x2.Pending, "the note is cleared")
}

// Formerly, if an apply was interrupted after it had set all lists, its error said that "0 of 8 access lists" were left. For lists that
// it had not reached, the next plan reported changes by hand, although it also said that it finishes them. Data that was changed by hand
// meanwhile is still reported.
func TestInterruptedAccessListsAreFinishedByTheNextApply(t *testing.T) {
	for done, says := range map[int]string{1: "1 of 8 access lists", 3: "3 of 8 access lists", 8: "all 8 access lists"} {
		s, c := shopped(t)
		ctx, interrupt := context.WithCancel(t.Context())
		n := 0
		_, err := executor(c, on(func(event.ACLApplied) {
			if n++; n == done {
				interrupt()
			}
		})).Run(ctx, s.plan(c, closed(s)))
		partly := errorAs[*failure.ACLPhaseError](t, err)
		require.ErrorContains(t, err, says)
		require.Equal(t, done, partly.Done)
		p := s.plan(c, closed(s))
		require.Equal(t, done < 8, p.HasChanges())
		require.Empty(t, p.Drifted)
		require.False(t, slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return c.Drift }))
		if done < 8 {
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, partly.ApplyID, p.Resumes)
			require.Equal(t, 8-done, p.Transaction.ACLPhase)
		}
		s.protect("/pay/ledger")
		p = s.plan(c, closed(s))
		require.Len(t, p.Drifted, 1)
		require.Equal(t, s.root+"/pay/ledger", p.Drifted[0].Path)
		s.converges(c, closed(s), plan.Options{})
	}
}

func TestInterruptBeforeTheTransactionWritesNothing(t *testing.T) {
	s, c := shopped(t)
	p := s.plan(c, closed(s))
	ctx, interrupt := context.WithCancel(t.Context())
	x := executor(c, on(func(event.Verified) { interrupt() }))
	s.unchanged(c, func() {
		_, err := x.Run(ctx, p)
		require.ErrorIs(t, err, context.Canceled)
	})
	n, _ := s.server.Get(record.LockPath(s.root, stack))
	require.Empty(t, n.Children, "the lock is given back")
}

func TestServerThatRewritesTheListIsNoticed(t *testing.T) {
	s, c := provisioned(t)
	// The server replaces "auth" by the connection's identities, so the stored list differs from the declared one.
	auth := func(n *plan.Node) { n.ACL = kind.List{{Scheme: "auth", Perms: kind.PermAll}} }
	p := s.plan(c, s.tree(declare("/a", kind.Mutex, auth)))
	_, err := executor(c).Run(t.Context(), p)
	e := errorAs[*failure.VerifyError](t, err)
	require.EqualValues(t, "a.mutex", e.Differences[0].Addr)
	require.ErrorContains(t, err, "The transaction was committed")
	require.NotContains(t, err.Error(), admin.ID)
}

// The connection breaks at the request for a list, and no server can be reached then. The error must say that the lock is lost, and not
// only that one connection broke.
func TestAccessListCutOffForGoodTellsThatTheLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := shopped(t)
		p := s.plan(c, closed(s))
		s.server.Inject(func(r zktest.Request) bool {
			if r.Op != "setACL" {
				return false
			}
			s.server.RefuseDials(true)
			return true
		}, zktest.CutBefore)
		_, err := executor(c).Run(t.Context(), p)
		partly := errorAs[*failure.ACLPhaseError](t, err)
		require.Zero(t, partly.Done)
		require.ErrorIs(t, err, recipes.ErrSessionLost)
		require.ErrorContains(t, err, "the lock was lost")
		require.NotContains(t, err.Error(), "Nothing was written", "the transaction was")
	})
}
