package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

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
