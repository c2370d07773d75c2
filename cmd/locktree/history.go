package main

import (
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/live"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
)

func historyCommand(a *app) *cobra.Command {
	var flags loadFlags
	c := &cobra.Command{
		Use:        "history",
		SuggestFor: []string{"log", "audit", "blame"},
		Short:      "Show who applied what, and when",
		Args:       atMost(0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withStack(c.Context(), flags.inputs, func(s *stack.Stack) error { return live.History(c.Context(), a.Screen, s) })
		},
	}
	flags.register(c)
	a.jsonFlag(c, screen.Document, "print one JSON document")
	return c
}
