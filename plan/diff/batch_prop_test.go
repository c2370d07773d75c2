package diff_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/kind"
)

var errStopped = errors.New("the program died")

// applyCut applies a plan in the smallest transactions chance makes of it, and
// stops after some of them; whole is asked after each.
func (m *model) applyCut(t *rapid.T, p *plan.Plan, whole func()) (done bool) {
	require.True(t, p.Applyable(), "%s", p)
	left := rapid.IntRange(1, 8).Draw(t, "transactions")
	err := tx.Each(p, "0123456789abcdef", kind.WorldAll(), func(batch *tx.Transaction) error {
		if batch.Divisible && rapid.Bool().Draw(t, "cut") {
			return tx.ErrTooLong
		}
		require.NoError(t, m.multi(batch.Ops))
		whole()
		if left--; left == 0 && !batch.Last {
			return errStopped
		}
		return nil
	})
	if errors.Is(err, errStopped) {
		return false
	}
	require.NoError(t, err)
	for _, s := range p.ACLSteps() {
		require.NoError(t, m.setACL(s))
	}
	return true
}

// whole asserts what must hold between any two transactions: no lock is half-made, and none is at two paths.
func (m *model) whole(t *rapid.T) {
	live := m.read(t, testRoot, testStack)
	if live.Index == nil {
		require.Empty(t, live.Nodes)
		return
	}
	active := map[string]string{}
	for _, n := range live.Nodes {
		require.NotNil(t, n.Payload, n.Path)
		if n.Kind().Container {
			continue // nobody opens one
		}
		require.Empty(t, active[string(n.Addr)], "%s is usable twice", n.Addr)
		active[string(n.Addr)] = n.Path
		for _, part := range n.Live.Parts {
			require.False(t, part.Absent, n.Path)
		}
	}
}

// However a plan is cut, and wherever it stops, what is there is whole, and plans made after it come to what was declared. The model
// refuses a creation without a parent, a deletion with children and a wrong version, so this also proves the order of every
// transaction.
func TestPlanCutAnywhereAndStoppedAnywhereConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(testRoot, testStack)
		for _, name := range []string{"a", "b"} {
			tree := trees().Draw(t, name)
			opts := plan.Options{Identities: us, AllowMassDestroy: true}
			for try := 0; !m.applyCut(t, diff.Compare(m.read(t, testRoot, testStack), tree, opts), func() { m.whole(t) }); try++ {
				require.Less(t, try, 200, "it does not come any further")
			}
			after := m.read(t, testRoot, testStack)
			again := diff.Compare(after, tree, opts)
			require.False(t, again.HasChanges(), "%s", again)
			require.Empty(t, again.Drifted)
			require.Equal(t, pathsOf(tree.Nodes), pathsOf(after.Nodes))
			for i, n := range tree.Nodes {
				require.Equal(t, n.Kind(), after.Nodes[i].Kind())
				require.Empty(t, kind.Diff(n.Payload.Params, after.Nodes[i].Payload.Params))
				require.True(t, n.ACL.Equal(after.Nodes[i].ACL), n.Path)
			}
			if after.Index == nil {
				require.Empty(t, tree.Nodes)
			}
		}
		last := m.read(t, testRoot, testStack)
		m.apply(t, diff.Compare(last, declared(last.Nodes...), plan.Options{Identities: us, Destroy: true}))
		require.Empty(t, m.read(t, testRoot, testStack).Nodes)
		require.Nil(t, m.read(t, testRoot, testStack).Index)
	})
}

func pathsOf(nodes []*plan.Node) (out []string) {
	for _, n := range nodes {
		out = append(out, n.Path)
	}
	return out
}

// Names change: each lock is at one path at every moment, and nothing is left at the old ones.
func TestPathsThatChangeCutAnywhereKeepOneLockUsable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := trees().Draw(t, "a")
		m := newModel(testRoot, testStack)
		opts := plan.Options{Identities: us, AllowMassDestroy: true}
		m.apply(t, diff.Compare(m.read(t, testRoot, testStack), a, opts))
		b := declared()
		to := rapid.SampledFrom([]string{"/moved", "/a2", "/b"}).Draw(t, "to")
		for _, n := range a.Nodes {
			c, p := *n, *n.Payload
			c.Path, c.Payload = testRoot+strings.Replace(n.Path[len(testRoot):], "/a", to, 1), &p
			if !slices.ContainsFunc(b.Nodes, func(o *plan.Node) bool { return o.Path == c.Path }) {
				b.Nodes = append(b.Nodes, &c)
			}
		}
		slices.SortFunc(b.Nodes, func(x, y *plan.Node) int { return strings.Compare(x.Path, y.Path) })
		for try := 0; ; try++ {
			p := diff.Compare(m.read(t, testRoot, testStack), b, opts)
			if !p.Applyable() {
				return // two of them want one path: refused, whatever was cut
			}
			if m.applyCut(t, p, func() { m.whole(t) }) {
				break
			}
			require.Less(t, try, 200)
		}
		again := diff.Compare(m.read(t, testRoot, testStack), b, opts)
		require.False(t, again.HasChanges(), "%s", again)
		require.ElementsMatch(t, pathsOf(b.Nodes), pathsOf(m.read(t, testRoot, testStack).Nodes), "nothing is left behind")
	})
}

