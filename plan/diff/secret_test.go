package diff_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/document"
	"github.com/locktree/locktree/recipes/kind"
)

// richPlan has a change of every sort.
func richPlan(t testing.TB) *plan.Plan {
	m := applied(t, base())
	tree := declared(
		declare("/locks/new", kind.RWLock),
		declare("/locks/pay", kind.Namespace, acl(admin)),
		declare("/locks/pay/ledger", kind.Mutex, set("wire", "kazoo")),
		declare("/locks/pay/pool", kind.Semaphore, set("permits", 5), acl(admin)),
	)
	tree.Intent.Outputs = []plan.Output{{Name: "o", Type: json.RawMessage(`"string"`), Value: json.RawMessage(`"v"`)}}
	current := held(m.read(t, testRoot, testStack), "/locks/pay/pool", 2, 1)
	return diff.Compare(current, tree, plan.Options{Identities: us})
}

func TestNothingPrintedShowsADigest(t *testing.T) {
	p := richPlan(t)
	doc, err := json.Marshal(document.Of("", nil, p))
	require.NoError(t, err)
	printed := string(doc) + p.String()
	for i := range p.Changes {
		c := &p.Changes[i]
		one, err := json.Marshal(c)
		require.NoError(t, err)
		printed += string(one) + c.String() + fmt.Sprintf("%+v %v", c.Before, c.After)
	}
	require.Contains(t, printed, "digest:worker:cdr")
	for _, secret := range []string{"AAAA", "BBBB"} {
		require.NotContains(t, printed, secret)
	}
}
