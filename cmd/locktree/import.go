package main

import (
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/takeover"
)

func importCommand(a *app) *cobra.Command {
	var f applyFlags
	var o takeover.Options
	c := &cobra.Command{
		Use:   "import {ADDRESS PATH | -from PATH}",
		Short: "Take over existing locks",
		Args:  atMost(2),
		RunE: func(c *cobra.Command, args []string) error {
			defer a.Interruptible(c.Context())()
			o.Inputs = f.inputs
			switch {
			case o.From != "" && len(args) == 0:
				return takeover.Tree(c.Context(), a.Screen, a.loader(), o)
			case o.From == "" && len(args) == 2 && o.File == "":
				return f.coded(takeover.One(c.Context(), a, a.loader(), f.inputs, f.change(a, f.Options), args[0], args[1]))
			}
			return usage(c, "Address and path missing", "Give an address and a path, or -from=PATH with or without -generate=FILE.")
		},
	}
	f.register(c)
	c.ValidArgsFunction = a.firstAddress(&f.loadFlags)
	c.Flags().StringVar(&o.From, "from", "", "the `PATH` of the subtree to look at")
	c.Flags().StringVar(&o.File, "generate", "", "write what was found to this new `FILE`")
	c.Flags().StringArrayVar(&o.Kinds, "kind", nil, "declare nodes that no program uses as this `[PATH=]TYPE`, such as mutex; may be repeated")
	c.Flags().StringVar(&o.Ensemble, "ensemble", "", "the `NAME` of the ensemble, if there are several")
	c.Flags().BoolVar(&f.OverwriteData, "overwrite-data", false, "replace data that another program wrote into the node")
	return c
}
