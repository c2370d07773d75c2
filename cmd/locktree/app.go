package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes"
)

// app is one run of the program: what it shows, the global flags, and how it connects.
type app struct {
	*screen.Screen
	dir string // -chdir: relative paths start from this directory
	// dialClient is recipes.Dial; a test replaces it to see the settings of a connection.
	dialClient func(context.Context, recipes.Config) (*recipes.Client, error)
}

// loader loads the configuration of the run, and connects to its ensembles.
func (a *app) loader() *stack.Loader {
	return &stack.Loader{Dir: a.dir, Environ: a.Env, Stdin: a.Stdin, Version: version(), Log: a.Stderr, Screen: a, Dial: a.dialClient}
}

// withStack loads the configuration, connects for reading to the ensembles that can be reached, and calls f. If an interrupt comes
// meanwhile, withStack prints that it was received.
func (a *app) withStack(ctx context.Context, inputs []config.Input, f func(*stack.Stack) error) error {
	defer a.Interruptible(ctx)()
	return a.loader().Look(ctx, inputs, f)
}

// unlimitMemory removes the soft memory limit, for a command that does not end by itself. Above memoryGoal, frequent garbage
// collections would slow such a command for as long as it runs.
func (a *app) unlimitMemory() {
	if a.Env.Get("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(math.MaxInt64)
	}
}

func (a *app) jsonFlag(c *cobra.Command, form screen.JSON, help string) {
	c.Flags().BoolFunc("json", help, func(text string) error {
		on, err := strconv.ParseBool(text)
		if a.JSON = screen.Text; on {
			a.JSON = form
		}
		return err
	})
}

// completionConfig loads the configuration to complete a command line. It asks no server, because a shell must not wait, and it
// does not read standard input, which is the shell's.
func (a *app) completionConfig(flags *loadFlags) *config.Config {
	l := a.loader()
	opts := l.Options(flags.inputs)
	opts.Inputs = slices.DeleteFunc(opts.Inputs, func(in config.Input) bool { return in.Reader != nil })
	cfg, _ := config.Load(l.Path("."), opts)
	return cfg
}

// addresses returns the declared addresses, for completions.
func (a *app) addresses(flags *loadFlags) (out []string) {
	for _, addr := range stack.Addresses(a.completionConfig(flags)) {
		out = append(out, string(addr))
	}
	return out
}

// firstAddress completes the first argument from the addresses.
func (a *app) firstAddress(flags *loadFlags) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.addresses(flags), cobra.ShellCompDirectiveNoFileComp
	}
}

// twin is the time in which a second signal counts as the first one: timeout(1) signals the process and then its group.
const twin = 300 * time.Millisecond

// onSignals lets the first signal cancel the command, which says what it still has to finish. The second ends the program at
// once. That is safe: after each transaction every lock exists completely or not at all, and the next apply does the rest.
func onSignals(signals <-chan os.Signal, cancel func(), stderr io.Writer, end func(int)) {
	<-signals
	cancel()
	for first := time.Now(); ; {
		<-signals
		if time.Since(first) > twin {
			break
		}
	}
	fmt.Fprintln(stderr, "\nTwo interrupts received. Exiting immediately. Run the command again to see what is left to do.")
	end(exit.Failed)
}
