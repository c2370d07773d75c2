package recipes_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
)

// The second call would find the node gone that the first one exchanges.
func TestALeaseIsDowngradedOnce(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").RWMutex(l.RWLock())
		x := l.Lock(m.Lock)
		first := async(func() (*recipes.Lease, error) { return m.Downgrade(t.Context(), x) })
		synctest.Wait()
		_, err := m.Downgrade(t.Context(), x)
		require.ErrorContains(t, err, "recipes: /rw is being exchanged by another call of Downgrade")
		r := l.Got(first)
		require.NoError(t, r.Verify(t.Context()))
		l.Unlock(r)
	})
}

// A struct that knows everything has states that nobody has named.
func TestNoStructHasMoreThanFifteenFields(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(syntax, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok {
				if fields, ok := s.Type.(*ast.StructType); ok {
					require.LessOrEqual(t, fields.Fields.NumFields(), 15, "%s in %s", s.Name, file)
				}
			}
			return true
		})
	}
}
