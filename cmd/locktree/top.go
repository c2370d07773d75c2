package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/serve"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes"
)

func topCommand(a *app) *cobra.Command {
	t := &topRun{app: a}
	c := &cobra.Command{
		Use:        "top",
		SuggestFor: []string{"watch", "monitor"},
		Short:      "Watch who holds and who waits",
		Long: "top shows the locks that are in use, the longest queue first, and refreshes them every two\n" +
			"seconds until it is interrupted: those that the configuration declares, or with -prefix every\n" +
			"lock below a path, whoever made it. With -servers, or ZOOKEEPER_SERVERS and -prefix, it reads no\n" +
			"configuration. On a terminal it repaints the screen; elsewhere it prints one table after the\n" +
			"other. If it cannot reach ZooKeeper, it keeps trying, shows what it saw last, and says how old\n" +
			"that is. It exits with 1 if it ends in that state, or if it cannot read some locks.\n\n" +
			"After the first refresh it reads only what may have changed. If the servers allow the\n" +
			"four-letter words dump and cons, it learns from them what that is, and who is cut off.",
		Args: atMost(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if t.interval < 100*time.Millisecond || t.count < 0 {
				return usage(c, "Bad flag", "-interval must be at least 100ms, and -count must not be negative.")
			}
			cfg, err := a.configured(c, &t.treeFlags)
			if err != nil {
				return err
			}
			a.lasting()
			return t.run(c.Context(), cfg)
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
	screen   *os.File // a terminal, which is repainted; nil for any other output, which is appended to
}

// run refreshes until it is interrupted, which is how it is meant to end. If a refresh fails, or takes longer than the
// interval, the last result stays on the screen, with its age.
func (t *topRun) run(ctx context.Context, cfg *config.Config) error {
	if f, ok := t.stdout.(*os.File); ok && isTerminal(f) && t.env.get("TERM") != "dumb" {
		t.screen = f
		// The alternate screen of the terminal, so that its content comes back afterwards; no cursor; too long lines are cut.
		fmt.Fprint(f, "\x1b[?1049h\x1b[?25l\x1b[?7l")
		defer fmt.Fprint(f, "\x1b[?7h\x1b[?25h\x1b[?1049l")
	}
	var last view.Top
	_, errs := serve.Follow(ctx, t.targets(cfg, t.prefix, readsPerLook), t.interval, func(known []view.LocksOf, rounds int) bool {
		last = view.NewTop(known, time.Now())
		t.paint(last)
		return rounds == 0 || rounds != t.count
	})
	if last.Ensembles == nil {
		s := &stack{Config: cfg, clients: make([]*recipes.Client, len(errs))}
		s.lose(errs)
		return s.lost.Err() // there would be nothing to show
	}
	return t.verdict(context.WithoutCancel(ctx), cfg, last)
}

// verdict is how top ends, which depends on what it showed last.
func (t *topRun) verdict(ctx context.Context, cfg *config.Config, last view.Top) error {
	if slices.ContainsFunc(last.Ensembles, func(of view.LocksOf) bool { return of.Error != "" }) {
		return exitWith(exitError)
	}
	closed := func(of view.LocksOf) bool { return len(of.Closed()) > 0 }
	if !slices.ContainsFunc(last.Ensembles, closed) {
		return nil
	}
	return t.connected(ctx, cfg, true, func(s *stack) error { // it is asked who could help
		return s.closed(ctx, slices.IndexFunc(last.Ensembles, closed), last.Ensembles[slices.IndexFunc(last.Ensembles, closed)])
	})
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
