package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/change"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
)

func applyCommand(a *app) *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use:   "apply [PLAN]",
		Short: "Make the live tree match the configuration",
		Args:  atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return f.coded(f.apply(c.Context(), a))
			}
			if err := f.refuse(); err != nil {
				return err
			}
			defer a.Interruptible(c.Context())()
			return f.coded(change.Saved(c.Context(), a, f.change(a, plan.Options{}), a.loader(), f.inputs, args[0]))
		},
	}
	f.register(c)
	f.registerChanges(c)
	c.Flags().BoolVar(&f.Destroy, "destroy", false, "remove everything this stack owns, as destroy does")
	a.jsonFlag(c, screen.Stream, "print a stream of JSON messages; needs -auto-approve or a plan file")
	completeAddresses(a, c, &f.loadFlags)
	return c
}

func (f *applyFlags) apply(ctx context.Context, a *app) error {
	if a.JSON != 0 && !f.autoApprove {
		return view.Failf("Plan file or auto-approve required", "-json leaves no way to ask for approval. Add -auto-approve, or apply a plan file written with \"plan -out\".")
	}
	opts, err := f.options()
	if err != nil {
		return err
	}
	defer a.Interruptible(ctx)()
	cfg, err := a.loader().Load(f.inputs)
	if err != nil {
		return err
	}
	return a.loader().ConnectAll(ctx, cfg, false, func(s *stack.Stack) error {
		return change.Run(ctx, a, f.change(a, opts), s, func(*plan.Plan) {})
	})
}
