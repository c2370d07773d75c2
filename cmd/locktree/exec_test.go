//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
	"github.com/locktree/locktree/recipes/zktest"
)

const execLock = "/t/ledger"

// execRun is a run of "locktree exec" on a declared lock, in this process.
type execRun struct {
	*bench
	out    *os.File       // output of all processes of the command: it ends when all have ended
	lines  *bufio.Scanner // of it
	stderr *paper
	code   chan int
	cancel context.CancelFunc
}

func declareLedger(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, oneLedger)
	b.run(exit.OK, "apply", "-auto-approve")
	return b
}

// startExec sets a session timeout that survives a machine which stops for seconds. args may set another one.
func (b *bench) startExec(args ...string) *execRun {
	b.t.Helper()
	r, w, err := os.Pipe()
	require.NoError(b.t, err)
	require.NoError(b.t, r.SetReadDeadline(time.Now().Add(hanging)))
	ctx, cancel := context.WithCancel(b.t.Context())
	x := &execRun{bench: b, out: r, lines: bufio.NewScanner(r), stderr: newPaper(), code: make(chan int, 1), cancel: cancel}
	b.t.Cleanup(cancel)
	go func() {
		x.code <- start(ctx, append([]string{"-chdir=" + b.dir, "exec", "-session-timeout=40s"}, args...), b.env(environ()...), strings.NewReader(""), w, x.stderr)
		_ = w.Close()
	}()
	return x
}

// environ is the environment without the variables that change what the program does.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool {
		return strings.HasPrefix(e, "LOCKTREE_") || strings.HasPrefix(e, "ZOOKEEPER_") || strings.HasPrefix(e, "CLICOLOR")
	})
}

func (x *execRun) line() string {
	x.t.Helper()
	require.True(x.t, x.lines.Scan(), "the command ended or hangs (%v), and exec said: %s", x.lines.Err(), x.stderr)
	return x.lines.Text()
}

func (x *execRun) says(want string) {
	x.t.Helper()
	require.Equal(x.t, want, x.line())
}

// speaks waits until exec itself has said something.
func (x *execRun) speaks() {
	x.t.Helper()
	select {
	case <-x.stderr.wrote:
	case <-time.After(hanging):
		require.Fail(x.t, "exec hangs")
	}
}

// ends waits until all of the command has ended, without further output, and checks the exit code.
func (x *execRun) ends(code int) {
	x.t.Helper()
	rest, got := x.rest()
	require.Empty(x.t, rest)
	require.Equal(x.t, code, got, x.stderr.String())
}

// rest is what the command says until all of it has ended, and the exit code.
func (x *execRun) rest() (string, int) {
	x.t.Helper()
	var rest strings.Builder
	for x.lines.Scan() { // the scanner may have read ahead already
		rest.WriteString(x.lines.Text() + "\n")
	}
	require.NoError(x.t, x.lines.Err(), "the command hangs, and exec said: %s", x.stderr)
	return rest.String(), <-x.code
}

// inTime runs a command whose session comes into doubt. It compares the command's output, its exit code, and the texts that exec must
// print; nil means none. exec gives a command a sixth of the session timeout to end. If the machine stops for that long, the result can
// differ. So there are further tries with longer timeouts.
func inTime(t *testing.T, args []string, happens func(t *testing.T, x *execRun), said string, code int, texts []string) {
	t.Helper()
	otherwise := ""
	for _, timeout := range []string{"4s", "12s", "40s"} {
		x := declareLedger(t).startExec(append([]string{"-session-timeout=" + timeout}, args...)...)
		x.lines.Scan()
		first := x.lines.Text()
		happens(t, x)
		rest, gotCode := x.rest()
		ok := said == first+"\n"+rest && code == gotCode && (texts != nil || x.stderr.String() == "")
		for _, text := range texts {
			ok = ok && strings.Contains(x.stderr.String(), text)
		}
		if ok {
			return
		}
		otherwise = fmt.Sprintf("it said %q and ended with %d, not %q and %d; exec said %q, and has to say %q", first+"\n"+rest, gotCode, said, code, x.stderr, texts)
		t.Logf("with a session timeout of %s: %s", timeout, otherwise)
	}
	require.Fail(t, "never", otherwise)
}

