//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/child"
	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/zktest"
)

const execLock = "/t/ledger"

// execRun is a run of "locktree exec" on a declared lock, in this process.
type execRun struct {
	t      *testing.T
	server *zktest.Server
	dir    string
	out    *os.File       // what all of the command writes to: it ends when all of it has ended
	lines  *bufio.Scanner // of it
	stderr *lockedBuffer
	code   chan int
	cancel context.CancelFunc
}

type lockedBuffer struct {
	mu    sync.Mutex
	b     bytes.Buffer
	wrote chan struct{}
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.wrote <- struct{}{}:
	default:
	}
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func declareLedger(t *testing.T) (*zktest.Server, string) {
	t.Helper()
	server := zktest.New()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	text := strings.NewReplacer("[var.zk]", `["`+server.Addr()+`"]`, "var.root", `"/t"`).Replace(base) + "mutex \"ledger\" {\n  acl = acl.open\n}\n"
	text = strings.NewReplacer("variable \"zk\" {}\n", "", "variable \"root\" {}\n", "").Replace(text)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.locktree.hcl"), []byte(text), 0o600))
	var out bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-chdir=" + dir, "apply", "-auto-approve"}, []string{"ZOOKEEPER_SESSION=40"}, strings.NewReader(""), &out, &out), out.String())
	return server, dir
}

func startExec(t *testing.T, args ...string) *execRun {
	t.Helper()
	server, dir := declareLedger(t)
	return startExecOn(t, server, dir, args...)
}

// startExecOn gives the session a time in which a machine may stop for seconds; args may have another one.
func startExecOn(t *testing.T, server *zktest.Server, dir string, args ...string) *execRun {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.SetReadDeadline(time.Now().Add(hanging)))
	ctx, cancel := context.WithCancel(t.Context())
	x := &execRun{t: t, server: server, dir: dir, out: r, lines: bufio.NewScanner(r), stderr: &lockedBuffer{wrote: make(chan struct{}, 1)}, code: make(chan int, 1), cancel: cancel}
	t.Cleanup(cancel)
	go func() {
		x.code <- run(ctx, append([]string{"-chdir=" + dir, "exec", "-session-timeout=40s"}, args...), environ(), strings.NewReader(""), w, x.stderr)
		_ = w.Close()
	}()
	return x
}

// environ is the environment without what would have the program do something else.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool {
		return strings.HasPrefix(e, "LOCKTREE_") || strings.HasPrefix(e, "ZOOKEEPER_") || strings.HasPrefix(e, "CLICOLOR")
	})
}

// line is the next line of the command.
func (x *execRun) line() string {
	x.t.Helper()
	require.True(x.t, x.lines.Scan(), "the command ended or hangs (%v), and exec said: %s", x.lines.Err(), x.stderr)
	return x.lines.Text()
}

// says waits for a line of the command.
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

// ends waits until all of the command has ended, and then for the exit code.
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
	for x.lines.Scan() { // which may have read on already
		rest.WriteString(x.lines.Text() + "\n")
	}
	require.NoError(x.t, x.lines.Err(), "the command hangs, and exec said: %s", x.stderr)
	return rest.String(), <-x.code
}

// inTime runs a command whose session is in doubt at some time: what it has to say is said in time, or was not for that
// reason alone. A sixth of a session timeout, or whatever the code leaves a command, passes on a machine that stops for so
// long; so there are other tries, with longer and longer timeouts. try says what was otherwise than it should be.
func inTime(t *testing.T, try func(t *testing.T, timeout string) (otherwise string)) {
	t.Helper()
	otherwise := ""
	for _, timeout := range []string{"4s", "12s", "40s"} {
		if otherwise = try(t, "-session-timeout="+timeout); otherwise == "" {
			return
		}
		t.Logf("with a session timeout of %s: %s", timeout, otherwise)
	}
	require.Fail(t, "never", otherwise)
}

