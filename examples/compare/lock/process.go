//go:build linux

package lock

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is the process of one system, seen from outside.
type Process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string
	stderr bytes.Buffer  // read when the process has ended
	limit  time.Duration // for an answer, beyond what was asked for
	end    sync.Once
}

// Spawn starts the process of a system. It dies with its parent, also when that is killed.
func Spawn(argv []string, limit time.Duration) (p *Process, err error) {
	p = &Process{cmd: exec.Command(argv[0], argv[1:]...), lines: make(chan string, 1<<16), limit: limit}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = &p.stderr
	return p, Try(func() {
		p.in = Must(p.cmd.StdinPipe())
		out := Must(p.cmd.StdoutPipe())
		Check(p.cmd.Start())
		go p.read(out)
	})
}

func (p *Process) read(out io.Reader) {
	defer close(p.lines)
	for s := bufio.NewScanner(out); s.Scan(); {
		p.lines <- s.Text()
	}
}

// Pid is the process's.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Start puts a load on the servers and returns when it has warmed up.
func (p *Process) Start(addrs []string, name string, l Load, warm time.Duration) error {
	_, err := p.ask(fmt.Sprintf("start %s %s %d %d %d %d %d %d", strings.Join(addrs, ","), name, l.Clients, l.Workers, l.Locks, l.Hold, warm, p.limit), "ready", warm)
	return err
}

// Measure says what the load does within a window of time.
func (p *Process) Measure(window time.Duration) (r Result, err error) {
	said, err := p.ask(fmt.Sprintf("measure %d", window), "measured", window)
	if err == nil {
		err = json.Unmarshal([]byte(said), &r)
	}
	return r, err
}

// Stop ends the load.
func (p *Process) Stop() error {
	_, err := p.ask("stop", "stopped", 0)
	return err
}

// Kill ends the process, with what it started, and waits for it.
func (p *Process) Kill() {
	p.end.Do(func() {
		_ = syscall.Kill(-p.Pid(), syscall.SIGKILL) // its group is its own
		for range p.lines {
		}
		_ = p.cmd.Wait()
	})
}

// ErrLost is of a process that ended, or did not answer, and is of no more use. ErrLate is of a line that did not come in time.
var ErrLost, ErrLate = errors.New("lost the process"), errors.New("late")

// Said is a line of a process.
type Said struct {
	Verb, Rest string
	Token      uint64 // 0 where there is none
}

// Await skips what the process says until one of the verbs.
func (p *Process) Await(patience time.Duration, verbs ...string) (said Said, err error) {
	limit := time.After(patience)
	for {
		select {
		case text, ok := <-p.lines:
			if !ok {
				p.Kill() // then all it wrote is there
				wrote := strings.TrimSpace(p.stderr.String())
				return said, fmt.Errorf("%w before it said %s; it wrote: %s", ErrLost, strings.Join(verbs, " or "), cmp.Or(wrote[max(0, len(wrote)-1000):], "nothing"))
			}
			if said.Verb, said.Rest, _ = strings.Cut(text, " "); slices.Contains(verbs, said.Verb) {
				_, _ = fmt.Sscanf(said.Rest, "token=%d", &said.Token)
				return said, nil
			}
		case <-limit:
			return Said{}, fmt.Errorf("%w: no %s within %v", ErrLate, strings.Join(verbs, " or "), patience.Round(time.Millisecond))
		}
	}
}

// Drain forgets what the process has said and nobody has awaited.
func (p *Process) Drain() {
	for len(p.lines) > 0 {
		<-p.lines
	}
}

func (p *Process) ask(line, answer string, takes time.Duration) (string, error) {
	_, err := fmt.Fprintln(p.in, line) // a process that has ended says nothing any more
	said, awaited := p.Await(takes+2*p.limit, answer, "failed")
	switch {
	case errors.Is(awaited, ErrLate):
		return "", fmt.Errorf("%w: %w", ErrLost, awaited)
	case said.Verb == "failed":
		return "", errors.New(said.Rest)
	}
	return said.Rest, cmp.Or(awaited, err)
}

// Every system runs in a process of its own, which measures itself and is told what to do in lines on its standard input. It
// answers each with one line:
//
//	start HOST:PORT,… NAME CLIENTS WORKERS LOCKS HOLD WARM LIMIT   ready
//	measure WINDOW                                                 measured {"Window": …, "Cycles": 9, "Each": [5, 4], …}
//	stop                                                           stopped
//
// or with "failed TEXT". Times are in nanoseconds.

// Serve is such a process, for a driver in Go. It ends with its input.
func Serve(d Driver, ttl time.Duration, in io.Reader, out io.Writer) {
	var r *Running
	for lines := bufio.NewScanner(in); lines.Scan(); {
		answer := ""
		if err := Try(func() { answer = serve(d, ttl, &r, lines.Text()) }); err != nil {
			answer = "failed " + strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		fmt.Fprintln(out, answer)
	}
}

func serve(d Driver, ttl time.Duration, r **Running, line string) string {
	verb, rest, _ := strings.Cut(line, " ")
	if verb == "start" {
		var addrs, name string
		var l Load
		var warm, limit time.Duration
		Must(fmt.Sscan(rest, &addrs, &name, &l.Clients, &l.Workers, &l.Locks, &l.Hold, &warm, &limit))
		*r = Start(d, strings.Split(addrs, ","), ttl, name, l)
		(*r).Warm(warm, limit)
		return "ready"
	}
	if *r == nil {
		Check(fmt.Errorf("%s comes after start", verb))
	}
	if verb == "measure" {
		var window time.Duration
		Must(fmt.Sscan(rest, &window))
		return "measured " + string(Must(json.Marshal((*r).Measure(window))))
	}
	(*r).Stop()
	*r = nil
	return "stopped"
}
