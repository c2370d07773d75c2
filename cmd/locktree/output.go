package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/plan"
)

func outputCommand(a *app) *cobra.Command {
	var flags loadFlags
	var raw bool
	c := &cobra.Command{
		Use:               "output [NAME]",
		Short:             "Show the output values of the last apply",
		Args:              atMost(1),
		ValidArgsFunction: completes(func() []string { return a.outputNames(&flags) }),
		RunE: func(c *cobra.Command, args []string) error {
			if raw && (len(args) == 0 || a.JSON != 0) {
				return usage(c, "The -raw option needs one output", "Give the name of one output, without -json.")
			}
			outputs, err := a.outputs(c.Context(), &flags)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return a.oneOutput(outputs, args[0], raw)
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

// outputs are in the record of one ensemble. The others are needed only where none is found, and the tree only where a record is
// missing: it shows whether there ever was one.
func (a *app) outputs(ctx context.Context, flags *loadFlags) (outputs planview.Outputs, err error) {
	err = a.looking(ctx, flags, func(s *stack.Stack) error {
		trees, err := s.Records(ctx)
		if outputs = planview.StoredOutputs(trees); len(outputs) > 0 {
			return nil
		}
		return cmp.Or(err, outputsKnown(trees))
	})
	return outputs, err
}

// oneOutput prints a value alone: as the configuration would write it, as JSON,
// or raw, without even a line end.
func (a *app) oneOutput(outputs planview.Outputs, name string, raw bool) error {
	i := slices.IndexFunc(outputs, func(o plan.Output) bool { return o.Name == name })
	if i < 0 {
		var names []string
		for _, o := range outputs {
			names = append(names, o.Name)
		}
		left := cmp.Or(strings.Join(names, ", "), "none")
		return view.Failf("Output not found", "The last apply stored no output %q. Available: %s. \"locktree apply\" stores new outputs.", name, left)
	}
	o := outputs[i]
	if o.Sensitive {
		return view.Failf("The output is sensitive", "The value of %q is not stored anywhere, so it cannot be shown. Take it from where the configuration gets it.", name)
	}
	switch {
	case raw:
		var v any
		if err := json.Unmarshal(o.Value, &v); err != nil {
			return err
		}
		switch v := v.(type) {
		case string:
			if screen.IsTerminal(a.Stdout) { // which would obey it
				v = view.CleanLines(v)
			}
			fmt.Fprint(a.Stdout, v)
			return nil
		case float64, bool:
			fmt.Fprintf(a.Stdout, "%s", o.Value) // as stored: a float64 may print as 1e+08
			return nil
		}
		return view.Failf("Unsupported value for raw output", "%q is not a string, number or bool. Use -json, which shows every value.", name)
	case a.JSON != 0:
		fmt.Fprintf(a.Stdout, "%s\n", view.VisibleJSON(o.Value))
	default:
		fmt.Fprintln(a.Stdout, planview.OutputValue(o))
	}
	return nil
}

// outputNames completes from the configuration.
func (a *app) outputNames(flags *loadFlags) (names []string) {
	for _, o := range a.completing(flags).Outputs {
		names = append(names, o.Name)
	}
	return names
}
