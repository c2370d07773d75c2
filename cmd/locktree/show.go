package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/change"
	"github.com/locktree/locktree/cmd/locktree/internal/live"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
)

func showCommand(a *app) *cobra.Command {
	var flags loadFlags
	var shown shownFlags
	c := &cobra.Command{
		Use:   "show [PLAN | ADDRESS]",
		Short: "Show a saved plan, or what this stack has in ZooKeeper",
		Args:  atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && !stack.IsAddress(args[0]) {
				return showPlan(a, args[0], shown)
			}
			for _, address := range args {
				if err := notPattern(address, address, coversAll); err != nil {
					return err
				}
			}
			return a.withStack(c.Context(), flags.inputs, func(s *stack.Stack) error { return live.Tree(c.Context(), a.Screen, s, args...) })
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return a.addresses(&flags), cobra.ShellCompDirectiveDefault // complete names of plan files, too
		},
	}
	flags.register(c)
	shown.register(c)
	a.jsonFlag(c, screen.Document, "print one JSON document, in the form of Terraform's show -json")
	return c
}

// showPlan needs neither the configuration nor a server: everything is in the file.
func showPlan(a *app, name string, shown shownFlags) error {
	file, err := change.ReadPlan(a.loader(), name)
	if err != nil {
		return err
	}
	a.Show(planview.Saved{Plan: planview.Plan{Plans: file.Plans, Checks: file.Checks, Concise: shown.concise, Full: shown.full, NoAdvice: true, NowMs: time.Now().UnixMilli()}})
	return nil
}
