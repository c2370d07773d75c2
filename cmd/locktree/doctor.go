package main

import (
	"cmp"
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/recipes/inspect/check"
)

func doctorCommand(a *app) *cobra.Command {
	var flags loadFlags
	c := &cobra.Command{
		Use:        "doctor",
		SuggestFor: []string{"check", "health", "diagnose"},
		Short:      "Check servers, locks and access rights",
		Args:       atMost(0),
		RunE: func(c *cobra.Command, _ []string) error {
			defer a.Interruptible(c.Context())()
			cfg, err := a.loader().Load(flags.inputs)
			if err != nil {
				return err
			}
			var found lockview.Checkup
			for _, e := range cfg.Ensembles {
				stop := a.During("Checking ensemble "+strconv.Quote(e.Name), nil)
				of, err := stack.CheckUp(c.Context(), a.loader(), e)
				stop()
				if c.Context().Err() != nil || isA[*view.Failure](err) {
					return cmp.Or(err, context.Cause(c.Context()))
				}
				of.Err = err
				found = append(found, of)
			}
			a.Show(found)
			if err := found.Err(); err != nil {
				return err
			}
			if found.Count(check.Fails) > 0 {
				return exit.With(exit.Failed)
			}
			return nil
		},
	}
	flags.register(c)
	a.jsonFlag(c, screen.Document, "print one JSON document")
	return c
}
