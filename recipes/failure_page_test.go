package recipes_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFailureCasesNameTests holds testdata/failure-cases.md: complete, and no test in it that does not exist.
func TestFailureCasesNameTests(t *testing.T) {
	page, err := os.ReadFile("testdata/failure-cases.md")
	require.NoError(t, err)
	exist := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(source), -1) {
			exist[strings.TrimPrefix(filepath.Base(filepath.Dir(path))+"."+m[1], "..")] = true // those of this directory bear no name of it
		}
		return err
	}))
	name := regexp.MustCompile(`(?:\w+\.)?\bTest\w+`)
	for _, n := range name.FindAllString(strings.ReplaceAll(string(page), "`TestFailureCases", "`"), -1) {
		require.True(t, exist[n] || n == "directory.Test", "%s is on the page, and nowhere else", n)
	}
	cases, rows, ok := strings.Cut(string(page), "## The failure matrix")
	require.True(t, ok)
	listed := func(table string) (numbers []int) {
		for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \|[^|]+\|([^|]+)\|`).FindAllStringSubmatch(table, -1) {
			require.NotEmpty(t, name.FindString(m[2]), "no test for %s", m[1])
			n, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			numbers = append(numbers, n)
		}
		return numbers
	}
	var want []int
	for n := 1; n <= 59; n++ {
		want = append(want, n)
	}
	require.Equal(t, want, listed(cases))
	require.Equal(t, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 19, 20, 21, 22, 23, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54}, listed(rows))
}

// TestProofsAreWhereThePageSays holds the table of docs/safety.md: each link leads to a file that declares what it names, with a comment.
func TestProofsAreWhereThePageSays(t *testing.T) {
	page, err := os.ReadFile("../docs/safety.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(page), "## Where the proofs are")
	require.True(t, ok)
	links := regexp.MustCompile(`\[(?:(\w+)\.)?(\w+)\]\(\.\./recipes/([^)]+)\)`).FindAllStringSubmatch(table, -1)
	require.Len(t, links, strings.Count(table, "]("))
	for _, link := range links {
		of, name, file := link[1], link[2], link[3]
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		proven := false
		for _, d := range source.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				receiver := ""
				if d.Recv != nil {
					ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
						if id, ok := n.(*ast.Ident); ok && receiver == "" {
							receiver = id.Name
						}
						return true
					})
				}
				proven = proven || d.Name.Name == name && receiver == of && d.Doc != nil
			case *ast.GenDecl:
				for _, s := range d.Specs {
					named, ok := s.(*ast.TypeSpec)
					proven = proven || ok && named.Name.Name == name && of == "" && d.Doc != nil
				}
			}
		}
		require.True(t, proven, "%s has no declaration of %s with a comment", file, strings.TrimPrefix(of+"."+name, "."))
	}
}
