package diff_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
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
