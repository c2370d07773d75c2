package wire_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// TestNumbersAreTheSame compares the constants that both packages declare under one name.
func TestNumbersAreTheSame(t *testing.T) {
	theirs, ours := numbers(t, "../../../internal/session/wire"), numbers(t, ".")
	same := 0
	for name, value := range ours {
		if of, ok := theirs[name]; ok {
			same++
			require.Equal(t, of, value, name)
		}
	}
	require.Greater(t, same, 50)
}

// numbers are the constants of a package whose value is a literal.
func numbers(t *testing.T, dir string) map[string]string {
	out := map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		f, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				return true
			}
			sign := ""
			x := v.Values[0]
			if u, ok := x.(*ast.UnaryExpr); ok {
				sign, x = u.Op.String(), u.X
			}
			if lit, ok := x.(*ast.BasicLit); ok {
				out[v.Names[0].Name] = sign + lit.Value
			}
			return true
		})
	}
	return out
}

// FuzzDecodeRequest checks that decoding a frame does not panic, and allocates in proportion to its length.
func FuzzDecodeRequest(f *testing.F) {
	for op := range wire.OpNames {
		for _, body := range []string{"", "\x00\x00\x00\x02/a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", strings.Repeat("\xff", 40)} {
			e := wire.NewEncoder()
			e.Int32(1)
			e.Int32(op)
			f.Add(append(e.Frame()[4:], body...))
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := wire.DecodeRequest(frame)
		_, _ = wire.DecodeConnect(frame)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64*len(frame)+1<<20))
		if err == nil {
			r.Paths()
		}
	})
}
