package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
)

func consoleCommand(a *app) *cobra.Command {
	var flags loadFlags
	c := &cobra.Command{
		Use:   "console",
		Short: "Try expressions against the configuration",
		Long: "console reads expressions from standard input, one per line, and prints their values.\n" +
			"It connects to nothing. \"exit\" or the end of input ends it; if the input is not a\n" +
			"terminal, so does the first error.",
		Args: exactly(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.console(c.Context(), &flags) },
	}
	flags.register(c)
	return c
}

func (a *app) console(ctx context.Context, flags *loadFlags) error {
	con, diags := config.OpenConsole(a.path("."), a.options(flags))
	defer con.Close()
	a.view().Diagnostics(diags, con.Sources())
	if diags.HasErrors() {
		return exitWith(exitError)
	}
	person := isTerminal(a.stdin)
	for line, err := range a.lines(ctx, person) {
		if err != nil {
			return err
		}
		switch text := strings.TrimSpace(line); text {
		case "":
		case "exit", "quit":
			return nil
		default:
			out, diags := con.Eval(text)
			a.view().Diagnostics(diags, con.Sources())
			if diags.HasErrors() && !person {
				return exitWith(exitError)
			}
			if !diags.HasErrors() {
				fmt.Fprintln(a.stdout, out)
			}
		}
	}
	return nil
}

// lines are the lines of standard input. A goroutine reads them, because reading cannot
// be interrupted: an interrupt ends the wait, and then the program.
func (a *app) lines(ctx context.Context, prompt bool) func(func(string, error) bool) {
	return func(yield func(string, error) bool) {
		type read struct {
			line string
			more bool
			err  error
		}
		next, got := make(chan struct{}), make(chan read, 1)
		defer close(next)
		go func() {
			scan := bufio.NewScanner(a.stdin)
			scan.Buffer(nil, 1<<20)
			for range next {
				more := scan.Scan()
				got <- read{scan.Text(), more, scan.Err()}
			}
		}()
		for {
			if prompt {
				fmt.Fprint(a.stderr, "> ")
			}
			next <- struct{}{}
			select {
			case <-ctx.Done():
				yield("", ctx.Err())
				return
			case r := <-got:
				if errors.Is(r.err, bufio.ErrTooLong) {
					r.err = view.Failf("Line too long", "A line of the input is longer than 1 MiB. Put long values into a file, and read it with file(\"NAME\").")
				}
				if !r.more && r.err == nil || !yield(r.line, r.err) {
					return
				}
			}
		}
	}
}