func freeze(_ *testing.T, x *execRun) { x.server.Freeze() }

// stubborn is a command that ignores SIGTERM, and so does what it started.
const stubborn = `trap 'echo asked to end' TERM; sh -c 'trap "" TERM; echo started; while :; do sleep 0.05; done' & while :; do wait; done`

// etcdctl lock lets its command run on without the lock, and consul lock ends only the
// shell in front of it (hashicorp/consul#2022, #873).
func TestExecEndsAllOfTheCommandWhenTheLockIsLost(t *testing.T) {
	inTime(t, []string{execLock, "--", "sh", "-c", stubborn}, freeze, "started\nasked to end\n", exit.Lost,
		[]string{"the connection to ZooKeeper is in doubt: telling the command to end", "Error: Lock lost"})
}

// exec returned the exit code of the program: 0 of a command that traps SIGTERM, though it was ended in the middle of its work.
func TestExecThatEndsTheCommandEndsWith123(t *testing.T) {
	for _, code := range []string{"0", "9"} {
		x := declareLedger(t).startExec(execLock, "--", "sh", "-c", `trap 'exit `+code+`' TERM; echo $LOCKTREE_LOCK_NODE; while :; do sleep 0.05; done`)
		require.NoError(t, dialTest(t, x.server, "").Revoke(t.Context(), x.line()))
		x.ends(exit.Lost)
		require.Contains(t, x.stderr.String(), "another program asks for /t/ledger back: telling the command to end")
		require.Contains(t, x.stderr.String(), "(another program asks for /t/ledger back), and exited with "+code+".")
	}
	x := declareLedger(t).startExec(execLock, "--", "sh", "-c", `trap 'exit 0' TERM; echo started; while :; do sleep 0.05; done`)
	x.says("started")
	x.cancel()
	x.ends(exit.Lost)
}

// A command that ends when exec asks it to, with the connection in doubt, has kept its lock until then.
func TestExecInDoubtLetsTheCommandEndByItself(t *testing.T) {
	inTime(t, []string{execLock, "--", "sh", "-c", `trap 'echo asked to end; exit 9' TERM; echo started; while :; do sleep 0.05; done`}, freeze, "started\nasked to end\n", exit.Lost,
		[]string{"could not be released yet (ZooKeeper has not confirmed it in time)", "Error: Command was ended"})
}

// An operator takes a lock away by deleting the contender. Help said that everything that the command started is killed. A process that
// left the command's session, like a daemon, is not.
func TestExecDoesNotEndWhatLeftTheSessionOfItsCommand(t *testing.T) {
	x := declareLedger(t).startExec(execLock, "--", "sh", "-c", `trap "" TERM; echo $LOCKTREE_LOCK_NODE; setsid sh -c 'echo $$; exec sleep 600 >/dev/null 2>&1' & wait; while :; do sleep 0.05; done`)
	contender := x.line()
	daemon, err := strconv.Atoi(x.line())
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(daemon, syscall.SIGKILL) })
	s, err := dialTest(t, x.server, "").Session(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Delete(t.Context(), contender, -1))
	x.ends(exit.Lost)
	require.NoError(t, syscall.Kill(daemon, 0), "it runs on")
	require.Contains(t, strings.Join(strings.Fields(tool(t, exit.OK, x.dir, environ(), "help", "jobs")), " "), "A process that left the command's session (setsid, as daemons do) gets neither, and goes on without the lock.")
}

func TestExecPassesSignalsOn(t *testing.T) {
	x := declareLedger(t).startExec(execLock, "--", "sh", "-c", `trap 'echo one' USR1; trap 'echo two' INT; trap 'exit 3' TERM; echo started; while :; do sleep 0.05; done`)
	x.says("started")
	for _, s := range []struct {
		signal syscall.Signal
		says   string
	}{{syscall.SIGUSR1, "one"}, {syscall.SIGINT, "two"}, {syscall.SIGINT, "two"}} {
		require.NoError(t, syscall.Kill(os.Getpid(), s.signal))
		x.says(s.says)
	}
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	x.ends(3)
}

