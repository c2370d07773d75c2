package kind_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
)

func TestUsageOfAFamilySaysWhatWasLookedAt(t *testing.T) {
	holder := kind.Party{ID: "host/1", Session: 1, Key: "a%2Fb"}
	other := holder
	other.Key = "c"
	for _, c := range []struct {
		use  kind.Usage
		says string
		list []string
	}{
		{kind.Usage{Keys: kind.Keys{Nodes: 3, Looked: 3}}, "nobody", nil}, // what a crash left
		{kind.Usage{Keys: kind.Keys{Nodes: 3, Looked: 3, Used: 2}, Holders: []kind.Party{holder, other}}, "2 keys in use: 2 holders (host/1, host/1)",
			[]string{`key "a/b" held by host/1, connection not asked`, `key "c" held by host/1, connection not asked`}},
		{kind.Usage{Keys: kind.Keys{Nodes: 12, Looked: 3, Used: 1}, Holders: []kind.Party{holder}}, "12 keys, of which 3 were looked at (1 in use): 1 holder (host/1)",
			[]string{`key "a/b" held by host/1, connection not asked`, "9 more keys, which were not looked at"}},
		{kind.Usage{Keys: kind.Keys{Nodes: 12}}, "12 keys, of which 0 were looked at (0 in use)", []string{"12 more keys, which were not looked at"}},
	} {
		require.Equal(t, c.says, c.use.String())
		require.Equal(t, c.list, c.use.List())
		require.Equal(t, c.says != "nobody", c.use.Busy())
	}
}
