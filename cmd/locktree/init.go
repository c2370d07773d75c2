package main

import (
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/starter"
)

func initCommand(a *app) *cobra.Command {
	var flags loadFlags
	template := "start"
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a configuration to start from",
		Args:  atMost(0),
		RunE: func(c *cobra.Command, _ []string) error {
			files := starter.Templates[template]
			if files == nil {
				return usage(c, "Bad flag", "-template=%s: must be start or production.", template)
			}
			return starter.Init(c.Context(), a.Stdout, a.loader(), flags.inputs, files)
		},
	}
	flags.register(c)
	c.Flags().StringVar(&template, "template", template, "what to write: start or production")
	compatible(c, "input")
	return c
}
