package help

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
)

// Every exit code of the program stands in the help, each constant once.
func TestHelpNamesEveryExitCode(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../exit/exit.go", nil, 0)
	require.NoError(t, err)
	constants := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if _, ok := n.(*ast.ValueSpec); ok {
			constants++
		}
		return true
	})
	codes := []int{exit.OK, exit.Failed, exit.Changes, exit.FmtRead, exit.FmtDiff, exit.Stale, exit.Locked, exit.InUse,
		exit.Slot, exit.Lost, exit.Conflict, exit.Own, exit.CannotRun, exit.NotFound}
	require.Len(t, codes, constants, "a constant of package exit is missing in this test")
	text, err := texts.ReadFile("topics/exit-codes.txt")
	require.NoError(t, err)
	var named []int
	for _, m := range regexp.MustCompile(`(?m)^  (\d+) +\S`).FindAllStringSubmatch(string(text), -1) {
		code, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		named = append(named, code)
	}
	require.Equal(t, codes, named)
}

// Every runbook has its text, and every text is a topic.
func TestRunbooksAreThere(t *testing.T) {
	runbooks, err := texts.ReadFile("topics/runbooks.txt")
	require.NoError(t, err)
	known := map[string]bool{}
	for _, c := range Topics() {
		require.NotEmpty(t, c.Long, c.Use)
		if what, is := strings.CutPrefix(c.Short, "Runbook: "); is {
			require.Regexp(t, `(?m)^  `+c.Use+` +`+what+`$`, string(runbooks))
		}
		known[c.Use] = true
	}
	files, err := texts.ReadDir("topics")
	require.NoError(t, err)
	for _, f := range files {
		require.True(t, known[strings.TrimSuffix(f.Name(), ".txt")], f.Name())
	}
}
