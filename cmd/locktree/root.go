package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/help"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes"
)

// The help lists commands in the order in which they are added, not by name.
func init() { cobra.EnableCommandSorting = false }

// start is the whole program without its process: it has no globals and does not call os.Exit, so that tests and the demo can call it often.
func start(ctx context.Context, args []string, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{Screen: &screen.Screen{Stdin: stdin, Stdout: stdout, Stderr: stderr, Env: env}, dialClient: recipes.Dial}
	return a.run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	a.Version = version()
	return a.Run(ctx, func(ctx context.Context) error {
		root := a.rootCommand()
		root.SetArgs(help.Normalize(root, args))
		root.SetIn(a.Stdin)
		root.SetErr(a.Stderr)
		return root.ExecuteContext(ctx)
	})
}

// groups are the commands by task, in the order of the help. The help omits a group without a title. A new command is a file, and
// its function is listed here.
func groups() []group {
	return []group{
		{"Declare, plan and apply:", []maker{initCommand, fmtCommand, validateCommand, planCommand, applyCommand, destroyCommand, importCommand}},
		{"Look and repair:", []maker{statusCommand, showCommand, outputCommand, historyCommand, serveCommand, doctorCommand, revokeCommand, breakCommand}},
		{"Use locks:", []maker{execCommand, onceCommand, generateCommand}},
		{"Try it without a server:", []maker{demoCommand, devCommand}},
		{"", []maker{versionCommand}},
	}
}

type maker = func(*app) *cobra.Command

type group struct {
	title    string
	commands []maker
}

func (a *app) rootCommand() *cobra.Command {
	var versionFlag bool
	root := &cobra.Command{
		Use:           "locktree",
		Short:         "Declare lock trees, plan them, apply them to ZooKeeper",
		Long:          help.Long("locktree"),
		Args:          onlyCommands,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(c *cobra.Command, _ []string) error {
			if versionFlag {
				return showVersion(a)
			}
			_ = c.Help()
			return exit.With(exit.Failed)
		},
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			var err error
			c.Flags().Visit(func(f *pflag.Flag) {
				if f.Value.Type() == "duration" && strings.HasPrefix(f.Value.String(), "-") {
					err = usage(c, "Bad flag", "-%s=%s: a duration cannot be negative.", f.Name, f.Value)
				}
			})
			if info, failed := os.Stat(cmp.Or(a.dir, ".")); a.dir != "" && err == nil && (failed != nil || !info.IsDir()) {
				err = view.Failf("Error handling -chdir option", "%s is not a directory.", a.dir)
			}
			return err
		},
	}
	root.SetOut(a.Stdout) // set before the completion command is added, which copies it
	root.PersistentFlags().StringVar(&a.dir, "chdir", "", "switch to this `directory` before doing anything else")
	root.PersistentFlags().BoolVar(&a.NoColor, "no-color", false, "no colours, even on a terminal")
	root.Flags().BoolVarP(&versionFlag, "version", "v", false, "the same as the version command")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if c.HasAvailableSubCommands() && c.Flags().NArg() > 0 { // the unknown flag follows an unknown command: report the command
			return help.UnknownCommand(c, c.Flags().Args())
		}
		return usage(c, "Bad flag", "%s", help.FlagText(c, err))
	})
	for _, group := range groups() {
		if group.title != "" {
			root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		}
		for _, command := range group.commands {
			c := command(a)
			c.GroupID, c.Long = group.title, help.Long(c.Name())
			root.AddCommand(c)
		}
	}
	root.AddCommand(help.Topics()...)
	root.SetHelpCommand(helpCommand(a))
	root.SetHelpFunc(help.OneDash(root.HelpFunc()))
	root.InitDefaultCompletionCmd()
	_ = root.MarkPersistentFlagDirname("chdir") // it fails for unknown flags only
	return root
}
