package diff_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/recipes/kind"
)

// A key that is not closed was taken for all that begins so.
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

func TestTargetThatMatchesNothingChangesNoOutput(t *testing.T) {
	tree := base()
	tree.Intent.Outputs = []plan.Output{{Name: "o", Value: json.RawMessage(`"a"`)}}
	m := newModel(testRoot, testStack)
	m.apply(t, diff.Compare(nil, tree, plan.Options{Identities: us}))
	tree.Intent.Outputs = []plan.Output{{Name: "o", Value: json.RawMessage(`"b"`)}, {Name: "new", Value: json.RawMessage(`1`)}}
	planned := func(o plan.Options) *plan.Plan {
		o.Identities = us
		return diff.Compare(m.read(t, testRoot, testStack), tree, o)
	}
	for _, o := range []plan.Options{{}, {Destroy: true}} {
		o.Targets = []string{"mutex.typo"}
		p := planned(o)
		require.False(t, p.HasChanges())
		require.Len(t, p.Outputs, 1)
		require.Equal(t, `"a"`, string(p.Outputs[0].After.Value), "what an apply would write")
		require.Contains(t, codes(p), "error target")
		require.False(t, p.Applyable())
	}
	require.False(t, planned(plan.Options{Targets: []string{"mutex.typo", "namespace.x.election.locks_solo"}}).HasChanges(), "they come from no node")
}

// What was meant was looked for in one ensemble only: of several, the one that tells of the mistake for all of them.
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
			if near != "" && (refused || !strings.HasPrefix(given, "namespace.x.namespace")) { // no program stands in a namespace
				end += fmt.Sprintf(` Did you mean "%s"?`, near)
			}
			require.True(t, strings.HasSuffix(p.Problems[i].Detail, end), p.Problems[i].Detail)
		}
	}
}

// A lock that is free needs no force. In a namespace nobody stands who could lose a place.
func TestForceBreakOfALockThatIsFreeIsNoMistake(t *testing.T) {
	live := applied(t, base()).read(t, testRoot, testStack)
	p := diff.Compare(live, base(), plan.Options{Identities: us, ForceBreak: []string{"namespace.x.election.locks_solo"}})
	require.Empty(t, p.Problems)
	p = diff.Compare(live, base(), plan.Options{Identities: us, ForceBreak: []string{"namespace.x.namespace.locks_pay"}})
	require.Equal(t, []string{"warning target"}, codes(p))
}

func TestTargetedDeletionOfANamespaceTakesItsContents(t *testing.T) {
	m := applied(t, base())
	live := m.read(t, testRoot, testStack)
	p := diff.Compare(live, declared(), plan.Options{Identities: us, Targets: []string{"namespace.x.namespace.locks_pay"}})
	require.Equal(t, []string{"- /locks/pay/pool", "- /locks/pay/ledger", "- /locks/pay"}, actions(p))
	p = diff.Compare(live, declared(), plan.Options{Identities: us, Targets: []string{"namespace.x.mutex.locks_pay_ledger", "namespace.x.election.locks_solo"}})
	require.Equal(t, []string{"- /locks/solo", "- /locks/pay/ledger"}, actions(p))
	m.apply(t, p)
	require.NotNil(t, m.nodes["/locks/pay/pool/leases"])
}

// A lock that is made, deleted or replaced in any case was said to match nothing, with its
// own address as what was meant.
func TestReplacementOfWhatIsMadeAnywayIsNoMistake(t *testing.T) {
	const ledger, solo = "namespace.x.mutex.locks_pay_ledger", "namespace.x.election.locks_solo"
	live := applied(t, base()).read(t, testRoot, testStack)
	other := base()
	other.Nodes[1] = declare("/locks/pay/ledger", kind.Mutex, set("wire", "kazoo"))
	for name, c := range map[string]struct {
		current, desired *plan.Tree
		given            string
	}{
		"made":             {nil, base(), ledger},
		"deleted":          {live, declared(base().Nodes[:3]...), solo},
		"replaced already": {live, other, ledger},
	} {
		p := diff.Compare(c.current, c.desired, plan.Options{Identities: us, Replace: []string{c.given}})
		require.Empty(t, p.Problems, name)
	}
}

func TestMassDestroyIsRefused(t *testing.T) {
	nodes := []*plan.Node{declare("/locks/a", kind.Namespace), declare("/locks/b", kind.Namespace)}
	for i := range 10 {
		nodes = append(nodes, declare(fmt.Sprintf("/locks/a/m%d", i), kind.Mutex), declare(fmt.Sprintf("/locks/b/m%d", i), kind.Mutex))
	}
	all := declared(nodes...)
	m := applied(t, all)
	keep := func(n int) *plan.Tree { // n of the ten of a stay
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

func TestBreakAndDrainAreSaid(t *testing.T) {
	live := applied(t, base()).read(t, testRoot, testStack)
	live.Find("/locks/solo").Live.Usage = &kind.Usage{Holders: []kind.Party{{Name: "latch-0000000001", ID: "host-a"}}}
	rest := declared(base().Nodes[:3]...)
	p := diff.Compare(live, rest, plan.Options{Identities: us, ForceBreak: []string{"namespace.x.election.locks_solo"}})
	require.Equal(t, []string{"warning force_break"}, codes(p))
	require.Contains(t, p.Problems[0].Detail, "host-a")
	require.True(t, p.Changes[0].Break)
	p = diff.Compare(live, rest, plan.Options{Identities: us, Drain: time.Minute})
	require.Contains(t, p.Problems[0].Detail, "waits 60 seconds")
	p1 := diff.Compare(live, rest, plan.Options{Identities: us, Drain: 200 * time.Millisecond})
	require.Contains(t, p1.Problems[0].Detail, "waits 1 second for")
	require.EqualValues(t, 60_000, p.Drain)
}

// A namespace got another path. What is made at the old one needs a namespace there.
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

// Somebody changed the address of a node, and a plan of others leaves that to the next plan of all.
func TestTargetedApplyLeavesAnAddressThatWasChangedByHand(t *testing.T) {
	tree := base()
	m := applied(t, tree)
	payload := payloadAt(t, m, "/locks/solo")
	payload.Owner.Addr = "election.boss"
	m.nodes["/locks/solo"].data, _ = payload.Encode()
	set("permits", 4)(tree.Nodes[2])
	m.apply(t, diff.Compare(m.read(t, testRoot, testStack), tree, plan.Options{Identities: us, Targets: []string{"namespace.x.semaphore.locks_pay_pool"}}))
	require.Equal(t, []plan.Drift{{Addr: "election.boss", Path: "/locks/solo"}}, replan(t, m, tree).Drifted)
}
