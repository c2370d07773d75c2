package main

import (
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/plan"
)

func destroyCommand(a *app) *cobra.Command {
	f := applyFlags{intentFlags: intentFlags{Options: plan.Options{Destroy: true}}}
	c := &cobra.Command{
		Use:        "destroy",
		SuggestFor: []string{"delete", "remove", "rm"},
		Short:      "Remove everything this stack owns",
		Long: "destroy removes the nodes that carry this stack's mark, and nothing else. If one of the locks\n" +
			"is held or waited for, it removes nothing. It holds the apply lock from before the plan to\n" +
			"the end, as apply does.",
		Args: exactly(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return f.exit(a.apply(c.Context(), &f)) },
	}
	f.register(c)
	f.intentFlags.register(c)
	a.jsonFlag(c, streamJSON, "print a stream of JSON messages; needs -auto-approve")
	a.completeAddresses(c, &f.loadFlags)
	return c
}