// otherwise compares what the command said from the beginning to its end, the exit code, and texts exec has to say; nil
// is nothing.
func (x *execRun) otherwise(said string, code int, texts []string, gotSaid string, gotCode int) string {
	ok := said == gotSaid && code == gotCode && (texts != nil || x.stderr.String() == "")
	for _, text := range texts {
		ok = ok && strings.Contains(x.stderr.String(), text)
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("it said %q and ended with %d, not %q and %d; exec said %q, and has to say %q", gotSaid, gotCode, said, code, x.stderr, texts)
}

// other is a client whose session outlives a machine that stops for seconds.
func (x *execRun) other() *recipes.Client {
	x.t.Helper()
	c, err := recipes.Dial(x.t.Context(), recipes.Config{Servers: []string{x.server.Addr()}, SessionTimeout: 40 * time.Second, ConnectTimeout: 30 * time.Second})
	require.NoError(x.t, err)
	x.t.Cleanup(func() { _ = c.Close() })
	return c
}

// stubborn is a command that ignores SIGTERM, and so does what it started.
const stubborn = `trap 'echo asked to end' TERM; sh -c 'trap "" TERM; echo started; while :; do sleep 0.05; done' & while :; do wait; done`

// etcdctl lock lets its command run on without the lock, and consul lock ends only the
// shell in front of it (hashicorp/consul#2022, #873).
func TestExecEndsAllOfTheCommandWhenTheLockIsLost(t *testing.T) {
	inTime(t, func(t *testing.T, timeout string) string {
		x := startExec(t, timeout, execLock, "--", "sh", "-c", stubborn)
		x.lines.Scan()
		first := x.lines.Text()
		x.server.Freeze()
		rest, code := x.rest()
		return x.otherwise("started\nasked to end\n", exit.Lost,
			[]string{"the connection to ZooKeeper is in doubt: telling the command to end", "Error: Lock lost"}, first+"\n"+rest, code)
	})
}

// Its exit code was the program's: 0 of a command that traps SIGTERM, though it was ended in the middle of its work.
func TestExecThatEndsTheCommandEndsWith123(t *testing.T) {
	for _, code := range []string{"0", "9"} {
		x := startExec(t, execLock, "--", "sh", "-c", `trap 'exit `+code+`' TERM; echo $LOCKTREE_LOCK_NODE; while :; do sleep 0.05; done`)
		require.NoError(t, x.other().Revoke(t.Context(), x.line()))
		x.ends(exit.Lost)
		require.Contains(t, x.stderr.String(), "another program asks for /t/ledger back: telling the command to end")
		require.Contains(t, x.stderr.String(), "(another program asks for /t/ledger back), and exited with "+code+".")
	}
	x := startExec(t, execLock, "--", "sh", "-c", `trap 'exit 0' TERM; echo started; while :; do sleep 0.05; done`)
	x.says("started")
	x.cancel()
	x.ends(exit.Lost)
}

// A command that ended just before it would have been told to is not one that was ended.
func TestExecKeepsTheCodeOfACommandThatEndedFirst(t *testing.T) {
	server, _ := declareLedger(t)
	client := (&execRun{t: t, server: server}).other()
	lease, err := client.Mutex(execLock).Lock(t.Context())
	require.NoError(t, err)
	session, err := client.Session(t.Context())
	require.NoError(t, err)
	require.NoError(t, client.Revoke(t.Context(), lease.Node()))
	<-lease.Context().Done()
	p, err := child.Start(exec.Command("true"))
	require.NoError(t, err)
	<-p.Done()
	x := &execution{app: &app{terminal: terminal{stderr: io.Discard}}, lost: make(chan struct{})}
	for range 100 { // whichever of the two is looked at first
		require.Empty(t, x.supervise(t.Context(), p, lease, session, nil))
	}
	require.NoError(t, lease.Unlock(t.Context()))
}

// A command that ends when it is asked to, in doubt, has kept its lock until then.
func TestExecInDoubtLetsTheCommandEndByItself(t *testing.T) {
	inTime(t, func(t *testing.T, timeout string) string {
		x := startExec(t, timeout, execLock, "--", "sh", "-c", `trap 'echo asked to end; exit 9' TERM; echo started; while :; do sleep 0.05; done`)
		x.lines.Scan()
		first := x.lines.Text()
		x.server.Freeze()
		rest, code := x.rest()
		return x.otherwise("started\nasked to end\n", exit.Lost, []string{"could not be released yet (ZooKeeper has not confirmed it in time)", "Error: Command was ended"}, first+"\n"+rest, code)
	})
}

// Deleting the contender is how an operator takes a lock away. Help said that everything that the command started is killed. What left the
// command's session is not, like a daemon.
func TestExecDoesNotEndWhatLeftTheSessionOfItsCommand(t *testing.T) {
	x := startExec(t, execLock, "--", "sh", "-c", `trap "" TERM; echo $LOCKTREE_LOCK_NODE; setsid sh -c 'echo $$; exec sleep 600 >/dev/null 2>&1' & wait; while :; do sleep 0.05; done`)
	contender := x.line()
	daemon, err := strconv.Atoi(x.line())
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(daemon, syscall.SIGKILL) })
	s, err := x.other().Session(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Delete(t.Context(), contender, -1))
	x.ends(exit.Lost)
	require.NoError(t, syscall.Kill(daemon, 0), "it runs on")
	var help bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"exec", "-help"}, environ(), strings.NewReader(""), &help, &help))
	require.Contains(t, strings.Join(strings.Fields(help.String()), " "), "A process that left the command's session (setsid, as daemons do) gets neither, and goes on without the lock.")
}