// Without the locktree process there is no session, and soon no lock.
func TestExecKilledTakesTheCommandAlong(t *testing.T) {
	b := declareLedger(t)
	self, err := os.Executable()
	require.NoError(t, err)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.SetReadDeadline(time.Now().Add(hanging)))
	cmd := &exec.Cmd{Path: self, Args: []string{"locktree", "-chdir=" + b.dir, "exec", "-session-timeout=40s", execLock, "--", "sh", "-c", "echo started; exec sleep 1000"},
		Env: b.env(environ()...), Stdout: w, Stderr: os.Stderr}
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	out := bufio.NewReader(r)
	line, err := out.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "started\n", line)
	require.NoError(t, cmd.Process.Kill())
	_, err = out.ReadString('\n')
	require.ErrorIs(t, err, io.EOF, "the command has ended")
	_ = cmd.Wait() // killed
}

// A cut connection is made again. exec ends its command only if nothing has been proven for a third of the session timeout.
func TestExecCutOffForAMomentLetsTheCommandRun(t *testing.T) {
	command := `trap 'echo asked to end; exit 9' TERM; echo started; until [ -e over ]; do sleep 0.05; done`
	inTime(t, []string{"-quiet", execLock, "--", "sh", "-c", command}, func(t *testing.T, x *execRun) {
		// A heartbeat comes every sixth of the session timeout. When the fourth comes, the first proof is older than a third of the timeout.
		proven := x.server.Inject(func(r zktest.Request) bool { return r.Op == "multi" && r.N == 4 }, zktest.Delay(0))
		x.server.Disconnect(0)
		select {
		case <-proven.Hit():
		case code := <-x.code:
			x.code <- code
		case <-time.After(hanging):
			require.Fail(t, "no heartbeats come", x.stderr)
		}
		require.NoError(t, os.WriteFile(filepath.Join(x.dir, "over"), nil, 0o600))
	}, "started\n", 0, nil)
}

// A lock, or exec's place in its queue, can change while exec waits for it.
func TestExecSaysWhyItsWaitEnded(t *testing.T) {
	state := func(old, now string) func(t *testing.T, x *execRun, _ *recipes.Client) {
		return func(t *testing.T, x *execRun, _ *recipes.Client) {
			n, _ := x.server.Get(execLock)
			changed := strings.Replace(string(n.Data), old, now, 1)
			require.NotEqual(t, string(n.Data), changed)
			require.NoError(t, x.server.Set(execLock, []byte(changed)))
		}
	}
	place := func(t *testing.T, c *recipes.Client) string {
		in, err := inspect.Lock(t.Context(), c, execLock)
		require.NoError(t, err)
		require.Len(t, in.Waiters, 1)
		return in.Waiters[0].Path
	}
	for name, c := range map[string]struct {
		happens func(t *testing.T, x *execRun, other *recipes.Client)
		code    int
		says    string
	}{
		"drained":    {state(`"state":"active"`, `"state":"draining"`), exit.Conflict, "/t/ledger is being drained"},
		"other kind": {state(`"type":"mutex"`, `"type":"election"`), exit.Own, "/t/ledger was replaced by a lock of another kind"},
		"undeclared": {func(t *testing.T, x *execRun, _ *recipes.Client) { require.NoError(t, x.server.Set(execLock, nil)) }, exit.Own, "Not a declared lock"},
		"asked to leave": {func(t *testing.T, x *execRun, other *recipes.Client) {
			require.NoError(t, other.Revoke(t.Context(), place(t, other)))
		}, exit.Conflict, "Another program asked this one to leave the queue"},
		"its place deleted": {func(t *testing.T, x *execRun, other *recipes.Client) {
			require.NoError(t, x.server.Delete(place(t, other)))
		}, exit.Own, "Place in the queue lost"},
		"interrupted": {func(t *testing.T, x *execRun, _ *recipes.Client) {
			require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
		}, 128 + int(syscall.SIGTERM), "waiting for " + execLock},
	} {
		t.Run(name, func(t *testing.T) {
			b := declareLedger(t)
			holder := dialTest(t, b.server, "")
			lease, err := holder.Mutex(execLock).Lock(t.Context())
			require.NoError(t, err)
			x := b.startExec(execLock, "--", "echo", "ran")
			x.speaks()
			c.happens(t, x, holder)
			x.ends(c.code)
			require.Contains(t, x.stderr.String(), c.says)
			nobody := func() bool { // an interrupted command has a second to leave, and goes on leaving in this process
				in, err := inspect.Lock(t.Context(), holder, execLock)
				return err == nil && len(in.Waiters) == 0
			}
			require.Eventually(t, nobody, 20*time.Second, time.Millisecond, "before the servers would expire it")
			require.NoError(t, lease.Unlock(t.Context()))
		})
	}
}

