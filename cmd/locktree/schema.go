package main

import (
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/config"
)

func schemaCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "schema",
		Short: "Print the language as JSON, for editors",
		Long: "schema prints every block, argument and function of the configuration language. It is made\n" +
			"from the tables that decode the files of this version. Only -json is there so far.",
		Args: atMost(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if a.json == 0 {
				return usage(c, "The -json option is required", "The language for people is in docs/language.md; for programs, add -json.")
			}
			return config.WriteSchema(a.stdout)
		},
	}
	a.jsonFlag(c, documentJSON, "print one JSON document, which docs/editor.md describes")
	return c
}
