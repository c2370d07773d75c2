package diff_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/recipes/kind"
)

// An address that is declared, and in whose way something stands, was said to match nothing,
// with itself as what was meant.
func TestAddressOfWhatCannotBePlannedIsNoMistake(t *testing.T) {
	const pay, pool, solo = "namespace.x.namespace.locks_pay", "namespace.x.semaphore.locks_pay_pool", "namespace.x.election.locks_solo"
	tree := base()
	require.EqualValues(t, pool, tree.Nodes[2].Addr)
	tree.Nodes[2].Path = "/elsewhere"
	live := &plan.Tree{Root: testRoot, Stack: testStack, Nodes: []*plan.Node{
		{Path: "/locks/pay", Live: &plan.Live{Czxid: 4, Trouble: plan.TroubleForeign}},
		{Path: "/locks/solo", Live: &plan.Live{Czxid: 5, Trouble: plan.TroubleForeign}},
	}}
	for i, o := range []plan.Options{
		{Replace: []string{solo, pay, pool}}, {Targets: []string{solo, pool}}, {ForceBreak: []string{solo, pool}},
		{Targets: []string{pay, pool}},
	} {
		o.Identities = us
		require.NotContains(t, codes(diff.Compare(live, tree, o)), "error target", "%d", i)
	}
}

// Of a lock that was renamed and not applied yet, the former address is as good as the new one: for what
// was changed by hand, and for an import that is in its way.
func TestFormerAddressSelectsChangesAndProblems(t *testing.T) {
	const former, latter = "namespace.x.election.locks_solo", "namespace.x.election.renamed"
	m := applied(t, base())
	tree := base()
	tree.Nodes[3].Addr = latter
	tree.Nodes[3].Payload.Owner.Addr = latter
	tree.Intent.Moves = []plan.Move{{From: former, To: latter}}
	live := m.read(t, testRoot, testStack)
	at := slices.IndexFunc(live.Nodes, func(n *plan.Node) bool { return n.Path == "/locks/solo" })
	live.Nodes[at].ACL = kind.WorldAll()
	for _, target := range []string{former, latter} {
		p := diff.Compare(live, tree, plan.Options{Identities: us, Targets: []string{target}})
		require.Equal(t, []string{"~ /locks/solo"}, actions(p), target)
	}

	tree.Nodes[3].Path = "/locks/solo2"
	tree.Intent.Imports = []plan.Import{{To: latter, Path: "/locks/far"}}
	live.Nodes = append(live.Nodes, &plan.Node{Path: "/locks/far", Live: &plan.Live{Czxid: 99, Trouble: plan.TroubleForeign}})
	for _, target := range []string{former, latter} {
		p := diff.Compare(live, tree, plan.Options{Identities: us, Targets: []string{target}})
		require.Contains(t, codes(p), "error import", target)
	}
}

// One list of two locks is told of once, at the first of them. Where a target left
// that one out, its problem went with it, and the other lock was made open to everybody, or
// so that nobody could manage it.
func TestProblemOfSeveralNodesStaysWithThoseThatArePlanned(t *testing.T) {
	const ledger, pool, solo = "namespace.x.mutex.locks_pay_ledger", "namespace.x.semaphore.locks_pay_pool", "namespace.x.election.locks_solo"
	for code, list := range map[problem.Code]kind.List{
		problem.WorldWritable: kind.WorldAll(),
		problem.LockOut:       {{Scheme: "digest", ID: "somebody:else", Perms: kind.PermAll}},
		problem.NoACL:         nil,
	} {
		tree := base()
		tree.Nodes[1].ACL, tree.Nodes[3].ACL = list, list
		for i, o := range []plan.Options{{}, {Targets: []string{solo}}, {Targets: []string{pool, solo}}, {Targets: []string{ledger}}} {
			o.Identities = us
			p := diff.Compare(nil, tree, o)
			at := slices.IndexFunc(p.Problems, func(q plan.Problem) bool { return q.Code == code })
			require.NotEqual(t, -1, at, "%s %d", code, i)
			require.False(t, p.Applyable())
			require.EqualValues(t, []string{ledger, solo, solo, ledger}[i], p.Problems[at].Addr)
			require.Contains(t, p.Problems[at].Detail, p.Problems[at].Addr)
		}
		require.True(t, diff.Compare(nil, tree, plan.Options{Identities: us, Targets: []string{pool}}).Applyable())
	}
}