// exec said that the lock was not acquired and its holder not known, with the code for a lock that others hold. A job that leaves its work
// to the holder left it undone.
func TestExecThatCannotReachTheServersDoesNotSayThatOthersHoldTheLock(t *testing.T) {
	for _, flag := range []string{"-timeout=10s", "-try"} {
		t.Run(flag, func(t *testing.T) {
			inFakeTime(t, oneLedger, func(t *testing.T, b *bench) {
				b.run(exit.OK, "apply", "-auto-approve")
				asks := b.server.Inject(zktest.On("create"), zktest.CutBefore)
				go func() { <-asks.Hit(); b.server.RefuseDials(true) }()
				_, stderr := b.run(exit.Own, "exec", flag, "-E=0", execLock, "--", "true")
				require.Contains(t, stderr, "Error: Cannot reach ZooKeeper")
			})
		})
	}
}

// Servers from 3.8.4 and 3.9.2 on do not even say who owns a node that may not be read. Older servers do, but even there this does not
// prove the grant.
func TestExecDoesNotRunUnderALockWhosePlaceMayNotBeRead(t *testing.T) {
	for name, hidden := range map[string]func(zktest.Request) bool{
		"hidden":     zktest.On("exists", "getData", "multi"),
		"unreadable": zktest.On("getData", "multi"),
	} {
		t.Run(name, func(t *testing.T) {
			b := declareLedger(t)
			b.server.Inject(func(r zktest.Request) bool { return hidden(r) && strings.HasPrefix(r.Path, execLock+"/") }, zktest.Fail(zktest.CodeNoAuth))
			x := b.startExec(execLock, "--", "echo", "ran")
			x.ends(exit.Own)
			require.Contains(t, x.stderr.String(), "Error: Lock cannot be kept")
			require.Contains(t, x.stderr.String(), "The servers see this connection as world:anyone.")
			n, _ := b.server.Get(execLock)
			require.Empty(t, n.Children)
		})
	}
}

func (b *bench) applied(id string) *recipes.Client {
	b.run(exit.OK, "apply", "-auto-approve")
	c, err := b.dial(b.t.Context(), recipes.Config{Servers: []string{b.addr()}, ID: id, SessionTimeout: 40 * time.Second})
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = c.Close() })
	return c
}

// signalsOutside starts the runtime's signal handling outside of fake time, where its channels must be.
func signalsOutside() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR2)
	signal.Stop(c)
}

// keeping is what a test needs to disturb a lock that exec keeps.
type keeping struct {
	*bench
	other     *recipes.Client
	node      string // of the holder
	interrupt func()
}

