package plan_test

import (
	"testing"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/stretchr/testify/require"
)

// A lock that is gone, or may not be read, is not one that was never there.
func TestGapsAreWhatTheIndexKnowsAndTheTreeDoesNotHave(t *testing.T) {
	node := func(path string, trouble plan.Trouble) *plan.Node {
		n := &plan.Node{Path: path, Live: &plan.Live{Trouble: trouble, Detail: "detail"}}
		if trouble == "" {
			n.Payload = &kind.Payload{Params: kind.Mutex.New()}
		}
		return n
	}
	entry := func(path string) plan.IndexEntry { return plan.IndexEntry{Path: path, Type: "mutex"} }
	tree := &plan.Tree{
		Nodes: []*plan.Node{node("/closed", plan.TroubleUnreadable), node("/new", plan.TroubleNewer), node("/stranger", plan.TroubleForeign), node("/there", ""), node("/wiped", plan.TroubleForeign)},
		Index: &plan.Index{Resources: map[string]plan.IndexEntry{
			"mutex.closed": entry("/closed"), "mutex.there": entry("/there"), "mutex.wiped": entry("/wiped"), "mutex.gone": entry("/gone"),
			"mutex.there" + plan.StandsAt + "/other":   entry("/other"),
			"mutex.there" + plan.MovedFrom + "/before": entry("/before"),
		}},
	}
	require.Equal(t, []plan.Gap{
		{Path: "/closed", Addr: "mutex.closed", Type: "mutex", Trouble: plan.TroubleUnreadable, Detail: "detail"},
		{Path: "/gone", Addr: "mutex.gone", Type: "mutex"},
		{Path: "/new", Trouble: plan.TroubleNewer, Detail: "detail"},
		{Path: "/other", Addr: "mutex.there", Type: "mutex"},
		{Path: "/wiped", Addr: "mutex.wiped", Type: "mutex"},
	}, tree.Gaps())
}