// edit does by hand, to one node of the model, what a person might.
func (m *model) edit(t *rapid.T, n *plan.Node) {
	at := m.nodes[n.Path]
	switch rapid.SampledFrom([]string{"data", "list", "delete", "part"}).Draw(t, "edit") {
	case "data":
		p := *n.Payload
		p.Protect, p.ChildACL = false, kind.List{worker}
		at.data, _ = p.Encode()
		at.version++
	case "list":
		at.acl = kind.List{admin, {Scheme: "ip", ID: "10.0.0.1", Perms: kind.PermRead}}
		at.aversion++
	case "delete":
		for path := range m.nodes {
			if path == n.Path || strings.HasPrefix(path, n.Path+"/") {
				delete(m.nodes, path)
			}
		}
	case "part":
		for _, c := range m.children(n.Path) {
			if !n.Kind().Container {
				delete(m.nodes, c)
			}
		}
	}
}

// Hand edits, of any sort and to any number of nodes, are put back.
func TestHandEditsArePutBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := trees().Draw(t, "tree")
		m := newModel(testRoot, testStack)
		opts := plan.Options{Identities: us, AllowMassDestroy: true}
		m.apply(t, diff.Compare(m.read(t, testRoot, testStack), tree, opts))
		for _, n := range m.read(t, testRoot, testStack).Nodes {
			if m.nodes[n.Path] != nil && rapid.Bool().Draw(t, "edited") {
				m.edit(t, n)
			}
		}
		m.apply(t, diff.Compare(m.read(t, testRoot, testStack), tree, opts))
		again := diff.Compare(m.read(t, testRoot, testStack), tree, opts)
		require.False(t, again.HasChanges(), "%s", again)
		require.Empty(t, again.Drifted)
		require.Equal(t, pathsOf(tree.Nodes), pathsOf(m.read(t, testRoot, testStack).Nodes))
	})
}

// A plan of a part changes that part and what it needs, and the plan of the whole
// afterwards comes to the same as without it.
func TestTargetedPlansAreStepsOnTheWayToTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := trees().Draw(t, "a"), trees().Draw(t, "b")
		m := newModel(testRoot, testStack)
		opts := plan.Options{Identities: us, AllowMassDestroy: true}
		m.apply(t, diff.Compare(m.read(t, testRoot, testStack), a, opts))
		all := slices.Concat(a.Nodes, b.Nodes)
		if len(all) == 0 {
			return
		}
		some := opts
		for range rapid.IntRange(1, 4).Draw(t, "targets") {
			some.Targets = append(some.Targets, string(rapid.SampledFrom(all).Draw(t, "node").Addr))
		}
		whole := diff.Compare(m.read(t, testRoot, testStack), b, opts)
		p := diff.Compare(m.read(t, testRoot, testStack), b, some)
		for _, line := range actions(p) {
			require.Contains(t, actions(whole), line, "a part does what the whole would not")
		}
		m.apply(t, p)
		m.apply(t, diff.Compare(m.read(t, testRoot, testStack), b, opts))
		again := diff.Compare(m.read(t, testRoot, testStack), b, opts)
		require.False(t, again.HasChanges(), "%s", again)
		require.Equal(t, pathsOf(b.Nodes), pathsOf(m.read(t, testRoot, testStack).Nodes))
	})
}

// A plan that was applied cannot be applied again: something it relied on has moved.
func TestNoPlanFitsTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := trees().Draw(t, "a"), trees().Draw(t, "b")
		m := newModel(testRoot, testStack)
		for _, opts := range []plan.Options{{Identities: us, AllowMassDestroy: true}, {Identities: us, Destroy: true}} {
			m.apply(t, diff.Compare(m.read(t, testRoot, testStack), a, plan.Options{Identities: us, AllowMassDestroy: true}))
			p := diff.Compare(m.read(t, testRoot, testStack), b, opts)
			if !p.HasChanges() {
				continue
			}
			m.apply(t, p)
			ops, err := operations(p, "0123456789abcdef", kind.WorldAll())
			require.NoError(t, err)
			require.Error(t, m.multi(ops))
		}
	})
}
