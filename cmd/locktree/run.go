package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/run"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes"
)

// app is one run of the program: its streams, the global flags and its output.
type app struct {
	terminal
	dir  string   // -chdir: what every relative path is relative to
	json jsonKind // the verb's -json, 0 without

	showing sync.Mutex // an interrupt is shown concurrently
	v       view.Output

	underWay  chan struct{}           // holds one while an interrupt must wait, see await
	changing  atomic.Bool             // an apply has begun to write: what is said at an interrupt
	interrupt context.CancelCauseFunc // interrupts the command
	// dialClient is recipes.Dial; a test looks at what the verbs ask it for.
	dialClient func(context.Context, recipes.Config) (*recipes.Client, error)
}

// start is the whole program without its process: no globals, no os.Exit, so that tests and
// the demo can call it often.
func start(ctx context.Context, args []string, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{terminal: terminal{stdin: stdin, stdout: stdout, stderr: stderr, env: env}, dialClient: recipes.Dial}
	return a.run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	if isTerminal(a.stdout) {
		return a.command(ctx, args)
	}
	out := &checked{Writer: a.stdout, unread: func() { a.interrupt(errors.Join(context.Canceled, syscall.EPIPE)) }}
	a.stdout = out
	code := a.command(ctx, args)
	if err := out.failed(); err != nil {
		view.NewHuman(view.Stream{}, a.stream(a.stderr)).Diagnostics(view.Explain(err), nil) // with -json, too
		if code == exit.OK || code == exit.Changes {
			return exit.Failed
		}
	}
	return code
}

// command runs the command that the arguments name.
func (a *app) command(ctx context.Context, args []string) int {
	root := a.rootCommand()
	root.SetArgs(normalizeArgs(root, args))
	root.SetIn(a.stdin)
	root.SetErr(a.stderr)
	a.underWay = make(chan struct{}, 1)
	ctx, a.interrupt = context.WithCancelCause(ctx)
	defer a.interrupt(nil)
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	err := a.await(ctx, done)
	if err != nil && err.Error() != "" {
		a.view().Diagnostics(view.Explain(err), nil)
	}
	a.showing.Lock()
	defer a.showing.Unlock()
	return exit.Code(err)
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
				return a.version()
			}
			_ = c.Help()
			return exit.With(exit.Failed)
		},
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			a.view() // before anything runs concurrently
			var err error
			c.Flags().Visit(func(f *pflag.Flag) {
				if f.Value.Type() == "duration" && strings.HasPrefix(f.Value.String(), "-") {
					err = usage(c, "Bad flag", "-%s=%s: a duration cannot be negative.", f.Name, f.Value)
				}
			})
			return cmp.Or(err, a.checkDir())
		},
	}
	root.SetOut(a.stdout) // before the completion command, which takes it as it is then
	root.PersistentFlags().StringVar(&a.dir, "chdir", "", "switch to this `directory` before doing anything else")
	root.PersistentFlags().BoolVar(&a.noColor, "no-color", false, "no colours, even on a terminal")
	root.Flags().BoolVarP(&showVersion, "version", "v", false, "the same as the version command")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if c.HasAvailableSubCommands() && c.Flags().NArg() > 0 { // it is the command's flag, and there is no such command
			return unknownCommand(c, c.Flags().Args())
		}
		return usage(c, "Bad flag", "%s", flagText(c, err))
	})
	root.AddGroup(&cobra.Group{ID: "main", Title: "Main commands:"}, &cobra.Group{ID: "other", Title: "All other commands:"})
	for i, verb := range verbs() {
		c := verb(a)
		if c.GroupID = "other"; i < mainVerbs {
			c.GroupID = "main"
		}
		root.AddCommand(c)
	}
	root.AddCommand(topics()...)
	root.SetHelpCommand(helpCommand(a))
	root.SetCompletionCommandGroupID("other")
	root.SetHelpFunc(oneDashHelp(root.HelpFunc()))
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
		return unknownCommand(c, args)
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

// loader loads the configuration of the run, and connects to its ensembles.
func (a *app) loader() *stack.Loader {
	return &stack.Loader{Dir: a.dir, Environ: a.env, Stdin: a.stdin, Version: version(), Log: a.stderr, Screen: a, Dial: a.dialClient}
}

