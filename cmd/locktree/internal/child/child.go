// Package child runs a command in a process group of its own. A program that runs a command under a lock must be able to end
// everything that the command started, and not only the shell in front of it.
//
// # Guarantees
//
// The exit code is the command's own; 128+N when signal N killed it, as in a shell. [Process.Kill] ends all processes of the
// group. On Linux it also ends processes that changed their group, as commands under timeout(1) do, unless they left the session
// (setsid, as daemons do). On Linux the command is killed when this process dies, however it dies.
//
// # What is not guaranteed
//
// A process in another group may escape Kill if it ignores SIGHUP. When the parent of a stopped group dies, Linux sends the group
// SIGHUP and continues it. A process in it may then start another process, which Kill does not find. If this process dies, the
// processes that the command started survive. Systems other than Unix have no groups: Signal, Stop and Kill reach only the
// command itself.
package child

import (
	"errors"
	"io/fs"
	"os/exec"
	"runtime"
	"time"
)

// Exit codes of a command that was not run, as coreutils has them.
const (
	CannotRun = 126 // the file exists, but is not a program or may not be run
	NotFound  = 127
)

// Process is a command that runs.
type Process struct {
	cmd      *exec.Cmd
	terminal *terminal
	done     chan struct{}
	code     int

	scattered map[int]string // see gather
}

// pipeDelay is how long Wait still reads the output of an ended command whose children keep the pipe open. It matters only in
// tests, where output is not a file.
const pipeDelay = time.Second

// Start starts a command. The error says why it could not be run; see [CodeOf].
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.WaitDelay = pipeDelay
	p := &Process{cmd: cmd, done: make(chan struct{}), terminal: terminalOf(cmd.Stdin)}
	p.isolate()
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		p.terminal.giveBack()
		return nil, err
	}
	return p, nil
}

// run waits on the thread that started the command: Linux sends the death signal when
// that thread ends, even if this program runs on.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait() // the result is in ProcessState; an error while copying output does not matter here
	p.code = exitCode(p.cmd.ProcessState)
	p.terminal.giveBack()
	close(p.done)
}

// CodeOf is the exit code for an error of [Start].
func CodeOf(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return NotFound
	}
	return CannotRun
}

// Done is closed when the command has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Code is the exit code, once Done is closed.
func (p *Process) Code() int { return p.code }
