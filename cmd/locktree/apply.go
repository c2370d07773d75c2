package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/cmd/locktree/internal/change"
	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
)

type applyFlags struct {
	loadFlags
	intentFlags
	shownFlags
	autoApprove, input, detailedExitcode bool
	lockTimeout                          time.Duration
	message                              messageFlag
}

func (f *applyFlags) register(c *cobra.Command) {
	f.loadFlags.register(c)
	f.message.register(c)
	c.Flags().BoolVar(&f.autoApprove, "auto-approve", false, "do not ask for approval")
	c.Flags().BoolVar(&f.input, "input", true, "ask for approval; -input=false fails instead of asking")
	c.Flags().BoolVar(&f.detailedExitcode, "detailed-exitcode", false, "exit with 4 for a stale plan, 5 if another apply holds the lock, 6 if a lock is in use")
	f.shownFlags.register(c)
	c.Flags().DurationVar(&f.lockTimeout, "lock-timeout", 0, "how long to wait for another apply, such as 90s")
}

// change are the options of an apply.
func (f *applyFlags) change(a *app, opts plan.Options) change.Options {
	return change.Options{Options: opts, AutoApprove: f.autoApprove, NoInput: !f.input, Concise: f.concise, Full: f.full, LockTimeout: f.lockTimeout, Author: a.signed(f.message)}
}

func applyCommand(a *app) *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use:   "apply [PLAN]",
		Short: "Make the live tree match the configuration",
		Long: "apply takes the apply lock of the stack, then plans, asks for approval and applies, in one\n" +
			"ZooKeeper transaction per ensemble. It holds the lock while it waits for your answer, so\n" +
			"nobody else can apply meanwhile. Given a file of \"plan -out\", it applies exactly that plan,\n" +
			"or nothing if something has changed since.",
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return f.coded(a.applySaved(c.Context(), &f, args[0]))
			}
			return f.coded(a.apply(c.Context(), &f))
		},
	}
	f.register(c)
	f.registerChanges(c)
	c.Flags().BoolVar(&f.Destroy, "destroy", false, "remove everything this stack owns, as destroy does")
	a.jsonFlag(c, screen.Stream, "print a stream of JSON messages; needs -auto-approve or a plan file")
	a.completeAddresses(c, &f.loadFlags)
	return c
}

func (a *app) apply(ctx context.Context, f *applyFlags) error {
	if a.JSON != 0 && !f.autoApprove {
		return view.Failf("Plan file or auto-approve required", "With -json, nobody can be asked for approval. Add -auto-approve, or apply a plan file written with \"plan -out\".")
	}
	opts, err := f.options()
	if err != nil {
		return err
	}
	defer a.Interruptible(ctx)()
	cfg, err := a.loader().Load(f.loadFlags.inputs)
	if err != nil {
		return err
	}
	return a.loader().ConnectAll(ctx, cfg, false, func(s *stack.Stack) error {
		return change.Run(ctx, a, f.change(a, opts), s, func(*plan.Plan) {})
	})
}

func (a *app) applySaved(ctx context.Context, f *applyFlags, name string) error {
	if err := f.none(); err != nil {
		return err
	}
	defer a.Interruptible(ctx)()
	file, err := a.readPlan(name)
	if err != nil {
		return err
	}
	cfg, err := a.loader().Load(f.loadFlags.inputs) // only for the connection: plans hold no credentials
	if err != nil {
		a.Message("\nThe configuration says where to apply a saved plan, and as whom. The plan contains no values of\nvariables: give them as you gave them to \"locktree plan\".")
		return err
	}
	if err := file.CheckStack(cfg.Stack); err != nil {
		return err
	}
	at := make([]int, len(file.Plans)) // in Ensembles
	for i, p := range file.Plans {
		if at[i], err = ensembleOf(cfg, p); err != nil {
			return err
		}
	}
	for _, e := range cfg.Ensembles {
		e.Tree.Nodes = nil // the plan says what should be there, and is as large
	}
	return a.loader().ConnectAll(ctx, cfg, false, func(s *stack.Stack) error {
		return change.Saved(ctx, a, f.change(a, plan.Options{}), s, file.Plans, at)
	})
}

func destroyCommand(a *app) *cobra.Command {
	f := applyFlags{intentFlags: intentFlags{Options: plan.Options{Destroy: true}}}
	c := &cobra.Command{
		Use:        "destroy",
		SuggestFor: []string{"delete", "remove", "rm"},
		Short:      "Remove everything this stack owns",
		Long: "destroy removes the nodes that carry this stack's mark, and nothing else. If one of the locks\n" +
			"is held or waited for, it removes nothing. It holds the apply lock from before the plan to\n" +
			"the end, as apply does.\n\n" +
			"The root and .locktree in it stay, with the apply lock, which reveals plans that were saved\n" +
			"before. They keep their access lists: the next apply needs the credential of an administrator\n" +
			"that the last one declared, and sets the lists that are declared then.",
		Args: atMost(0),
		RunE: func(c *cobra.Command, _ []string) error { return f.coded(a.apply(c.Context(), &f)) },
	}
	f.register(c)
	f.intentFlags.register(c)
	says(c, "target", "remove only this `ADDRESS` and everything in it; may be repeated")
	says(c, "allow-mass-destroy", "accepted for compatibility; destroy removes more than 30 % of a namespace without it")
	a.jsonFlag(c, screen.Stream, "print a stream of JSON messages; needs -auto-approve")
	a.completeAddresses(c, &f.loadFlags)
	return c
}

// ensembleOf finds the ensemble of a saved plan, which must still be the one of the plan.
func ensembleOf(cfg *config.Config, p *plan.Plan) (int, error) {
	const summary = "Saved plan does not match the configuration"
	i := slices.IndexFunc(cfg.Ensembles, func(e *config.Ensemble) bool { return e.Name == p.Ensemble })
	if i < 0 {
		return 0, view.Failf(summary, "The plan is for ensemble %q, which the configuration does not declare. Apply it from the directory it was made in, or make a new plan.", p.Ensemble)
	}
	e := cfg.Ensembles[i]
	switch {
	case e.Root != p.Root:
		return 0, view.Failf(summary, "The plan is for ensemble %q below %s; the configuration now says %s. Make a new plan.", p.Ensemble, p.Root, e.Root)
	// With other variables the same block may name other servers, where a plan for a new stack would fit, too.
	case len(p.Servers) > 0 && !slices.ContainsFunc(p.Servers, func(server string) bool { return slices.Contains(e.Servers, server) }):
		return 0, view.Failf(summary, "The plan for ensemble %q was made on %s; the configuration now says %s. Give the variables that \"locktree plan\" was given, or make a new plan.",
			p.Ensemble, strings.Join(p.Servers, ","), strings.Join(e.Servers, ","))
	}
	return i, nil
}

// coded gives errors that a script distinguishes their codes.
func (f *applyFlags) coded(err error) error {
	switch {
	case !f.detailedExitcode, isA[*failure.PartialError](err), isA[*view.SomeEnsembles](err), isA[*failure.ClosedError](err): // the codes say that nothing was written
		return err
	case isA[*failure.StaleError](err):
		return exit.Wrap(exit.Stale, err)
	case isA[*failure.LockedError](err):
		return exit.Wrap(exit.Locked, err)
	case isA[*failure.InUseError](err):
		return exit.Wrap(exit.InUse, err)
	}
	return err
}
