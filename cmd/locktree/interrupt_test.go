//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	ossignal "os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

const promptly = 2 * time.Second

// onItsOwn starts the program in a directory of its own, with text as its configuration.
func onItsOwn(t *testing.T, text string, args ...string) (cmd *exec.Cmd, stdin io.Writer, stderr *paper) {
	return onItsOwnTo(t, io.Discard, text, args...)
}

func onItsOwnTo(t *testing.T, stdout io.Writer, text string, args ...string) (cmd *exec.Cmd, stdin io.Writer, stderr *paper) {
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.locktree.hcl"), []byte(text), 0o600))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	stderr = newPaper()
	cmd = &exec.Cmd{Path: self, Args: append([]string{"locktree", "-chdir=" + dir}, args...), Env: environ(), Stdout: stdout, Stderr: stderr}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	hangs := time.AfterFunc(hanging, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { hangs.Stop(); in.Close() })
	return cmd, in, stderr
}

// endsWith waits for the program. A program that hangs is killed, which gives another code.
func endsWith(t *testing.T, cmd *exec.Cmd, code int, stderr *paper) {
	t.Helper()
	_ = cmd.Wait()
	require.Equal(t, code, cmd.ProcessState.ExitCode(), stderr)
	require.NotContains(t, stderr.String(), "data loss")
}

// A crash for lack of stack or memory had the exit code of "there are changes". SIGQUIT ends a Go program in the same way.
func TestACrashDoesNotSayThatThereAreChanges(t *testing.T) {
	cmd, stdin, stderr := onItsOwn(t, "", "validate", "-var-file=-")
	_, err := stdin.Write(make([]byte, 1<<19))
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGQUIT))
	_ = cmd.Wait()
	require.Contains(t, stderr.String(), "SIGQUIT: quit")
	require.Equal(t, syscall.SIGABRT, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
}

// applied is a server, and the configuration that was applied to it.
func applied(t *testing.T) (server *zktest.Server, text string) {
	server = zktest.Start(t)
	text = "locktree {\n  stack = \"s\"\n}\nensemble \"m\" {\n  servers = [\"" + server.Addr() + "\"]\n}\noutput \"o\" {\n  value = 1\n}\n"
	apply, _, said := onItsOwn(t, text, "apply", "-auto-approve")
	endsWith(t, apply, exit.OK, said)
	return server, text
}

// "timeout 10 locktree validate" hung: a command that reads a configuration cannot be told to stop.
func TestOneSignalEndsACommandThatDoesNotListen(t *testing.T) {
	caught := make(chan os.Signal, 1)
	ossignal.Notify(caught, syscall.SIGHUP) // under nohup the commands would ignore it, too
	t.Cleanup(func() { ossignal.Stop(caught) })
	server, text := applied(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		for command, code := range map[string]int{
			"validate": exit.Failed, "plan": exit.Failed, "plan -json": exit.Failed, "status": exit.Failed, "status -watch": exit.Failed,
			"exec mutex.a -- true": 128 + int(signal),
		} {
			t.Run(command+" "+signal.String(), func(t *testing.T) {
				t.Parallel()
				args := strings.Fields(command)
				cmd, stdin, stderr := onItsOwn(t, text, append([]string{args[0], "-var-file=-"}, args[1:]...)...)
				_, err := stdin.Write(make([]byte, 1<<19)) // more than a pipe holds: it has begun to read, and reads on
				require.NoError(t, err)
				require.NoError(t, cmd.Process.Signal(signal))
				endsWith(t, cmd, code, stderr)
			})
		}
		t.Run("the approval "+signal.String(), func(t *testing.T) {
			leavesNoLock(t, server, func() {
				cmd, _, stderr := onItsOwn(t, text, "destroy")
				for !strings.Contains(stderr.String(), "Waiting for approval") {
					select {
					case <-stderr.wrote:
					case <-time.After(hanging):
						require.Fail(t, "nobody is asked", stderr)
					}
				}
				require.NoError(t, cmd.Process.Signal(signal))
				endsWith(t, cmd, exit.Failed, stderr)
				require.Contains(t, stderr.String(), "Error: Interrupted")
			})
		})
	}
}

