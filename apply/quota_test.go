package apply_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
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
	require.ErrorIs(t, err, session.ErrQuotaExceeded)

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

// The index was lost in the same step in which the namespace, or the quota alone, left
// the configuration: nobody looked at the quota again, and it stayed for ever.
func TestQuotaDoesNotStayUnnoticedWhenTheIndexIsLost(t *testing.T) {
	lostIndexQuota(t, func(t *testing.T) *site { return inMemory(t) })
}

func lostIndexQuota(t *testing.T, start func(*testing.T) *site) {
	type way struct {
		tree func(*site) *plan.Tree
		opts plan.Options
	}
	ways := map[string]way{
		"namespace gone": {func(s *site) *plan.Tree { return s.tree(declare("/solo", kind.Election)) }, plan.Options{}},
		"quota gone":     {func(s *site) *plan.Tree { return s.shop() }, plan.Options{}},
		"destroyed":      {func(s *site) *plan.Tree { return s.tree() }, plan.Options{Destroy: true}},
		"moved":          {moveNamespace, plan.Options{}},
		"noted first":    {func(s *site) *plan.Tree { return s.tree() }, plan.Options{RefreshOnly: true}},
	}
	for name, w := range ways {
		for _, with := range []string{"the namespace", "a later apply", "somebody else"} {
			t.Run(name+", set by "+with, func(t *testing.T) {
				s := start(t)
				c := s.provisioner()
				limited := s.shop()
				limited.Intent.Quotas = []plan.Quota{{Addr: "pay.namespace", Path: s.root + "/pay", MaxNodes: 50}}
				limits := plan.QuotaPath(s.root+"/pay") + "/zookeeper_limits"
				switch with {
				case "the namespace":
					s.apply(c, limited)
				case "a later apply":
					s.apply(c, s.shop())
					s.apply(c, limited)
				default:
					s.apply(c, s.shop())
					s.setQuota(c, s.root+"/pay", 50)
				}
				at := plan.IndexPath(s.root, stack)
				require.NoError(t, s.session(c).Delete(t.Context(), at, -1))
				tree := w.tree(s)
				p := s.plan(c, tree, w.opts)
				doubt := slices.IndexFunc(p.Problems, func(q plan.Problem) bool { return q.Code == plan.ProblemQuota })
				_, err := executor(c).Run(t.Context(), resaved(t, p))
				require.NoError(t, err)
				if w.opts.RefreshOnly { // what is known now is known to the next plan
					w.opts.RefreshOnly = false
					_, err = executor(c).Run(t.Context(), s.plan(c, tree, w.opts))
					require.NoError(t, err)
				}
				stat, err := s.session(c).Exists(t.Context(), limits)
				require.NoError(t, err)
				require.False(t, s.plan(c, tree, w.opts).HasChanges())
				if with == "the namespace" {
					require.Nil(t, stat, "one transaction made both, so both are ours")
					require.Equal(t, -1, doubt)
					return
				}
				require.NotNil(t, stat, "nothing says whose it is")
				require.GreaterOrEqual(t, doubt, 0, "so a person is told: %s", p)
				require.Equal(t, s.root+"/pay", p.Problems[doubt].Path)
				require.Contains(t, p.Problems[doubt].Detail, "delquota -N "+s.root+"/pay")
				require.Contains(t, p.Problems[doubt].Detail, "50 znodes")
			})
		}
	}
}

// The namespace was deleted by hand, or its data replaced, and what came next forgot that
// its quota is ours: it stayed for ever, and held for whatever was there next.
func TestQuotaOfANamespaceThatIsGoneIsNotForgotten(t *testing.T) {
	rest := []*plan.Node{declare("/solo", kind.Election)}
	for name, c := range map[string]struct {
		theirs bool // its data was replaced, else it was deleted
		next   plan.Options
		done   bool // by that already
	}{
		"noted by a refresh":           {next: plan.Options{RefreshOnly: true}},
		"all else destroyed by target": {next: plan.Options{Destroy: true, Targets: []string{"solo.election"}}},
		"asked for by target":          {next: plan.Options{Targets: []string{"pay.namespace"}}, done: true},
		"left out by target":           {next: plan.Options{Targets: []string{"solo.election"}}},
		"somebody else's by now":       {theirs: true, done: true},
		"theirs, noted by a refresh":   {theirs: true, next: plan.Options{RefreshOnly: true}},
	} {
		t.Run(name, func(t *testing.T) {
			s := inMemory(t)
			c1 := s.provisioner()
			limited := s.tree(append(rest, declare("/pay", kind.Namespace))...)
			limited.Intent.Quotas = []plan.Quota{{Addr: "pay.namespace", Path: s.root + "/pay", MaxNodes: 50}}
			s.apply(c1, limited)
			if c.theirs {
				require.NoError(t, s.server.Set(s.root+"/pay", []byte("theirs")))
			} else {
				require.NoError(t, s.server.Delete(s.root+"/pay"))
			}
			there := func() bool {
				stat, err := s.session(c1).Exists(t.Context(), plan.QuotaPath(s.root+"/pay")+"/zookeeper_limits")
				require.NoError(t, err)
				return stat != nil
			}
			p := s.plan(c1, s.tree(rest...), c.next)
			_, err := executor(c1).Run(t.Context(), resaved(t, p))
			require.NoError(t, err)
			require.Equal(t, !c.done, there())
			if c.next.RefreshOnly {
				require.Empty(t, s.plan(c1, s.tree(rest...), c.next).Drifted, "it is noted")
			}
			s.apply(c1, s.tree(rest...))
			require.False(t, there())
			require.False(t, s.plan(c1, s.tree(rest...)).HasChanges())
			require.Len(t, s.index(c1).Resources, 1)
		})
	}
}

