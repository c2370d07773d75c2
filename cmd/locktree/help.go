package main

import (
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/help"
)

// helpCommand shows the help of a command, or a topic, and is an error where there is
// neither.
func helpCommand(a *app) *cobra.Command {
	var man string
	c := &cobra.Command{
		Use:   "help [COMMAND | TOPIC]",
		Short: "Help about a command or a topic",
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			if of, _, err := c.Root().Find(args); err == nil {
				for _, sub := range of.Commands() {
					names = append(names, sub.Name()+"\t"+sub.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			if man != "" {
				return help.WriteManual(c.Root(), version(), a.loader().Path(man), man)
			}
			of, rest, err := c.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return help.UnknownCommand(of, rest)
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
	c.Flags().StringVar(&man, "man", "", "write the whole help as man pages into the directory `DIR`")
	_ = c.MarkFlagDirname("man") // it fails for unknown flags only
	return c
}
