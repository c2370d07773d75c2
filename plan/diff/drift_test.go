package diff_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/kind"
)

// A plan said that something had changed, but not what.
func TestDriftNamesWhatIsNotAsDeclared(t *testing.T) {
	open := kind.ACL{Scheme: "world", ID: "anyone", Perms: kind.PermRead}
	tree := unlent
	for name, c := range map[string]struct {
		hand   func(*kind.Payload, *mnode)
		config func(*plan.Tree)
		want   []plan.Attribute
	}{
		"a number": {func(p *kind.Payload, _ *mnode) { p.Params.(*kind.SemaphoreParams).Permits = 9 }, nil, []plan.Attribute{{Name: "permits", Declared: "3", Found: "9"}}},
		"several": {func(p *kind.Payload, n *mnode) {
			p.Params.(*kind.SemaphoreParams).Permits, p.Protect, p.ChildACL = 9, true, kind.List{open}
			n.acl = kind.List{open}
		}, nil, []plan.Attribute{{Name: "permits", Declared: "3", Found: "9"}, {Name: "acl", Declared: "[" + kind.List{admin, worker}.String() + "]", Found: "[world:anyone:r]"}, {Name: "contender_acl", Declared: "[]", Found: "[world:anyone:r]"}, {Name: "prevent_destroy", Declared: "false", Found: "true"}}},
		"beside a change of the configuration": {func(_ *kind.Payload, n *mnode) { n.acl = kind.List{open} }, func(t *plan.Tree) { set("permits", 5)(t.Nodes[2]) },
			[]plan.Attribute{{Name: "permits", Declared: "5", Found: "3"}, {Name: "acl", Declared: "[" + kind.List{admin, worker}.String() + "]", Found: "[world:anyone:r]"}}},
		"what is declared so by now": {func(p *kind.Payload, _ *mnode) { p.Params.(*kind.SemaphoreParams).Permits = 9 }, func(t *plan.Tree) { set("permits", 9)(t.Nodes[2]) }, nil},
		"what is declared no more":   {func(p *kind.Payload, _ *mnode) { p.Params.(*kind.SemaphoreParams).Permits = 9 }, func(t *plan.Tree) { t.Nodes = append(t.Nodes[:2:2], t.Nodes[3:]...) }, nil},
	} {
		m := applied(t, tree())
		payload := payloadAt(t, m, "/locks/pay/pool")
		c.hand(payload, m.nodes["/locks/pay/pool"])
		m.nodes["/locks/pay/pool"].data, _ = payload.Encode()
		desired := tree()
		if c.config != nil {
			c.config(desired)
		}
		p := replan(t, m, desired)
		require.Len(t, p.Drifted, 1, name)
		require.Equal(t, c.want, p.Drifted[0].Attributes, name)
	}
}

// A lock that was deleted by hand was planned like a new one. The trees also have new, wiped, edited and copied nodes, which may or may not
// be in the record.
func TestALockThatWasDeletedByHandIsDrift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := declared()
		n := rapid.SampledFrom([]int{1, 20, 300}).Draw(t, "nodes")
		for i := range n {
			first.Nodes = append(first.Nodes, declare(fmt.Sprintf("/locks/n%d", i), kind.Mutex))
		}
		m := applied(t, first)
		second := declared(slices.Clone(first.Nodes)...)
		for i := range rapid.IntRange(0, 20).Draw(t, "new") {
			second.Nodes = append(second.Nodes, declare(fmt.Sprintf("/locks/new%d", i), kind.Mutex))
		}
		hand := func(what string, f func(path string)) {
			if rapid.Bool().Draw(t, what) {
				f(first.Nodes[rapid.IntRange(0, n-1).Draw(t, what+" of")].Path)
			}
		}
		hand("wiped", func(path string) { m.nodes[path].data = nil })
		hand("edited", func(path string) { m.nodes[path].acl = kind.List{admin} })
		hand("copied", func(path string) { m.nodes["/locks/copy"] = &mnode{data: m.nodes[path].data, acl: m.nodes[path].acl} })
		var want []string
		for i, node := range first.Nodes {
			if n <= 20 && rapid.IntRange(0, 2).Draw(t, "deleted") == 0 || n > 20 && i%7 > 0 {
				delete(m.nodes, node.Path)
				want = append(want, node.Path)
			}
		}
		slices.Sort(want)
		for range 2 {
			var got []string
			p := diff.Compare(m.read(t, testRoot, testStack), second, plan.Options{Identities: us, Targets: []string{string(second.Nodes[0].Addr)}})
			for _, d := range p.Drifted {
				if d.Deleted {
					got = append(got, d.Path)
				}
			}
			require.Equal(t, fmt.Sprint(want), fmt.Sprint(got))
			for c := range p.Each() {
				require.Equal(t, slices.Contains(want, c.Path), c.Action == plan.Create && c.Drift, c.Path)
			}
			if !p.Applyable() || !p.HasChanges() {
				return
			}
			m.apply(t, p) // only one of them
			want = slices.DeleteFunc(want, func(path string) bool { return m.nodes[path] != nil })
		}
	})
}

