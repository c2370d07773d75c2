package main

import (
	"context"
	"errors"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/run"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes"
)

// app is one run of the program: what it shows, the global flags, and how it connects.
type app struct {
	*screen.Screen
	dir string // -chdir: relative paths are relative to it
	// dialClient is recipes.Dial; a test looks at what commands ask it for.
	dialClient func(context.Context, recipes.Config) (*recipes.Client, error)
}

// loader loads the configuration of the run, and connects to its ensembles.
func (a *app) loader() *stack.Loader {
	return &stack.Loader{Dir: a.dir, Environ: a.Env, Stdin: a.Stdin, Version: version(), Log: a.Stderr, Screen: a, Dial: a.dialClient}
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

func (a *app) jsonFlag(c *cobra.Command, k screen.JSON, help string) {
	c.Flags().BoolFunc("json", help, func(text string) error {
		on, err := strconv.ParseBool(text)
		a.JSON = screen.Text
		if on {
			a.JSON = k
		}
		return err
	})
}

// host is the program around a command that exec runs.
func (a *app) host() run.Host {
	return run.Host{Loader: a.loader(), Stdout: a.Raw(), Stderr: a.Stderr, Interrupt: a.Interrupt,
		Show:          func(j view.Job) { a.Show(j) },
		Uninterrupted: a.Uninterrupted}
}

// looking loads the configuration, connects to those of its ensembles that can be reached, to read, and calls f. It answers an
// interrupt meanwhile.
func (a *app) looking(ctx context.Context, flags *loadFlags, f func(*stack.Stack) error) error {
	defer a.Interruptible(ctx)()
	return a.loader().Look(ctx, flags.inputs, f)
}

// asType is the first error of its type in the chain.
func asType[E error](err error) (e E, ok bool) {
	ok = errors.As(err, &e)
	return e, ok
}

func isA[E error](err error) bool {
	_, ok := asType[E](err)
	return ok
}
