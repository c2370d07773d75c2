//go:build linux

package lock

import (
	"bufio"
	"cmp"
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
	stderr *Tail
	limit  time.Duration // for an answer, beyond what was asked for
	end    sync.Once
}

// Spawn starts the process of a system. It dies with its parent, also when that is killed.
func Spawn(argv []string, limit time.Duration) (*Process, error) {
	p := &Process{cmd: exec.Command(argv[0], argv[1:]...), lines: make(chan string, 1<<16), stderr: &Tail{}, limit: limit}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = p.stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.in = in
	go p.read(out)
	return p, nil
}

func (p *Process) read(out io.Reader) {
	defer close(p.lines)
	s := bufio.NewScanner(out)
	for s.Scan() {
		p.lines <- s.Text()
	}
}

// Pid is the process's.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Start puts a load on the servers and returns when it has warmed up.
func (p *Process) Start(addrs []string, name string, l Load, warm time.Duration) error {
	_, err := p.ask(formatLoad(addrs, name, l, warm, p.limit), "ready", warm)
	return err
}

// Measure says what the load does within a window of time.
func (p *Process) Measure(window time.Duration) (Result, error) {
	args, err := p.ask(fmt.Sprintf("measure us=%d", window.Microseconds()), "measured", window)
	if err != nil {
		return Result{}, err
	}
	return parseResult(args)
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

// Said is a line of a process that plays a role of an experiment.
type Said struct {
	Verb, Rest string
	Token      uint64 // 0 where there is none
}

// ErrLost is of a process that ended, or did not answer, and is of no more use. ErrLate is of a line that did not come in time.
var ErrLost, ErrLate = errors.New("lost the process"), errors.New("late")

// Await skips what the process says until one of the verbs.
func (p *Process) Await(patience time.Duration, verbs ...string) (said Said, err error) {
	limit := time.After(patience)
	for {
		select {
		case text, ok := <-p.lines:
			if !ok {
				p.Kill() // then all it wrote is there
				return said, fmt.Errorf("%w before it said %s; it wrote: %s", ErrLost, strings.Join(verbs, " or "), cmp.Or(p.stderr.String(), "nothing"))
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
	for {
		select {
		case <-p.lines:
		default:
			return
		}
	}
}

func (p *Process) ask(line, answer string, takes time.Duration) (words, error) {
	_, err := fmt.Fprintln(p.in, line) // a process that has ended says nothing any more
	said, awaited := p.Await(takes+2*p.limit, answer, "failed")
	if errors.Is(awaited, ErrLate) {
		return nil, fmt.Errorf("%w: %w", ErrLost, awaited)
	}
	if err := cmp.Or(awaited, err); err != nil {
		return nil, err
	}
	_, args, err := parse(said.Verb + " " + said.Rest)
	return args, err
}

// Tail keeps the end of what a process writes.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-1000):]
	return len(b), nil
}

func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
