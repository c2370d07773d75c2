//go:build linux

package examples_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// The test types the commands of the quick start into a shell in an empty directory. The text block after a command shows its output: "..."
// is any text, and alone on a line it is any lines.
func TestTheQuickStartWithKerberos(t *testing.T) {
	t.Parallel()
	_, section, ok := strings.Cut(contents(t, "kerberos/README.md"), "\n## Quick start with Kerberos\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```(sh|text)\n(.*?)```").FindAllStringSubmatch(section, -1)
	require.Greater(t, len(blocks), 6)
	ports := realzk.FreePorts(t, 2)
	sh := newShell(t, t.TempDir(), append(os.Environ(), "ZOOKEEPER_SESSION=40", fmt.Sprintf("KDC_PORT=%d", ports[0]), fmt.Sprintf("ZK_PORT=%d", ports[1])))
	out := ""
	for _, b := range blocks {
		if b[1] == "text" {
			require.Regexp(t, pattern(b[2]), strings.TrimSpace(out)+"\n")
			continue
		}
		var code int
		out, code = sh.run(strings.TrimSuffix(b[2], "\n"))
		require.Zero(t, code, "%s\n%s", b[2], out)
	}
}