func (a *app) checkDir() error {
	if a.dir == "" {
		return nil
	}
	if info, err := os.Stat(a.dir); err != nil || !info.IsDir() {
		return view.Failf("Error handling -chdir option", "%s is not a directory.", a.dir)
	}
	return nil
}

// jsonKind is what a verb's -json is: one document, or a stream of messages.
type jsonKind int

const (
	documentJSON jsonKind = iota + 1
	streamJSON
	logJSON // a stream on standard error: standard output is the command's that exec runs
)

func (a *app) jsonFlag(c *cobra.Command, k jsonKind, help string) {
	c.Flags().BoolFunc("json", help, func(text string) error {
		on, err := strconv.ParseBool(text)
		a.json = 0
		if on {
			a.json = k
		}
		return err
	})
}

// view is made at its first use: -json and -no-color are known by then.
func (a *app) view() view.Output {
	a.showing.Lock()
	defer a.showing.Unlock()
	if a.v != nil {
		return a.v
	}
	stderr := a.stream(a.stderr)
	switch {
	case a.json == streamJSON:
		a.v = view.NewStream(a.stdout, version(), time.Now)
	case a.json == logJSON:
		a.v = view.NewStream(a.stderr, version(), time.Now)
	case a.json == documentJSON:
		a.v = view.NewDocuments(a.stdout, stderr, version())
	default:
		a.v = view.NewHuman(a.stream(a.stdout), stderr)
	}
	return a.v
}

// farEvery is for how long a step says nothing of how far it is, and how often it says it then.
const farEvery = time.Second

// Diagnostics shows errors and warnings of a configuration; see [stack.Screen].
func (a *app) Diagnostics(diags hcl.Diagnostics, files map[string]*hcl.File) {
	a.view().Diagnostics(diags, files)
}

// During shows how far a long step is; see [stack.Screen].
func (a *app) During(what string, far func(*view.Progress)) (stop func()) {
	v, began, stopped := a.view(), time.Now(), make(chan struct{})
	if a.json == 0 && a.env.Get("TERM") == "dumb" { // it can remove nothing
		return func() {}
	}
	var over sync.WaitGroup
	over.Go(func() {
		tick := time.NewTicker(farEvery)
		defer tick.Stop()
		for {
			select {
			case <-stopped:
				v.Progress(nil)
				return
			case now := <-tick.C:
				p := view.Progress{What: what, Elapsed: now.Sub(began)}
				if far != nil {
					far(&p)
				}
				v.Progress(&p)
			}
		}
	})
	return func() {
		close(stopped)
		over.Wait()
	}
}

// host is the program around a command that exec runs.
func (a *app) host() run.Host {
	return run.Host{Loader: a.loader(), Stdout: unchecked(a.stdout), Stderr: a.stderr, Interrupt: a.interrupt,
		Show:          func(j view.Job) { a.Show(j) },
		Uninterrupted: a.Uninterrupted}
}

// looking loads the configuration, connects to those of its ensembles that can be reached, to read, and calls f. It answers an
// interrupt meanwhile.
func (a *app) looking(ctx context.Context, flags *loadFlags, f func(*stack.Stack) error) error {
	defer a.interruptible(ctx)()
	return a.loader().Look(ctx, flags.inputs, f)
}

// Show shows a result.
func (a *app) Show(r view.Result) { a.view().Show(r) }

// Message shows a text to a person.
func (a *app) Message(text string) { a.view().Message(text) }

// Uninterrupted lets an interrupt wait until the returned function, see await.
func (a *app) Uninterrupted(ctx context.Context) (over func(), err error) {
	select {
	case a.underWay <- struct{}{}:
		return func() { <-a.underWay }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Changing says whether an apply has begun to write: an interrupt is then answered with other words.
func (a *app) Changing(on bool) { a.changing.Store(on) }

// Grouped reports whether a person looks on, for whom equal changes are shown as one.
func (a *app) Grouped() bool { return a.json == 0 && isTerminal(a.stdout) }

// asType is the first error of its type in the chain.
func asType[E error](err error) (e E, ok bool) {
	ok = errors.As(err, &e)
	return e, ok
}

func isA[E error](err error) bool {
	_, ok := asType[E](err)
	return ok
}
