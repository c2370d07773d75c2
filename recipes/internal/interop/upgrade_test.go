//go:build linux

package interop_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// former is the commit whose command and library meet those of now.
const former = "fcdc5a8"

// version is one build of the command, and a process of one build of the library.
type version struct {
	name, command string
	*peer
}

// TestUpgrade lets command and programs of a former version and of this one meet on the same tree: the one makes it, the other uses
// and changes it, and back.
func TestUpgrade(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	l := bareLab(t)
	u := &upgrade{realLab: l, dir: t.TempDir()}
	u.was, u.is = u.build(t, "former"), u.build(t, "now")

	t.Run("the former command's tree", func(t *testing.T) {
		u.configure(t, "ledger", "")
		u.run(t, u.was, 0, "apply", "-auto-approve")
		u.matrix(t, "ledger")
	})
	t.Run("applied by this one while both wait", func(t *testing.T) {
		u.waitThrough(t, func() {
			require.Contains(t, u.run(t, u.is, 0, "apply", "-auto-approve"), "Apply complete!")
			require.Contains(t, u.run(t, u.is, 0, "plan", "-detailed-exitcode"), "No changes")
		})
	})
	t.Run("this command's tree", func(t *testing.T) { u.matrix(t, "ledger") })
	t.Run("a lock at a new path", func(t *testing.T) {
		u.configure(t, "books", "ledger")
		u.run(t, u.is, 0, "apply", "-auto-approve")
		u.nothingAt(t, "ledger")
		u.matrix(t, "books")
	})
	t.Run("and back", func(t *testing.T) {
		u.run(t, u.is, 0, "destroy", "-auto-approve")
		u.configure(t, "ledger", "")
		u.run(t, u.was, 0, "apply", "-auto-approve")
		u.nothingAt(t, "books")
		u.matrix(t, "ledger")
	})
}

// upgrade is the two versions on one ensemble.
type upgrade struct {
	*realLab
	dir     string
	was, is version
}

// build compiles the command, and the program of testdata/interop/go as it is now, with the library of a version. The former one
// comes from the history of the repository.
func (u *upgrade) build(t *testing.T, name string) version {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	source := root
	if name == "former" {
		source = t.TempDir()
		archive := exec.Command("git", "-C", root, "archive", former)
		var tar, errs bytes.Buffer
		archive.Stdout, archive.Stderr = &tar, &errs
		require.NoError(t, archive.Run(), "commit %s is needed: a clone with its history (git fetch --unshallow).\n%s", former, errs.String())
		unpack := exec.Command("tar", "-x", "-C", source)
		unpack.Stdin = &tar
		require.NoError(t, unpack.Run())
		program := filepath.Join(source, "testdata/interop/go")
		require.NoError(t, os.RemoveAll(program))
		require.NoError(t, os.CopyFS(program, os.DirFS(interop+"/go")))
	}
	v := version{name: name, command: filepath.Join(u.dir, name+"-locktree")}
	program := filepath.Join(u.dir, name+"-program")
	goBuild(t, source, v.command, "./cmd/locktree")
	goBuild(t, source, program, "./testdata/interop/go")
	v.peer = startPeer(t, name, exec.Command(program, u.zk.Addr, fmt.Sprint(livingSession.Milliseconds()), name), u.hear)
	return v
}

// configure writes the configuration. Its mutex had another name before, unless that is empty.
func (u *upgrade) configure(t *testing.T, mutex, from string) {
	moved := ""
	if from != "" {
		moved = fmt.Sprintf("moved {\n  from = namespace.pay.mutex.%s\n  to   = namespace.pay.mutex.%s\n}\n", from, mutex)
	}
	require.NoError(t, os.WriteFile(filepath.Join(u.dir, "shop.locktree.hcl"), fmt.Appendf(nil, `
locktree { stack = "shop" }
ensemble "main" {
  servers = [%q]
  root    = "/locks"
}
principal "anyone" { scheme = "world" }
acl "open" {
  allow_world = true
  grant {
    to    = [principal.anyone]
    allow = "admin"
  }
}
namespace "pay" {
  acl = acl.open
  mutex %q {}
  rwlock "catalog" {}
  semaphore "workers" { permits = 1 }
  election "scheduler" {}
}
%s`, u.zk.Addr, mutex, moved), 0o600))
}

