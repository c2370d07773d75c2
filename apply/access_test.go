package apply_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/prepare"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// codeInvalidACL is a code of the protocol for which zktest has no name.
const codeInvalidACL zktest.Code = -114

const (
	oldKey = "provisioner:secret" // its digest is admin
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

// administered is a tree with one lock, its declared lists included, as one configuration says it.
func (s *site) administered(a *plan.Access) *plan.Tree {
	tree := s.tree(declare("/pay", kind.Namespace), declare("/pay/ledger", kind.Mutex))
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
	c, err := recipes.Dial(s.t.Context(), cfg)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// ownLists are the access lists of the tool's own nodes, as one of the administrators sees them.
func (s *site) ownLists(c *recipes.Client) map[string]string {
	s.t.Helper()
	out := map[string]string{}
	paths := append(prepare.ScaffoldPaths(s.root, stack), record.IndexPath(s.root, stack))
	for _, path := range paths {
		acl, _, err := s.session(c).GetACL(s.t.Context(), path)
		require.NoError(s.t, err, path)
		out[path] = wire.FromZK(acl).String()
	}
	return out
}

// settled asserts that nothing is left to do, and that the tool's nodes have these lists.
func (s *site) settled(c *recipes.Client, tree *plan.Tree) {
	s.t.Helper()
	p := s.plan(c, tree)
	require.False(s.t, p.HasChanges(), "%s %+v", p, p.Access)
	require.Empty(s.t, p.Problems)
	require.Empty(s.t, p.Drifted)
	for path, got := range s.ownLists(c) {
		require.Equal(s.t, tree.Intent.Access.List().String(), got, path)
	}
	require.Equal(s.t, tree.Intent.Access.List(), s.index(c).Access)
	require.Empty(s.t, s.index(c).Pending)
}

func TestAdministratorsAreRotated(t *testing.T) { rotation(t, inMemory(t)) }

// rotation is how a credential is replaced: the new one beside the old one, everybody changes, the old one goes.
func rotation(t *testing.T, s *site) {
	before := s.administered(may([]string{oldKey}, []string{ciKey}))
	s.apply(s.as(oldKey), before)
	s.settled(s.as(oldKey), before)

	both := s.administered(may([]string{oldKey, newKey}, []string{ciKey}))
	res := s.apply(s.as(oldKey, newKey), both)
	require.Equal(t, 3, res.Counts.Change, "two nodes, and the tool's own as one")
	s.settled(s.as(oldKey), both)
	s.settled(s.as(newKey), both)

	after := s.administered(may([]string{newKey}, []string{ciKey}))
	s.apply(s.as(newKey), after)
	s.settled(s.as(newKey), after)
	_, err := read.Tree(t.Context(), s.session(s.as(oldKey)), after)
	require.Error(t, err, "the old credential sees nothing any more")

	// In one step, with both.
	s.apply(s.as(oldKey, newKey), before)
	s.settled(s.as(oldKey), before)
}

func TestAReaderPlansAndAnAdministratorApplies(t *testing.T) { readerPlans(t, inMemory(t)) }

func readerPlans(t *testing.T, s *site) {
	access := may([]string{oldKey}, []string{ciKey})
	tree := s.administered(access)
	ci := s.as(ciKey)
	s.apply(s.as(oldKey), tree)
	require.False(t, s.plan(ci, tree).HasChanges())

	next := s.administered(may([]string{oldKey, newKey}, []string{ciKey}))
	var p *plan.Plan
	s.session(ci)
	look := func() { p = s.plan(ci, next) }
	if s.server != nil {
		s.server.ResetCounts()
		look()
		for op := range s.server.SessionCounts(s.session(ci).ID()).ByOp {
			require.Contains(t, []string{"exists", "getData", "getACL", "getChildren", "getChildren2", "sync"}, op)
		}
	} else {
		look()
	}
	require.True(t, p.Applyable(), "%s", p)
	require.NotEmpty(t, p.Access)

	p = s.resaved(p)
	_, err := executor(ci).Run(t.Context(), p)
	var refused *failure.NodeError
	require.ErrorAs(t, err, &refused)
	require.Contains(t, err.Error(), "we are digest:ci, and the administrators declared in the ensemble block are digest:provisioner, digest:successor")
	_, err = executor(s.as(oldKey)).Run(t.Context(), p)
	require.NoError(t, err)
	s.settled(s.as(newKey), next)
}

// A stack of before belongs to whoever applied it first.
func TestAStackGetsItsAdministratorsDeclared(t *testing.T) {
	s := inMemory(t)
	legacy := s.administered(may([]string{oldKey}, nil))
	legacy.Intent.Access = nil
	s.apply(s.as(oldKey), legacy)

	same := s.administered(may([]string{oldKey}, nil))
	p := s.plan(s.as(oldKey), same)
	require.Len(t, p.Access, 1, "only what contenders of the apply lock get: %+v", p.Access)
	require.True(t, p.Access[0].Contenders)
	s.apply(s.as(oldKey), same)
	s.settled(s.as(oldKey), same)

	s2 := inMemory(t)
	s2.apply(s2.as(oldKey), legacy)
	next := s2.administered(may([]string{newKey}, []string{ciKey}))
	_, err := executor(s2.as(oldKey)).Run(t.Context(), s2.plan(s2.as(oldKey), next))
	require.ErrorContains(t, err, "we are digest:provisioner, and")
	s2.apply(s2.as(oldKey, newKey), next)
	s2.settled(s2.as(newKey), next)
}

// Nothing of it costs a round trip more: the lists were read before, and are read side by side.
func TestDeclaredAccessCostsNoRoundTrip(t *testing.T) {
	cost := func(access *plan.Access) (trips, requests int) {
		s := inMemory(t)
		tree := s.administered(may([]string{oldKey}, nil))
		tree.Intent.Access = access
		s.apply(s.as(oldKey), tree)
		c := s.as(oldKey) // of its own: what an apply leaves to be done in the background is not counted
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
	saved, err := executor(c).Run(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, 2, saved.ACLs)
	s.settled(c, tree)

	p = s.plan(c, s.administered(may([]string{oldKey}, nil)))
	s.setByHand(c, index, admin)
	_, err = executor(c).Run(t.Context(), p)
	var stale *failure.StaleError
	require.ErrorAs(t, err, &stale)
	require.Contains(t, err.Error(), "access list changed")
	require.NotContains(t, err.Error(), "access list changed, at", "the servers note when data changes")
}

// Many locks, of which most go in the apply that gives the rest other administrators.
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

// Nobody else writes anything, not even a place in the apply lock's queue.
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

// An apply that ends between the lists is finished by the next one: by the old credential while the new one is let
// in, by the new one while the old one is taken out.
func TestARotationThatWasInterruptedIsFinished(t *testing.T) {
	before, both, after := may([]string{oldKey}, nil), may([]string{oldKey, newKey}, nil), may([]string{newKey}, nil)
	for _, step := range []struct {
		from, to *plan.Access
		by       string
	}{{before, both, oldKey}, {both, after, newKey}, {before, after, newKey}} {
		s := inMemory(t)
		next := s.administered(step.to)
		c := s.as(oldKey, newKey)
		s.apply(c, s.administered(step.from))
		p := s.plan(c, next)
		ctx, cancel := context.WithCancelCause(t.Context())
		x := executor(c)
		x.Events = func(e event.Event) {
			if _, ok := e.(event.ACLApplied); ok {
				cancel(context.Canceled)
			}
		}
		_, err := x.Run(ctx, p)
		var phase *failure.ACLPhaseError
		require.ErrorAs(t, err, &phase)
		require.Equal(t, 1, phase.Done)
		require.Empty(t, s.plan(c, next).Drifted)
		s.apply(s.as(step.by), next)
		s.settled(c, next)
	}
}

// A credential is replaced in one step: until everything is added the old one can do everything, a place in the queue
// of the apply lock included, and from then on the new one.
func TestAtEveryListOfARotationOneOfBothCanApply(t *testing.T) {
	for stop := 1; ; stop++ {
		s := inMemory(t)
		before, after := s.administered(may([]string{oldKey}, nil)), s.administered(may([]string{newKey}, nil))
		s.apply(s.as(oldKey), before)
		c := s.as(oldKey, newKey)
		p := s.plan(c, after)
		lists, n := len(p.ACLSteps()), 0
		in := s.server.Inject(func(r zktest.Request) bool {
			if r.Op == "setACL" {
				n++
			}
			return r.Op == "setACL" && n == stop
		}, zktest.Fail(codeInvalidACL))
		_, err := executor(c).Run(t.Context(), p)
		in.Remove()
		if err == nil {
			require.Equal(t, 2*lists+1, stop, "each list is set twice")
			return
		}
		if stop <= lists {
			s.apply(s.as(oldKey), before)
			s.settled(s.as(oldKey), before)
		} else {
			s.apply(s.as(newKey), after)
			s.settled(s.as(newKey), after)
		}
	}
}

// The root was made by hand, open to everybody, as zkCli.sh makes it.
func TestRootThatIsOpenToEverybodyIsWarnedOf(t *testing.T) {
	s := inMemory(t)
	require.NoError(t, s.server.Create(s.root, nil))
	c := s.provisioner()
	warned := func() []plan.Problem { return s.plan(c, s.shop()).Problems }
	require.Len(t, warned(), 1, "before the first apply, too")
	s.apply(c, s.shop())
	require.Len(t, warned(), 1)
	require.Equal(t, plan.ProblemOpen, warned()[0].Code)
	require.Contains(t, warned()[0].Detail, "/locks grants world:anyone:cdrwa")
	require.NotContains(t, warned()[0].Detail, ".locktree", "the tool's own nodes are ours")
	s.shut(c)
	require.Empty(t, warned())
}
