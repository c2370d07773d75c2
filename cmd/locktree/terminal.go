package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/term"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
)

// terminal is what the program knows about its streams. Data goes to stdout, messages to
// stderr; colours and frames appear only on terminals; a question is asked only where a
// person can answer.
type terminal struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            stack.Environ
	noColor        bool // -no-color
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// checked is standard output where that is no terminal. It keeps the first error of a write, which few of those who write look at,
// and ends the command when nothing reads any more.
type checked struct {
	io.Writer
	unread func()

	mu  sync.Mutex
	err error
}

func (c *checked) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = cmp.Or(c.err, err)
	if errors.Is(err, syscall.EPIPE) {
		c.unread()
	}
	return n, err
}

// unchecked is the stream itself, for a command that inherits it.
func unchecked(w io.Writer) io.Writer {
	if c, ok := w.(*checked); ok {
		return c.Writer
	}
	return w
}

// failed is that error. A closed pipe is the reader's choice.
func (c *checked) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil || errors.Is(c.err, syscall.EPIPE) || errors.Is(c.err, io.ErrClosedPipe) {
		return nil
	}
	return view.Failf("Cannot write standard output", "%v. What this command showed is not complete; what it did is done.", c.err)
}

// color decides for one stream: -no-color and NO_COLOR beat CLICOLOR_FORCE,
// which beats what the stream is.
func (t *terminal) color(stream io.Writer) bool {
	switch {
	case t.noColor || t.env.Get("NO_COLOR") != "":
		return false
	case t.env.Get("CLICOLOR_FORCE") != "" && t.env.Get("CLICOLOR_FORCE") != "0":
		return true
	default:
		return isTerminal(stream) && t.env.Get("TERM") != "dumb"
	}
}

// stream is a stream for a view.
func (t *terminal) stream(w io.Writer) view.Stream {
	return view.Stream{Writer: w, Color: t.color(w), Terminal: isTerminal(w), Width: t.width(w)}
}

// width is the width of a terminal, or 78 without one.
func (t *terminal) width(stream io.Writer) int {
	if f, ok := stream.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return 78
}

// Approve asks for approval; only "yes" gives it, and every other answer ends the command. If standard input is not a
// terminal, nobody would see the question: it only reads a line, so that `echo yes | locktree apply` works as it does with
// Terraform. what is cancelled otherwise, and besides is another way to approve it.
func (a *app) Approve(ctx context.Context, what, question, besides string) error {
	if isTerminal(a.stdin) {
		fmt.Fprint(a.stderr, "\n"+question+"\n\n  Enter a value: ")
	} else {
		fmt.Fprintln(a.stderr, "Waiting for approval on standard input, which is not a terminal. To skip the question, use -auto-approve.")
	}
	answer, err := a.answer(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return view.Failf("Error asking for approval", "Standard input ended without an answer (%v), so nothing was written. Answer \"yes\" there, or add -auto-approve%s.", err, besides)
	case strings.TrimSpace(answer) != "yes":
		a.Message("\n" + what + " cancelled.")
		return exit.With(exit.Failed)
	}
	return nil
}

// answer is the first line of standard input. A goroutine reads it, because reading cannot be interrupted: an interrupt ends the
// wait, and then the program.
func (t *terminal) answer(ctx context.Context) (line string, err error) {
	got := make(chan struct{})
	go func() {
		defer close(got)
		line, err = bufio.NewReader(io.LimitReader(t.stdin, 1<<20)).ReadString('\n')
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-got:
	}
	if line != "" { // the last line may have no end
		return line, nil
	}
	return "", err
}
