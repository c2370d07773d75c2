package main

import (
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
)

func validateCommand(a *app) *cobra.Command {
	var flags loadFlags
	c := &cobra.Command{
		Use:   "validate",
		Short: "Check the configuration without connecting to anything",
		Args:  atMost(0),
		RunE: func(*cobra.Command, []string) error {
			cfg, diags := config.Load(a.path("."), a.options(&flags))
			if len(cfg.Ensembles) == 0 && !diags.HasErrors() {
				diags = append(diags, a.noEnsemble())
			}
			a.show(view.Validation{Diagnostics: diags, Files: cfg.Sources})
			if diags.HasErrors() {
				return exitWith(exitError)
			}
			return nil
		},
	}
	flags.register(c)
	a.jsonFlag(c, documentJSON, "print the verdict and the diagnostics as one JSON object")
	return c
}