// leavesNoLock runs a command, and requires that it gives the apply lock back. An interrupted command has a second for that, which may be
// too short on a busy machine. So there are further tries.
func leavesNoLock(t *testing.T, server *zktest.Server, command func()) {
	t.Helper()
	for range 5 {
		command()
		left := slices.DeleteFunc(server.Sessions(), func(s zktest.Session) bool { return len(s.Ephemerals) == 0 })
		if len(left) == 0 {
			return
		}
		for _, s := range left {
			server.Expire(s.ID)
		}
	}
	require.Fail(t, "the apply lock is held")
}

// "destroy -auto-approve | head -1" left the apply lock for a session timeout: SIGPIPE ended it at its second line.
func TestAClosedPipeLeavesNoApplyLock(t *testing.T) {
	server, text := applied(t)
	for command, code := range map[string]int{"destroy -auto-approve": exit.Failed, "status -watch": exit.Failed, "status": exit.OK} {
		t.Run(command, func(t *testing.T) {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			require.NoError(t, r.Close())
			defer w.Close()
			leavesNoLock(t, server, func() {
				cmd, _, stderr := onItsOwnTo(t, w, text, strings.Fields(command)...)
				endsWith(t, cmd, code, stderr)
			})
		})
	}
}

// The evaluation of an expression cannot be ended from within. It is left behind, and the program ends without it.
func TestOneSignalEndsAnEvaluationWithoutEnd(t *testing.T) {
	const text = "locktree {\n  stack = \"s\"\n}\nlocals {\n  r = range(1000)\n  a = %s\n}\n"
	for name, expr := range map[string]string{
		"hours":     "[for i in local.r : [for j in local.r : [for k in local.r : can([for l in local.r : l])]]]",
		"gigabytes": "[for i in local.r : [for j in local.r : [for k in local.r : { i = i, j = [i, j, k] }]]]",
	} {
		t.Run(name, func(t *testing.T) {
			cmd, _, stderr := onItsOwn(t, fmt.Sprintf(text, expr), "validate")
			computes(t, cmd.Process.Pid)
			require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
			endsWith(t, cmd, exit.Failed, stderr)
		})
	}
}

// computes waits until a process has had the processor for half a second. Only an evaluation needs that long.
func computes(t *testing.T, pid int) {
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		require.NoError(t, err, "the program ended")
		_, behind, _ := strings.Cut(string(stat), ") ") // behind its name, which may hold spaces
		var user, system int
		_, err = fmt.Sscan(strings.Join(strings.Fields(behind)[11:13], " "), &user, &system)
		require.NoError(t, err)
		if user+system >= 50 { // hundredths of a second
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Opening a FIFO waits for a writer.
func TestAFIFOIsRefusedBeforeItIsOpened(t *testing.T) {
	text := "locktree {\n  stack = \"s\"\n}\nensemble \"m\" {\n  servers = [\"127.0.0.1:1\"]\n}\n"
	for _, c := range [][]string{{text + "output \"o\" {\n  value = file(\"fifo\")\n}\n", "validate"}, {text, "validate", "-var-file=fifo"},
		{text, "apply", "fifo"}, {text, "generate", "go", "-check", "-out=fifo"}, {text, "serve", "-web-config=fifo"}} {
		cmd, _, stderr := onItsOwn(t, c[0], c[1:]...)
		endsWith(t, cmd, exit.Failed, stderr)
		require.Contains(t, stderr.String(), "ot a regular file")
	}
}

// A command waits for servers that fall silent, and even giving up on them takes seconds. An interrupt ends that at any point.
func TestAnInterruptEndsTheWaitForSilentServers(t *testing.T) {
	for _, command := range []string{"plan", "apply -auto-approve", "status", "status /t", "doctor", "status -watch", "show", "output"} {
		for round := 0; round < 12; round += effort.Of(1, 4) { // trips to the servers before they fall silent
			inFakeTime(t, oneLedger, func(t *testing.T, b *bench) {
				b.run(exit.OK, "apply", "-auto-approve")
				b.write("more.locktree.hcl", strings.ReplaceAll(oneLedger, "ledger", "books"))
				ctx, interrupt := context.WithCancel(t.Context())
				began := time.Now()
				go func() {
					time.Sleep(time.Duration(round)*50*time.Millisecond - 20*time.Millisecond)
					b.server.Freeze()
					time.Sleep(4*time.Second - time.Since(began))
					interrupt()
				}()
				defer time.Sleep(2 * time.Minute) // work that was left behind ends, too: no program ends with it here
				b.runUnder(ctx, -1, strings.Fields(command)...)
				require.LessOrEqual(t, time.Since(began), 4*time.Second+promptly, "%s, whose servers fell silent after %d round trips", command, round)
			}, zktest.WithLatency(50*time.Millisecond))
		}
	}
}

// interruptedAt interrupts an apply when its transaction about a path arrives, and lets the transaction go on later.
func (b *bench) interruptedAt(path string, later time.Duration, code int) (stderr string) {
	held := b.server.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "multi" && slices.Contains(r.Paths, path) }), zktest.Hold)
	ctx, interrupt := context.WithCancel(b.t.Context())
	go func() {
		<-held.Hit()
		interrupt()
		time.Sleep(later)
		held.Release()
	}()
	_, stderr = b.runUnder(ctx, code, "apply", "-auto-approve")
	return stderr
}

