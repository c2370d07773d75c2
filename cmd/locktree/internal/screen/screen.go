// Package screen shows results and asks for approvals: it has the three streams of a run, the form of its output, the progress of
// long steps, and the answer to an interrupt.
//
// It relies on package view for every text of a result. It never writes to ZooKeeper, and it never ends the process. Several
// goroutines may use a [Screen] once View was called.
//
//	s := &screen.Screen{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Environ()}
//	defer s.Interruptible(ctx)()
//	s.Show(result)
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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/hcl/v2"
	"golang.org/x/term"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
)

// Screen shows results, and asks a person. Data goes to Stdout and messages to Stderr.
type Screen struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            stack.Environ
	NoColor        bool // -no-color
	JSON           JSON // -json
	Version        string

	Interrupt context.CancelCauseFunc // interrupts the command of Run

	once     sync.Once // makes v; the goroutine of an interrupt may need it at the same time
	v        view.Output
	underWay chan struct{} // has one element while an interrupt must wait
	changing atomic.Bool   // an apply has begun to write
}

// JSON is the form of -json.
type JSON int

// The forms. Without -json a person reads the output.
const (
	Text JSON = iota
	Document
	Stream
	Log // a stream on standard error: exec leaves standard output to its command
)

// Run runs a command, shows its error, and returns its exit code.
func (s *Screen) Run(ctx context.Context, command func(context.Context) error) (code int) {
	out := &checkedStdout{Writer: s.Stdout, unread: func() { s.Interrupt(errors.Join(context.Canceled, syscall.EPIPE)) }}
	if !IsTerminal(s.Stdout) {
		s.Stdout = out
	}
	err := s.await(ctx, command)
	if err != nil && err.Error() != "" {
		s.View().Diagnostics(view.Explain(err), nil)
	}
	code = exit.Code(err)
	if err := out.firstError(); err != nil {
		view.NewHuman(view.Stream{}, s.stream(s.Stderr)).Diagnostics(view.Explain(err), nil) // also with -json
		if code == exit.OK || code == exit.Changes {
			return exit.Failed
		}
	}
	return code
}

// grace is how long an interrupted command may take to end by itself.
const grace = time.Second

// await waits for the command. After an interrupt it waits for the step under way, and lets no new step begin. Then it gives the
// command a second to end: an evaluation, or the reading of a FIFO, cannot be interrupted.
func (s *Screen) await(ctx context.Context, command func(context.Context) error) error {
	s.underWay = make(chan struct{}, 1)
	ctx, s.Interrupt = context.WithCancelCause(ctx)
	defer s.Interrupt(nil)
	done := make(chan error, 1)
	go func() { done <- command(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case s.underWay <- struct{}{}:
	}
	select {
	case err := <-done:
		return err
	case <-time.After(grace):
	}
	return cmp.Or(exit.Asked(ctx), context.Canceled)
}

// Interruptible prints that an interrupt of ctx was received, in Terraform's words, while a command works. The caller calls the
// returned function once, to end this. If the text about an interrupt is being written, that function waits.
func (s *Screen) Interruptible(ctx context.Context) (stop func()) {
	said := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(said)
		if errors.Is(context.Cause(ctx), syscall.EPIPE) {
			return // "status | head -1" has all it wants
		}
		what := "Gracefully shutting down..."
		if s.changing.Load() {
			what = "Changes are under way. Please wait for locktree to finish or undo them."
		}
		s.Message("\nInterrupt received.\n" + what + "\n")
	})
	return func() {
		if !cancel() {
			<-said
		}
	}
}

