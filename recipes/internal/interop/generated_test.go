//go:build linux

package interop_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/config/generate"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

const generatedFrom = `
locktree { stack = "shop" }
variable "root" {}
ensemble "main" { root = var.root }
namespace "shop" {
  mutex "ledger" {
    description = "Ends no comment: */ \"\"\" \\u002a/"
  }
  rwlock "catalog" {}
  semaphore "pool" {
    for_each = toset(["a", "b"])
    permits  = 2
  }
  election "boss" {}
  mutex "named" {
    for_each = toset(["a", "b"])
    name     = upper(each.key)
  }
  keyed "order" { kind = "mutex" }
  keyed "wide" {
    for_each = toset(["a"])
    kind     = "rwlock"
    fanout   = 16
  }
  keyed "wider" {
    kind    = "semaphore"
    permits = 2
    fanout  = 256
  }
  mutex "kazoo" { wire = "kazoo" }
  rwlock "kazoo-rw" { wire = "kazoo" }
  election "kazoo-boss" { wire = "kazoo" }
}
`

// The classes that are generated for Java and Python compile, and take the locks that are declared: while a Go program holds them
// they get none, and then all. Of families they know where the lock of each key is.
func TestInteropGeneratedCode(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	dir := t.TempDir()
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, text, 0o666))
		return path
	}
	file("shop.locktree.hcl", []byte(generatedFrom))
	code, diags := config.LoadCode(dir, config.Options{})
	require.False(t, diags.HasErrors(), "%v", diags)
	e := code.Ensembles[0]
	java := file("Locks.java", generate.Java(code, e, "", "Locks"))
	file("locks.py", generate.Python(code, e))
	classes, err := compileJava(t.TempDir(), java, filepath.Join(interop, "generated", "Names.java"))
	require.NoError(t, err)

	l := bareLab(t, "*")
	const root = "/generated"
	l.create(t, root, nil)
	for _, n := range e.Nodes {
		data, err := n.Payload.Encode()
		require.NoError(t, err)
		l.create(t, root+n.Path, data)
		for _, child := range n.Payload.Children() {
			l.create(t, kind.JoinPath(root+n.Path, child), nil)
		}
	}
	vectors, err := filepath.Abs(interop + "/keys.tsv")
	require.NoError(t, err)
	names := func(name string, args ...string) []string {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, name, append(args, vectors, l.zk.Addr, root+"/", "a,b")...)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "PYTHONDONTWRITEBYTECODE=1")
		out, err := cmd.Output()
		require.NoError(t, err, "%s", out)
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	want := map[string][]string{
		"java":   {"shopBossElection", "shopCatalogRwlock", "shopLedgerMutex", "shopNamedMutex a", "shopNamedMutex b", "shopPoolSemaphore a", "shopPoolSemaphore b"},
		"python": {"shop_boss_election", "shop_catalog_rwlock_read", "shop_catalog_rwlock_write", "shop_kazoo_boss_election", "shop_kazoo_mutex", "shop_kazoo_rw_rwlock_read", "shop_kazoo_rw_rwlock_write", "shop_ledger_mutex", "shop_named_mutex a", "shop_named_mutex b"},
	}
	both := func(verdict string) {
		for lang, locks := range want {
			var lines []string
			for _, lock := range locks {
				lines = append(lines, verdict+" "+lock)
			}
			var got []string
			if lang == "java" {
				got = names("java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", classes, "Names")
			} else {
				got = names("/usr/bin/python3", filepath.Join(interop, "generated", "names.py"))
			}
			require.Regexp(t, `^keys (3[6-9]|[4-9]\d)$`, got[len(got)-1], lang)
			refused := got[len(got)-2]
			require.Regexp(t, `^refused the configuration does not name the keys of namespace.shop.mutex.named unheard of$`, refused)
			require.Equal(t, lines, got[:len(got)-2], lang)
		}
	}
	held := holdAll(t, l.goClient(t, "go", nil), root, e)
	both("held")
	for _, lease := range held {
		require.NoError(t, lease.Unlock(t.Context()))
	}
	both("got")
}

// holdAll holds all locks of the nodes: nobody else gets one.
func holdAll(t *testing.T, c *recipes.Client, root string, e *config.CodeEnsemble) (held []*recipes.Lease) {
	for _, n := range e.Nodes {
		var lease *recipes.Lease
		var err error
		switch path := root + n.Path; n.Payload.Params.Kind() {
		case kind.Mutex:
			lease, err = c.Mutex(path).Lock(t.Context())
		case kind.RWLock:
			lease, err = c.RWMutex(path).Lock(t.Context())
		case kind.Semaphore:
			lease, err = c.Semaphore(path).Acquire(t.Context(), 2)
		case kind.Election:
			lease, err = c.Election(path).Campaign(t.Context())
		default:
			continue
		}
		require.NoError(t, err)
		held = append(held, lease)
	}
	return slices.Clip(held)
}

// Odd names compile: those of which config/generate keeps what they become.
func TestInteropOddNamesCompile(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	code, diags := config.LoadCode("../../../config/generate/testdata/odd", config.Options{})
	require.False(t, diags.HasErrors(), "%v", diags)
	for _, e := range code.Ensembles {
		dir := t.TempDir()
		java, python := filepath.Join(dir, "Locks.java"), filepath.Join(dir, "locks.py")
		require.NoError(t, os.WriteFile(java, generate.Java(code, e, "com.example", "Locks"), 0o666))
		require.NoError(t, os.WriteFile(python, generate.Python(code, e), 0o666))
		_, err := compileJava(t.TempDir(), java)
		require.NoError(t, err)
		out, err := exec.Command("/usr/bin/python3", "-m", "py_compile", python).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}
