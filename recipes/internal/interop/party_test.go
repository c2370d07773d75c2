//go:build linux

package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/hostile"
)

// party is one program's way into a lock of some recipe.
type party struct {
	name  string // in the tables
	wire  string // how a Go program needs the lock declared; "" = it can use any declaration, or none
	enter func(t *testing.T, l *realLab, path string) *entry
}

// entry is one would-be holder of one lock.
type entry struct {
	session string // as the server prints it
	acquire func(context.Context) error
	release func(context.Context) error
	cancel  func()                      // makes a waiting acquire give up
	try     func(context.Context) error // nil if the library cannot
	answers func(context.Context) error // a round trip to the program: all that it said before has arrived
	waits   func(context.Context) error // returns once the program says of itself that it waits; nil if it cannot

	// ask is for a program in another language: it sends any other command about its handle.
	ask func(ctx context.Context, verb string) (string, error)
	// These are for a Go program: its client and what it holds.
	client *recipes.Client
	lease  *recipes.Lease
}

// isHeld says whether a try was told that another contender holds the lock.
func isHeld(err error) bool { return errors.Is(err, recipes.ErrHeld) || errors.Is(err, errPeerHeld) }

// foreign is a recipe in a process of another language.
func foreign(name string, in func(*realLab) *peer, recipe string, options ...string) party {
	return party{name: name, enter: func(t *testing.T, l *realLab, path string) *entry {
		p := in(l)
		l.mu.Lock()
		l.handles++
		handle := fmt.Sprintf("h%d", l.handles)
		l.mu.Unlock()
		_, err := p.call(t.Context(), append([]string{"open", handle, recipe, path}, options...)...)
		require.NoError(t, err)
		e := &entry{session: p.session}
		e.acquire = func(ctx context.Context) error { _, err := p.call(ctx, "acquire", handle); return err }
		e.try = func(ctx context.Context) error { _, err := p.call(ctx, "acquire", handle, "timeout=0"); return err }
		e.release = func(ctx context.Context) error { _, err := p.call(ctx, "release", handle); return err }
		e.answers = func(ctx context.Context) error { _, err := p.call(ctx, "hello"); return err }
		e.ask = func(ctx context.Context, verb string) (string, error) { return p.call(ctx, verb, handle) }
		e.cancel = func() { _, _ = e.ask(context.Background(), "cancel") }
		if p == l.java {
			e.waits = func(ctx context.Context) error { return p.parked(ctx, handle) }
		}
		return e
	}}
}

func java(l *realLab) *peer   { return l.java }
func python(l *realLab) *peer { return l.python }

// withoutTry is a party whose library can only wait.
func withoutTry(p party) party {
	enter := p.enter
	p.enter = func(t *testing.T, l *realLab, path string) *entry {
		e := enter(t, l, path)
		e.try = nil
		return e
	}
	return p
}

// goLock is a lock of this library, of any recipe.
type goLock struct {
	lock, try func(context.Context) (*recipes.Lease, error)
}