// Uninterrupted makes an interrupt wait until the returned function is called. If an interrupt came before, it returns an error.
func (s *Screen) Uninterrupted(ctx context.Context) (over func(), err error) {
	select {
	case s.underWay <- struct{}{}:
		return func() { <-s.underWay }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Changing notes whether an apply has begun to write. While it has, an interrupt gets another answer.
func (s *Screen) Changing(on bool) { s.changing.Store(on) }

// View is the output. Its form follows from JSON and NoColor at the first call.
func (s *Screen) View() view.Output {
	s.once.Do(func() {
		switch stderr := s.stream(s.Stderr); s.JSON {
		case Stream:
			s.v = view.NewStream(s.Stdout, s.Version, time.Now)
		case Log:
			s.v = view.NewStream(s.Stderr, s.Version, time.Now)
		case Document:
			s.v = view.NewDocuments(s.Stdout, stderr, s.Version)
		default:
			s.v = view.NewHuman(s.stream(s.Stdout), stderr)
		}
	})
	return s.v
}

// Show shows a result.
func (s *Screen) Show(r view.Result) { s.View().Show(r) }

// Message shows a text to a person.
func (s *Screen) Message(text string) { s.View().Message(text) }

// Diagnostics shows errors and warnings of a configuration.
func (s *Screen) Diagnostics(diags hcl.Diagnostics, files map[string]*hcl.File) {
	if len(diags) > 0 {
		s.View().Diagnostics(diags, files)
	}
}

// Grouped reports whether equal changes are shown as one, which suits a person at a terminal.
func (s *Screen) Grouped() bool { return s.JSON == Text && IsTerminal(s.Stdout) }

// farEvery is the interval between two reports of progress.
const farEvery = time.Second

// During shows the progress of a long step until the returned function is called; see [stack.Screen].
func (s *Screen) During(what string, far func(*view.Progress)) (stop func()) {
	if s.JSON == Text && s.Env.Get("TERM") == "dumb" { // this terminal cannot remove lines that were shown
		return func() {}
	}
	v, began, stopped := s.View(), time.Now(), make(chan struct{})
	var over sync.WaitGroup
	over.Go(func() {
		tick := time.NewTicker(farEvery)
		defer tick.Stop()
		for {
			select {
			case <-stopped:
				v.Progress(nil)
				return
			case now := <-tick.C:
				p := view.Progress{What: what, Elapsed: now.Sub(began)}
				if far != nil {
					far(&p)
				}
				v.Progress(&p)
			}
		}
	})
	return func() {
		close(stopped)
		over.Wait()
	}
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// checkedStdout is standard output, if that is no terminal. It keeps the first error of a write, because few callers check it. If
// no program reads the output any more, it ends the command.
type checkedStdout struct {
	io.Writer
	unread func()

	mu  sync.Mutex
	err error
}

func (c *checkedStdout) Write(p []byte) (int, error) {
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
	if c, ok := s.Stdout.(*checkedStdout); ok {
		return c.Writer
	}
	return s.Stdout
}

// firstError returns the error of the first write that failed. A closed pipe is no error: the reader wanted no more.
func (c *checkedStdout) firstError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil || errors.Is(c.err, syscall.EPIPE) || errors.Is(c.err, io.ErrClosedPipe) {
		return nil
	}
	return view.Failf("Cannot write standard output", "%v. What this command showed is not complete; what it did is done.", c.err)
}

// Color decides for one stream: -no-color and NO_COLOR beat CLICOLOR_FORCE, and CLICOLOR_FORCE beats the kind of the stream.
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

// Approve asks for approval; only "yes" gives it. After every other answer, Approve prints that the action is cancelled, and
// returns an error without text. If standard input ends without an answer, the error names another way to approve (otherWay). If
// standard input is not a terminal, no person would see the question. Then Approve prints that it waits, and reads a line:
// `echo yes | locktree apply` works as it does with Terraform.
func (s *Screen) Approve(ctx context.Context, action, question, otherWay string) error {
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
		return view.Failf("Error asking for approval", "Standard input ended without an answer (%v), so nothing was written. Answer \"yes\" there, or add -auto-approve%s.", err, otherWay)
	case strings.TrimSpace(answer) != "yes":
		s.Message("\n" + action + " cancelled.")
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
