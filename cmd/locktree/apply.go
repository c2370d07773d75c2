package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
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
				return f.exit(a.applySaved(c.Context(), &f, args[0]))
			}
			return f.exit(a.apply(c.Context(), &f))
		},
	}
	f.register(c)
	f.registerChanges(c)
	c.Flags().BoolVar(&f.Destroy, "destroy", false, "remove everything this stack owns, as destroy does")
	a.jsonFlag(c, streamJSON, "print a stream of JSON messages; needs -auto-approve or a plan file")
	a.completeAddresses(c, &f.loadFlags)
	return c
}

func (a *app) apply(ctx context.Context, f *applyFlags) error {
	if a.json != 0 && !f.autoApprove {
		return view.Failf("Plan file or auto-approve required", "With -json, nobody can be asked for approval. Add -auto-approve, or apply a plan file written with \"plan -out\".")
	}
	opts, err := f.options()
	if err != nil {
		return err
	}
	defer a.interruptible(ctx)()
	cfg, err := a.load(&f.loadFlags)
	if err != nil {
		return err
	}
	return a.connected(ctx, cfg, false, func(s *stack) error {
		return a.planAndApply(ctx, f, s, opts, func(*plan.Plan) {})
	})
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
	cfg, err := a.load(&f.loadFlags) // only for the connection: plans hold no credentials
	if err != nil {
		a.view().Message("\nThe configuration says where to apply a saved plan, and as whom. The plan contains no values of\nvariables: give them as you gave them to \"locktree plan\".")
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
	return a.connected(ctx, cfg, false, func(s *stack) error {
		all := make([]*applying, len(file.Plans))
		for i, p := range file.Plans {
			client, shown := s.clients[at[i]], a.progress(p.Ensemble)
			all[i] = &applying{apply.New(client, a.applying(f, p.Destroy, shown.event)), client, shown}
		}
		return a.execute(ctx, f, all, file.Plans)
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
		RunE: func(c *cobra.Command, _ []string) error { return f.exit(a.apply(c.Context(), &f)) },
	}
	f.register(c)
	f.intentFlags.register(c)
	says(c, "target", "remove only this `ADDRESS` and everything in it; may be repeated")
	says(c, "allow-mass-destroy", "accepted for compatibility; destroy removes more than 30 % of a namespace without it")
	a.jsonFlag(c, streamJSON, "print a stream of JSON messages; needs -auto-approve")
	a.completeAddresses(c, &f.loadFlags)
	return c
}
