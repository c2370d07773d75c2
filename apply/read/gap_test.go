package read_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// A lock that is gone, or may not be read, differs from one that was never there.
func TestGapsAreWhatIsDeclaredAndTheTreeDoesNotHave(t *testing.T) {
	node := func(path string, trouble plan.Trouble) *plan.Node {
		n := &plan.Node{Path: path, Live: &plan.Live{Trouble: trouble, Detail: "detail"}}
		if trouble == "" {
			n.Payload = &kind.Payload{Params: kind.Mutex.New()}
		}
		return n
	}
	declared := &plan.Tree{}
	for _, name := range []string{"closed", "there", "wiped", "gone"} {
		declared.Nodes = append(declared.Nodes, &plan.Node{Path: "/" + name, Addr: plan.Addr("mutex." + name), Payload: &kind.Payload{Params: kind.Mutex.New()}})
	}
	tree := &plan.Tree{
		Nodes: []*plan.Node{node("/closed", plan.TroubleUnreadable), node("/new", plan.TroubleNewer), node("/stranger", plan.TroubleForeign), node("/there", ""), node("/wiped", plan.TroubleForeign)},
		Index: &record.Record{},
	}
	require.Equal(t, []read.Gap{
		{Path: "/closed", Addr: "mutex.closed", Type: "mutex", Trouble: plan.TroubleUnreadable, Detail: "detail"},
		{Path: "/gone", Addr: "mutex.gone", Type: "mutex"},
		{Path: "/new", Trouble: plan.TroubleNewer, Detail: "detail"},
		{Path: "/wiped", Addr: "mutex.wiped", Type: "mutex"},
	}, read.Gaps(tree, declared))
	tree.Index, tree.Nodes = nil, nil
	require.Empty(t, read.Gaps(tree, declared), "of a stack that was never applied, nothing is missing")
}
