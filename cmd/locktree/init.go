package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
)

func initCommand(a *app) *cobra.Command {
	var flags loadFlags
	var input bool
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a configuration to start from",
		Long: "init writes a commented configuration into an empty directory. It never changes existing\n" +
			"files. Then it checks whether the ensembles can be reached. No other command needs it.",
		Args: exactly(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.init(c.Context(), &flags) },
	}
	flags.register(c)
	c.Flags().BoolVar(&input, "input", true, "accepted for compatibility; init never asks")
	return c
}

func (a *app) init(ctx context.Context, flags *loadFlags) error {
	wrote, err := a.scaffold()
	if err != nil {
		return err
	}
	cfg, err := a.load(flags)
	if err != nil {
		return err
	}
	if wrote {
		fmt.Fprintf(a.stdout, "Wrote %s: a namespace with three locks to start from. Change it as you like.\n", starterName)
	} else {
		fmt.Fprintln(a.stdout, "This directory already has a configuration. Nothing was written.")
	}
	for _, e := range cfg.Ensembles {
		a.reach(ctx, e)
	}
	fmt.Fprintln(a.stdout, "\nlocktree has been successfully initialized! Next, try \"locktree plan\".")
	return nil
}

// reach says whether an ensemble can be reached. It is no error if not: the servers may
// come after the configuration.
func (a *app) reach(ctx context.Context, e *config.Ensemble) {
	name := fmt.Sprintf("Ensemble %q (%s)", e.Name, strings.Join(e.Servers, ","))
	client, err := a.dial(ctx, e, true)
	if err != nil {
		detail := view.Explain(err)[0]
		fmt.Fprintf(a.stdout, "%s does not answer yet. %s\nFor a first try, \"locktree dev\" serves one on this machine.\n", name, detail.Detail)
		return
	}
	_ = client.Close()
	fmt.Fprintf(a.stdout, "%s is reachable.\n", name)
}
