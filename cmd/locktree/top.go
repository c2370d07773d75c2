package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func topCommand(a *app) *cobra.Command {
	t := &topRun{app: a}
	c := &cobra.Command{
		Use:        "top",
		SuggestFor: []string{"watch", "monitor"},
		Short:      "Watch who holds and who waits",
		Long: "top shows the locks of the stack that are in use, the longest queue first, and looks again\n" +
			"every two seconds until it is interrupted. On a terminal it repaints the screen; elsewhere\n" +
			"it prints one table after the other. It goes on where a look fails, and says so.\n\n" +
			"Each look reads all locks of the stack: for a large one, choose a longer -interval.",
		Args: exactly(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if t.interval < 100*time.Millisecond || t.count < 0 {
				return usage(c, "Bad flag", "-interval is at least 100ms, and -count is not negative.")
			}
			cfg, err := a.load(&t.flags)
			if err != nil {
				return err
			}
			s, err := a.connect(c.Context(), cfg, true)
			if err != nil {
				return err
			}
			defer s.close()
			return t.run(c.Context(), s)
		},
	}
	t.flags.register(c)
	c.Flags().DurationVar(&t.interval, "interval", 2*time.Second, "look again after this `DURATION`")
	c.Flags().IntVarP(&t.count, "count", "n", 0, "end after so many looks")
	return c
}

type topRun struct {
	*app
	flags    loadFlags
	interval time.Duration
	count    int
	last     view.Top
}

// run looks until it is told to end, which is how it is meant to end.
func (t *topRun) run(ctx context.Context, s *stack) error {
	screen := t.screen()
	screen.open()
	defer screen.close()
	next := time.NewTicker(t.interval)
	defer next.Stop()
	for n := 1; ; n++ {
		err := t.look(ctx, s)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && (!screen.on || t.last.Trees == nil) {
			return err
		}
		screen.show(t.last)
		if n == t.count {
			return nil
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (t *topRun) look(ctx context.Context, s *stack) error {
	trees, err := s.read(ctx)
	if t.last.Error = err; err != nil {
		return err
	}
	t.last.Status = view.Status{Trees: trees, Servers: serverLists(s.Config), NowMs: time.Now().UnixMilli()}
	for _, tree := range trees {
		t.last.Waits = append(t.last.Waits, recipes.WaitsFor(inspections(tree)...))
	}
	return nil
}

// screen is a terminal that is repainted, or any other output, which is written on.
type screen struct {
	*app
	on   bool
	file *os.File
}

func (t *topRun) screen() *screen {
	f, ok := t.stdout.(*os.File)
	return &screen{app: t.app, on: ok && isTerminal(f) && t.env.get("TERM") != "dumb", file: f}
}

// open changes to the other screen of the terminal, so that what was there is there
// again afterwards; hides the cursor; and cuts lines that are too long.
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

// frameLines are the lines of a frame that are no locks, with one to spare.
const frameLines = 6

func (s *screen) show(top view.Top) {
	if !s.on {
		s.view().Top(top)
		fmt.Fprintln(s.stdout)
		return
	}
	width, height, err := term.GetSize(int(s.file.Fd()))
	if err != nil {
		width, height = 80, 24
	}
	top.Rows = max(height-frameLines, 1)
	var frame bytes.Buffer
	view.NewHuman(view.Stream{Writer: &frame, Color: s.color(s.stdout), Terminal: true, Width: width}, view.Stream{Writer: &frame}).Top(top)
	// Painted over the last frame, so that nothing flickers.
	text := bytes.ReplaceAll(frame.Bytes(), []byte("\n"), []byte("\x1b[K\n"))
	_, _ = s.stdout.Write(append(append([]byte("\x1b[H"), text...), "\x1b[J"...)) // a terminal that has gone ends the program otherwise
}
