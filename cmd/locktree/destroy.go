package main

import "github.com/spf13/cobra"

func destroyCommand(a *app) *cobra.Command {
	f := applyFlags{intentFlags: intentFlags{destroy: true}}
	c := &cobra.Command{
		Use:        "destroy",
		SuggestFor: []string{"delete", "remove", "rm"},
		Short:      "Remove everything this stack owns",
		Long: "destroy removes what carries this stack's mark and nothing else. A lock that is held or\n" +
			"waited for is never removed: then nothing is. It holds the apply lock from before the plan\n" +
			"to the end, as apply does.",
		Args: exactly(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return f.exit(a.apply(c.Context(), &f)) },
	}
	f.register(c)
	f.intentFlags.register(c)
	a.jsonFlag(c, streamJSON, "print a stream of JSON messages; needs -auto-approve")
	a.completeAddresses(c, &f.loadFlags)
	return c
}
