package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
)

func (a *app) stateRebuild() *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use:   "rebuild",
		Short: "Rebuild the index from the marks in the znodes",
		Long: "rebuild searches every znode below the root for this stack's mark, declared or not, and adds to\n" +
			"the index what is missing there: everything, if the index is gone or damaged. It takes the\n" +
			"apply lock and sends one guarded transaction, as an apply does. No lock changes.",
		Args: exactly(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return f.exit(a.rebuild(c.Context(), &f)) },
	}
	f.register(c)
	a.jsonFlag(c, streamJSON, "print a stream of JSON messages; needs -auto-approve")
	return c
}

func (a *app) rebuild(ctx context.Context, f *applyFlags) error {
	if a.json != 0 && !f.autoApprove {
		return view.Failf("Auto-approve required", "With -json, nobody can be asked for approval. Add -auto-approve.")
	}
	return a.withStack(ctx, &f.loadFlags, false, func(s *stack) error {
		return a.planAndApply(ctx, f, s, func(ctx context.Context) ([]*plan.Plan, error) {
			trees, err := s.readWith(ctx, apply.ReadAll)
			if err != nil {
				return nil, err
			}
			return s.diff(trees, plan.Options{RefreshOnly: true}), nil
		})
	})
}
