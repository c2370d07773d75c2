package apply_test

import (
	"errors"
	"fmt"
	"regexp"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
)

var packageName = regexp.MustCompile(`\b(recipes|kind|plan|apply|zk|json): `)

// What stands in the data of a node and cannot be understood is told in a plan, in whole
// sentences that name no package of this program.
func TestPlansOfDamagedNodesNameNoPackage(t *testing.T) {
	for name, data := range map[string]string{
		"newer": `{"locktree":99}`, "no number": `{"locktree":1,"type":"mutex","gen":"x"}`, "cut off": `{"locktree":1,`,
		"unknown type": `{"locktree":1,"type":"gate"}`, "unknown state": `{"locktree":1,"type":"mutex","state":"odd"}`,
	} {
		for _, declared := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, declared %t", name, declared), func(t *testing.T) {
				s, c := provisioned(t)
				tree := s.tree(declare("/a", kind.Mutex), declare("/b", kind.Mutex))
				s.apply(c, tree)
				require.NoError(t, s.server.Set(s.root+"/b", []byte(data)))
				require.NoError(t, s.server.Set(record.IndexPath(s.root, stack), []byte(`{"locktree":1,"apply":"","res":7}`)))
				if !declared {
					tree.Nodes = tree.Nodes[:1]
				}
				p := s.plan(c, tree)
				require.NotEmpty(t, p.Problems)
				for _, q := range p.Problems {
					require.NotRegexp(t, packageName, q.Detail)
					require.Regexp(t, `^\S.*\.$`, q.Detail)
					require.NotContains(t, q.Detail, " .")
				}
			})
		}
	}
}

func TestWordInTheMiddleOfAnErrorIsNoPackage(t *testing.T) {
	require.Equal(t, "lock is of another kind: /t/ledger (damaged: unexpected end)",
		explain.Plain("recipes: lock is of another kind: /t/ledger (kind: damaged: json: unexpected end)"))
}

// Whatever the servers answer, the error says what to do next.
func TestEveryAnswerHasANextStep(t *testing.T) {
	step := plan.ACLStep{Addr: "a.mutex", Path: "/locks/a"}
	for _, err := range []error{
		zk.ErrNoAuth, zk.ErrNoNode, zk.ErrBadVersion, zk.ErrInvalidACL, zk.ErrNoChildrenForEphemerals, zk.ErrAPIError,
		recipes.ErrQuotaExceeded, recipes.ErrThrottled, recipes.ErrReadOnly, direct.ErrServer, recipes.ErrSessionLost,
		recipes.ErrUnreachable, recipes.ErrAuth, errors.New("recipes: protocol violation"), recipes.ErrClosed, recipes.ErrLost, errors.New("anything else"),
	} {
		wrapped := &direct.OpError{Op: "get", Path: "/locks/a", Outcome: direct.OutcomeUnknown, Err: fmt.Errorf("%w: more", err)}
		for _, e := range []error{
			refusal.Read("/locks/a", wrapped), refusal.ACL(step, wrapped), refusal.Scaffold("/locks/a", wrapped), refusal.Lock("/locks/a", wrapped),
		} {
			node := errorAs[*failure.NodeError](t, e)
			require.ErrorIs(t, e, err)
			require.NotEmpty(t, node.Next, "%v", e)
			require.NotRegexp(t, packageName, node.Why+" "+node.Next)
			require.NotContains(t, node.Why, "outcome", "what is known of it is ours to say")
		}
	}
}