func TestExecPassesSignalsOn(t *testing.T) {
	x := startExec(t, execLock, "--", "sh", "-c", `trap 'echo one' USR1; trap 'echo two' INT; trap 'exit 3' TERM; echo started; while :; do sleep 0.05; done`)
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

func TestExecInterruptedWhileItWaitsLeavesTheQueue(t *testing.T) {
	server, dir := declareLedger(t)
	holder := (&execRun{t: t, server: server}).other()
	lease, err := holder.Mutex(execLock).Lock(t.Context())
	require.NoError(t, err)
	x := startExecOn(t, server, dir, execLock, "--", "echo", "ran")
	x.speaks()
	require.Contains(t, x.stderr.String(), "waiting for "+execLock)
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	x.ends(128 + int(syscall.SIGTERM))
	in, err := inspect.Lock(t.Context(), holder, execLock)
	require.NoError(t, err)
	require.Empty(t, in.Waiters)
	require.NoError(t, lease.Unlock(t.Context()))
}

// Without a locktree there is no session and soon no lock.
func TestExecKilledTakesTheCommandAlong(t *testing.T) {
	_, dir := declareLedger(t)
	self, err := os.Executable()
	require.NoError(t, err)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.SetReadDeadline(time.Now().Add(hanging)))
	cmd := &exec.Cmd{Path: self, Args: []string{"locktree", "-chdir=" + dir, "exec", "-session-timeout=40s", execLock, "--", "sh", "-c", "echo started; exec sleep 1000"},
		Env: environ(), Stdout: w, Stderr: os.Stderr}
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

// A connection that is cut is made again; only when nothing has been proven for a third of the session timeout is there
// something to end a command for.
func TestExecCutOffForAMomentLetsTheCommandRun(t *testing.T) {
	inTime(t, func(t *testing.T, timeout string) string {
		x := startExec(t, timeout, "-quiet", execLock, "--", "sh", "-c", `trap 'echo asked to end; exit 9' TERM; echo started; until [ -e over ]; do sleep 0.05; done`)
		x.lines.Scan()
		first := x.lines.Text()
		// A heartbeat comes each sixth of the session timeout: with the fourth, what was proven at first is older than a third.
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
		rest, code := x.rest()
		return x.otherwise("started\n", 0, nil, first+"\n"+rest, code)
	})
}

// What can happen to a lock, or to a place in its queue, while exec waits for it.
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
		}, exit.Conflict, "Somebody asked this program to leave the queue"},
		"its place deleted": {func(t *testing.T, x *execRun, other *recipes.Client) {
			require.NoError(t, x.server.Delete(place(t, other)))
		}, exit.Own, "Place in the queue lost"},
	} {
		t.Run(name, func(t *testing.T) {
			server, dir := declareLedger(t)
			holder := (&execRun{t: t, server: server}).other()
			lease, err := holder.Mutex(execLock).Lock(t.Context())
			require.NoError(t, err)
			x := startExecOn(t, server, dir, execLock, "--", "echo", "ran")
			x.speaks()
			c.happens(t, x, holder)
			x.ends(c.code)
			require.Contains(t, x.stderr.String(), c.says)
			require.NoError(t, lease.Unlock(t.Context()))
		})
	}
}