// A destroy of one lock deleted every output. In Terraform those go that come from nothing but targets.
func TestOutputIsPlannedWithWhatItComesFromAlone(t *testing.T) {
	const pay, ledger, pool, solo = "namespace.x.namespace.locks_pay", "namespace.x.mutex.locks_pay_ledger", "namespace.x.semaphore.locks_pay_pool", "namespace.x.election.locks_solo"
	const far, many, manyB = "namespace.far.mutex.m", "module.a.namespace.x.mutex.many", `module.a["z"].namespace.x.mutex.many["b"]`
	outputs := func(value string) []plan.Output {
		var out []plan.Output
		for name, from := range map[string][]plan.Addr{
			"ledger": {ledger}, "solo": {solo}, "both": {ledger, solo}, "constant": nil, "far": {far}, "many": {many}, "none": {"mutex.none"},
		} {
			out = append(out, plan.Output{Name: name, Value: json.RawMessage(value), From: from})
		}
		return out
	}
	first, second := base(), base()
	first.Intent.Outputs = append(outputs(`1`), plan.Output{Name: "orphan", Value: json.RawMessage(`1`)})
	second.Intent.Outputs = outputs(`2`)
	second.Intent.Elsewhere = []*plan.Tree{declared(declare("/far", kind.Mutex, addr(far)),
		declare("/many/a", kind.Mutex, addr(`module.a["x.y[0]\"]"].namespace.x.mutex.many["a"]`)), declare("/many/b", kind.Mutex, addr(manyB)))}
	m := newModel(testRoot, testStack)
	m.apply(t, diff.Compare(nil, first, plan.Options{Identities: us}))
	live := m.read(t, testRoot, testStack)
	for name, c := range map[string]struct {
		o       plan.Options
		planned []string
	}{
		"target":            {plan.Options{Targets: []string{ledger}}, []string{"ledger"}},
		"two targets":       {plan.Options{Targets: []string{ledger, solo}}, []string{"both", "ledger", "solo"}},
		"of elsewhere":      {plan.Options{Targets: []string{far}}, []string{"far"}},
		"one instance":      {plan.Options{Targets: []string{manyB}}, []string{"many"}},
		"without instances": {plan.Options{Targets: []string{"mutex.none"}}, []string{"none"}},
		"everything":        {plan.Options{}, []string{"both", "constant", "far", "ledger", "many", "none", "orphan", "solo"}},
	} {
		for _, destroy := range []bool{false, true} {
			c.o.Identities, c.o.Destroy = us, destroy
			p := diff.Compare(live, second, c.o)
			var planned []string
			for _, o := range p.Outputs {
				if o.Action == plan.NoOp {
					require.Equal(t, `1`, string(o.After.Value), "%s: %s", name, o.Name)
					continue
				}
				planned = append(planned, o.Name)
				require.Equal(t, destroy || o.Name == "orphan", o.Action == plan.Delete, "%s: %s", name, o.Name)
			}
			require.Equal(t, c.planned, planned, "%s, destroy %v", name, destroy)
		}
	}

	// What keeps an output keeps the record.
	m.apply(t, diff.Compare(live, second, plan.Options{Identities: us, Destroy: true, Targets: []string{ledger, pay, pool, solo}}))
	live = m.read(t, testRoot, testStack)
	require.Empty(t, live.Nodes)
	require.Len(t, live.Index.Outputs, 5)
	m.apply(t, diff.Compare(live, second, plan.Options{Identities: us, Destroy: true}))
	require.Nil(t, m.read(t, testRoot, testStack).Index)
}
