package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/demo"
	"github.com/locktree/locktree/cmd/locktree/internal/follow"
	"github.com/locktree/locktree/cmd/locktree/internal/starter"
)

func demoCommand(a *app) *cobra.Command {
	var page bool
	listen := follow.Address
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show what locktree does, on an embedded server",
		Args:  atMost(0),
		RunE: func(c *cobra.Command, _ []string) error {
			d := &demo.Demo{Out: a.Stdout, Starter: starter.Name, Command: func(ctx context.Context, dir string, env []string, args ...string) int {
				return start(ctx, append([]string{"-chdir=" + dir}, args...), append(a.Env, env...), a.Stdin, a.Stdout, a.Stdout)
			}}
			if page {
				return d.Show(c.Context(), listen)
			}
			return d.Run(c.Context())
		},
	}
	c.Flags().BoolVar(&page, "serve", false, "serve the page with live contenders")
	c.Flags().StringVar(&listen, "listen", listen, "the `ADDRESS` to serve the page on")
	return c
}
