package main

import (
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/live"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
)

func outputCommand(a *app) *cobra.Command {
	var flags loadFlags
	var raw bool
	c := &cobra.Command{
		Use:   "output [NAME]",
		Short: "Show the output values of the last apply",
		Args:  atMost(1),
		ValidArgsFunction: completes(func() (names []string) {
			for _, o := range a.completionConfig(&flags).Outputs {
				names = append(names, o.Name)
			}
			return names
		}),
		RunE: func(c *cobra.Command, args []string) error {
			if raw && (len(args) == 0 || a.JSON != 0) {
				return usage(c, "The -raw option needs one output", "Give the name of one output, without -json.")
			}
			var outputs planview.Outputs
			err := a.withStack(c.Context(), flags.inputs, func(s *stack.Stack) (err error) {
				outputs, err = live.Outputs(c.Context(), s)
				return err
			})
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return live.Output(a.Screen, outputs, args[0], raw)
			}
			if len(outputs) == 0 && a.JSON == 0 {
				a.Message("No outputs found. Declare them with output blocks, then run \"locktree apply\".")
				return nil
			}
			a.Show(outputs)
			return nil
		},
	}
	flags.register(c)
	c.Flags().BoolVar(&raw, "raw", false, "print only the value of one output, without quotes or a line end")
	a.jsonFlag(c, screen.Document, "print JSON")
	return c
}