// The command waits for the outcome of a transaction that was sent, however long that takes, and then ends.
func TestAnInterruptWaitsForTheTransaction(t *testing.T) {
	inFakeTime(t, oneLedger, func(t *testing.T, b *bench) {
		began := time.Now()
		require.Contains(t, b.interruptedAt("/t/ledger", 8*time.Second, -1), "Changes are under way.")
		require.GreaterOrEqual(t, time.Since(began), 8*time.Second)
		_, there := b.server.Get("/t/ledger")
		require.True(t, there)
		out, _ := b.run(exit.OK, "plan")
		require.Contains(t, out, "No changes.")
	})
}

const twoRoots = `locktree {
  stack = "shop"
}
variable "zk" {}
variable "root" {}
ensemble "one" {
  servers = [var.zk]
  root    = "${var.root}/1"
}
ensemble "two" {
  servers = [var.zk]
  root    = "${var.root}/2"
}
` + world + `mutex "a" {
  acl      = acl.open
  ensemble = ensemble.one
}
mutex "b" {
  acl      = acl.open
  ensemble = ensemble.two
}
`

// After an interrupt between two ensembles the second is not begun. The command says what is done, and gives its locks back.
func TestAnInterruptBetweenEnsemblesSaysWhatIsApplied(t *testing.T) {
	inFakeTime(t, "", func(t *testing.T, b *bench) {
		b.write("base.locktree.hcl", twoRoots)
		b.run(exit.OK, "apply", "-auto-approve")
		b.write("base.locktree.hcl", strings.ReplaceAll(twoRoots, "  acl      =", "  description = \"changed\"\n  acl      ="))
		require.Contains(t, b.interruptedAt("/t/1/a", 3*time.Second, exit.Failed), "The changes of ensemble \"one\" are applied.")
		out, _ := b.run(exit.OK, "apply", "-auto-approve")
		require.Contains(t, out, "1 changed")
	})
}

// An interrupt while a command connected was reported as unreachable servers, and init went on to report success.
func TestAnInterruptWhileConnectingIsNoOutage(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.locktree.hcl"), []byte("locktree {\n  stack = \"s\"\n}\nensemble \"m\" {\n  servers = [\"zk:1\"]\n}\n"), 0o600))
	for _, command := range []string{"init", "plan", "status", "doctor", "import -from=/", "once skip /a x", "revoke -auto-approve /a"} {
		ctx, interrupt := context.WithCancel(t.Context())
		var out, errs paper
		a := &app{Screen: &screen.Screen{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}, dialClient: func(ctx context.Context, cfg recipes.Config) (*recipes.Client, error) {
			interrupt()
			return recipes.Dial(ctx, cfg)
		}}
		require.Equal(t, exit.Failed, a.run(ctx, append([]string{"-chdir=" + dir}, strings.Fields(command)...)), command)
		require.Contains(t, errs.String(), "Error: Interrupted", command)
		require.NotContains(t, out.String(), "does not answer", command)
	}
}
