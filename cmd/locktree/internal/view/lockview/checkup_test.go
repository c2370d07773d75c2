package lockview_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/checkup"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/recipes/inspect/check"
)

func TestCheckup(t *testing.T) {
	holds := check.Condition{Name: "clock", What: "deadlines follow the monotonic clock", Why: "a lease must end in time"}
	unsure := check.Condition{Name: "server version", Verdict: check.Unsure, What: "it is 3.8.0", Why: "releases before 3.9.4 can lose committed writes", Next: "plan an upgrade"}
	fails := check.Condition{Name: "access /locks/a\x1b[31m", Verdict: check.Fails, What: "recipes: node does not exist", Why: "contenders are created in the lock node", Next: "run apply"}
	c := lockview.Checkup{
		{Ensemble: "main", Root: "/locks", Report: checkup.Report{Checked: 2, Locks: []check.Condition{fails}, Cut: true},
			Together: []check.Condition{holds}, Servers: []lockview.CheckupServer{{"zk1:2181", []check.Condition{holds, unsure}}, {"zk2:2181", []check.Condition{holds}}}},
		{Ensemble: "spare", Root: "/"},
	}
	golden(t, "checkup.txt", text(c))
	require.NotContains(t, text(c), "\x1b", "what servers say is shown safely")
	golden(t, "checkup.json", document(t, c))
}
