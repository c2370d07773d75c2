package diff_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/recipes/kind"
)

// An address with an unclosed key matched every address that begins so.
func TestAddressCoversWhatIsInIt(t *testing.T) {
	for address, want := range map[plan.Addr]map[plan.Addr]bool{
		"namespace.a":           {"namespace.a": true, "namespace.a.mutex.b": true, `namespace.a["k"]`: true, `namespace.a["k"].mutex.b`: true, "namespace.ab": false},
		`mutex.m["a"]`:          {`mutex.m["a"]`: true, `mutex.m["a"].mutex.b`: true, `mutex.m["ab"]`: false, "mutex.m": false},
		`mutex.m["a`:            {`mutex.m["a.b"]`: false, `mutex.m["a[0]"]`: false},
		`mutex.m["a\"]`:         {`mutex.m["a\"].b"]`: false},
		`mutex.m["a\"]"]`:       {`mutex.m["a\"]"]`: true, `mutex.m["a\"]"].mutex.b`: true},
		`mutex.m["*"]`:          {`mutex.m["*"]`: true, `mutex.m["a"]`: false},
		"mutex.m[1]":            {`mutex.m["1"]`: false, "mutex.m": false},
		"module.team":           {`module.team["k"].namespace.a.mutex.b`: true, "module.team.mutex.b": true, "module.teams.mutex.b": false},
		"module.team.mutex.b":   {`module.team["k"].mutex.b`: false},
		"namespace":             {"namespace.a": true, "mutex.namespace": false},
		"namespace.a.":          {"namespace.a.mutex.b": false},
		"namespace.a.mutex":     {"namespace.a.mutex.b": true, "namespace.a.semaphore.b": false},
		"namespace.a.mutex.b.c": {"namespace.a.mutex.b": false},
		"namespace.*.mutex.b":   {"namespace.a.mutex.b": false},
		"mutex.m\xff":           {"mutex.m": false},
		"":                      {"": false, "mutex.m": false},
	} {
		for addr, covers := range want {
			require.Equal(t, covers, address.Covers(addr), "%s %s", address, addr)
		}
	}
}

func TestTargetPullsInTheNamespacesAroundIt(t *testing.T) {
	p := diff.Compare(nil, base(), plan.Options{Identities: us, Targets: []string{"namespace.x.mutex.locks_pay_ledger", "mutex.typo"}})
	require.Equal(t, []string{"+ /locks/pay", "+ /locks/pay/ledger"}, actions(p))
	require.Equal(t, []string{"error target", "warning targeted"}, codes(p))
	require.False(t, p.Applyable(), "half of what was asked for is not that")
	p = diff.Compare(nil, base(), plan.Options{Identities: us, Targets: []string{"namespace.x.mutex.locks_pay_ledger"}})
	require.True(t, p.Applyable())
	require.True(t, p.Targeted)
}

// The suggestion came from one ensemble only: of several, the one that reports the mistake for all of them.
func TestAddressThatMatchesNothingIsQuotedWithWhatWasMeant(t *testing.T) {
	tree := base()
	tree.Nodes = append(tree.Nodes, declare("/locks/w1", kind.Mutex, addr(`mutex.w["1"]`)))
	m := applied(t, tree)
	tree.Intent.Elsewhere = []*plan.Tree{
		declared(declare("/locks/far", kind.Namespace), declare("/locks/far/stock", kind.Mutex), &plan.Node{Addr: "namespace.x.mutex.odd"}),
		declared(declare("/locks/third", kind.Election)),
	}
	for given, near := range map[string]string{
		"mutex.w[1]":                          `mutex.w[\"1\"]`,
		`mutex.w["*"]`:                        `mutex.w[\"1\"]`,
		"namespace.x.election.locks_slo":      "namespace.x.election.locks_solo",
		"election.locks_solo":                 "namespace.x.election.locks_solo",
		"namespace.x.mutex.locks_far_stok":    "namespace.x.mutex.locks_far_stock",
		"election.locks_third":                "namespace.x.election.locks_third",
		"namespace.x.mutex.locks_pay_leger":   "namespace.x.mutex.locks_pay_ledger",
		"namespace.x.namespace.locks_far_":    "namespace.x.namespace.locks_far",
		"namespace.other.mutex.unlike_others": "",
	} {
		for what, o := range map[string]plan.Options{
			"Target": {Targets: []string{given}}, "Replacement": {Replace: []string{given}},
			"Lock to break": {ForceBreak: []string{given}},
		} {
			o.Identities = us
			p := diff.Compare(m.read(t, testRoot, testStack), tree, o)
			i := slices.IndexFunc(p.Problems, func(q plan.Problem) bool { return q.Code == problem.Target })
			require.NotEqual(t, -1, i, what)
			require.EqualValues(t, given, p.Problems[i].Addr)
			refused := o.ForceBreak == nil
			require.Equal(t, refused, p.Problems[i].Severity == problem.Error, what)
			require.Equal(t, refused, !p.Applyable(), what)
			require.Contains(t, p.Problems[i].Detail, fmt.Sprintf("%s %q matches no ", what, given))
			end := ": correct it, or leave it out."
			if near != "" && (refused || !strings.HasPrefix(given, "namespace.x.namespace")) { // no program queues in a namespace
				end += fmt.Sprintf(` Did you mean "%s"?`, near)
			}
			require.True(t, strings.HasSuffix(p.Problems[i].Detail, end), p.Problems[i].Detail)
		}
	}
}

