package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
)

func stateCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "state",
		Short: "Look at what this stack owns",
		Long:  "What a stack owns is marked in the znodes themselves. There is no state file to move, push or pull.",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			_ = c.Help()
			return exitWith(exitError)
		},
	}
	c.AddCommand(a.stateList(), a.stateShow())
	return c
}

func (a *app) stateList() *cobra.Command {
	var flags loadFlags
	c := &cobra.Command{
		Use:   "list [ADDRESS]...",
		Short: "List the addresses of what this stack has in ZooKeeper",
		Long:  "list prints one address per line. Arguments limit it to these addresses and what is below them;\n* and ** match as in -target.",
		RunE: func(c *cobra.Command, args []string) error {
			trees, err := a.owned(c.Context(), &flags, args)
			for _, tree := range trees {
				for _, n := range tree.Nodes {
					fmt.Fprintln(a.stdout, view.Clean(n.Payload.Owner.Addr))
				}
			}
			return err
		},
	}
	flags.register(c)
	return c
}

func (a *app) stateShow() *cobra.Command {
	var flags loadFlags
	c := &cobra.Command{
		Use:               "show ADDRESS",
		Short:             "Show one lock or namespace as it is in ZooKeeper",
		Args:              exactly(1, 1),
		ValidArgsFunction: completes(func() []string { return a.addresses(&flags) }),
		RunE: func(c *cobra.Command, args []string) error {
			trees, err := a.owned(c.Context(), &flags, nil)
			trees = slices.DeleteFunc(trees, func(tree *plan.Tree) bool {
				tree.Nodes = slices.DeleteFunc(tree.Nodes, func(n *plan.Node) bool { return n.Payload.Owner.Addr != args[0] })
				return len(tree.Nodes) == 0
			})
			switch {
			case len(trees) == 0 && err != nil:
				return err
			case len(trees) == 0:
				return view.Failf("No such address", "This stack has nothing at %s in ZooKeeper. \"locktree state list\" lists what it has.", args[0])
			}
			a.show(view.Live(trees))
			return nil
		},
	}
	flags.register(c)
	a.jsonFlag(c, documentJSON, "print one JSON document")
	return c
}

// owned are the live trees with only this stack's nodes, and only those that match one of the
// patterns, if there are any. Trees beside an error are what could be read.
func (a *app) owned(ctx context.Context, flags *loadFlags, patterns []string) (trees []*plan.Tree, err error) {
	defer a.interruptible(ctx)()
	cfg, err := a.load(flags)
	if err != nil {
		return nil, err
	}
	matches := plan.Matching(patterns)
	err = a.dialled(ctx, cfg, true, func(s *stack) error {
		if trees, err = s.read(ctx); err == nil {
			err = s.allRead(ctx, trees)
		}
		for _, tree := range trees {
			tree.Nodes = slices.DeleteFunc(tree.Nodes, func(n *plan.Node) bool {
				return n.Payload == nil || n.Payload.Owner.Stack != s.Stack || len(patterns) > 0 && !matches(plan.Addr(n.Payload.Owner.Addr))
			})
		}
		return err
	})
	return trees, err
}
