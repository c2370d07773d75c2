package diff_test

import (
	"encoding/json"
	"fmt"
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

// The record may be lost or damaged: the next plan says so and counts as a change, and after it the stack is as it was.
func TestARecordThatIsLostIsWrittenAgain(t *testing.T) {
	path := record.IndexPath(testRoot, testStack)
	rapid.Check(t, func(t *rapid.T) {
		tree := trees().Draw(t, "tree")
		m := newModel(testRoot, testStack)
		m.apply(t, diff.Compare(m.read(t, testRoot, testStack), tree, plan.Options{Identities: us}))
		if len(tree.Nodes) == 0 {
			return
		}
		current, summary := m.read(t, testRoot, testStack), "Record is damaged"
		if rapid.Bool().Draw(t, "deleted") {
			delete(m.nodes, path)
			current, summary = m.read(t, testRoot, testStack), "Record is missing"
		} else {
			current.Index, current.IndexTrouble = nil, "cut off"
		}
		p := diff.Compare(current, tree, plan.Options{Identities: us})
		require.True(t, p.HasChanges())
		require.Equal(t, plan.Counts{}, p.Summary())
		require.Equal(t, summary, p.Problems[len(p.Problems)-1].Summary)
		m.apply(t, p)
		again := diff.Compare(m.read(t, testRoot, testStack), tree, plan.Options{Identities: us})
		require.False(t, again.HasChanges())
		require.Empty(t, again.Drifted)
	})
}

// The record named each node of a namespace that was replaced by a lock, or forgotten without what is in it: what must not grow
// with the number of locks did, up to a transaction for each of them.
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

// The record must not name the locks that leave a namespace which is let go with the same plan: some thousands did not fit into a
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

func TestNextIndexKeepsFieldsOfNewerVersions(t *testing.T) {
	m := applied(t, base())
	path := record.IndexPath(testRoot, testStack)
	var doc map[string]any
	require.NoError(t, json.Unmarshal(m.nodes[path].data, &doc))
	doc["future"] = true
	m.nodes[path].data, _ = json.Marshal(doc)
	p := replan(t, m, declared())
	m.apply(t, p)
	require.Contains(t, string(m.nodes[path].data), `"future":true`)
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
