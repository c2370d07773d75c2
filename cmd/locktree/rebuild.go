package main

import (
	"context"
	"time"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/spf13/cobra"
)

func (a *app) stateRebuild() *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use:   "rebuild",
		Short: "Write the index anew from the marks in the znodes",
		Long: "rebuild looks at every znode below the root for this stack's mark, declared or not, and writes\n" +
			"into the index what it does not know: all of it when the index is gone or damaged. It takes the\n" +
			"apply lock and sends one guarded transaction, as an apply does. No lock changes.",
		Args: exactly(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return f.exit(a.rebuild(c.Context(), &f)) },
	}
	f.register(c)
	a.jsonFlag(c, streamJSON, "print a stream of JSON messages; needs -auto-approve")
	return c
}

func (a *app) rebuild(ctx context.Context, f *applyFlags) error {
	if a.json != 0 && !f.autoApprove {
		return view.Failf("Auto-approve required", "With -json nobody can be asked. Add -auto-approve.")
	}
	defer a.interruptible(ctx)()
	cfg, err := a.load(&f.loadFlags)
	if err != nil {
		return err
	}
	s, err := a.connect(ctx, cfg, false)
	if err != nil {
		return err
	}
	defer s.close()
	trees := make([]*plan.Tree, len(cfg.Ensembles))
	for i, e := range cfg.Ensembles {
		session, err := s.clients[i].Session(ctx)
		if err != nil {
			return err
		}
		if trees[i], err = apply.ReadAll(ctx, session, e.Tree); err != nil {
			return denied(s.clients[i], err)
		}
	}
	plans := s.diff(trees, plan.Options{RefreshOnly: true})
	a.view().Plan(view.Plan{Plans: plans, Operation: "refresh", Files: cfg.Sources, Concise: f.concise, NowMs: time.Now().UnixMilli(), NoAdvice: true})
	return a.approveAndExecute(ctx, f, s, plans)
}