// A job that takes no time was run again on a machine whose clock is behind.
func TestExecKeepsTheLockAtLeastThatLong(t *testing.T) {
	signalsOutside()
	for name, c := range map[string]struct {
		happens func(keeping) // after five minutes
		command string
		code    int
		keeps   time.Duration
		says    string
	}{
		"to the end":              {func(keeping) {}, "true", exit.OK, 10 * time.Minute, "locktree: the command has ended: keeping /t/ledger for another 10m0s\nlocktree: released /t/ledger after 10m0s\n"},
		"of a command that fails": {func(keeping) {}, "false", 1, 10 * time.Minute, "locktree: released /t/ledger after 10m0s\n"},
		"until it is lost": {func(k keeping) { require.NoError(k.t, k.server.Delete(k.node)) }, "true", exit.OK, 5 * time.Minute,
			"locktree: /t/ledger was lost 5m0s before -at-least was over: another machine may run the command again\n"},
		"until it is asked back": {func(k keeping) { require.NoError(k.t, k.other.Revoke(k.t.Context(), k.node)) }, "true", exit.OK, 5 * time.Minute,
			"locktree: another program asks for /t/ledger back: releasing it 5m0s before -at-least is over\nlocktree: released /t/ledger after 5m0s\n"},
		// The operator who stops the job does not want to wait.
		"until it is interrupted": {func(k keeping) { k.interrupt() }, "true", exit.OK, 5 * time.Minute, "locktree: released /t/ledger after 5m0s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, oneLedger, func(t *testing.T, b *bench) {
				other := b.applied("other")
				ctx, interrupt := context.WithCancel(t.Context())
				began := time.Now()
				at := time.AfterFunc(5*time.Minute, func() {
					in, err := inspect.Lock(t.Context(), other, execLock)
					require.NoError(t, err)
					require.Len(t, in.Holders, 1)
					b.run(7, "exec", "-try", "-E=7", execLock, "--", "false")
					c.happens(keeping{b, other, in.Holders[0].Path, interrupt})
				})
				defer at.Stop()
				_, stderr := b.runUnder(ctx, c.code, "exec", "-at-least=10m", execLock, "--", c.command)
				require.Contains(t, stderr, "locktree: granted /t/ledger: token ")
				require.Contains(t, stderr, c.says)
				require.InDelta(t, c.keeps.Seconds(), time.Since(began).Seconds(), 1)
			})
		})
	}
}

// When its -timeout is over, exec says who holds the lock. Connecting counts: with its time on top, a job that must begin in time would
// begin late.
func TestExecWhoseTimeIsUpSaysWhoHoldsTheLock(t *testing.T) {
	signalsOutside()
	inFakeTime(t, oneLedger+"election \"chief\" {\n  acl = acl.open\n}\n", func(t *testing.T, b *bench) {
		lease, err := b.applied("someone").Mutex(execLock).Lock(t.Context())
		require.NoError(t, err)
		_, stderr := b.run(exit.Conflict, "exec", "-timeout=10ms", execLock, "--", "true")
		words := strings.Join(strings.Fields(strings.ReplaceAll(stderr, "│", "")), " ")
		require.Regexp(t, `^locktree: waiting for /t/ledger Error: Lock not acquired /t/ledger is held by someone, \S+/\d+, since \S+ \(\S+\), connection not asked; 1 ahead. Waited for 10ms\. "locktree status /t/ledger" shows the queue\.$`, words)
		began := time.Now()
		_, stderr = b.run(exit.Conflict, "exec", "-timeout=2s", execLock, "/t/chief", "--", "true")
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Contains(t, stderr, "locktree: waiting for /t/ledger + /t/chief\n")
		require.Contains(t, stderr, "\n/t/ledger is held by ")
		require.NoError(t, lease.Unlock(t.Context()))

		b.server.RefuseDials(true)
		began = time.Now()
		_, stderr = b.run(exit.Own, "exec", "-timeout=2s", execLock, "--", "true")
		require.Equal(t, 2*time.Second, time.Since(began))
		require.NotContains(t, stderr, "not acquired")
	})
}

// A command that is told to end has not succeeded, whatever it exits with.
func TestExecOnceRecordsHowItsCommandEnded(t *testing.T) {
	b := declareLedger(t)
	p := kind.Once.New().(*kind.OnceParams)
	p.Schedule = "* * * * *"
	require.NoError(t, b.server.Provision("/t/job", &kind.Payload{Params: p, Since: 1}))
	require.NoError(t, b.server.Set("/t/job/once-record", []byte(`{"since":1}`)))
	x := b.startExec("-once", "/t/job", "--", "sh", "-c", `trap 'exit 0' TERM; echo $LOCKTREE_LOCK_NODE; while :; do sleep 0.05; done`)
	require.NoError(t, dialTest(t, x.server, "").Revoke(t.Context(), x.line()))
	x.ends(exit.Lost)
	node, ok := b.server.Get("/t/job/once-record")
	require.True(t, ok)
	record, err := slots.ParseRecord(node.Data)
	require.NoError(t, err)
	require.Len(t, record.Slots, 1)
	require.Equal(t, slots.Failed, record.Slots[0].State)
	require.Equal(t, "ended: another program asks for /t/job back", record.Slots[0].Result)
}
