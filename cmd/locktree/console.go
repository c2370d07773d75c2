package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

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