// ours is a recipe of this library, in a client of its own: every entry is another Go program.
func ours(name string, wire string, open func(*recipes.Client, string) goLock, auth ...recipes.Auth) party {
	return party{name: name, wire: wire, enter: func(t *testing.T, l *realLab, path string) *entry {
		queued := make(chan struct{})
		once := sync.OnceFunc(func() { close(queued) })
		c := l.goClient(t, name, func(e recipes.Event) {
			if e.Type == recipes.EventQueued {
				once()
			}
		}, auth...)
		e := goEntry(t, c, open(c, path))
		e.waits = func(ctx context.Context) error {
			select {
			case <-queued:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return e
	}}
}

// goEntry is one goroutine of the program that has the client c.
func goEntry(t *testing.T, c *recipes.Client, lock goLock) *entry {
	s, err := c.Session(t.Context())
	require.NoError(t, err)
	e := &entry{session: fmt.Sprintf("0x%x", s.ID()), client: c}
	keep := func(l *recipes.Lease, err error) error {
		e.lease = l
		return err
	}
	waiting, cancel := context.WithCancel(t.Context())
	e.cancel = cancel
	e.acquire = func(ctx context.Context) error {
		ctx, done := context.WithCancel(ctx)
		defer done()
		defer context.AfterFunc(waiting, done)()
		return keep(lock.lock(ctx))
	}
	e.release = func(ctx context.Context) error { return e.lease.Unlock(ctx) }
	e.answers = func(context.Context) error { return nil }
	if lock.try != nil {
		e.try = func(ctx context.Context) error { return keep(lock.try(ctx)) }
	}
	return e
}

func goMutex(c *recipes.Client, path string) goLock {
	m := c.Mutex(path)
	return goLock{m.Lock, m.TryLock}
}

func goRead(c *recipes.Client, path string) goLock {
	m := c.RWMutex(path)
	return goLock{m.RLock, m.TryRLock}
}

func goWrite(c *recipes.Client, path string) goLock {
	m := c.RWMutex(path)
	return goLock{m.Lock, m.TryLock}
}

func goSemaphore(n int) func(*recipes.Client, string) goLock {
	return func(c *recipes.Client, path string) goLock {
		m := c.Semaphore(path)
		return goLock{
			func(ctx context.Context) (*recipes.Lease, error) { return m.Acquire(ctx, n) },
			func(ctx context.Context) (*recipes.Lease, error) { return m.TryAcquire(ctx, n) },
		}
	}
}

func goElection(c *recipes.Client, path string) goLock {
	return goLock{lock: c.Election(path).Campaign}
}

// goZookeeper is the lock that comes with the Go client library. This library uses no part of that lock.
func goZookeeper(t *testing.T, l *realLab, path string) *entry {
	c, events, err := zk.Connect([]string{l.zk.Addr}, livingSession, zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for deadline := time.After(hostile.Patience); c.State() != zk.StateHasSession; {
		select {
		case <-events:
		case <-deadline:
			t.Fatal("go-zookeeper has no session")
		}
	}
	lock := zk.NewLock(c, path, zk.WorldACL(zk.PermAll))
	// The lock knows neither contexts nor deadlines: only the test's own deadline bounds it.
	return &entry{session: "0x" + fmt.Sprintf("%x", c.SessionID()),
		acquire: func(context.Context) error { return lock.Lock() },
		release: func(context.Context) error { return lock.Unlock() },
		answers: func(context.Context) error { return nil },
	}
}

// peer is a process of a program in testdata/interop. It has many locks, and is driven line by line.
type peer struct {
	name    string
	session string // as the server prints it: 0x1000...
	cmd     *exec.Cmd
	in      io.WriteCloser
	errs    lockedBuffer
	event   func(line string)
	exited  chan struct{}

	mu      sync.Mutex
	last    int
	replies map[string]chan string
}

// errPeerHeld is a peer's answer that another contender holds the lock.
var errPeerHeld = errors.New("held")

// errPeerEnded is the error of a call to a process that has ended.
var errPeerEnded = errors.New("the process has ended")

// startPeer runs cmd and waits for its session. Events are what the process says unasked; event is called for each,
// in order, from one goroutine. The process ends with the test.
func startPeer(t *testing.T, name string, cmd *exec.Cmd, event func(line string)) *peer {
	t.Helper()
	p := &peer{name: name, cmd: cmd, event: event, exited: make(chan struct{}), replies: map[string]chan string{}}
	out, err := cmd.StdoutPipe()
	if err == nil {
		p.in, err = cmd.StdinPipe()
	}
	cmd.Stderr = &p.errs
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("%s does not start; .ci/setup says what to install: %v", name, err)
	}
	go p.read(out)
	t.Cleanup(func() { p.quit(t) })
	ctx := hostile.Within(t, hostile.Patience)
	id, err := p.call(ctx, "hello")
	if err != nil {
		t.Fatalf("%s has no session: %v", name, err)
	}
	p.session = "0x" + id
	return p
}

// call sends a command and waits for its answer: the text after "ok", or errPeerHeld, or an error. When ctx ends, the command goes on in
// the process.
func (p *peer) call(ctx context.Context, words ...string) (string, error) {
	reply := make(chan string, 1)
	p.mu.Lock()
	p.last++
	number := strconv.Itoa(p.last)
	p.replies[number] = reply
	_, err := io.WriteString(p.in, number+" "+strings.Join(words, " ")+"\n")
	p.mu.Unlock()
	if err != nil {
		return "", fmt.Errorf("%s: %s: %w: %s", p.name, words[0], err, p.errs.tail())
	}
	select {
	case line := <-reply:
		return p.answer(words[0], line)
	case <-p.exited:
	case <-ctx.Done():
		return "", fmt.Errorf("%s: %s: %w", p.name, strings.Join(words, " "), ctx.Err())
	}
	select { // it may have answered before it ended
	case line := <-reply:
		return p.answer(words[0], line)
	default:
		return "", fmt.Errorf("%s: %s: %w: %s", p.name, words[0], errPeerEnded, p.errs.tail())
	}
}

func (p *peer) answer(verb, line string) (string, error) {
	status, rest, _ := strings.Cut(line, " ")
	switch status {
	case "ok":
		return rest, nil
	case "held":
		return "", errPeerHeld
	default:
		return "", fmt.Errorf("%s: %s: %s\n%s", p.name, verb, rest, p.errs.tail())
	}
}

// read delivers all that the process says before it closes exited, even what the process said just before it was killed.
func (p *peer) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		number, rest, _ := strings.Cut(lines.Text(), " ")
		if number == "-" {
			p.event(rest)
			continue
		}
		p.mu.Lock()
		reply := p.replies[number]
		delete(p.replies, number)
		p.mu.Unlock()
		if reply != nil {
			reply <- rest
		}
	}
	_ = p.cmd.Wait()
	close(p.exited)
}

// parked returns once the handle's thread sleeps in its recipe's wait loop. A thread that falls asleep does not report it, so parked asks
// again and again.
func (p *peer) parked(ctx context.Context, handle string) error {
	for ; ; time.Sleep(pollEvery) {
		answer, err := p.call(ctx, "parked", handle)
		if err != nil || answer == "yes" {
			return err
		}
	}
}

// kill ends the process at once, and returns when all that it said has been delivered.
func (p *peer) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

func (p *peer) quit(t *testing.T) {
	_ = p.in.Close()
	select {
	case <-p.exited:
	case <-time.After(hostile.Patience):
		t.Logf("%s did not quit and was killed", p.name)
		p.kill()
	}
	if t.Failed() {
		t.Logf("%s wrote to standard error:\n%s", p.name, p.errs.tail())
	}
}

// lockedBuffer is a bytes.Buffer for a process to write to while a test reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) tail() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.b.String()
	return text[max(0, len(text)-4000):]
}
