package examples_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGeneratedCodeIsUpToDate(t *testing.T) {
	for _, dir := range []string{"quickstart", "recipes", "redpacket", "monitoring"} {
		out, code := locktree(t, nil, dir, "generate", "go", "-check", "-out=locks/locks.go")
		require.Zero(t, code, "go generate ./examples/...: %s", out)
	}
}

// When a lock is renamed in the configuration, its programs do not compile. With a moved block they compile, and the old handle is
// deprecated.
func TestRenamingALockBreaksTheBuildOfItsPrograms(t *testing.T) {
	text := contents(t, "quickstart/locks.locktree.hcl")
	renamed := strings.Replace(text, `mutex "ledger"`, `mutex "books"`, 1)
	renamed = strings.Replace(renamed, "mutex.ledger", "mutex.books", 1)
	require.NotEqual(t, text, renamed)
	build := func(config string) (string, error) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "locks.locktree.hcl"), config)
		out, code := locktree(t, nil, dir, "generate", "go", "-out=locks/locks.go")
		require.Zero(t, code, out)
		source := filepath.Join(dir, "locks", "locks.go")
		file, err := filepath.Abs("quickstart/locks/locks.go")
		require.NoError(t, err)
		overlay := filepath.Join(dir, "overlay.json")
		write(t, overlay, `{"Replace": {"`+file+`": "`+source+`"}}`)
		built, err := exec.Command("go", "build", "-overlay", overlay, "-o", filepath.Join(dir, "program"), "./quickstart").CombinedOutput()
		return string(built) + contents(t, source), err
	}
	out, err := build(text)
	require.NoError(t, err, out)
	out, err = build(renamed)
	require.Error(t, err)
	require.Contains(t, out, "Ledger undefined")
	out, err = build(renamed + "moved {\n  from = namespace.payments.mutex.ledger\n  to   = namespace.payments.mutex.books\n}\n")
	require.NoError(t, err, out)
	require.Contains(t, out, "// Deprecated: it is namespace.payments.mutex.books now, Payments.Books.")
}
