package view

import (
	"encoding/json"
	"testing"

	"github.com/locktree/locktree/recipes"
	"github.com/stretchr/testify/require"
)

func TestCheckup(t *testing.T) {
	holds := recipes.Condition{Name: "clock", What: "deadlines follow the monotonic clock", Why: "a lease must end in time"}
	unsure := recipes.Condition{Name: "server version", Verdict: recipes.Unsure, What: "it is 3.8.0", Why: "releases before 3.9.4 can lose committed writes", Next: "plan an upgrade"}
	fails := recipes.Condition{Name: "access /locks/a\x1b[31m", Verdict: recipes.Fails, What: "recipes: node does not exist", Why: "contenders are created in the lock node", Next: "run apply"}
	c := Checkup{Ensembles: []CheckupOf{
		{Ensemble: "main", Root: "/locks", Checked: 2, Locks: []recipes.Condition{fails}, Cut: true,
			Servers: []CheckupServer{{"zk1:2181", []recipes.Condition{holds, unsure}}, {"zk2:2181", []recipes.Condition{holds}}}},
		{Ensemble: "spare", Root: "/"},
	}}
	v, out, _ := capture(nil)
	v.Checkup(c)
	golden(t, "checkup.txt", out.String())
	require.NotContains(t, out.String(), "\x1b", "what servers say is shown safely")
	out.Reset()
	NewDocuments(out, Stream{}, "1.2.3").Checkup(c)
	golden(t, "checkup.json", out.String())
	require.True(t, json.Valid(out.Bytes()))
}
