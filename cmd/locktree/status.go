package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/follow"
	"github.com/locktree/locktree/cmd/locktree/internal/live"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
)

func statusCommand(a *app) *cobra.Command {
	var tree treeFlags
	var detailedExitcode, watch bool
	var key keyFlag
	var filter lockview.Filter
	reads := stack.MaxReads
	c := &cobra.Command{
		Use:        "status [ADDRESS | PATH]",
		SuggestFor: []string{"who", "holders", "list", "ls", "ps", "watch", "monitor"},
		Short:      "Show who holds and who waits",
		Args:       atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			at := cmp.Or(append(args, tree.prefix)...)
			switch {
			case len(args) == 1 && tree.prefix != "":
				return usage(c, "Two paths", "-prefix=%s and %s are both a path to look at. Give one of them.", tree.prefix, args[0])
			case watch && (key.Given || detailedExitcode):
				return usage(c, "Bad flag", "-watch shows all locks, and has no end of its own. Leave out -key and -detailed-exitcode.")
			case reads < 0:
				return usage(c, "Bad flag", "-reads=%d: must not be negative. 0 means no limit.", reads)
			case key.Given && at == "":
				return usage(c, "Family missing", "-key=%s: the family is missing. Give its address or its path, for example \"locktree status /locks/orders -key 4711\".", key.Key.Key)
			case tree.servers+at != "" && detailedExitcode:
				return usage(c, "The -detailed-exitcode option is about the whole stack", "Give it without an address, a path or -servers.")
			}
			defer a.Interruptible(c.Context())()
			cfg, err := tree.configured(c, a.loader(), at)
			if err != nil {
				return err
			}
			if watch {
				if !c.Flags().Changed("reads") {
					reads = follow.Reads
				}
				a.unlimitMemory()
				return follow.Watch(c.Context(), a.Screen, a.loader(), cfg, tree.prefix, filter, reads)
			}
			return a.loader().Reach(c.Context(), cfg, true, func(s *stack.Stack) error {
				if tree.prefix != "" {
					return live.Locks(c.Context(), a.Screen, s, filter, tree.prefix, key.Key, reads)
				}
				differs, err := live.Status(c.Context(), a.Screen, s, filter)
				if err == nil && differs && detailedExitcode {
					err = exit.With(exit.Changes)
				}
				return err
			})
		},
	}
	tree.register(c)
	c.ValidArgsFunction = a.firstAddress(&tree.loadFlags)
	c.Flags().BoolVar(&detailedExitcode, "detailed-exitcode", false, "exit with 2 if the tree differs from the configuration")
	c.Flags().BoolVar(&filter.InUse, "in-use", false, "show only locks with a holder or a waiter")
	c.Flags().StringVar(&filter.Owner, "owner", "", "show only locks with this declared owner, a `NAME`")
	c.Flags().DurationVar(&filter.Longer, "longer", 0, "show only locks with a holder or a waiter for longer than this `DURATION`")
	c.Flags().IntVar(&reads, "reads", reads, "after this many requests, a look at a path reads no further node; 0 means no limit")
	c.Flags().BoolVar(&watch, "watch", false, "go on, and show what changes, until interrupted")
	key.register(c)
	a.jsonFlag(c, screen.Document, "print one JSON document; with -watch one for each change")
	return c
}
