package examples_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shell is a terminal: variables and background programs stay from one command to the next.
type shell struct {
	t     *testing.T
	stdin io.Writer
	lines chan string
	last  string // command
}

// The shell prints prompt when a command is done, and then its exit code.
const prompt = "@@done@@"

// newShell starts a shell in a directory, with the programs of the examples first on its PATH.
func newShell(t *testing.T, dir string, env []string) *shell {
	bin, err := binary()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "bash", "--norc")
	cmd.Dir = dir
	cmd.Env = append(env, "PATH="+bin+":"+pathOf(env))
	// A group, so that its programs end with it, even if the test is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, w, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = w, w
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	s := &shell{t: t, stdin: stdin, lines: make(chan string)}
	ended := make(chan struct{})
	go func() {
		defer close(s.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			select {
			case s.lines <- scan.Text():
			case <-ended:
			}
		}
	}()
	t.Cleanup(func() {
		close(ended)
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // killed
		out.Close()
	})
	s.run("trap 'kill -KILL 0' EXIT")
	return s
}

func pathOf(env []string) (path string) {
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			path = value
		}
	}
	return path
}

// send types one command and its input.
func (s *shell) send(command string, input ...string) {
	s.last = command
	for _, line := range input {
		command += "\n" + line
	}
	_, err := fmt.Fprintf(s.stdin, "%s\n__code=$?; echo; echo %s $__code; (exit $__code)\n", command, prompt)
	require.NoError(s.t, err)
}

// run types one command and waits for its end.
func (s *shell) run(command string, input ...string) (out string, code int) {
	s.send(command, input...)
	var b strings.Builder
	for {
		line := s.line()
		if number, ok := strings.CutPrefix(line, prompt+" "); ok {
			code, err := strconv.Atoi(number)
			require.NoError(s.t, err)
			return strings.TrimSuffix(b.String(), "\n"), code
		}
		b.WriteString(line + "\n")
	}
}

// line is the next line the shell shows.
func (s *shell) line() string {
	select {
	case line, ok := <-s.lines:
		require.True(s.t, ok, "the shell has ended")
		return line
	case <-time.After(hanging):
		require.Fail(s.t, "the shell says nothing any more", "last command: %s", s.last)
		return ""
	}
}
