package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
)

type planFlags struct {
	loadFlags
	intentFlags
	out                              string
	detailedExitcode, concise, input bool
}

func planCommand(a *app) *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:   "plan",
		Short: "Show what an apply would do",
		Long: "plan reads the live tree, compares it with the configuration and shows what an apply\n" +
			"would do. It writes nothing to ZooKeeper: its connection refuses all writes.",
		Args: exactly(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.plan(c.Context(), &f) },
	}
	f.loadFlags.register(c)
	f.registerChanges(c)
	c.Flags().StringVar(&f.out, "out", "", "save the plan to a `FILE` for apply")
	c.Flags().BoolVar(&f.Destroy, "destroy", false, "plan to remove everything this stack owns")
	c.Flags().BoolVar(&f.detailedExitcode, "detailed-exitcode", false, "exit with 2 if there are changes")
	c.Flags().BoolVar(&f.concise, "concise", false, "show each change on one line")
	c.Flags().BoolVar(&f.input, "input", true, "accepted for compatibility; plan never asks")
	a.jsonFlag(c, streamJSON, "print a stream of JSON messages")
	a.completeAddresses(c, &f.loadFlags)
	return c
}

func (a *app) plan(ctx context.Context, f *planFlags) error {
	opts, err := f.options()
	if err != nil {
		return err
	}
	return a.withStack(ctx, &f.loadFlags, true, func(s *stack) error {
		plans, err := s.plan(ctx, opts)
		if err != nil {
			return err
		}
		shown := view.Plan{Plans: plans, Files: s.Sources, Concise: f.concise, NowMs: time.Now().UnixMilli()}
		if f.out != "" && !view.Failing(plans) {
			if err := a.savePlan(f.out, s.Config, plans); err != nil {
				return err
			}
			shown.SavedTo = f.out
		}
		a.steps().Tell(shown)
		switch {
		case view.Failing(plans):
			return exitWith(exitError)
		case f.detailedExitcode && view.Changed(plans):
			return exitWith(exitChanges)
		}
		return nil
	})
}
