package main

import (
	"cmp"
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/help"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes"
)

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

// mainVerbs is how many of them are main commands.
const mainVerbs = 5

// The help lists commands in the order they are made, not in that of their names.
func init() { cobra.EnableCommandSorting = false }

// verbs are the commands in the order of the help. A new command is a function here and a
// file.
func verbs() []func(*app) *cobra.Command {
	return []func(*app) *cobra.Command{
		initCommand, validateCommand, planCommand, applyCommand, destroyCommand, // the main ones
		statusCommand, serveCommand, doctorCommand, historyCommand, revokeCommand, breakCommand, execCommand, onceCommand, showCommand, outputCommand, fmtCommand, generateCommand, importCommand,
		devCommand, demoCommand, versionCommand,
	}
}

func (a *app) rootCommand() *cobra.Command {
	var showVersion bool
	root := &cobra.Command{
		Use:   "locktree",
		Short: "Declare lock trees, plan them, apply them to ZooKeeper",
		Long: "locktree declares locks in HCL and applies them to ZooKeeper ensembles.\n\n" +
			"The usual order is: init, validate, plan, apply. Flags take one dash or two.\n" +
			"Exit codes: 0 success, 1 error; for the others see \"locktree help exit-codes\".",
		Args:          onlyCommands,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(c *cobra.Command, _ []string) error {
			if showVersion {
				return a.showVersion()
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
			return cmp.Or(err, a.checkDir())
		},
	}
	root.SetOut(a.Stdout) // before the completion command, which takes it as it is then
	root.PersistentFlags().StringVar(&a.dir, "chdir", "", "switch to this `directory` before doing anything else")
	root.PersistentFlags().BoolVar(&a.NoColor, "no-color", false, "no colours, even on a terminal")
	root.Flags().BoolVarP(&showVersion, "version", "v", false, "the same as the version command")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if c.HasAvailableSubCommands() && c.Flags().NArg() > 0 { // it is the command's flag, and there is no such command
			return help.UnknownCommand(c, c.Flags().Args())
		}
		return usage(c, "Bad flag", "%s", help.FlagText(c, err))
	})
	root.AddGroup(&cobra.Group{ID: "main", Title: "Main commands:"}, &cobra.Group{ID: "other", Title: "All other commands:"})
	for i, verb := range verbs() {
		c := verb(a)
		if c.GroupID = "other"; i < mainVerbs {
			c.GroupID = "main"
		}
		root.AddCommand(c)
	}
	root.AddCommand(help.Topics()...)
	root.SetHelpCommand(helpCommand(a))
	root.SetCompletionCommandGroupID("other")
	root.SetHelpFunc(help.OneDash(root.HelpFunc()))
	root.InitDefaultCompletionCmd()
	_ = root.MarkPersistentFlagDirname("chdir") // it fails for unknown flags only
	return root
}

// group is a command that does nothing but to contain others.
func group(c *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	c.Args = onlyCommands
	c.RunE = func(c *cobra.Command, _ []string) error {
		_ = c.Help()
		return exit.With(exit.Failed)
	}
	c.AddCommand(subs...)
	return c
}

// onlyCommands takes every argument for a command that does not exist.
func onlyCommands(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return help.UnknownCommand(c, args)
	}
	return nil
}

// usage is an error on the command line.
func usage(c *cobra.Command, summary, detail string, args ...any) error {
	return view.Failf(summary, detail+"\n\nFor the flags and arguments, run: "+c.CommandPath()+" -help", args...)
}

// atMost refuses more arguments. Older Terraform versions took a directory as an argument, hence its advice.
func atMost(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > n {
			return usage(c, "Too many command line arguments", "%q is one argument too many. To work on another directory, use -chdir=DIR.", args[n])
		}
		return nil
	}
}
