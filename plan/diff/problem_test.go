package diff_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/problem"
)

// 47 nodes that could not be read were 47 times the same sentence.
func TestProblemsThatSayTheSameAreFolded(t *testing.T) {
	var all []plan.Problem
	add := func(n int, summary, detail string) {
		for i := range n {
			addr, path := fmt.Sprintf("mutex.m%d", i), fmt.Sprintf("/t/m%d", i)
			all = append(all, plan.Problem{Severity: problem.Error, Addr: plan.Addr(addr), Path: path, Origin: fmt.Sprint(i), Summary: summary, Detail: fmt.Sprintf(detail, addr, path)})
		}
	}
	add(1, "Other", "%s at %s.")
	add(47, "Unreadable", "%s at %s cannot be read.")
	add(3, "Protected", "%s at %s is protected.")
	add(4, "Unreadable", "%s at %s cannot be read, for another reason.")
	var got []string
	for _, same := range plan.Fold(all) {
		got = append(got, fmt.Sprintf("%d %s %s", len(same), same[0].Summary, same[0].Addr))
	}
	require.Equal(t, []string{"1 Other mutex.m0", "47 Unreadable mutex.m0", "1 Protected mutex.m0", "1 Protected mutex.m1", "1 Protected mutex.m2", "4 Unreadable mutex.m0"}, got)
	require.EqualValues(t, "mutex.m46", plan.Fold(all)[1][46].Addr)
	require.Empty(t, plan.Fold(nil))
}

// What may not be read was said to be somebody else's by now, and forgotten.
func TestUnreadableNodeIsNeitherDriftNorForgotten(t *testing.T) {
	m := applied(t, unlent())
	live := m.read(t, testRoot, testStack)
	for _, n := range live.Nodes {
		if n.Path == "/locks/solo" {
			n.Payload, n.ACL, n.Live = nil, nil, &plan.Live{Trouble: plan.TroubleUnreadable}
		}
	}
	live.Unreadable, live.Unmanaged = []string{"/locks/solo", "/locks/pay/closed"}, []string{"/locks/pay/closed"}
	const ledger = "namespace.x.mutex.locks_pay_ledger"
	for name, c := range map[string]struct {
		o    plan.Options
		want []string
	}{
		"plan":           {plan.Options{}, []string{"error unreadable", "warning unreadable"}},
		"plan of others": {plan.Options{Targets: []string{ledger}}, []string{"warning targeted"}},
		"destroy":        {plan.Options{Destroy: true}, []string{"error unreadable", "warning unmanaged_child", "warning unreadable"}},
	} {
		c.o.Identities = us
		p := diff.Compare(live, unlent(), c.o)
		require.Equal(t, c.want, codes(p), name)
		require.Empty(t, p.Drifted, name)
	}
	p := diff.Compare(live, unlent(), plan.Options{Identities: us, Destroy: true})
	require.Contains(t, p.Problems[len(p.Problems)-2].Detail, "/locks/pay contains /locks/pay/closed, which this connection cannot read:")
}
