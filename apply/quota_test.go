package apply

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestQuotaIsAFuseOfItsNamespaceAndGoesWithIt(t *testing.T) {
	s := inMemory(t, zktest.WithQuotaEnforcement())
	quota(t, s)
}

func quota(t *testing.T, s *site) {
	c := s.provisioner()
	limited := func(n int) *plan.Tree {
		tree := s.shop()
		if n > 0 {
			tree.Intent.Quotas = []plan.Quota{{Addr: "pay.namespace", Path: s.root + "/pay", MaxNodes: n}}
		}
		return tree
	}
	p := s.plan(c, limited(8))
	require.Equal(t, 8, p.Changes[0].Quota.After)
	s.apply(c, limited(8))
	again := s.plan(c, limited(8))
	require.False(t, again.HasChanges(), "%s", again)

	// 7 nodes: the namespace, three locks and a namespace in it, two parts of the semaphore.
	program := s.dial("provisioner:secret")
	first, err := program.Mutex(s.root + "/pay/ledger").Lock(t.Context())
	require.NoError(t, err)
	_, err = program.RWMutex(s.root + "/pay/batch/nightly").Lock(t.Context())
	require.ErrorIs(t, err, recipes.ErrQuotaExceeded)

	p = s.plan(c, limited(20))
	require.Equal(t, plan.Counts{Change: 1}, p.Summary())
	s.apply(c, limited(20))
	second, err := program.RWMutex(s.root + "/pay/batch/nightly").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, first.Unlock(t.Context()))
	require.NoError(t, second.Unlock(t.Context()))

	// Taken out of the configuration, and, another time, with everything.
	s.apply(c, limited(0))
	require.False(t, s.plan(c, limited(0)).HasChanges())
	gone := func() {
		stat, err := s.session(c).Exists(t.Context(), plan.QuotaPath(s.root+"/pay")+"/zookeeper_limits")
		require.NoError(t, err)
		require.Nil(t, stat)
	}
	gone()
	s.apply(c, limited(9))
	require.NoError(t, s.destroy(c, limited(9)))
	gone()

	// Deleted by hand, with everything in it.
	s.apply(c, limited(9))
	for _, path := range []string{"/pay/batch/nightly", "/pay/batch", "/pay/ledger", "/pay/pool/locks", "/pay/pool/leases", "/pay/pool", "/pay"} {
		require.NoError(t, s.session(c).Delete(t.Context(), s.root+path, -1))
	}
	s.apply(c, s.tree(declare("/solo", kind.Election)))
	gone()
	require.False(t, s.plan(c, s.tree(declare("/solo", kind.Election))).HasChanges())
}

// An apply that leaves a namespace as it is took the note of its quota out of the index.
// The limit then stayed for ever once its block was gone, and held for whatever was made there.
func TestQuotaIsNotForgottenByAnApplyThatLeavesItsNamespaceAsItIs(t *testing.T) {
	for name, leave := range map[string]func(s *site, c *recipes.Client, limited *plan.Tree) *plan.Plan{
		"for a target elsewhere": func(s *site, c *recipes.Client, limited *plan.Tree) *plan.Plan {
			limited.Nodes = append(limited.Nodes, s.tree(declare("/spare", kind.Mutex)).Nodes...)
			return s.plan(c, limited, plan.Options{Targets: []string{"spare.mutex"}})
		},
		"to note what was done by hand": func(s *site, c *recipes.Client, limited *plan.Tree) *plan.Plan {
			require.NoError(t, s.session(c).Delete(t.Context(), s.root+"/pay/ledger", -1))
			return s.plan(c, limited, plan.Options{RefreshOnly: true})
		},
		"with an index in parts": func(s *site, c *recipes.Client, limited *plan.Tree) *plan.Plan {
			for _, n := range longNames(0, 600) {
				limited.Nodes = append(limited.Nodes, s.tree(n).Nodes...)
			}
			return s.plan(c, limited)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := inMemory(t)
			c := s.provisioner()
			limited := s.shop()
			limited.Intent.Quotas = []plan.Quota{{Addr: "pay.namespace", Path: s.root + "/pay", MaxNodes: 50}}
			s.apply(c, limited)
			_, err := executor(c).Run(t.Context(), leave(s, c, limited))
			require.NoError(t, err)
			require.Equal(t, 50, s.index(c).Resources["pay.namespace"].Quota)
			s.apply(c, s.shop())
			stat, err := s.session(c).Exists(t.Context(), plan.QuotaPath(s.root+"/pay")+"/zookeeper_limits")
			require.NoError(t, err)
			require.Nil(t, stat, "nothing declares the quota any more")
		})
	}
}

// The namespace stays for what somebody put there. Its quota stayed with it, declared
// nowhere: a limit for them, and the second one on its line once a namespace around it
// got one.
func TestQuotaGoesAlsoWhereItsNamespaceHasToStay(t *testing.T) {
	for _, destroy := range []bool{false, true} {
		s := inMemory(t)
		c := s.provisioner()
		limited := s.shop()
		limited.Intent.Quotas = []plan.Quota{{Addr: "pay.namespace", Path: s.root + "/pay", MaxNodes: 50}}
		s.apply(c, limited)
		require.NoError(t, s.server.Create(s.root+"/pay/theirs", nil))
		rest, opts := s.tree(declare("/solo", kind.Election)), plan.Options{Destroy: destroy}
		p := s.plan(c, rest, opts)
		_, err := executor(c).Run(t.Context(), resaved(t, p))
		require.NoError(t, err)
		stat, err := s.session(c).Exists(t.Context(), plan.QuotaPath(s.root+"/pay")+"/zookeeper_limits")
		require.NoError(t, err)
		require.Nil(t, stat)
		require.Zero(t, s.index(c).Resources["pay.namespace"].Quota)
		require.False(t, s.plan(c, rest, opts).HasChanges())
	}
}

func TestQuotaRefusalOfATransactionSaysThatItIsUsedUp(t *testing.T) {
	quotaRefusal(t, inMemory(t, zktest.WithQuotaEnforcement()))
}

func quotaRefusal(t *testing.T, s *site) {
	c := s.provisioner()
	limited := func(nodes ...*plan.Node) *plan.Tree {
		tree := s.tree(append(nodes, declare("/pay", kind.Namespace), declare("/pay/ledger", kind.Mutex))...)
		tree.Intent.Quotas = []plan.Quota{{Addr: "pay.namespace", Path: s.root + "/pay", MaxNodes: 2}}
		return tree
	}
	s.apply(c, limited())
	_, err := executor(c).Run(t.Context(), s.plan(c, limited(declare("/pay/books", kind.Mutex))))
	var node *NodeError
	require.ErrorAs(t, err, &node)
	require.ErrorIs(t, err, recipes.ErrQuotaExceeded)
	require.Equal(t, s.root+"/pay/books", node.Path)
	require.Equal(t, "a quota on the tree is used up", node.Why)
	require.Equal(t, unwritten+"raise the quota or remove something first", node.Next)
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
