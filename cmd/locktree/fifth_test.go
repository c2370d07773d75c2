package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// A recipe type is one file in recipes/kind and one in recipes. With those of testdata/fifth, and a program that uses them, the new type is
// declared, applied, locked, looked at and run under. A type that needed more would fail here.
func TestAFifthRecipeIsTwoFiles(t *testing.T) {
	effort.Proof(t, effort.Unraced) // it compiles the module again
	w := newFerryWorld(t)
	w.must("validate")
	require.Contains(t, w.must("plan"), "seats = 2")
	require.Contains(t, w.must("apply", "-auto-approve"), "Apply complete! Resources: 1 added")
	require.Contains(t, w.must("plan"), "No changes.")

	passengers := []*exec.Cmd{w.command("crossing", w.addr, "/locks/river"), w.command("crossing", w.addr, "/locks/river")}
	for _, p := range passengers {
		p.Stderr = os.Stderr
		require.NoError(t, p.Start())
	}
	for _, p := range passengers {
		require.NoError(t, p.Wait())
	}

	// Two contenders share a boat if the first has an even sequence number. The lock is created again, so that its numbers begin with 0.
	w.must("destroy", "-auto-approve")
	w.must("apply", "-auto-approve")
	leaveFirst := w.board()
	leaveSecond := w.board("-mode=read") // beside the first: it would wait here otherwise
	require.Regexp(t, `river +ferry +2 held\n`, w.must("status"))
	require.Contains(t, w.fails(exit.Conflict, "exec", "-try", "ferry.river", "--", "true"), "2 ahead.")
	require.Contains(t, w.fails(exit.Own, "exec", "-permits=2", "ferry.river", "--", "true"), "is declared as ferry, to which -permits does not apply")
	leaveFirst()
	leaveSecond()
	w.must("exec", "-try", "/locks/river", "--", "true")
	require.Contains(t, w.must("status"), "1 lock, 0 held, 0 waiting.")
}

// ferryWorld is a server, and programs built with the two files.
type ferryWorld struct {
	t              *testing.T
	ctx            context.Context
	bin, dir, addr string
}

func newFerryWorld(t *testing.T) *ferryWorld {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // ends a command that hangs
	t.Cleanup(cancel)
	w := &ferryWorld{t: t, ctx: ctx, bin: t.TempDir(), dir: t.TempDir(), addr: zktest.Start(t).Addr()}
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	added := map[string]string{}
	files := os.DirFS("testdata/fifth")
	require.NoError(t, fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			require.NoFileExists(t, filepath.Join(root, path), "a new file, not another one of the module")
			added[filepath.Join(root, path)] = filepath.Join(root, "cmd/locktree/testdata/fifth", path)
		}
		return err
	}))
	require.Len(t, added, 3, "a file in recipes/kind, one in recipes, and the program")
	overlay, err := json.Marshal(map[string]any{"Replace": added})
	require.NoError(t, err)
	w.write("overlay.json", string(overlay))
	w.write("ferry.locktree.hcl", `locktree {
  stack = "fifth"
}

ensemble "main" {
  servers = ["`+w.addr+`"]
  root    = "/locks"
}
`+world+`
ferry "river" {
  acl   = acl.open
  seats = 2
}
`)
	build := exec.CommandContext(ctx, "go", "build", "-overlay", filepath.Join(w.dir, "overlay.json"), "-o", w.bin+string(filepath.Separator),
		"./cmd/locktree", "./cmd/crossing")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	return w
}

func (w *ferryWorld) write(name, text string) {
	require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o644))
}

func (w *ferryWorld) command(program string, args ...string) *exec.Cmd {
	c := exec.CommandContext(w.ctx, filepath.Join(w.bin, program), args...)
	c.Dir = w.dir
	c.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "LOCKTREE_") || strings.HasPrefix(e, "ZOOKEEPER_") })
	c.Env = append(c.Env, "NO_COLOR=1", "ZOOKEEPER_SESSION=40", "ZOOKEEPER_SERVERS="+w.addr)
	return c
}

func (w *ferryWorld) must(args ...string) string { return w.fails(0, args...) }

// fails runs the program, which must end with that code.
func (w *ferryWorld) fails(code int, args ...string) string {
	w.t.Helper()
	c := w.command("locktree", args...)
	out, _ := c.CombinedOutput()
	require.Equal(w.t, code, c.ProcessState.ExitCode(), "%s: %s", strings.Join(args, " "), out)
	return string(out)
}

// board returns when a process of exec is aboard.
func (w *ferryWorld) board(flags ...string) (leave func()) {
	c := w.command("locktree", append(append([]string{"exec"}, flags...), "ferry.river", "--", "sh", "-c", "echo aboard; cat")...)
	stdin, err := c.StdinPipe()
	require.NoError(w.t, err)
	stdout, err := c.StdoutPipe()
	require.NoError(w.t, err)
	c.Stderr = os.Stderr
	require.NoError(w.t, c.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(w.t, err)
	require.Equal(w.t, "aboard\n", line)
	return func() {
		require.NoError(w.t, stdin.Close())
		require.NoError(w.t, c.Wait())
	}
}
