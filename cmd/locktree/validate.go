package main

import (
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
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
			cfg, diags := config.Load(a.loader().Path("."), a.loader().Options(flags.inputs))
			if len(cfg.Ensembles) == 0 && !diags.HasErrors() {
				diags = append(diags, a.loader().NoEnsemble())
			}
			a.Show(view.Validation{Diagnostics: diags, Files: cfg.Sources})
			if diags.HasErrors() {
				return exit.With(exit.Failed)
			}
			return nil
		},
	}
	flags.register(c)
	a.jsonFlag(c, screen.Document, "print the verdict and the diagnostics as one JSON object")
	return c
}
