package zktest

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

func TestConformancePageNamesExistingTests(t *testing.T) {
	page, err := os.ReadFile("CONFORMANCE.md")
	require.NoError(t, err)
	defined := map[string]bool{}
	faults := map[string]bool{}
	define := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	fault := regexp.MustCompile(`(?m)^\t(\w+) += Fault\{|^func (\w+)\(.*\) Fault|^func \((?:s \*Server|r \*Replica)\) (Inject\w+|Expire|Disconnect|Partition|Heal|Freeze|Thaw|RefuseDials|SwapSessionID|SetReadOnly|Lag|CutOff|CatchUp|SetCreateCount)\(`)
	require.NoError(t, fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range define.FindAllStringSubmatch(string(text), -1) {
			defined[m[1]] = true
		}
		if !strings.Contains(path, "/") && !strings.HasSuffix(path, "_test.go") {
			for _, m := range fault.FindAllStringSubmatch(string(text), -1) {
				faults[m[1]+m[2]+m[3]] = true
			}
		}
		return err
	}))
	for _, name := range regexp.MustCompile(`\b(?:Test|Fuzz)\w+`).FindAllString(string(page), -1) {
		require.True(t, defined[name], "CONFORMANCE.md names %s, which is no test of this package", name)
	}
	require.Greater(t, len(faults), 20, "the faults of the package were not found")
	for name := range faults {
		require.True(t, name == "Inject" || strings.Contains(string(page), "| "+name+" |"), "CONFORMANCE.md has no row for the fault %s", name)
	}
	for op, name := range wire.OpNames {
		if op != wire.OpSASL && op != wire.OpDeleteContainer { // not for clients
			require.Contains(t, string(page), "| "+name+" |", "CONFORMANCE.md has no row for the operation %s", name)
		}
	}
}
