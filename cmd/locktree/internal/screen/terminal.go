package screen

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
	"github.com/locktree/locktree/cmd/locktree/internal/view"
)

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
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

// Raw is standard output itself, for a command that inherits it.
func (s *Screen) Raw() io.Writer {
	if c, ok := s.Stdout.(*checked); ok {
		return c.Writer
	}
	return s.Stdout
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

// Color decides for one stream: -no-color and NO_COLOR beat CLICOLOR_FORCE,
// which beats what the stream is.
func (s *Screen) Color(stream io.Writer) bool {
	switch {
	case s.NoColor || s.Env.Get("NO_COLOR") != "":
		return false
	case s.Env.Get("CLICOLOR_FORCE") != "" && s.Env.Get("CLICOLOR_FORCE") != "0":
		return true
	default:
		return IsTerminal(stream) && s.Env.Get("TERM") != "dumb"
	}
}

// stream is a stream for a view.
func (s *Screen) stream(w io.Writer) view.Stream {
	return view.Stream{Writer: w, Color: s.Color(w), Terminal: IsTerminal(w), Width: s.width(w)}
}

// width is the width of a terminal, or 78 without one.
func (s *Screen) width(stream io.Writer) int {
	if f, ok := stream.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return 78
}

// Approve asks for approval; only "yes" gives it, and every other answer ends the command. If standard input is not a terminal,
// no person would see the question. Then Approve only reads a line, so that `echo yes | locktree apply` works as it does with
// Terraform. what names the cancelled action, and besides another way to approve it.
func (s *Screen) Approve(ctx context.Context, what, question, besides string) error {
	if IsTerminal(s.Stdin) {
		fmt.Fprint(s.Stderr, "\n"+question+"\n\n  Enter a value: ")
	} else {
		fmt.Fprintln(s.Stderr, "Waiting for approval on standard input, which is not a terminal. To skip the question, use -auto-approve.")
	}
	answer, err := s.answer(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return view.Failf("Error asking for approval", "Standard input ended without an answer (%v), so nothing was written. Answer \"yes\" there, or add -auto-approve%s.", err, besides)
	case strings.TrimSpace(answer) != "yes":
		s.Message("\n" + what + " cancelled.")
		return exit.With(exit.Failed)
	}
	return nil
}

// answer is the first line of standard input. A goroutine reads it, because reading cannot be interrupted: an interrupt ends the
// wait, and then the program.
func (s *Screen) answer(ctx context.Context) (line string, err error) {
	got := make(chan struct{})
	go func() {
		defer close(got)
		line, err = bufio.NewReader(io.LimitReader(s.Stdin, 1<<20)).ReadString('\n')
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
