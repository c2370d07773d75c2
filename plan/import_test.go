package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
