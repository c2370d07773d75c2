package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/run"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
)

func onceCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "once", Short: "Skip slots of a job by hand", Args: onlyCommands}
	c.RunE = func(c *cobra.Command, _ []string) error {
		_ = c.Help()
		return exit.With(exit.Failed)
	}
	c.AddCommand(onceSkipCommand(a))
	return c
}

// slotOf returns the name of a slot: its instant in UTC.
func slotOf(text string) string {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return slots.At(at)
	}
	return text
}

func onceSkipCommand(a *app) *cobra.Command {
	var flags loadFlags
	var o run.Options
	c := &cobra.Command{
		Use:   "skip JOB SLOT",
		Short: "Do not run a slot",
		Args:  atMost(2),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage(c, "Job or slot missing", "Write the job and the slot, for example \"locktree once skip once.invoices 2026-11-26T02:00:00Z\".")
			}
			defer a.Interruptible(c.Context())()
			slot := slotOf(args[1])
			o.Inputs, o.Locks = flags.inputs, args[:1]
			path, err := run.Skip(c.Context(), a.loader(), o, slot)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "%s of %s is skipped.\n", kind.Visible(slot), kind.Visible(path))
			return nil
		},
	}
	flags.register(c)
	c.ValidArgsFunction = a.firstAddress(&flags)
	c.Flags().StringVar(&o.Ensemble, "ensemble", "", "the `NAME` of the ensemble, if there are several")
	c.Flags().StringVar(&o.ID, "id", "", "a name that status shows for who did it")
	return c
}
