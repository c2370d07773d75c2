package diff_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// The lists of the locks are in order, and yet somebody can delete them: DELETE is a
// right of the parent.
func TestOthersWhoMayDeleteInTheRootAreNamed(t *testing.T) {
	world := func(p kind.Perm) kind.ACL { return kind.ACL{Scheme: "world", ID: "anyone", Perms: p} }
	mate := kind.ACL{Scheme: "digest", ID: "mate:CCCCCCCCCCCCCCCCCCCCCCCCCCC=", Perms: kind.PermAll}
	index, lock := record.IndexPath(testRoot, testStack), record.LockPath(testRoot, testStack)
	for name, c := range map[string]struct {
		path string
		acl  kind.List
		who  []plan.Identity
		says string // "" for no warning
	}{
		"ours alone":                       {testRoot, kind.List{admin}, us, ""},
		"everybody may read":               {testRoot, kind.List{admin, world(kind.PermRead)}, us, ""},
		"everybody":                        {testRoot, kind.WorldAll(), us, "/locks grants world:anyone:cdrwa"},
		"everybody may make itself admin":  {testRoot, kind.List{admin, world(kind.PermAdmin)}, us, "world:anyone:a"},
		"every address":                    {testRoot, kind.List{admin, {Scheme: "ip", ID: "0.0.0.0/0", Perms: kind.PermDelete}}, us, "ip:0.0.0.0/0:d"},
		"a program":                        {testRoot, kind.List{admin, worker}, us, "digest:worker:cdr"},
		"a program, in two entries":        {testRoot, kind.List{admin, {Scheme: "ip", ID: "10.0.0.1", Perms: kind.PermRead}, {Scheme: "ip", ID: "10.0.0.1", Perms: kind.PermCreate}}, us, "ip:10.0.0.1"},
		"another administrator":            {testRoot, kind.List{admin, mate}, us, ""},
		"the connection's own":             {testRoot, kind.List{{Scheme: "auth", Perms: kind.PermAll}}, us, ""},
		"we are nobody in particular":      {testRoot, kind.WorldAll(), us[:1], ""},
		"nobody is connected":              {testRoot, kind.WorldAll(), nil, ""},
		"the apply lock":                   {lock, kind.List{admin, worker}, us, lock + " grants digest:worker"},
		"who may write the record":         {index, kind.List{admin, {Scheme: "ip", ID: "10.0.0.1", Perms: kind.PermWrite}}, us, index + " grants ip:10.0.0.1:w"},
		"writing the root means nothing":   {testRoot, kind.List{admin, {Scheme: "ip", ID: "10.0.0.1", Perms: kind.PermWrite}}, us, ""},
		"where the records are, everybody": {kind.ParentPath(index), kind.WorldAll(), us, kind.ParentPath(index) + " grants world"},
	} {
		t.Run(name, func(t *testing.T) {
			m := applied(t, base())
			current := m.read(t, testRoot, testStack)
			current.Frame = []plan.Framed{{Path: c.path, ACL: c.acl}}
			p := diff.Compare(current, base(), plan.Options{Identities: c.who})
			require.False(t, p.HasChanges(), "a warning is no change")
			if c.says == "" {
				for _, q := range p.Problems {
					require.NotEqual(t, problem.Open, q.Code, q.Detail)
				}
				return
			}
			require.Equal(t, problem.Open, p.Problems[0].Code)
			require.Equal(t, problem.Warning, p.Problems[0].Severity)
			require.Contains(t, p.Problems[0].Detail, c.says)
			require.NotContains(t, p.Problems[0].Detail, "BBBB", "digests are not shown")
		})
	}
}

// A plan of one lock forgets nothing about the others: what somebody did to them is
// still told by the next plan.
func TestTargetedApplyDoesNotForgetTheDriftOfOthers(t *testing.T) {
	m := applied(t, base())
	drift := func() (paths []string) {
		for _, d := range replan(t, m, base()).Drifted {
			paths = append(paths, d.Path)
		}
		return paths
	}
	payload := payloadAt(t, m, "/locks/solo")
	payload.Protect = true
	m.nodes["/locks/solo"].data, _ = payload.Encode()
	m.nodes["/locks/solo"].version++
	want := []string{"/locks/solo"}
	require.Equal(t, want, drift())

	tree := base()
	set("permits", 7)(tree.Nodes[2])
	p := diff.Compare(m.read(t, testRoot, testStack), tree, plan.Options{Identities: us, Targets: []string{string(tree.Nodes[2].Addr)}})
	require.Equal(t, []string{"~ /locks/pay/pool"}, actions(p))
	m.apply(t, p)
	require.Equal(t, want, drift(), "and what was applied is no drift")

	m.apply(t, replan(t, m, tree))
	require.Empty(t, drift())
}
