//go:build linux

// Package lock is the seam between the comparison and the lock services it compares. It defines what a driver offers,
// and puts a load on it. A driver in Go is a [Driver]; one in another language speaks the lines of [Serve].
package lock

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Driver makes one client of a lock service as the service's documentation recommends, with a session or connections of its own.
// ttl is how long a lock may outlive its holder: the session's timeout, or the time to live of a key. On an error it panics; [Try]
// returns the error.
type Driver func(addrs []string, ttl time.Duration) Client

// Client is one client of a lock service.
type Client struct {
	// Locker returns what one worker uses of a lock. The name has no slash. On an error it panics; [Try] returns the error.
	Locker func(name string) Locker
	// Set returns a lock that takes several locks at once. Nil if the system has no such lock, or its driver does not offer it.
	Set   func(names ...string) Locker
	Close func() error
}

// Locker acquires and releases, by turns, for one worker.
type Locker struct {
	Lock, Unlock func(context.Context) error
	// Token returns the token of the last grant. Tokens grow, so a store can refuse smaller ones. Nil if grants have no token.
	Token func() uint64
	// Lost tells the holder that the lock is lost. Nil if the system does not tell it.
	Lost func() <-chan struct{}
	// Also makes another lock of the same holder. It is nil if all lockers of a client are one holder. In a database,
	// each connection is a holder.
	Also func(name string) Locker
}

// failure ends the start of a server, or an experiment, with an error.
type failure struct{ error }

// Check panics unless err is nil. It ends the function that [Try] calls, and Try returns err.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Must is Check for a call with a result.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Try calls f, in the goroutine of its caller. If a [Check] in f ends it, Try returns the error of that Check.
func Try(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	f()
	return nil
}

// Load is the work for a system: Workers goroutines, spread over Clients clients, lock and unlock.
type Load struct {
	Clients int           // sessions
	Workers int           // goroutines, or threads
	Locks   int           // worker i uses lock i modulo Locks
	Hold    time.Duration // how long the lock is kept
}

// Result is what a load did within a window of time.
type Result struct {
	Window   time.Duration
	Cycles   int64         // acquired and released
	Total    int64         // cycles since the load began
	Errors   int64         // calls that failed
	Overlaps int64         // grants since the load began, while another worker held the lock
	First    string        // the first error
	Each     []int64       // cycles by worker
	Longest  time.Duration // the longest wait, also of waits that have not ended
}

// PerSecond are the cycles.
func (r *Result) PerSecond() float64 { return float64(r.Cycles) / r.Window.Seconds() }

// Running is a load under way.
type Running struct {
	load    Load
	clients []Client
	stopped atomic.Bool
	workers sync.WaitGroup

	mu       sync.Mutex  // guards the fields below
	inside   []int       // by lock: how many holders it has
	sum      Result      // since the load began; Each and Longest since the window began
	waitsFor []time.Time // by worker: when its wait began; zero while it does not wait
}

// Start dials the clients and lets the workers begin. name sets the locks apart from those of other loads. On an error it panics;
// [Try] returns the error. The clients then stay open until their process ends.
func Start(d Driver, addrs []string, ttl time.Duration, name string, load Load) *Running {
	r := &Running{load: load, inside: make([]int, load.Locks), waitsFor: make([]time.Time, load.Workers)}
	r.sum.Each = make([]int64, load.Workers)
	for range load.Clients {
		r.clients = append(r.clients, d(addrs, ttl))
	}
	var lockers []Locker
	for i := range load.Workers {
		lockers = append(lockers, r.clients[i%load.Clients].Locker(fmt.Sprintf("%s-%d", name, i%load.Locks)))
	}
	for i, l := range lockers {
		r.workers.Go(func() { r.work(i, l) })
	}
	return r
}

// Warm waits until the workers together have made as many cycles as there are workers, and then for a while.
func (r *Running) Warm(while, limit time.Duration) {
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		var cycles int64
		var first string
		r.do(func() { cycles, first = r.sum.Cycles, r.sum.First })
		if cycles >= int64(r.load.Workers) {
			break
		}
		if time.Now().After(end) {
			Check(fmt.Errorf("%d cycles of %d workers in %v; the first error: %s", cycles, r.load.Workers, limit, cmp.Or(first, "none")))
		}
	}
	time.Sleep(while)
}

