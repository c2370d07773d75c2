package follow

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/term"

	"github.com/locktree/locktree/cmd/locktree/internal/page"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes"
)

// Reads is the limit (scan.Options.Reads) of a look that is repeated.
const Reads = 2000

// watchEvery is how often status -watch looks.
const watchEvery = 2 * time.Second

// Watch shows the locks again and again, until an interrupt ends it: on a terminal every two seconds, elsewhere when something has
// changed. If a look fails, or takes longer, the last result stays, with its age.
func Watch(ctx context.Context, to *screen.Screen, l *stack.Loader, cfg *config.Config, path string, filter lockview.Filter, reads int) error {
	tty, _ := to.Stdout.(*os.File)
	if tty != nil && (to.JSON != screen.Text || !screen.IsTerminal(tty) || to.Env.Get("TERM") == "dumb") {
		tty = nil
	}
	if tty != nil {
		// Use the alternate screen of the terminal, so that its content comes back afterwards. Hide the cursor, and cut long
		// lines.
		fmt.Fprint(tty, "\x1b[?1049h\x1b[?25l\x1b[?7l")
		defer fmt.Fprint(tty, "\x1b[?7h\x1b[?25h\x1b[?1049l")
	}
	shown, last := false, ""
	_, errs := page.Follow(ctx, targets(l, cfg, path, reads), watchEvery, func(known []lockview.LocksOf, _ int) bool {
		locks := lockview.Locks{Ensembles: known, Filter: filter, NowMs: time.Now().UnixMilli()}
		seen := slices.ContainsFunc(known, func(of lockview.LocksOf) bool { return of.Snapshot != nil })
		if state := locks.State(); tty != nil {
			paint(to, tty, locks)
		} else if seen && (!shown || state != last) {
			to.Show(locks)
			last = state
		}
		shown = shown || seen
		return true
	})
	if !shown && ctx.Err() == nil { // no ensemble could be reached
		s := stack.Of(cfg, make([]*recipes.Client, len(errs)), stack.Silent{})
		s.Lose(errs)
		return s.Lost.Err()
	}
	return context.Cause(ctx)
}

// paint paints over the last frame, so that nothing flickers. If the terminal is gone, a signal ends the program.
func paint(to *screen.Screen, tty *os.File, locks lockview.Locks) {
	width, height, err := term.GetSize(int(tty.Fd()))
	if err != nil {
		width, height = 80, 24
	}
	var frame bytes.Buffer
	view.NewHuman(view.Stream{Writer: &frame, Color: to.Color(tty), Terminal: true, Width: width}, view.Stream{Writer: &frame}).Show(locks)
	_, _ = tty.Write(repainted(frame.Bytes(), height))
}

// repainted returns the bytes that draw a frame over the last one. It cuts the frame to the height of the terminal.
func repainted(frame []byte, height int) []byte {
	lines := bytes.SplitAfter(frame, []byte("\n"))
	if more := len(lines) - height; more > 0 && height > 1 {
		lines = append(lines[:height-2], fmt.Appendf(nil, "and %d more lines; -in-use, -owner and -longer show less\n", more+1))
	}
	text := bytes.ReplaceAll(bytes.Join(lines, nil), []byte("\n"), []byte("\x1b[K\n"))
	return append(append([]byte("\x1b[H"), text...), "\x1b[J"...)
}