// A sum names its key by two letters, which any program can copy. A program that could create nodes made every read of the stack compute
// for some milliseconds for each node's list.
func TestListsOfForgedNodesCostNothing(t *testing.T) {
	tree := declared(declare("/locks/a", kind.Mutex), declare("/locks/lent", kind.Namespace, acl(admin, entry("tenant", kind.PermAll))))
	m := applied(t, tree)
	real := payloadAt(t, m, "/locks/a")
	for i := range 50 {
		path := fmt.Sprintf("/locks/lent/n%d", i)
		forged := declare(path, kind.Mutex).Payload
		forged.Sum = real.Sum[:2] + strings.Repeat("x", len(real.Sum)-2)
		if i%2 == 0 {
			forged.Sum = real.Sum // of another path
		}
		data, err := forged.Encode()
		require.NoError(t, err)
		m.nodes[path] = &mnode{data: data, acl: kind.List{entry(fmt.Sprintf("u%d", i), kind.PermAll)}}
	}
	computed := record.SlowSums()
	live := m.read(t, testRoot, testStack)
	for _, n := range live.Nodes {
		require.Equal(t, tree.Find(n.Path) != nil, live.Index.Left(n.Path, n.Payload, n.ACL), n.Path)
	}
	p := diff.Compare(live, tree, plan.Options{Identities: us})
	require.False(t, p.HasChanges())
	require.Empty(t, p.Drifted)
	require.Equal(t, computed, record.SlowSums(), "of lists that are not the stack's")

	m.nodes["/locks/a"].acl = kind.List{admin}
	require.Len(t, replan(t, m, tree).Drifted, 1, "of a node that an apply has written, another list is a change by hand")
}

// The record must not grow with the number of locks. Formerly, if a namespace was replaced by a lock, or forgotten without its contents,
// the record named each node in it. It could grow until each lock needed a transaction of its own.
func TestTheRecordDoesNotGrowWithWhatANamespaceContained(t *testing.T) {
	nodes := []*plan.Node{declare("/locks/many", kind.Namespace, addr("namespace.many"))}
	for i := range 3000 {
		nodes = append(nodes, declare(fmt.Sprintf("/locks/many/%04d-%s", i, strings.Repeat("x", 240)), kind.Mutex, addr(fmt.Sprintf("namespace.many.mutex.m%d", i))))
	}
	m := newModel(testRoot, testStack)
	m.inTransactions(t, diff.Compare(m.read(t, testRoot, testStack), declared(nodes...), plan.Options{Identities: us}), tx.MaxTransaction)

	p := diff.Compare(m.read(t, testRoot, testStack), declared(declare("/locks/many", kind.Mutex, addr("namespace.many"))), plan.Options{Identities: us, AllowMassDestroy: true})
	require.True(t, p.Applyable(), "%v", p.Problems)
	require.Equal(t, plan.Counts{Add: 1, Destroy: 3001}, p.Summary())
	require.Less(t, len(p.Batches), 5)

	none := declared()
	none.Intent.Removals = []plan.Removal{{From: "namespace.many"}}
	require.True(t, replan(t, m, none).HasChanges())
}

// Each of some thousand transactions wrote a record of almost a megabyte.
func TestTheRecordNamesSoManyNodesWhereOthersMayCreate(t *testing.T) {
	many := func(list ...kind.ACL) *plan.Tree {
		nodes := []*plan.Node{declare("/locks/many", kind.Namespace, acl(list...))}
		for i := range 15_000 {
			nodes = append(nodes, declare(fmt.Sprintf("/locks/many/orders-%020d", i), kind.Mutex, addr(fmt.Sprintf("mutex.m%d", i))))
		}
		return declared(nodes...)
	}
	diff := func(current, desired *plan.Tree) *plan.Plan {
		return diff.Compare(current, desired, plan.Options{Identities: us[1:]})
	}
	m, open := newModel(testRoot, testStack), many(admin, worker)
	p := diff(m.read(t, testRoot, testStack), open)
	require.False(t, p.Applyable())
	require.Contains(t, p.Problems[0].Detail, "The record would name 15000 nodes of this stack")

	m.inTransactions(t, diff(m.read(t, testRoot, testStack), many(admin)), tx.MaxTransaction)
	opened := m.read(t, testRoot, testStack) // by hand
	opened.Nodes[0].ACL = kind.List{admin, worker}
	opened.Unread = map[string]int{"/locks/many": 0}
	require.True(t, diff(opened, many(admin)).Applyable(), "an apply closes it again")
	require.False(t, diff(opened, open).Applyable())
}

// A plan forgets a namespace, and its locks leave it. The record must not name those locks: some thousands of them did not fit into a
// transaction.
func TestANamespaceIsLetGoAfterTheLocksThatLeaveIt(t *testing.T) {
	in := func(at string) *plan.Tree {
		return declared(declare("/locks/"+at, kind.Namespace, addr("namespace."+at)),
			declare("/locks/"+at+"/a", kind.Mutex, addr("mutex.a")), declare("/locks/"+at+"/b", kind.Mutex, addr("mutex.b")))
	}
	m, tree := applied(t, in("many")), in("few")
	tree.Intent.Removals = []plan.Removal{{From: "namespace.many"}}
	p := replan(t, m, tree)
	require.Equal(t, plan.Counts{Add: 3, Destroy: 2, Forget: 1}, p.Summary())
	record, err := nextRecord(p, "0123456789abcdef")
	require.NoError(t, err)
	require.Empty(t, record.Untracked)
	paths := smallest(t, m, p)
	require.Equal(t, []string{"/locks/many"}, paths[len(paths)-1])
	require.False(t, replan(t, m, tree).HasChanges())
	require.Empty(t, payloadAt(t, m, "/locks/many").Owner.Stack)
}

// A destroy that found the record damaged said that an apply writes it again, and that no lock changes.
func TestADestroyWithoutItsRecordDoesNotPromiseToWriteIt(t *testing.T) {
	m := applied(t, base())
	current := m.read(t, testRoot, testStack)
	current.Index, current.IndexTrouble = nil, "cut off"
	p := diff.Compare(current, base(), plan.Options{Identities: us, Destroy: true})
	text := p.Problems[len(p.Problems)-1].Detail
	require.NotContains(t, text, "no lock changes")
	require.Contains(t, text, "Nodes of this stack outside of its namespaces, or where others may create nodes, are not known")
}