// The namespace was deleted by hand, and another stack made one there, with a quota. This
// stack still had the note of its own, and took theirs away.
func TestQuotaOfAnotherStackIsLeftToIt(t *testing.T) {
	for name, c := range map[string]struct {
		left     bool // our quota, when the namespace was deleted
		limit    int  // theirs, 0 for none
		survives bool
	}{
		"raised":        {left: true, limit: 100, survives: true},
		"made anew":     {limit: 50, survives: true},
		"none declared": {left: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := inMemory(t)
			us, rest := s.provisioner(), s.tree(declare("/solo", kind.Election))
			with := func(tree *plan.Tree, n int) *plan.Tree {
				if n > 0 {
					tree.Intent.Quotas = []plan.Quota{{Addr: "pay.namespace", Path: s.root + "/pay", MaxNodes: n}}
				}
				return tree
			}
			s.apply(us, with(s.tree(declare("/solo", kind.Election), declare("/pay", kind.Namespace)), 50))
			require.NoError(t, s.server.Delete(s.root+"/pay"))
			limits, stats := plan.QuotaPath(s.root+"/pay")+"/zookeeper_limits", plan.QuotaPath(s.root+"/pay")+"/zookeeper_stats"
			if !c.left {
				require.NoError(t, s.session(us).Delete(t.Context(), stats, -1))
				require.NoError(t, s.session(us).Delete(t.Context(), limits, -1))
			}
			bank := with(s.tree(declare("/pay", kind.Namespace, func(n *plan.Node) { n.Payload.Owner.Stack = "bank" })), c.limit)
			bank.Stack = "bank"
			s.apply(us, bank)
			for _, o := range []plan.Options{{RefreshOnly: true}, {}} {
				_, err := executor(us).Run(t.Context(), resaved(t, s.plan(us, rest, o)))
				require.NoError(t, err)
			}
			_, there := s.server.Get(limits)
			require.Equal(t, c.survives, there)
			require.False(t, s.plan(us, bank).HasChanges())
			require.False(t, s.plan(us, rest).HasChanges())
		})
	}
}

// What a stack set a quota on is somebody else's by now, with a quota nobody else may read:
// no plan could be made any more, not even one that destroys.
func TestQuotaThatIsNotOursToReadIsNoDeadEnd(t *testing.T) {
	s := inMemory(t)
	c, rest := s.provisioner(), s.tree(declare("/solo", kind.Election))
	limited := s.tree(declare("/solo", kind.Election), declare("/pay", kind.Namespace))
	limited.Intent.Quotas = []plan.Quota{{Addr: "pay.namespace", Path: s.root + "/pay", MaxNodes: 50}}
	s.apply(c, limited)
	require.NoError(t, s.server.Delete(s.root+"/pay"))
	limits := plan.QuotaPath(s.root+"/pay") + "/zookeeper_limits"
	_, err := s.session(c).SetACL(t.Context(), limits, []zk.ACL{{Scheme: "digest", ID: digest("bank:b"), Perms: zk.PermAll}}, -1)
	require.NoError(t, err)
	s.apply(c, rest)
	require.False(t, s.plan(c, rest).HasChanges())
	_, err = apply.Read(t.Context(), s.session(c), limited)
	require.ErrorIs(t, err, zk.ErrNoAuth, "what is declared must be known")
}

// moveNamespace is the shop without quotas, its namespace at another path.
func moveNamespace(s *site) *plan.Tree {
	tree := s.shop()
	for _, n := range tree.Nodes {
		n.Path = strings.Replace(n.Path, "/pay", "/cash", 1)
	}
	slices.SortFunc(tree.Nodes, func(a, b *plan.Node) int { return strings.Compare(a.Path, b.Path) })
	return tree
}

// setQuota sets a quota as zkCli.sh does.
func (s *site) setQuota(c *recipes.Client, path string, n int) {
	at, session := plan.QuotaPath(path), s.session(c)
	for i := len("/zookeeper/quota/"); i <= len(at); i++ {
		if i == len(at) || at[i] == '/' {
			_, err := session.Create(s.t.Context(), at[:i], nil, 0, zk.WorldACL(zk.PermAll))
			require.True(s.t, err == nil || errors.Is(err, zk.ErrNodeExists), err)
		}
	}
	_, err := session.Create(s.t.Context(), at+"/zookeeper_limits", fmt.Appendf(nil, "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=%d", n), 0, zk.WorldACL(zk.PermAll))
	require.NoError(s.t, err)
	_, err = session.Create(s.t.Context(), at+"/zookeeper_stats", []byte("count=0,bytes=0"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(s.t, err)
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
	var node *apply.NodeError
	require.ErrorAs(t, err, &node)
	require.ErrorIs(t, err, session.ErrQuotaExceeded)
	require.Equal(t, s.root+"/pay/books", node.Path)
	require.Equal(t, "a quota on the tree is used up", node.Why)
	require.Equal(t, "Raise the quota or remove something first.", node.Next)
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
