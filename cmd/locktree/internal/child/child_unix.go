//go:build unix

package child

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Forwarded are the signals that a program should pass on to a command that it runs.
var Forwarded = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT,
}

// Ends reports whether a signal means that the program should end.
func Ends(s os.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP || s == syscall.SIGQUIT
}

// NoCore prevents a crash from writing the program's memory to disk, because it holds passwords.
func NoCore() { _ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) }

// Number is N of a signal, for an exit code of 128+N.
func Number(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}

func (p *Process) isolate() {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if p.terminal != nil {
		attr.Foreground, attr.Ctty = true, p.terminal.fd
	}
	dieWithUs(attr)
	p.cmd.SysProcAttr = attr
}

// Signal sends a signal to the whole group. A group without processes is no error.
func (p *Process) Signal(s os.Signal) {
	if n, ok := s.(syscall.Signal); ok {
		_ = syscall.Kill(-p.cmd.Process.Pid, n)
	}
}

// Stop asks the group, and the command's processes in other groups, to end: SIGTERM, and SIGCONT for those that are stopped.
func (p *Process) Stop() {
	p.gather()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		p.Signal(s)
		p.signalScattered(s)
	}
}

// Kill ends the group, and the command's processes in other groups, also when the command itself has ended. It stops them first: a
// running process could start another one, or it could end, and then nothing would lead to its children. A fork that is under way
// when the signal comes still finishes. So Kill lists the processes once more after it saw all of them stopped.
func (p *Process) Kill() {
	for quiet, try := 0, 0; quiet < 2 && try < killTries; try++ {
		p.Signal(syscall.SIGSTOP)
		p.signalScattered(syscall.SIGSTOP)
		if quiet++; p.gather() {
			quiet = 0
		}
	}
	p.Signal(syscall.SIGKILL)
	p.signalScattered(syscall.SIGKILL)
}

// killTries bounds the rounds, for a long chain of processes that start each other, and for a process that a system call keeps
// from stopping.
const killTries = 100

func exitCode(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}

// terminal is standard input when a person types there. Only the foreground process group may read from it, so the command's
// group is put into the foreground.
type terminal struct{ fd, group int }

// terminalOf is nil when there is no terminal, or when it is not ours to give away.
func terminalOf(stdin io.Reader) *terminal {
	f, ok := stdin.(*os.File)
	if !ok {
		return nil
	}
	fd := int(f.Fd())
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err != nil || group != unix.Getpgrp() {
		return nil
	}
	// A stopped command would keep its lock, and no person could continue it: the shell only sees us. The command inherits this.
	signal.Ignore(syscall.SIGTSTP)
	return &terminal{fd: fd, group: group}
}

// giveBack makes our group the one in the foreground again.
func (t *terminal) giveBack() {
	if t == nil {
		return
	}
	signal.Ignore(syscall.SIGTTOU) // a process in the background gets it for this call
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.group)
	signal.Reset(syscall.SIGTTOU, syscall.SIGTSTP)
}
