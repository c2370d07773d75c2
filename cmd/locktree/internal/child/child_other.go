//go:build !unix

package child

import (
	"io"
	"os"
)

// Forwarded are the signals that a program should pass on to a command that it runs.
var Forwarded = []os.Signal{os.Interrupt}

// Ends reports whether a signal means that the program should end.
func Ends(os.Signal) bool { return true }

// Number is N of a signal, for an exit code of 128+N.
func Number(os.Signal) int { return 2 }

func (p *Process) isolate() {}

// Signal sends a signal to the command, if the system can.
func (p *Process) Signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// Stop ends the command: there is no way to ask.
func (p *Process) Stop() { p.Kill() }

// Kill ends the command.
func (p *Process) Kill() { _ = p.cmd.Process.Kill() }

func exitCode(s *os.ProcessState) int { return s.ExitCode() }

type terminal struct{}

func terminalOf(io.Reader) *terminal { return nil }

func (*terminal) giveBack() {}

// NoCore does nothing: only Unix writes the memory of a program that crashes.
func NoCore() {}
