package plan

import (
	"testing"

	"github.com/locktree/locktree/recipes/kind"
	"github.com/stretchr/testify/require"
)

// A lock that is gone, or may not be read, is not one that was never there.
func TestGapsAreWhatTheIndexKnowsAndTheTreeDoesNotHave(t *testing.T) {
	node := func(path string, trouble Trouble) *Node {
		n := &Node{Path: path, Live: &Live{Trouble: trouble, Detail: "detail"}}
		if trouble == "" {
			n.Payload = &kind.Payload{Params: kind.Mutex.New()}
		}
		return n
	}
	entry := func(path string) IndexEntry { return IndexEntry{Path: path, Type: "mutex", Hash: "h"} }
	tree := &Tree{
		Nodes: []*Node{node("/closed", TroubleUnreadable), node("/new", TroubleNewer), node("/stranger", TroubleForeign), node("/there", ""), node("/wiped", TroubleForeign)},
		Index: &Index{Resources: map[string]IndexEntry{
			"mutex.closed": entry("/closed"), "mutex.there": entry("/there"), "mutex.wiped": entry("/wiped"), "mutex.gone": entry("/gone"),
			"mutex.there" + standsAt + "/other":   entry("/other"),
			"mutex.there" + movedFrom + "/before": entry("/before"),
			"namespace.noted":                     {Path: "/noted", Type: "namespace", Quota: 3},
		}},
	}
	require.Equal(t, []Gap{
		{Path: "/closed", Addr: "mutex.closed", Type: "mutex", Trouble: TroubleUnreadable, Detail: "detail"},
		{Path: "/gone", Addr: "mutex.gone", Type: "mutex"},
		{Path: "/new", Trouble: TroubleNewer, Detail: "detail"},
		{Path: "/other", Addr: "mutex.there", Type: "mutex"},
		{Path: "/wiped", Addr: "mutex.wiped", Type: "mutex"},
	}, tree.Gaps())
}
