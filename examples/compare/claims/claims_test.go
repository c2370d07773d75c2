//go:build linux

package claims

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/examples/compare/server"
)

// Who watches the parent is woken by every release, all of them; who watches the one before him is not.
func TestAReleaseWakesOneWaiterOrTheHerd(t *testing.T) {
	scope := &server.Scope{}
	defer scope.Close()
	up, err := server.Start(scope, "zookeeper", server.Options{})
	require.NoError(t, err)
	all := Herd(t.Context(), up, []int{10, 40}, t.Logf)
	t.Log("\n" + herdTable(all))
	require.Len(t, all, 6)
	for _, r := range all {
		require.Empty(t, r.Missing, r)
		switch r.System {
		case "all watch the parent":
			require.GreaterOrEqual(t, r.Events, int64(r.Waiters))
		case "go-zookeeper":
			require.EqualValues(t, 1, r.Events)
		default:
			require.LessOrEqual(t, r.Events, int64(4), "the one before the next is gone; the own node of who left; the next holds, as it and who waits for it learn")
		}
	}
}
