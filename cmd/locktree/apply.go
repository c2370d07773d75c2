package main

import (
	"context"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/spf13/cobra"
)

type applyFlags struct {
	loadFlags
	intentFlags
	autoApprove, input, detailedExitcode, concise bool
	lockTimeout                                   time.Duration
}

func (f *applyFlags) register(c *cobra.Command) {
	f.loadFlags.register(c)
	c.Flags().BoolVar(&f.autoApprove, "auto-approve", false, "do not ask")
	c.Flags().BoolVar(&f.input, "input", true, "ask for input; -input=false fails where a question would be asked")
	c.Flags().BoolVar(&f.detailedExitcode, "detailed-exitcode", false, "exit 4 for a stale plan, 5 when another apply holds the lock, 6 for a lock in use")
	c.Flags().BoolVar(&f.concise, "concise", false, "show the plan with one line a change")
	c.Flags().DurationVar(&f.lockTimeout, "lock-timeout", 0, "how long to wait for another apply, as in 90s")
}

func applyCommand(a *app) *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use:   "apply [PLAN]",
		Short: "Make the live tree what the configuration says",
		Long: "apply plans, asks and applies, in one ZooKeeper transaction an ensemble. With a file of\n" +
			"\"plan -out\" it applies exactly that plan, or nothing when something changed since.",
		Args: exactly(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return f.exit(a.applySaved(c.Context(), &f, args[0]))
			}
			return f.exit(a.apply(c.Context(), &f))
		},
	}
	f.register(c)
	f.registerChanges(c)
	c.Flags().BoolVar(&f.destroy, "destroy", false, "remove everything this stack owns; the same as destroy")
	a.jsonFlag(c, streamJSON, "print a stream of JSON messages; needs -auto-approve or a plan file")
	a.completeAddresses(c, &f.loadFlags)
	return c
}

func (a *app) apply(ctx context.Context, f *applyFlags) error {
	if a.json != 0 && !f.autoApprove {
		return view.Failf("Plan file or auto-approve required", "With -json nobody can be asked. Add -auto-approve, or apply a plan file written with \"plan -out\".")
	}
	defer a.interruptible(ctx)()
	opts, err := f.options()
	if err != nil {
		return err
	}
	cfg, err := a.load(&f.loadFlags)
	if err != nil {
		return err
	}
	s, err := a.connect(ctx, cfg, false)
	if err != nil {
		return err
	}
	defer s.close()
	plans, err := s.plan(ctx, opts)
	if err != nil {
		return err
	}
	a.view().Plan(view.Plan{Plans: plans, Operation: f.operation(), Files: cfg.Sources, Concise: f.concise, NowMs: time.Now().UnixMilli(), NoAdvice: true})
	return a.approveAndExecute(ctx, f, s, plans)
}

func (a *app) applySaved(ctx context.Context, f *applyFlags, name string) error {
	if err := f.none(); err != nil {
		return err
	}
	defer a.interruptible(ctx)()
	file, err := a.readPlan(name)
	if err != nil {
		return err
	}
	cfg, err := a.load(&f.loadFlags) // for the connection alone: plans hold no credentials
	if err != nil {
		a.view().Message("\nThe configuration says where a saved plan is applied, and as whom. The plan holds no values of\nits variables: give them as they were given to \"locktree plan\".")
		return err
	}
	if err := file.CheckStack(cfg.Stack); err != nil {
		return err
	}
	for _, e := range cfg.Ensembles {
		e.Tree.Nodes = nil // the plan says what shall be there, and is as large
	}
	s, err := a.connect(ctx, cfg, false)
	if err != nil {
		return err
	}
	defer s.close()
	return a.execute(ctx, f, s, file.Plans)
}
