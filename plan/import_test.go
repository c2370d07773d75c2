package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
)

// Nobody can remove a block that is not there.
func TestImportByCommandSpeaksOfNoBlock(t *testing.T) {
	for _, byCommand := range []bool{true, false} {
		tree := base()
		tree.Intent = Intent{Imports: []Import{{To: "namespace.x.election.locks_solo", Path: "/elsewhere", Target: "/locks/solo", ByCommand: byCommand}}}
		gone := Diff(nil, tree, Options{Identities: us})
		session := Diff(&Tree{Nodes: []*Node{{Path: "/elsewhere", Live: &Live{Ephemeral: true}}}}, tree, Options{Identities: us})
		for _, p := range []*Plan{gone, session} {
			refused(t, p, "error import")
			require.Equal(t, !byCommand, strings.Contains(p.Problems[0].Detail, "import block"), p.Problems[0].Detail)
			require.Contains(t, p.Problems[0].Detail, "Correct the path")
		}
	}
}

// The replacement an import takes was refused as in use, whatever was to be broken.
func TestImportOfALockThatWasLetGoIsBrokenByForce(t *testing.T) {
	m := applied(t, base())
	rest := declared(base().Nodes[:3]...)
	m.apply(t, replanIntent(t, m, rest, Intent{Removals: []Removal{{From: "namespace.x.election.locks_solo"}}}))
	tree := base()
	tree.Nodes[3] = declare("/locks/solo", kind.Mutex)
	tree.Intent.Imports = []Import{{To: tree.Nodes[3].Addr, Path: "/locks/solo", Target: "/locks/solo"}}
	live := m.read(t, testRoot, testStack)
	live.Find("/locks/solo").Live.Usage = &Usage{Holders: []Holder{{Name: "latch-0000000001", ID: "host-a"}}}
	p := Diff(live, tree, Options{Identities: us, ForceBreak: []string{tree.Nodes[3].Addr}})
	require.Equal(t, []string{"-/+ /locks/solo"}, actions(p))
	require.Equal(t, []string{"warning force_break"}, codes(p))
	require.True(t, decoded(t, p).Changes[3].Break)
}
