package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
)

func topCommand(a *app) *cobra.Command {
	t := &topRun{app: a}
	c := &cobra.Command{
		Use:        "top",
		SuggestFor: []string{"watch", "monitor"},
		Short:      "Watch who holds and who waits",
		Long: "top shows the locks of the stack that are in use, the longest queue first, and refreshes them\n" +
			"every two seconds until it is interrupted. On a terminal it repaints the screen; elsewhere it\n" +
			"prints one table after the other. If ZooKeeper cannot be reached, top keeps trying, shows what\n" +
			"it saw last and since when that is stale. It exits with 1 if it ends in that state, or if some\n" +
			"locks cannot be read.\n\n" +
			"Each refresh reads all locks of the stack: for a large one, choose a longer -interval.",
		Args: exactly(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if t.interval < 100*time.Millisecond || t.count < 0 {
				return usage(c, "Bad flag", "-interval must be at least 100ms, and -count must not be negative.")
			}
			cfg, err := a.load(&t.flags)
			if err != nil {
				return err
			}
			return a.connected(c.Context(), cfg, true, func(s *stack) error { return t.run(c.Context(), s) })
		},
	}
	t.flags.register(c)
	c.Flags().DurationVar(&t.interval, "interval", 2*time.Second, "refresh after this `DURATION`")
	c.Flags().IntVarP(&t.count, "count", "n", 0, "exit after this many refreshes")
	return c
}

type topRun struct {
	*app
	flags    loadFlags
	interval time.Duration
	count    int
	last     view.Top
}

// run refreshes until it is interrupted, which is how it is meant to end. If a refresh fails, or takes longer than the
// interval, the last result stays on the screen, with its age.
func (t *topRun) run(ctx context.Context, s *stack) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	screen := t.screen()
	screen.open()
	defer screen.close()
	next := time.NewTicker(t.interval)
	defer next.Stop()
	looks := make(chan topLook, 1)
	look := func() { go func() { looks <- lookFrom(ctx, s) }() }
	look()
	for looking, n := true, 0; ; {
		select {
		case found := <-looks:
			looking = false
			if err := t.take(found); err != nil {
				return err
			}
			n++
		case <-next.C:
			if !looking {
				looking = true
				look()
				continue
			}
			if t.last.Trees == nil {
				continue
			}
			t.last.Error = cmp.Or(t.last.Error, errNoAnswer)
		case <-ctx.Done():
			return t.verdict(ctx, s)
		}
		t.last.ShownMs = time.Now().UnixMilli()
		screen.show(t.last)
		if n > 0 && n == t.count {
			return t.verdict(ctx, s)
		}
	}
}

var errNoAnswer = errors.New("no answer yet")

// topLook is the result of one refresh.
type topLook struct {
	view.Status
	err error
}

func lookFrom(ctx context.Context, s *stack) topLook {
	trees, err := s.read(ctx)
	if err != nil {
		return topLook{err: err}
	}
	return topLook{Status: s.status(trees)}
}

// take keeps the result of a look. Only the first one must not fail: there would be nothing to show.
func (t *topRun) take(found topLook) error {
	t.last.Error = found.err
	switch {
	case found.err == nil:
		t.last.Status = found.Status
	case t.last.Trees == nil:
		return found.err
	}
	return nil
}

// verdict is how top ends, which depends on what it showed last.
func (t *topRun) verdict(ctx context.Context, s *stack) error {
	if t.last.Error != nil {
		return exitWith(exitError)
	}
	return s.allRead(context.WithoutCancel(ctx), t.last.Trees)
}

// screen is a terminal, which is repainted, or any other output, which is appended to.
type screen struct {
	*app
	on   bool
	file *os.File
}

func (t *topRun) screen() *screen {
	f, ok := t.stdout.(*os.File)
	return &screen{app: t.app, on: ok && isTerminal(f) && t.env.get("TERM") != "dumb", file: f}
}

// open switches to the alternate screen of the terminal, so that its content comes back
// afterwards, hides the cursor, and cuts lines that are too long.
func (s *screen) open() {
	if s.on {
		fmt.Fprint(s.stdout, "\x1b[?1049h\x1b[?25l\x1b[?7l")
	}
}

func (s *screen) close() {
	if s.on {
		fmt.Fprint(s.stdout, "\x1b[?7h\x1b[?25h\x1b[?1049l")
	}
}

// frameLines are the lines of a frame besides locks, and one to spare.
const frameLines = 8

func (s *screen) show(top view.Top) {
	if !s.on {
		s.app.show(top)
		fmt.Fprintln(s.stdout)
		return
	}
	width, height, err := term.GetSize(int(s.file.Fd()))
	if err != nil {
		width, height = 80, 24
	}
	top.Rows = max(height-frameLines, 1)
	var frame bytes.Buffer
	view.NewHuman(view.Stream{Writer: &frame, Color: s.color(s.stdout), Terminal: true, Width: width}, view.Stream{Writer: &frame}).Show(top)
	// It paints over the last frame, so that nothing flickers.
	text := bytes.ReplaceAll(frame.Bytes(), []byte("\n"), []byte("\x1b[K\n"))
	_, _ = s.stdout.Write(append(append([]byte("\x1b[H"), text...), "\x1b[J"...)) // if the terminal is gone, a signal ends the program
}
