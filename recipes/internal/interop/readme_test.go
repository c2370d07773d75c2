//go:build linux

package interop_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInteropReadmeShowsTheMatrix keeps testdata/interop/README.md telling what the tests prove. With
// INTEROP_README=write it writes the tables instead.
func TestInteropReadmeShowsTheMatrix(t *testing.T) {
	interopReadme(t, func(text string) string {
		for _, g := range grids {
			g.check(t)
			text = inBlock(t, text, g.recipe, g.markdown())
		}
		return text
	})
}

// The page for Python teams shows classes that the tests use.
func TestImportShowsTheClassesThatAreTested(t *testing.T) {
	python, err := os.ReadFile("../../../testdata/interop/python/curator_locks.py")
	require.NoError(t, err)
	page, err := os.ReadFile("../../../docs/import.md")
	require.NoError(t, err)
	shown := 0
	for class := range strings.SplitSeq(string(page), "```python\n") {
		if code, _, ok := strings.Cut(class, "```"); ok && strings.HasPrefix(code, "class ") {
			shown++
			for line := range strings.Lines(code) {
				require.Contains(t, string(python), line, "the classes shown are not the classes tested")
			}
		}
	}
	require.Equal(t, 3, shown)
}

// interopReadme compares the page with what it should be, or writes it.
func interopReadme(t *testing.T, should func(string) string) {
	const name = interop + "/README.md"
	file, err := os.ReadFile(name)
	require.NoError(t, err)
	text := should(string(file))
	if os.Getenv("INTEROP_README") == "write" {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
		return
	}
	require.Equal(t, text, string(file), "run this test with INTEROP_README=write")
}

// inBlock puts a table into its place in a page.
func inBlock(t *testing.T, text, block, table string) string {
	before, rest, found := strings.Cut(text, fmt.Sprintf("<!-- %s -->\n", block))
	_, after, closed := strings.Cut(rest, fmt.Sprintf("<!-- end of %s -->", block))
	require.True(t, found && closed, "the page has no place for the table of %s", block)
	return before + fmt.Sprintf("<!-- %s -->\n", block) + table + fmt.Sprintf("<!-- end of %s -->", block) + after
}

// markdown draws the grid: rows hold, columns wait.
func (g grid) markdown() string {
	var b strings.Builder
	b.WriteString("| holder ↓ waiter → |")
	for _, p := range g.parties {
		b.WriteString(" " + p.name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(g.parties)) + "\n")
	for i, holder := range g.parties {
		b.WriteString("| **" + holder.name + "** |")
		for j := range g.parties {
			b.WriteString(" " + map[verdict]string{blocks: "blocks", shares: "shares", ignores: "✗ ignores", untried: "–"}[g.verdict(i, j)] + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}
