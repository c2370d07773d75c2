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
)

// peer is a process of another language full of locks (testdata/interop), driven line by line.
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

// errPeerHeld is a peer's answer that somebody else holds the lock.
var errPeerHeld = errors.New("held")

// errPeerEnded is why a call to a process that is no more fails.
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
	ctx := within(t, patience)
	id, err := p.call(ctx, "hello")
	if err != nil {
		t.Fatalf("%s has no session: %v", name, err)
	}
	p.session = "0x" + id
	return p
}

// call sends a command and waits for its answer: what follows "ok", or errPeerHeld, or an error. When ctx ends the
// command goes on in the process.
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

// read delivers what the process says, all of it, before exited is closed: also what it said just before being killed.
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

// parked returns once the handle's thread sleeps in its recipe's wait loop. A thread that falls asleep tells nobody, so
// it is asked again and again.
func (p *peer) parked(ctx context.Context, handle string) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		answer, err := p.call(ctx, "parked", handle)
		if err != nil || answer == "yes" {
			return err
		}
		<-tick.C
	}
}

// kill ends the process without its having a say, and returns when all it ever said has been delivered.
func (p *peer) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

func (p *peer) quit(t *testing.T) {
	_ = p.in.Close()
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
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
