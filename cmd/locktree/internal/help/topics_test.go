package help

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
	require.Len(t, exitCodes, constants, "a constant of package exit is missing in topics.go, or too much")
}

// Every runbook has its text, and every text is a topic.
func TestRunbooksAreThere(t *testing.T) {
	known := map[string]bool{}
	for _, c := range Topics() {
		require.NotEmpty(t, c.Long, c.Use)
		known[c.Use] = true
	}
	files, err := texts.ReadDir("topics")
	require.NoError(t, err)
	for _, f := range files {
		require.True(t, known[strings.TrimSuffix(f.Name(), ".txt")], f.Name())
	}
}