// run runs a command and returns what it printed.
func (u *upgrade) run(t *testing.T, v version, code int, args ...string) string {
	t.Helper()
	cmd := exec.Command(v.command, args...)
	cmd.Dir = u.dir
	out, err := cmd.CombinedOutput()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		require.NoError(t, err)
	}
	require.Equal(t, code, cmd.ProcessState.ExitCode(), "%s: locktree %s\n%s", v.name, strings.Join(args, " "), out)
	return string(out)
}

// enter is a way of a version's program into a lock below /locks/pay.
func (u *upgrade) enter(t *testing.T, v version, recipe, lock string) *entry {
	return foreign(v.name, func(*realLab) *peer { return v.peer }, recipe).enter(t, u.realLab, "/locks/pay/"+lock)
}

// matrix lets each of the two versions hold each lock, and each of them wait for it: in the same program it waits for a goroutine.
func (u *upgrade) matrix(t *testing.T, mutex string) {
	for _, of := range []struct{ holds, waits, lock string }{
		{"mutex", "mutex", mutex}, {"read", "write", "catalog"}, {"write", "read", "catalog"},
		{"semaphore", "semaphore", "workers"}, {"election", "election", "scheduler"},
	} {
		for _, pair := range [][2]version{{u.was, u.is}, {u.is, u.was}} {
			t.Run(fmt.Sprintf("%s=%s,%s=%s", of.holds, pair[0].name, of.waits, pair[1].name), func(t *testing.T) {
				ctx := within(t, patience)
				h, w := u.enter(t, pair[0], of.holds, of.lock), u.enter(t, pair[1], of.waits, of.lock)
				require.NoError(t, h.acquire(ctx))
				if of.waits != "election" {
					require.ErrorIs(t, w.try(ctx), errPeerHeld)
				}
				granted := u.request(ctx, w)
				u.awaitQueue(t, of.lock, 1)
				select {
				case err := <-granted:
					t.Fatalf("granted while another program holds the lock: %v", err)
				default:
				}
				require.NoError(t, h.release(ctx))
				require.NoError(t, <-granted)
				require.NoError(t, w.release(ctx))
			})
		}
	}
}

// awaitQueue returns when one holds the lock and so many wait.
func (u *upgrade) awaitQueue(t *testing.T, lock string, waiters int) {
	t.Helper()
	c := u.goClient(t, "looks", nil)
	require.Eventually(t, func() bool {
		r, err := inspect.Lock(t.Context(), c, "/locks/pay/"+lock)
		return err == nil && len(r.Holders) == 1 && len(r.Waiters) == waiters
	}, patience, pollEvery)
}

// waitThrough keeps the mutex in use, with a waiter of each version, while the tree is changed.
func (u *upgrade) waitThrough(t *testing.T, change func()) {
	ctx := within(t, patience)
	holder, first := u.enter(t, u.was, "mutex", "ledger"), u.enter(t, u.is, "mutex", "ledger")
	require.NoError(t, holder.acquire(ctx))
	isGranted := u.request(ctx, first)
	u.awaitQueue(t, "ledger", 1)
	change()
	u.awaitQueue(t, "ledger", 1)
	require.NoError(t, holder.release(ctx))
	require.NoError(t, <-isGranted)
	wasGranted := u.request(ctx, holder)
	u.awaitQueue(t, "ledger", 1)
	require.NoError(t, first.release(ctx))
	require.NoError(t, <-wasGranted)
	require.NoError(t, holder.release(ctx))
}

// nothingAt checks that programs of both versions are told that no lock is there.
func (u *upgrade) nothingAt(t *testing.T, lock string) {
	ctx := within(t, patience)
	for _, v := range []version{u.was, u.is} {
		require.ErrorContains(t, u.enter(t, v, "mutex", lock).acquire(ctx), "/locks/pay/"+lock+" does not exist", v.name)
	}
}
