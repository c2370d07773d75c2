package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/disk"
	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/saved"
)

type planFlags struct {
	loadFlags
	intentFlags
	shownFlags
	out              string
	detailedExitcode bool
}

// shownFlags are how a person wants to see a plan.
type shownFlags struct{ concise, full bool }

func (f *shownFlags) register(c *cobra.Command) {
	c.Flags().BoolVar(&f.concise, "concise", false, "show each change of the plan on one line")
	c.Flags().BoolVar(&f.full, "full", false, "show each change, also where more than 200 are grouped on a terminal")
}

func planCommand(a *app) *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:   "plan",
		Short: "Show what an apply would do",
		Long: "plan reads the live tree, compares it with the configuration and shows what an apply\n" +
			"would do. It writes nothing to ZooKeeper: its connection refuses all writes. If an ensemble\n" +
			"cannot be reached, it shows the plan of the others, which cannot be applied, and exits with 1.",
		Args: atMost(0),
		RunE: func(c *cobra.Command, _ []string) error { return a.plan(c.Context(), &f) },
	}
	f.loadFlags.register(c)
	f.registerChanges(c)
	c.Flags().StringVar(&f.out, "out", "", "save the plan to a `FILE` for apply")
	c.Flags().BoolVar(&f.Destroy, "destroy", false, "plan to remove everything this stack owns")
	c.Flags().BoolVar(&f.detailedExitcode, "detailed-exitcode", false, "exit with 2 if there are changes")
	f.shownFlags.register(c)
	c.Flags().Bool("input", true, "accepted for compatibility; plan never asks")
	a.jsonFlag(c, screen.Stream, "print a stream of JSON messages")
	a.completeAddresses(c, &f.loadFlags)
	return c
}

func (a *app) plan(ctx context.Context, f *planFlags) error {
	opts, err := f.options()
	if err != nil {
		return err
	}
	return a.looking(ctx, &f.loadFlags, func(s *stack.Stack) error {
		question, plans, err := s.Ask(ctx, opts)
		if len(plans) == 0 {
			return err
		}
		shown := planview.Plan{Plans: plans, Incomplete: err != nil, Files: s.Sources, Concise: f.concise, Full: f.full, NowMs: time.Now().UnixMilli()}
		if f.out != "" && !shown.Failing() {
			if err := a.savePlan(f.out, question, plans); err != nil {
				return err
			}
			shown.SavedTo = f.out
		}
		a.Show(shown)
		switch {
		case err != nil:
			return err
		case shown.Failing():
			return exit.With(exit.Failed)
		case f.detailedExitcode && planview.Changed(plans):
			return exit.With(exit.Changes)
		}
		return nil
	})
}

// intentFlags are what a person can ask of one run of plan, apply or destroy, besides the
// configuration.
type intentFlags struct {
	plan.Options
	drain time.Duration
}

func (f *intentFlags) register(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.Targets, "target", nil, "plan only this `ADDRESS`, everything in it, and what that needs; may be repeated")
	c.Flags().BoolVar(&f.AllowMassDestroy, "allow-mass-destroy", false, "allow a plan that removes more than 30 % of a namespace")
	c.Flags().StringArrayVar(&f.ForceBreak, "force-break", nil, "remove the lock at this exact `ADDRESS` even if it is in use: its holder loses it")
	c.Flags().DurationVar(&f.drain, "drain", 0, "admit nobody new to locks that are removed or replaced, and wait this long until they are idle; 60s without a value")
	c.Flags().Lookup("drain").NoOptDefVal = "60s"
}

// registerChanges adds what makes no sense where everything is removed.
func (f *intentFlags) registerChanges(c *cobra.Command) {
	f.register(c)
	c.Flags().StringArrayVar(&f.Replace, "replace", nil, "remove the lock at this `ADDRESS`, or all locks in it, and create them again; may be repeated")
	c.Flags().BoolVar(&f.OverwriteData, "overwrite-data", false, "let an import replace data that another program wrote into the node")
}

// options are those of the planner. What cannot go together is refused before anything is read.
func (f *intentFlags) options() (plan.Options, error) {
	opts := f.Options
	opts.Drain = f.drain
	for _, given := range []struct {
		flag      string
		addresses []string
	}{{"target", f.Targets}, {"replace", f.Replace}, {"force-break", f.ForceBreak}} {
		if slices.Contains(given.addresses, "") {
			return opts, view.Failf("Bad flag", "-%s is given without an address; perhaps a shell variable is empty. Write it as -%s=namespace.payments.mutex.ledger.", given.flag, given.flag)
		}
		hint := coversAll
		if given.flag == "force-break" {
			hint = "Name each lock."
		}
		for _, address := range given.addresses {
			if err := notPattern("-"+given.flag+"="+address, address, hint); err != nil {
				return opts, err
			}
		}
	}
	return opts, nil
}

const coversAll = "The address of a namespace, a module or a block with for_each takes everything in it."

// notPattern refuses an address with a character that patterns have and names do not. A key may have it.
func notPattern(shown, address, hint string) error {
	if !strings.ContainsAny(string(plan.Addr(address).Block()), "*?") {
		return nil
	}
	return view.Failf("Not an address", "%s is no address: names contain neither \"*\" nor \"?\". %s", shown, hint)
}

// none refuses the flags where a saved plan already says what to do.
func (f *intentFlags) none() error {
	if f.Destroy {
		return view.Failf("Destroy with a saved plan", "A saved plan already says what to destroy. Save one with \"plan -destroy -out FILE\" and apply that.")
	}
	if f.AllowMassDestroy || f.OverwriteData || f.drain != 0 || len(f.Targets)+len(f.Replace)+len(f.ForceBreak) > 0 {
		return view.Failf("Planning options with a saved plan", "A saved plan already says what to do. Give -target, -replace, -drain and similar flags to \"plan -out FILE\", and apply that file.")
	}
	return nil
}

// savePlan writes a file that only its owner can read, complete or not at all. It replaces
// an existing file only if that is a plan, too, or empty: a typing error must not cost a configuration.
func (a *app) savePlan(name string, q *saved.Question, answer []*plan.Plan) error {
	path := a.loader().Path(name)
	if info, err := os.Stat(path); err == nil && (!info.Mode().IsRegular() || info.Size() > 0 && !isPlan(path)) {
		return view.Failf("Refusing to overwrite a file", "%s exists and is not a plan. Choose another name for -out, or remove the file.", name)
	}
	if err := disk.Replace(path, 0o600, func(w io.Writer) error { return q.Encode(w, version(), answer) }); err != nil {
		return view.Failf("Cannot write the plan", "%v. Nothing was written to ZooKeeper either. Choose another file for -out.", err)
	}
	return nil
}

// isPlan reports whether a file begins as a plan.
func isPlan(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = saved.Decode(io.LimitReader(f, 64), version())
	return !errors.Is(err, saved.ErrNotPlan)
}

// readPlan reads a file of plan -out.
func (a *app) readPlan(name string) (*saved.File, error) {
	if info, err := os.Stat(a.loader().Path(name)); err == nil && !info.Mode().IsRegular() {
		return nil, view.Failf("Cannot read the plan file", "%s is not a regular file, but a directory, a device or a pipe. Save the plan with \"plan -out FILE\".", name)
	}
	r, err := os.Open(a.loader().Path(name))
	if err != nil {
		return nil, view.Failf("Cannot read the plan file", "%v. Save one with \"plan -out FILE\".", err)
	}
	defer r.Close()
	file, err := saved.Decode(r, version())
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return file, nil
}
