package generate_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config/generate"
)

// What odd names become is in testdata/odd.
func TestOddNames(t *testing.T) {
	code, diags := generate.Load("testdata/odd", "")
	require.False(t, diags.HasErrors(), "%v", diags)
	source := goSource(t, code)
	require.NoError(t, checker(t)(source))
	require.NotContains(t, source, "swordfish")
	const file = "testdata/odd.go.golden"
	if os.Getenv("GOLDEN") != "" {
		require.NoError(t, os.WriteFile(file, []byte(source), 0o666))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), source, "make golden rewrites it")
}

func generated(t *testing.T, blocks string) string {
	dir := t.TempDir()
	write(t, dir, map[string]string{"x.locktree.hcl": preamble + blocks})
	code, diags := generate.Load(dir, "")
	require.False(t, diags.HasErrors(), "%v", diags)
	return goSource(t, code)
}

// Were A-B the first one's name and AB the second one's, a program would compile after the first one was renamed, and lock the second.
func TestANewLockTakesNobodysName(t *testing.T) {
	alone := generated(t, `mutex "a_b" {}`)
	require.Contains(t, alone, ") AB(")
	both := generated(t, `mutex "a_b" {}`+"\n"+`mutex "a-b" {}`)
	require.NotContains(t, both, ") AB(")
	require.Contains(t, both, ") Mutex_a_5f_b(")
	require.Contains(t, both, ") Mutex_a_2d_b(")
}

// A change elsewhere adds lines, and changes none.
func TestCodeIsStableUnderUnrelatedChanges(t *testing.T) {
	before := generated(t, "namespace \"a\" {\n  mutex \"m\" {}\n}\n")
	after := generated(t, "rwlock \"z\" {}\nnamespace \"b\" {\n  election \"e\" {}\n}\nnamespace \"a\" {\n  mutex \"m\" {}\n  semaphore \"s\" { permits = 1 }\n}\n")
	rest := after
	for line := range strings.Lines(before) {
		_, behind, found := strings.Cut(rest, strings.Join(strings.Fields(line), " "))
		if !found {
			_, behind, found = strings.Cut(rest, line)
		}
		require.True(t, found, "%q changed, or its place:\n%s", line, after)
		rest = behind
	}
}
