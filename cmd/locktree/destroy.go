package main

import (
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/plan"
)

func destroyCommand(a *app) *cobra.Command {
	f := applyFlags{intentFlags: intentFlags{Options: plan.Options{Destroy: true}}}
	c := &cobra.Command{
		Use:        "destroy",
		SuggestFor: []string{"delete", "remove", "rm"},
		Short:      "Remove everything this stack owns",
		Args:       atMost(0),
		RunE:       func(c *cobra.Command, _ []string) error { return f.coded(f.apply(c.Context(), a)) },
	}
	f.register(c)
	f.intentFlags.register(c)
	c.Flags().Lookup("target").Usage = "remove only this `ADDRESS` and everything in it; may be repeated"
	_ = c.Flags().MarkHidden("allow-mass-destroy") // accepted for compatibility
	a.jsonFlag(c, screen.Stream, "print a stream of JSON messages; needs -auto-approve")
	completeAddresses(a, c, &f.loadFlags)
	return c
}
