package main

import (
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/change"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
)

func revokeCommand(a *app) *cobra.Command {
	return evictCommand(a, &change.Eviction{}, &cobra.Command{
		Use:   "revoke {ADDRESS | PATH}",
		Short: "Ask a holder to give a lock back",
	})
}

func evictCommand(a *app, o *change.Eviction, c *cobra.Command) *cobra.Command {
	var tree treeFlags
	var key keyFlag
	var message messageFlag
	c.Args = atMost(1)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage(c, "Lock missing", "Say which lock: its address, or its path.")
		}
		defer a.Interruptible(c.Context())()
		cfg, err := tree.configured(c, a.loader(), args[0])
		if err != nil {
			return err
		}
		o.Path, o.Key, o.Author = tree.prefix, key.Key, change.Author(a.loader(), string(message))
		o.JSON, o.NoInput = a.JSON != screen.Text, !screen.IsTerminal(a.Stdin)
		return a.loader().ConnectAll(c.Context(), cfg, true, func(s *stack.Stack) error {
			return change.Evict(c.Context(), a, *o, a.loader(), s)
		})
	}
	tree.loadFlags.register(c)
	c.Flags().StringVar(&tree.servers, "servers", "", "on these `SERVERS`, without a configuration: zk1:2181,zk2:2181")
	c.Flags().StringVar(&o.Holder, "holder", "", "the holder, if there are several: an `ID`, a session, a token or the name of a node")
	c.Flags().BoolVar(&o.AutoApprove, "auto-approve", false, "do not ask for approval")
	key.register(c)
	message.register(c)
	a.jsonFlag(c, screen.Document, "print one JSON document; needs -auto-approve")
	c.ValidArgsFunction = a.firstAddress(&tree.loadFlags)
	return c
}
