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
	"github.com/locktree/locktree/recipes/inspect"
)

func topCommand(a *app) *cobra.Command {
	t := &topRun{app: a}
	c := &cobra.Command{
		Use:        "top",
		SuggestFor: []string{"watch", "monitor"},
		Short:      "Watch who holds and who waits",
		Long: "top shows the locks that are in use, the longest queue first, and refreshes them every two\n" +
			"seconds until it is interrupted: those that the configuration declares, or with -prefix every\n" +
			"lock below a path, whoever made it. With -servers, or ZOOKEEPER_SERVERS and -prefix, no\n" +
			"configuration is read. On a terminal it repaints the screen; elsewhere it prints one table\n" +
			"after the other. If ZooKeeper cannot be reached, top keeps trying, shows what it saw last and\n" +
			"since when that is stale. It exits with 1 if it ends in that state, or if some locks cannot be\n" +
			"read.\n\n" +
			"After the first refresh it reads only what may have changed. If the servers allow the\n" +
			"four-letter words dump and cons, it learns from them what that is, and who is cut off.",
		Args: exactly(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if t.interval < 100*time.Millisecond || t.count < 0 {
				return usage(c, "Bad flag", "-interval must be at least 100ms, and -count must not be negative.")
			}
			cfg, err := a.configured(c, &t.treeFlags)
			if err != nil {
				return err
			}
			a.lasting()
			return a.connected(c.Context(), cfg, true, func(s *stack) error { return t.run(c.Context(), s) })
		},
	}
	t.register(c)
	c.Flags().DurationVar(&t.interval, "interval", 2*time.Second, "refresh after this `DURATION`")
	c.Flags().IntVarP(&t.count, "count", "n", 0, "exit after this many refreshes")
	return c
}

type topRun struct {
	*app
	treeFlags
	interval time.Duration
	count    int
	scanners []*inspect.Scanner // by position in Ensembles
	last     view.Top
	screen   *os.File // a terminal, which is repainted; nil for any other output, which is appended to
}

// run refreshes until it is interrupted, which is how it is meant to end. If a refresh fails, or takes longer than the
// interval, the last result stays on the screen, with its age.
func (t *topRun) run(ctx context.Context, s *stack) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for i, e := range s.Ensembles {
		opts := inspect.ScanOptions{Prefix: t.prefix, Reads: readsPerLook}
		if t.prefix == "" {
			opts.Declared = locksIn(e.Tree)
		}
		t.scanners = append(t.scanners, inspect.NewScanner(s.clients[i], opts))
	}
	if f, ok := t.stdout.(*os.File); ok && isTerminal(f) && t.env.get("TERM") != "dumb" {
		t.screen = f
		// The alternate screen of the terminal, so that its content comes back afterwards; no cursor; too long lines are cut.
		fmt.Fprint(f, "\x1b[?1049h\x1b[?25l\x1b[?7l")
		defer fmt.Fprint(f, "\x1b[?7h\x1b[?25h\x1b[?1049l")
	}
	next := time.NewTicker(t.interval)
	defer next.Stop()
	looks := make(chan topLook, 1)
	look := func() { go func() { looks <- t.look(ctx, s) }() }
	look()
	for looking, n := true, 0; ; {
		select {
		case found := <-looks:
			looking = false
			switch t.last.Error = found.err; {
			case found.err == nil:
				t.last.Locks = found.Locks
			case t.last.Ensembles == nil: // there would be nothing to show
				return found.err
			}
			n++
		case <-next.C:
			if !looking {
				looking = true
				look()
				continue
			}
			if t.last.Ensembles == nil {
				continue
			}
			t.last.Error = cmp.Or(t.last.Error, errNoAnswer)
		case <-ctx.Done():
			return t.verdict(ctx, s)
		}
		t.last.ShownMs = time.Now().UnixMilli()
		t.paint(t.last)
		if n > 0 && n == t.count {
			return t.verdict(ctx, s)
		}
	}
}

var errNoAnswer = errors.New("no answer yet")

// topLook is the result of one refresh.
type topLook struct {
	view.Locks
	err error
}

func (t *topRun) look(ctx context.Context, s *stack) (found topLook) {
	found.NowMs = time.Now().UnixMilli()
	for i := range s.Ensembles {
		of, err := s.locksOf(ctx, i, t.prefix, t.scanners[i].Scan)
		if err != nil {
			return topLook{err: err}
		}
		found.Ensembles = append(found.Ensembles, of)
	}
	return found
}

// verdict is how top ends, which depends on what it showed last.
func (t *topRun) verdict(ctx context.Context, s *stack) error {
	if t.last.Error != nil {
		return exitWith(exitError)
	}
	ctx = context.WithoutCancel(ctx)
	for i, of := range t.last.Ensembles {
		if err := s.closed(ctx, i, of); err != nil {
			return err
		}
	}
	return nil
}

func (t *topRun) paint(top view.Top) {
	if t.screen == nil {
		t.show(top)
		fmt.Fprintln(t.stdout)
		return
	}
	width, height, err := term.GetSize(int(t.screen.Fd()))
	if err != nil {
		width, height = 80, 24
	}
	top.Lines = height
	var frame bytes.Buffer
	view.NewHuman(view.Stream{Writer: &frame, Color: t.color(t.screen), Terminal: true, Width: width}, view.Stream{Writer: &frame}).Show(top)
	// It paints over the last frame, so that nothing flickers.
	text := bytes.ReplaceAll(frame.Bytes(), []byte("\n"), []byte("\x1b[K\n"))
	_, _ = t.screen.Write(append(append([]byte("\x1b[H"), text...), "\x1b[J"...)) // if the terminal is gone, a signal ends the program
}
