package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/change"
	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/plan"
)

type planFlags struct {
	loadFlags
	intentFlags
	shownFlags
	out              string
	detailedExitcode bool
}

func planCommand(a *app) *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:   "plan",
		Short: "Show what an apply would do",
		Args:  atMost(0),
		RunE: func(c *cobra.Command, _ []string) error {
			opts, err := f.options()
			if err != nil {
				return err
			}
			return a.withStack(c.Context(), f.inputs, func(s *stack.Stack) error { return f.show(c.Context(), a, opts, s) })
		},
	}
	f.loadFlags.register(c)
	f.registerChanges(c)
	c.Flags().StringVar(&f.out, "out", "", "save the plan to a `FILE` for apply")
	c.Flags().BoolVar(&f.Destroy, "destroy", false, "plan to remove everything this stack owns")
	c.Flags().BoolVar(&f.detailedExitcode, "detailed-exitcode", false, "exit with 2 if there are changes")
	f.shownFlags.register(c)
	compatible(c, "input")
	a.jsonFlag(c, screen.Stream, "print a stream of JSON messages")
	completeAddresses(a, c, &f.loadFlags)
	return c
}

func (f *planFlags) show(ctx context.Context, a *app, opts plan.Options, s *stack.Stack) error {
	question, plans, err := s.Ask(ctx, opts)
	if len(plans) == 0 {
		return err
	}
	shown := planview.Plan{Plans: plans, Incomplete: err != nil, Files: s.Config.Sources, Concise: f.concise, Full: f.full, NowMs: time.Now().UnixMilli()}
	if f.out != "" && !shown.Failing() {
		if err := change.Save(a.loader(), f.out, question, plans); err != nil {
			return err
		}
		shown.SavedTo = f.out
	}
	a.Show(shown)
	switch {
	case err != nil:
		return err
	case shown.Failing():
		return exit.With(exit.Failed)
	case f.detailedExitcode && planview.Changed(plans):
		return exit.With(exit.Changes)
	}
	return nil
}
