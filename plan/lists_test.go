package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
)

// A copy of a record on other servers, which count as these do, or one put back where it was.
func TestAnIndexKnowsListsAtOneVersionOfOneNode(t *testing.T) {
	at := plan.Stamp{Czxid: 1<<32 + 7, Ctime: 1_700_000_000_000, Version: 3}
	text, err := (&plan.Index{Apply: "a", Lists: &plan.Lists{At: at, Of: []plan.Creation{{Czxid: 1<<32 + 9, Aversion: 2}, {Czxid: 1<<32 + 8}}}}).Encode()
	require.NoError(t, err)
	node := &plan.Node{Live: &plan.Live{Czxid: 1<<32 + 8}}
	for name, c := range map[string]struct {
		at    func(*plan.Stamp)
		node  plan.Live
		knows bool
	}{
		"as written":              {func(*plan.Stamp) {}, *node.Live, true},
		"made anew":               {func(s *plan.Stamp) { s.Czxid++ }, *node.Live, false},
		"copied to other servers": {func(s *plan.Stamp) { s.Ctime++ }, *node.Live, false},
		"written since":           {func(s *plan.Stamp) { s.Version++ }, *node.Live, false},
		"list set since":          {func(*plan.Stamp) {}, plan.Live{Czxid: 1<<32 + 8, Aversion: 1}, false},
		"another transaction":     {func(*plan.Stamp) {}, plan.Live{Czxid: 1<<32 + 7}, false},
		"list set by an apply":    {func(*plan.Stamp) {}, plan.Live{Czxid: 1<<32 + 9, Aversion: 2}, true},
		"and set back":            {func(*plan.Stamp) {}, plan.Live{Czxid: 1<<32 + 9, Aversion: 3}, false},
	} {
		x, err := plan.DecodeIndex(text)
		require.NoError(t, err)
		found := at
		c.at(&found)
		x.Found(found)
		require.Equal(t, c.knows, x.Knows(&plan.Node{Live: &c.node}), name)
	}
	require.False(t, (*plan.Index)(nil).Knows(node))
}

// What is stored is as long as was said before it was known.
func TestTheSizeOfListsIsKnownBeforeTheyAre(t *testing.T) {
	zero, err := json.Marshal(plan.Lists{Of: make([]plan.Creation, 100)})
	require.NoError(t, err)
	large := plan.Lists{At: plan.Stamp{Czxid: -1, Ctime: 1 << 62, Version: -1}, Of: make([]plan.Creation, 100)}
	large.Of[99] = plan.Creation{Czxid: 1 << 62, Aversion: 1 << 31}
	text, err := json.Marshal(large)
	require.NoError(t, err)
	require.Len(t, text, len(zero))
	var back plan.Lists
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, large, back)
	for _, bad := range []string{`""`, `"AAAA"`, `7`, `"="`} {
		require.Error(t, json.Unmarshal([]byte(bad), &back), bad)
	}
}
