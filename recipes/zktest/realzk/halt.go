//go:build linux

package realzk

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// debugOption is the JVM option of a server for Halt; the server logs the port.
const debugOption = "-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=127.0.0.1:0"

var debugPort = regexp.MustCompile(`Listening for transport dt_socket at address: (\d+)`)

// Halt stops the next thread that enters the given method of the server, and that thread only. So it plays a slow disk, or a thread without
// a processor, at exactly that place. The function await waits until a thread has stopped there, and the function release lets the thread
// go on. Halt needs a server with [Options].Debug.
func (s *Server) Halt(method string) (await, release func()) {
	s.tb.Helper()
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		// The previous debugger may still be leaving, and the server accepts one at a time.
		if d := s.debug(method); d != nil {
			return func() {
				s.tb.Helper()
				if !d.await("Breakpoint hit") {
					s.tb.Fatalf("realzk: no thread of the server came to %s", method)
				}
				fmt.Fprintln(d.in, "clear", method)
				d.await("Removed")
			}, d.end
		}
		if time.Now().After(end) {
			s.tb.Fatalf("realzk: the debugger cannot stop threads in %s; the server's log ends:\n%s", method, tail(s.Log(), 10))
		}
	}
}

// debugger is a jdb. When it ends, the server lets the stopped thread go on.
type debugger struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (s *Server) debug(method string) *debugger {
	s.tb.Helper()
	ports := debugPort.FindAllStringSubmatch(s.Log(), -1)
	if len(ports) == 0 {
		return nil
	}
	cmd := exec.Command("jdb", "-attach", "127.0.0.1:"+ports[len(ports)-1][1])
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		s.tb.Fatalf("realzk: %v", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.tb.Fatalf("realzk: %v", err)
	}
	if err := cmd.Start(); err != nil {
		s.tb.Fatalf("realzk: start jdb, which this test needs: %v; install it with: %s", err, install)
	}
	d := &debugger{cmd, in, bufio.NewScanner(out)}
	s.tb.Cleanup(d.end)
	fmt.Fprintln(in, "stop thread in", method)
	if !d.await("Set breakpoint") {
		d.end()
		return nil
	}
	return d
}

// await reads the debugger's output up to a line with the text; false if the debugger ends before.
func (d *debugger) await(text string) bool {
	for d.out.Scan() {
		if strings.Contains(d.out.Text(), text) {
			return true
		}
	}
	return false
}

func (d *debugger) end() {
	d.cmd.Process.Kill()
	d.cmd.Wait()
}