func TestMassDestroyIsRefused(t *testing.T) {
	nodes := []*plan.Node{declare("/locks/a", kind.Namespace), declare("/locks/b", kind.Namespace)}
	for i := range 10 {
		nodes = append(nodes, declare(fmt.Sprintf("/locks/a/m%d", i), kind.Mutex), declare(fmt.Sprintf("/locks/b/m%d", i), kind.Mutex))
	}
	all := declared(nodes...)
	m := applied(t, all)
	keep := func(n int) *plan.Tree { // n of the ten in /locks/a stay
		tree := declared(nodes[0], nodes[1])
		for i, node := range nodes[2:] {
			if i%2 == 1 || i/2 < n {
				tree.Nodes = append(tree.Nodes, node)
			}
		}
		return tree
	}
	require.Empty(t, codes(replan(t, m, keep(6))), "four are too few")
	p := replan(t, m, keep(5))
	refused(t, p, "error mass_destroy")
	require.Contains(t, p.Problems[0].Detail, "5 of the 10 nodes in /locks/a would")
	require.True(t, diff.Compare(m.read(t, testRoot, testStack), keep(5), plan.Options{Identities: us, AllowMassDestroy: true}).Applyable())
	require.Equal(t, []string{"error mass_destroy"}, codes(replan(t, m, declared())), "the root alone is named")
	require.True(t, diff.Compare(m.read(t, testRoot, testStack), all, plan.Options{Identities: us, Destroy: true}).Applyable())
}

// A namespace got another path. A lock at the old path needs a namespace there.
func TestTargetBringsTheNamespaceThatIsWhereAnotherWas(t *testing.T) {
	m := applied(t, base())
	away := declared(declare("/locks/cash", kind.Namespace, addr("namespace.x.namespace.locks_pay")), base().Nodes[3])
	m.apply(t, replan(t, m, away))
	require.Nil(t, m.nodes["/locks/pay"])
	tree := declared(away.Nodes[0], declare("/locks/pay", kind.Namespace, addr("namespace.x.namespace.new")),
		declare("/locks/pay/books", kind.Mutex), base().Nodes[3])
	p := diff.Compare(m.read(t, testRoot, testStack), tree, plan.Options{Identities: us, Targets: []string{"namespace.x.mutex.locks_pay_books"}})
	require.Equal(t, []string{"+ /locks/pay", "+ /locks/pay/books"}, actions(p))
	m.apply(t, p)
	require.Equal(t, kind.StateActive, payloadAt(t, m, "/locks/pay").State)
}

// Something is in the way of a declared address. The plan said that the address matches nothing, and suggested the same address.
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
		require.Empty(t, coded(diff.Compare(live, tree, o), problem.Target), "%d", i)
	}
}

// A lock was renamed and not applied yet. Its former address selects the same as the new one: changes by hand, and an import that is in its
// way.
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

// A plan reports a problem of a list that two locks share once, at the first of them. If the targets left that lock out, the problem went
// with it. The other lock was then open to everybody, or no identity could manage it.
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

// A destroy of one lock deleted every output. Terraform deletes those that come from targets only.
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
	m := applied(t, first)
	live := m.read(t, testRoot, testStack)
	for name, c := range map[string]struct {
		o       plan.Options
		planned []string
	}{
		"target":            {plan.Options{Targets: []string{ledger}}, []string{"ledger"}},
		"two targets":       {plan.Options{Targets: []string{ledger, solo}}, []string{"both", "ledger", "solo"}},
		"of elsewhere":      {plan.Options{Targets: []string{far}}, []string{"far"}},
		"one instance":      {plan.Options{Targets: []string{manyB}}, []string{"many"}},
		"nothing":           {plan.Options{Targets: []string{"mutex.typo"}}, nil},
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

	// The record stays as long as it has an output.
	m.apply(t, diff.Compare(live, second, plan.Options{Identities: us, Destroy: true, Targets: []string{ledger, pay, pool, solo}}))
	live = m.read(t, testRoot, testStack)
	require.Empty(t, live.Nodes)
	require.Len(t, live.Index.Outputs, 5)
	m.apply(t, diff.Compare(live, second, plan.Options{Identities: us, Destroy: true}))
	require.Nil(t, m.read(t, testRoot, testStack).Index)
}
