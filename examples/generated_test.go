package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The generated files of the examples are what their configurations give today.
func TestGeneratedCodeIsUpToDate(t *testing.T) {
	for _, dir := range []string{"quickstart", "recipes", "redpacket", "monitoring"} {
		out, code := locktree(t, nil, dir, "generate", "go", "-check", "-out=locks/locks.go")
		require.Zero(t, code, "go generate ./examples/...: %s", out)
	}
}

// A lock that has another name in the configuration is one that the programs do not find: they do not compile. With a moved block
// they do, and what they use is deprecated.
func TestRenamingALockBreaksTheBuildOfItsPrograms(t *testing.T) {
	text, err := os.ReadFile("quickstart/locks.locktree.hcl")
	require.NoError(t, err)
	renamed := strings.Replace(string(text), `mutex "ledger"`, `mutex "books"`, 1)
	renamed = strings.Replace(renamed, "mutex.ledger", "mutex.books", 1)
	require.NotEqual(t, string(text), renamed)
	build := func(config string) (string, error) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "locks.locktree.hcl"), []byte(config), 0o666))
		out, code := locktree(t, nil, dir, "generate", "go", "-out=locks/locks.go")
		require.Zero(t, code, out)
		source, err := os.ReadFile(filepath.Join(dir, "locks", "locks.go"))
		require.NoError(t, err)
		file, err := filepath.Abs("quickstart/locks/locks.go")
		require.NoError(t, err)
		overlay := filepath.Join(dir, "overlay.json")
		require.NoError(t, os.WriteFile(overlay, []byte(`{"Replace": {"`+file+`": "`+filepath.Join(dir, "locks", "locks.go")+`"}}`), 0o666))
		built, err := exec.Command("go", "build", "-overlay", overlay, "-o", filepath.Join(dir, "program"), "./quickstart").CombinedOutput()
		return string(built) + string(source), err
	}
	out, err := build(string(text))
	require.NoError(t, err, out)
	out, err = build(renamed)
	require.Error(t, err)
	require.Contains(t, out, "Ledger undefined")
	out, err = build(renamed + "moved {\n  from = namespace.payments.mutex.ledger\n  to   = namespace.payments.mutex.books\n}\n")
	require.NoError(t, err, out)
	require.Contains(t, out, "// Deprecated: it is namespace.payments.mutex.books now, Payments.Books.")
}