func TestExecWhoseTimeIsUpInTheQueueSaysWhoHoldsTheLock(t *testing.T) {
	inFakeTime(t, "mutex \"ledger\" {\n  acl = acl.open\n}\n", func(t *testing.T, b *bench) {
		b.run(exit.OK, "apply", "-auto-approve")
		stderr := &lockedBuffer{}
		x := &execution{app: &app{terminal: terminal{stderr: stderr}}, timeout: 10 * time.Millisecond, conflict: exit.Conflict}
		dial := func(id string, o func(recipes.Event)) *recipes.Client {
			c, err := b.dial(t.Context(), recipes.Config{Servers: []string{b.addr()}, ID: id, Observer: o})
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		lease, err := dial("someone", nil).Mutex(execLock).Lock(t.Context())
		require.NoError(t, err)
		client := dial("", x.Observe)
		timed, stop := x.bounded(t.Context())
		defer stop()
		_, err = x.acquire(timed, client, []string{execLock})
		err = x.notAcquired(t.Context(), client, []string{execLock}, err)
		var code *exit.Error
		require.ErrorAs(t, err, &code)
		require.Equal(t, exit.Conflict, code.Code)
		require.Regexp(t, `^Lock not acquired: /t/ledger is held by someone, \S+/\d+, since \S+ \(\S+\), connection not asked; 1 ahead. Waited for 10ms\. "locktree status /t/ledger" shows the queue\.$`, err.Error())
		require.Equal(t, "locktree: waiting for /t/ledger\n", stderr.String())
		before := x.notAcquired(t.Context(), client, []string{execLock}, context.DeadlineExceeded) // it had no place in the queue yet
		require.EqualError(t, before, `Lock not acquired: /t/ledger was not acquired within 10ms, and its holder is not known. "locktree status /t/ledger" shows it.`)
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// The look at the lock before that had no end.
func TestExecWhoseTimeIsUpBeforeItSeesTheLockDoesNotWaitForIt(t *testing.T) {
	inFakeTime(t, "mutex \"ledger\" {\n  acl = acl.open\n}\n", func(t *testing.T, b *bench) {
		b.run(exit.OK, "apply", "-auto-approve")
		x := &execution{app: &app{}, timeout: 10 * time.Millisecond, conflict: exit.Conflict}
		client, err := b.dial(t.Context(), recipes.Config{Servers: []string{b.addr()}})
		require.NoError(t, err)
		defer client.Close()
		b.server.Inject(zktest.On("getData"), zktest.Delay(time.Second))
		began := time.Now()
		timed, stop := x.bounded(t.Context())
		defer stop()
		_, err = x.acquire(timed, client, []string{execLock})
		require.Equal(t, 10*time.Millisecond, time.Since(began))
		err = x.notAcquired(t.Context(), client, []string{execLock}, err)
		require.EqualError(t, err, `Lock not acquired: /t/ledger was not acquired within 10ms, and its holder is not known. "locktree status /t/ledger" shows it.`)
	})
}

// It said that the lock was not acquired and its holder not known, with the code for a lock that others hold: a job that
// leaves its work to whoever holds the lock left it to nobody.
func TestExecThatCannotReachTheServersDoesNotSayThatOthersHoldTheLock(t *testing.T) {
	for name, x := range map[string]*execution{"timeout": {timeout: 10 * time.Second}, "try": {try: true}} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, "mutex \"ledger\" {\n  acl = acl.open\n}\n", func(t *testing.T, b *bench) {
				b.run(exit.OK, "apply", "-auto-approve")
				x.app, x.conflict, x.given = &app{}, 0, map[string]bool{conflictFlag: true}
				client, err := b.dial(t.Context(), recipes.Config{Servers: []string{b.addr()}})
				require.NoError(t, err)
				defer client.Close()
				asks := b.server.Inject(zktest.On("create"), zktest.CutBefore)
				go func() { <-asks.Hit(); b.server.RefuseDials(true) }()
				timed, stop := x.bounded(t.Context())
				defer stop()
				_, err = x.acquire(timed, client, []string{execLock})
				err = x.notAcquired(t.Context(), client, []string{execLock}, err)
				var code *exit.Error
				require.ErrorAs(t, err, &code)
				require.Equal(t, exit.Own, code.Code)
				require.ErrorIs(t, code.Err, recipes.ErrUnreachable)
			})
		})
	}
}

// Servers from 3.8.4 and 3.9.2 on do not even say whose a node is that may not be read; older ones do, but nothing
// can be proven by it on either.
func TestExecDoesNotRunUnderALockWhosePlaceMayNotBeRead(t *testing.T) {
	for name, hidden := range map[string]func(zktest.Request) bool{
		"hidden":     zktest.On("exists", "getData", "multi"),
		"unreadable": zktest.On("getData", "multi"),
	} {
		t.Run(name, func(t *testing.T) {
			server, dir := declareLedger(t)
			server.Inject(func(r zktest.Request) bool { return hidden(r) && strings.HasPrefix(r.Path, execLock+"/") }, zktest.Fail(zktest.CodeNoAuth))
			x := startExecOn(t, server, dir, execLock, "--", "echo", "ran")
			x.ends(exit.Own)
			require.Contains(t, x.stderr.String(), "Error: Lock cannot be kept")
			require.Contains(t, x.stderr.String(), "The servers see this connection as world:anyone.")
			n, _ := server.Get(execLock)
			require.Empty(t, n.Children)
		})
	}
}
