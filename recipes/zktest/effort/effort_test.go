package effort_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A build constraint, a skip, or a mark where .ci/tests does not look for it can hide a test from both runs. A test of the waiters' memory
// asked not to be built with the race detector, but its package was tested only with the race detector.
func TestEveryTestRunsInOneOfTheRuns(t *testing.T) {
	function, skip := regexp.MustCompile(`^func (\w+)`), regexp.MustCompile(`\b(t|tb|b)\.Skip(f|Now)?\(`)
	root := filepath.Join("..", "..", "..")
	require.FileExists(t, filepath.Join(root, ".ci", "tests"))
	marks := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || filepath.Base(filepath.Dir(path)) == "effort" {
			return err
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		if !strings.HasSuffix(path, "_test.go") {
			require.NotContains(t, string(text), `/zktest/effort"`, "%s: .ci/tests looks for marks in tests only", path)
			return nil
		}
		in := ""
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\n")
			if m := function.FindStringSubmatch(line); m != nil {
				in = m[1]
			} else if strings.HasPrefix(line, "func ") {
				in = line
			}
			if constraint, ok := strings.CutPrefix(line, "//go:build "); ok {
				require.Contains(t, []string{"linux", "unix"}, constraint, path)
			}
			if m := skip.FindStringSubmatch(line); m != nil { // a benchmark, which is in neither run, may skip itself
				require.Equal(t, "b", m[1], "%s: %s skips itself: say with package effort where it runs", path, in)
			}
			if strings.Contains(line, "effort.") {
				require.True(t, strings.HasPrefix(in, "Test"), "%s: .ci/tests looks for calls of package effort in tests, and finds one in %s", path, in)
				marks++
			}
		}
		return nil
	}))
	require.Greater(t, marks, 30)
}