// Measure lets a window of time pass and says what was done in it.
func (r *Running) Measure(window time.Duration) (out Result) {
	var before Result
	var begin time.Time
	r.do(func() {
		clear(r.sum.Each)
		r.sum.Longest = 0
		before, begin = r.sum, time.Now()
	})
	time.Sleep(window)
	r.do(func() {
		out = r.sum
		out.Window, out.Total = time.Since(begin), out.Cycles
		out.Cycles, out.Errors, out.Each = out.Cycles-before.Cycles, out.Errors-before.Errors, slices.Clone(out.Each)
		for _, since := range r.waitsFor {
			if !since.IsZero() {
				out.Longest = max(out.Longest, time.Since(since))
			}
		}
	})
	return out
}

// Stop lets every worker finish what it is at, and closes the clients.
func (r *Running) Stop() {
	r.stopped.Store(true)
	r.workers.Wait()
	for _, c := range r.clients {
		Check(c.Close())
	}
}

func (r *Running) do(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// work locks and unlocks until the load is stopped.
func (r *Running) work(i int, l Locker) {
	for !r.stopped.Load() {
		if err := r.cycle(i, i%r.load.Locks, l); err != nil {
			r.do(func() { r.sum.Errors, r.sum.First = r.sum.Errors+1, cmp.Or(r.sum.First, err.Error()) })
			time.Sleep(10 * time.Millisecond) // a worker that fails at once must leave the processor to the others
		}
	}
}

func (r *Running) cycle(i, k int, l Locker) error {
	r.do(func() { r.waitsFor[i] = time.Now() })
	err := l.Lock(context.Background())
	r.do(func() {
		r.sum.Longest, r.waitsFor[i] = max(r.sum.Longest, time.Since(r.waitsFor[i])), time.Time{}
		if err != nil {
			return
		}
		if r.inside[k]++; r.inside[k] > 1 {
			r.sum.Overlaps++
		}
	})
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	time.Sleep(r.load.Hold)
	r.do(func() { r.inside[k]-- })
	if err := l.Unlock(context.Background()); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	r.do(func() {
		r.sum.Cycles++
		r.sum.Each[i]++
	})
	return nil
}

// Process is the process of one system, seen from outside.
type Process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string
	stderr bytes.Buffer  // read when the process has ended
	limit  time.Duration // how long to wait for an answer, beyond the time that the request takes
	end    sync.Once
}

// Spawn starts the process of a system. It dies with its parent, also if the parent is killed.
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

// Pid is the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Start puts a load on the servers and returns when the load has warmed up.
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

// Kill ends the process and its children, and waits for it.
func (p *Process) Kill() {
	p.end.Do(func() {
		_ = syscall.Kill(-p.Pid(), syscall.SIGKILL) // the process leads a group of its own
		for range p.lines {
		}
		_ = p.cmd.Wait()
	})
}

// ErrLost means that the process has ended, or does not answer. ErrLate means that a line did not come in time.
var ErrLost, ErrLate = errors.New("lost the process"), errors.New("late")

// Said is a line of a process.
type Said struct {
	Verb, Rest string
	Token      uint64 // 0 where there is none
}

// Await skips the lines of the process until one with one of the verbs comes.
func (p *Process) Await(patience time.Duration, verbs ...string) (said Said, err error) {
	limit := time.After(patience)
	for {
		select {
		case text, ok := <-p.lines:
			if !ok {
				p.Kill() // it waits for the process, so p.stderr is complete afterwards
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

// Drain drops the lines of the process that Await has not read.
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

// Every system runs in a process of its own, which measures itself. It reads commands, one a line, from its standard input,
// and answers each with one line:
//
//	start HOST:PORT,… NAME CLIENTS WORKERS LOCKS HOLD WARM LIMIT   ready
//	measure WINDOW                                                 measured {"Window": …, "Cycles": 9, "Each": [5, 4], …}
//	stop                                                           stopped
//
// or with "failed TEXT". Times are in nanoseconds.

// Serve is such a process, for a driver in Go. It ends when its input ends.
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
